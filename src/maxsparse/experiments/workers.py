"""Where the work of a run is done: in this process, in several, or on a dask cluster."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from maxsparse._core.extras import needs
from maxsparse._core.progress import track
from maxsparse.experiments import registry
from maxsparse.experiments.data import Record
from maxsparse.experiments.recipes import Diverged, Recipe, Store, using_store

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing.process import BaseProcess

__all__ = ["Finished", "Work", "on_cluster", "on_processes"]

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
SECONDS_BETWEEN_SIGNALS = 0.2
Finished = tuple[dict[str, Any], list[Record], float]  # task, records, seconds


@dataclass(frozen=True)
class Work:
    """The work of a run.

    Attributes
    ----------
    name : str
        Experiment.
    settings : dict
        Those of its preset.
    tasks : list of dict
        Tasks to measure.
    recipes : list of list of Recipe
        The networks that each of them needs.
    store : Store
        Store of the networks.
    progress : bool
        Show progress bars on a terminal.
    """

    name: str
    settings: dict[str, Any]
    tasks: Sequence[dict[str, Any]]
    recipes: Sequence[Sequence[Recipe]]
    store: Store
    progress: bool

    def networks(self) -> list[Recipe]:
        """Return every network that is needed, once."""
        return list({recipe.key: recipe for needed in self.recipes for recipe in needed}.values())


def on_processes(work: Work, jobs: int) -> Iterator[Finished]:
    """Train missing networks, then run the tasks, here or in `jobs` processes."""
    missing = [recipe for recipe in work.networks() if not work.store.has(recipe)]
    if jobs == 1 or max(len(missing), len(work.tasks)) < 2:
        for number, recipe in enumerate(missing):
            _announce(f"{work.name}: training {recipe.network}, {number + 1} of {len(missing)}", work.progress)
            with suppress(Diverged):  # reported by the tasks that need it
                work.store.network(recipe, progress=work.progress)
        for task in track(work.tasks, work.name, work.progress):
            yield measure(work.name, work.settings, task, work.store)
        return
    from concurrent.futures import as_completed

    with _pool(jobs) as pool:
        with _deaf_to_interrupts():
            trained = as_completed([pool.submit(_train, recipe, work.store) for recipe in missing])
        for _ in track(range(len(missing)), f"{work.name}: training", work.progress):
            next(trained).result()
        with _deaf_to_interrupts():
            futures = as_completed(
                [pool.submit(measure, work.name, work.settings, task, work.store) for task in work.tasks]
            )
        for _ in track(range(len(work.tasks)), work.name, work.progress):
            yield next(futures).result()


def on_cluster(work: Work, address: str) -> Iterator[Finished]:
    """Train and measure on the workers of a dask scheduler; a task waits for its own networks only.

    Networks are sent through the scheduler, so that no shared file system is needed, and end in the local store.
    """
    with needs("a scheduler"):
        from distributed import Client, as_completed
    with Client(address, set_as_default=False) as client:
        models, missing = {}, {}
        for recipe in work.networks():
            if work.store.has(recipe):
                models[recipe.key] = client.scatter(work.store.read(recipe))
            else:
                models[recipe.key] = client.submit(_train_away, recipe, work.store.device, pure=False)
                missing[models[recipe.key]] = recipe
        measured = [
            client.submit(
                _measure_away,
                work.name,
                work.settings,
                task,
                work.store.device,
                list(needed),
                [models[recipe.key] for recipe in needed],
                pure=False,
            )
            for task, needed in zip(work.tasks, work.recipes, strict=True)
        ]
        try:
            done = as_completed([*missing, *measured], loop=client.loop)
            for _ in track(range(len(missing) + len(measured)), work.name, work.progress):
                future = next(done)
                if future in missing:
                    work.store.write(missing[future], future.result())
                else:
                    yield future.result()
        except BaseException:
            client.cancel([*missing, *measured])
            raise


def measure(name: str, settings: dict[str, Any], task: dict[str, Any], store: Store) -> Finished:
    """Run one task with networks from the store; if one of them diverged, the record says so and has no values."""
    begun = time.perf_counter()
    with using_store(store):
        try:
            records = registry.get(name).measure(settings, task)
        except Diverged as error:
            records = [Record({**task, "diverged": str(error)}, {})]
    return task, records, time.perf_counter() - begun


def _train(recipe: Recipe, store: Store) -> None:
    registry.load_plug_ins()  # this process may be new, and the network that of a plug-in
    with suppress(Diverged):
        store.network(recipe)


def _train_away(recipe: Recipe, device: str) -> bytes:
    with TemporaryDirectory() as folder:
        store = Store(Path(folder), device)
        _train(recipe, store)
        return store.read(recipe)


def _measure_away(
    name: str,
    settings: dict[str, Any],
    task: dict[str, Any],
    device: str,
    recipes: list[Recipe],
    models: list[bytes],
) -> Finished:
    with TemporaryDirectory() as folder:
        store = Store(Path(folder), device)
        for recipe, model in zip(recipes, models, strict=True):
            store.write(recipe, model)
        return measure(name, settings, task, store)


def _announce(text: str, progress: bool) -> None:
    """Print what is being trained, before a progress bar."""
    if progress and sys.stderr.isatty():
        sys.stderr.write(f"{text}\n")


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that share the cores, and end at once if the run stops."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    others = set(multiprocessing.active_children())
    with _threads_per_process(jobs):
        # Spawned processes: a fork of a process that ran compiled parallel loops may hang.
        pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            _end(set(multiprocessing.active_children()) - others)
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _end(processes: Collection[BaseProcess]) -> None:
    """Ask processes to end until all have.

    Once is not enough: a training saves its state on the signal, and its process would then start the next queued one.
    """
    while alive := [process for process in processes if process.is_alive()]:
        for process in alive:
            process.terminate()
        time.sleep(SECONDS_BETWEEN_SIGNALS)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C while processes start. They inherit this; only the parent decides what to stop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _threads_per_process(jobs: int) -> Iterator[None]:
    """Divide the cores among the processes started inside."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(max(1, (os.cpu_count() or 1) // jobs))))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
