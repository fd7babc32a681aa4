"""Run an experiment: the tasks that are not done yet, here or in other processes, then the report."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxsparse._progress import track
from maxsparse._validation import check_choice, check_integer
from maxsparse.experiments import registry
from maxsparse.experiments.data import Record
from maxsparse.experiments.experiment import Experiment, Verdict
from maxsparse.experiments.journal import Journal, fingerprint
from maxsparse.experiments.presets import PRESETS
from maxsparse.experiments.report import write_report

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

__all__ = ["Interrupted", "Outcome", "run"]

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Interrupted(Exception):
    """A run was stopped by the user; what is done is on disk."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"interrupted after {done} of {total} tasks; the same command takes up the others")
        self.done, self.total = done, total


@dataclass(frozen=True)
class Outcome:
    """What a run left behind.

    Attributes
    ----------
    folder : Path
        Holds results.json, the pictures, tables.md and index.html.
    verdicts : list of Verdict
    tasks : int
        Number of tasks of the experiment.
    resumed : int
        How many of them an earlier run had done.
    """

    folder: Path
    verdicts: list[Verdict]
    tasks: int
    resumed: int


def run(
    name: str,
    *,
    preset: str = "laptop",
    output: str | os.PathLike[str] = "results",
    methods: Sequence[str] | None = None,
    jobs: int = 1,
    fresh: bool = False,
    progress: bool = False,
) -> Outcome:
    """Run one experiment and write its report to ``output/preset/name``.

    Parameters
    ----------
    name : str
        Name of the experiment, see :func:`maxsparse.experiments.names`.
    preset : {"smoke", "laptop", "paper"}, default="laptop"
        Size of the run.
    output : str or path, default="results"
        Folder for all results.
    methods : sequence of str or None, default=None
        Methods to compare; None takes those of the experiment and all plug-ins.
    jobs : int, default=1
        Number of processes. Methods registered by a call, not by an entry point, are known to one process only.
    fresh : bool, default=False
        Do every task again. Otherwise tasks of an earlier run with the same settings, finished or stopped, are reused.
    progress : bool, default=False
        Show a progress bar on a terminal.

    Returns
    -------
    outcome : Outcome

    Raises
    ------
    Interrupted
        On Ctrl-C. The next call with the same arguments does the tasks that are missing.
    """
    experiment = registry.get(name)
    preset = check_choice(preset, "preset", tuple(PRESETS))
    jobs = check_integer(jobs, "jobs", low=1)
    settings = experiment.presets[preset]
    tasks = experiment.tasks(settings, _chosen_methods(experiment, methods))
    folder = Path(output) / preset / name
    folder.mkdir(parents=True, exist_ok=True)
    key = fingerprint(name, settings)
    journal = Journal(folder, key, fresh)
    missing = [task for task in tasks if not journal.has(task)]
    finished = False
    try:
        for task, records, seconds in _measured(name, settings, missing, jobs, progress):
            journal.add(task, records, seconds)
        command = f"maxsparse reproduce {name} --preset {preset}" + (
            f" --methods {','.join(methods)}" if methods else ""
        )
        verdicts = write_report(
            experiment, preset, settings, [(t, *journal.of(t)) for t in tasks], folder, command, key
        )
        finished = True
    except KeyboardInterrupt as stop:
        raise Interrupted(sum(map(journal.has, tasks)), len(tasks)) from stop
    finally:
        journal.close(finished)
    return Outcome(folder, verdicts, len(tasks), len(tasks) - len(missing))


def _chosen_methods(experiment: Experiment, methods: Sequence[str] | None) -> list[str]:
    if not experiment.methods:
        if methods:
            raise ValueError(f"the experiment {experiment.name!r} compares no methods; leave out --methods")
        return []
    if methods is None:
        return [*experiment.methods, *registry.plug_ins()]
    known = registry.methods()
    for method in methods:
        check_choice(method, "method", tuple(known))
    return list(dict.fromkeys(methods))


def _measured(
    name: str, settings: dict[str, Any], tasks: list[dict[str, Any]], jobs: int, progress: bool
) -> Iterator[tuple[dict[str, Any], list[Record], float]]:
    if jobs == 1 or len(tasks) < 2:
        for task in track(tasks, name, progress):
            yield _do(name, settings, task)
        return
    from concurrent.futures import as_completed

    with _pool(jobs) as pool:
        with _deaf_to_interrupts():
            futures = as_completed([pool.submit(_do, name, settings, task) for task in tasks])
        for _ in track(range(len(tasks)), name, progress):
            yield next(futures).result()


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that share the cores, and that end at once where something stops the run."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    others = set(multiprocessing.active_children())
    with _threads_per_process(jobs):
        # Fresh processes: a fork of one that has run compiled parallel loops may hang.
        pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
        try:
            yield pool
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C while processes start. They inherit that; the parent alone decides what to stop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _do(name: str, settings: dict[str, Any], task: dict[str, Any]) -> tuple[dict[str, Any], list[Record], float]:
    begun = time.perf_counter()
    records = registry.get(name).measure(settings, task)
    return task, records, time.perf_counter() - begun


@contextmanager
def _threads_per_process(jobs: int) -> Iterator[None]:
    """Share the cores out over the processes that are started inside."""
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
