"""``maxsparse warm``: compile everything ahead, on all cores."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from maxsparse.cli.arguments import Json
from maxsparse.cli.printing import print_json, say

__all__ = ["jobs", "warm"]

SIGNALS = 8


def warm(
    stereo: Annotated[bool, typer.Option(help="Also compile what photometric stereo needs.")] = True,
    as_json: Json = False,
) -> None:
    """Compile all fast code now, instead of at its first use.

    The compiled code is stored on disk, so this is needed once after an installation or an update, for example while a
    container image is built. Without it, the first calls take longer. Ctrl-C keeps what has been compiled so far.

    Example: maxsparse warm --no-stereo
    """
    from maxsparse._core.progress import bar
    from maxsparse._core.threads import available_threads

    names, begun = list(jobs(stereo)), time.monotonic()
    # Processes, because numba compiles one function at a time in each.
    context = multiprocessing.get_context("spawn")
    todo, done = context.SimpleQueue(), context.SimpleQueue()
    workers = [context.Process(target=_work, args=(todo, done), daemon=True) for _ in range(available_threads())]
    for name in [*names, *(None for _ in workers)]:  # None: nothing is left
        todo.put(name)
    try:
        for worker in workers:
            worker.start()
        with bar(len(names), 0, "compiling, once", show=True) as advance:
            for _ in names:
                error = _next(done, workers)
                if error:
                    raise RuntimeError(error)
                advance(1)
    finally:
        for worker in workers:
            if worker.pid is not None:
                worker.kill()  # in the middle of a function, if interrupted; files are written whole or not at all
    seconds = time.monotonic() - begun
    if as_json:
        print_json({"calls": names, "seconds": round(seconds, 1)})
    else:
        say(f"Ready: what {len(names)} kinds of calls need is compiled, in {seconds:.0f} s.")


def _next(done: Any, workers: list[Any]) -> str:
    """Wait for the end of a call; return its error, or nothing."""
    while done.empty():
        if not any(worker.is_alive() for worker in workers) and done.empty():
            raise RuntimeError("the processes that compile have ended early; is there enough memory?")
        time.sleep(0.05)
    error: str = done.get()
    return error


def _work(todo: Any, done: Any) -> None:
    """Make calls until nothing is left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    calls = jobs()
    while (name := todo.get()) is not None:
        try:
            calls[name]()
        except Exception as error:
            done.put(f"{name}: {type(error).__name__}: {error}")
        else:
            done.put("")


def jobs(stereo: bool = True) -> dict[str, Callable[[], Any]]:
    """Return a small call of everything that is compiled, by name; those that compile longest come first."""
    import numpy as np

    from maxsparse import dictionaries, signals, theory
    from maxsparse._core.registry import SOLVERS, STEREO
    from maxsparse.recovery import SparseRecoverer

    Phi = dictionaries.decaying(8, 16, rng=0)
    _, Y = signals.sample(Phi, SIGNALS, sparsity=2, rng=1)
    noise = np.random.default_rng(2).standard_normal(Y.shape)
    found: dict[str, Callable[[], Any]] = {
        "recover": lambda: SparseRecoverer(Phi, noise=0.0, budget=100).recover(np.vstack([Y, noise])),
        "recover, noise": lambda: SparseRecoverer(Phi, noise=0.01).recover(Y + 0.01 * noise, prove=1.0),
        "recover, structure": lambda: [
            SparseRecoverer(Phi, noise=0.01, positive=positive).recover(np.stack([Y, Y + 0.01 * noise], axis=1))
            for positive in (False, True)
        ],
    }
    if stereo:
        for entry in STEREO.entries():
            if not entry.outside and entry.name != "network":  # trains first, and compiles what others do
                found[f"stereo, {entry.name}"] = _stereo(entry.name)
    found["theory"] = lambda: (theory.spark(Phi), theory.rip_constant(Phi, 2))
    for entry in SOLVERS.entries():
        if not entry.outside:
            found[entry.name] = _solver(entry, Phi, Y)
    return found


def _solver(entry: Any, Phi: Any, Y: Any) -> Callable[[], Any]:
    """Return calls of a solver in double and single precision, with noise too if it can."""

    def job() -> None:
        import numpy as np

        from maxsparse import dictionaries
        from maxsparse.solvers import solve

        clustered = dictionaries.clustered(8, 16, clusters=4, epsilon=0.1, rng=0)
        for dtype in (np.float64, np.float32):
            given = clustered if "clusters" in entry.needs else Phi.astype(dtype)
            solve(given, Y.astype(dtype), method=entry.name, sparsity=2)
            if "noise" in (entry.can or ()):
                solve(given, Y.astype(dtype), method=entry.name, noise=0.01, sparsity=2)

    return job


def _stereo(name: str) -> Callable[[], Any]:
    """Return a call of a stereo method on a small matt sphere."""

    def job() -> None:
        import numpy as np

        from maxsparse import stereo

        rng = np.random.default_rng(0)
        y, x = np.mgrid[-1:1:12j, -1:1:12j]
        mask = x**2 + y**2 < 0.9
        normals = np.dstack([x, y, np.sqrt(np.maximum(1 - x**2 - y**2, 0.0))])
        lights = rng.standard_normal((10, 3)) * [0.4, 0.4, 0.0] + [0.0, 0.0, 1.0]
        lights /= np.linalg.norm(lights, axis=1, keepdims=True)
        images = np.maximum(np.einsum("hwc,qc->qhw", normals, lights), 0.0)[:, ::-1]  # rows go down, y goes up
        scene = stereo.make_scene(images, lights, mask=mask[::-1])
        stereo.estimate_normals(scene, name)

    return job
