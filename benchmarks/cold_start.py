"""Processor time of the first call with an empty cache of compiled code, per entry point and per kernel.

    python benchmarks/cold_start.py [--calls recover,omp] [--before SRC] [--out benchmarks/results/cold_start.json]

Every call runs in a process of its own with a cache of its own, on one thread. Times are those of the processor, so
other programs disturb them less; the load of the machine is in the file all the same. With `--before`, an older source
tree is measured too, alternately.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from machine import describe
from numba.core import event as events
from numba.core.event import Event, Listener

SOURCE = Path(__file__).parents[1] / "src"
RESULTS = Path(__file__).parent / "results" / "cold_start.json"
CALLS = "recover,recover noisy,omp,sbl,l1,iht,fista,stereo consensus"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", default=CALLS, help="separated by commas")
    parser.add_argument("--before", type=Path, help="an older src folder to compare with")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one)))
        return
    facts = describe(("maxsparse", "numpy", "numba", "llvmlite"))
    found: dict[str, object] = {"machine": facts, "calls": {}}
    trees = {"now": SOURCE} | ({"before": given.before} if given.before else {})
    for name in given.calls.split(","):
        found["calls"][name] = {key: cold_and_warm(name, source) for key, source in trees.items()}
        given.out.write_text(json.dumps(found, indent=1) + "\n")
        print(name, {key: row["seconds"] for key, row in found["calls"][name].items()}, flush=True)


def cold_and_warm(name: str, source: Path) -> dict[str, object]:
    """Make a call in a process without compiled code, and in another with it."""
    command = [sys.executable, __file__, "--one", name]
    with tempfile.TemporaryDirectory() as cache:
        changes = {"NUMBA_CACHE_DIR": cache, "NUMBA_NUM_THREADS": "1", "PYTHONPATH": str(source)}
        first, later = (
            json.loads(subprocess.run(command, env=os.environ | changes, check=True, stdout=subprocess.PIPE).stdout)
            for _ in range(2)
        )
    return first | {"seconds_cached": later["seconds"], "load": round(os.getloadavg()[0], 1)}


def measure(name: str) -> dict[str, object]:
    """Make a call for the first time in this process; the import of what it needs is not counted."""
    times = Times()
    events.register("numba:compile", times)
    call = prepared(name)
    begun = time.process_time()
    call()
    return {
        "seconds": round(time.process_time() - begun, 2),
        "kernels": {key: round(value, 2) for key, value in times.kernels.items()},
        "functions": times.functions,
    }


class Times(Listener):
    """Listener of numba: how long each kernel took, its parts included."""

    def __init__(self) -> None:
        self.kernels: dict[str, float] = {}
        self.functions, self.begun = 0, [0.0]

    def on_start(self, event: Event) -> None:
        """Begin a function."""
        self.functions += 1
        self.begun.append(time.process_time())

    def on_end(self, event: Event) -> None:
        """End a function; those within another one count as part of it."""
        seconds = time.process_time() - self.begun.pop()
        if len(self.begun) == 1:
            function = event.data["dispatcher"].py_func
            name = f"{function.__module__.removeprefix('maxsparse.')}.{function.__name__}"
            self.kernels[name] = self.kernels.get(name, 0.0) + seconds


def prepared(name: str) -> Callable[[], object]:
    """Import and prepare all that is not compiled; return the call."""
    import numpy as np

    import maxsparse as ms

    Phi = ms.dictionaries.decaying(20, 100, rng=0)
    _, Y = ms.signals.sample(Phi, 20, sparsity=8, rng=1)
    if name == "recover":
        return lambda: ms.SparseRecoverer(Phi).recover(Y)
    if name == "recover noisy":
        return lambda: ms.SparseRecoverer(Phi, noise=1e-3).recover(Y)
    if name == "stereo consensus":
        return stereo_call()
    return lambda: ms.solve(Phi, np.array(Y), method=name, sparsity=5)


def stereo_call() -> Callable[[], object]:
    """Return a call on a small matt sphere."""
    import numpy as np

    from maxsparse import stereo

    y, x = np.mgrid[1:-1:24j, -1:1:24j]
    normals = np.dstack([x, y, np.sqrt(np.maximum(1 - x**2 - y**2, 0.0))])
    lights = np.random.default_rng(0).standard_normal((12, 3)) * [0.4, 0.4, 0.0] + [0.0, 0.0, 1.0]
    lights /= np.linalg.norm(lights, axis=1, keepdims=True)
    images = np.maximum(np.einsum("hwc,qc->qhw", normals, lights), 0.0)
    scene = stereo.make_scene(images, lights, mask=x**2 + y**2 < 0.9)
    return lambda: stereo.estimate_normals(scene, "consensus")


if __name__ == "__main__":
    main()
