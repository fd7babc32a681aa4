"""Time and peak memory on large dictionaries, next to peers: n = 100 and 500, m = 1,000 to 100,000.

python benchmarks/large.py                       # everything, to benchmarks/results/large.json
python benchmarks/large.py --only omp --sizes 100x10000
python benchmarks/large.py --quick               # the smallest size only, to see that it runs

Every cell is a process of its own with one thread. Time is processor time per signal of one call, after a warm-up that
compiles, on signals that the method is made for. Memory is the most that the call held at once, Φ included,
over the size of Φ; interpreter, libraries, compiled code, and the coefficients (N, m) of the answer are not counted.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
SEED = 0
SIZES = [(n, m) for n in (100, 500) for m in (1_000, 10_000, 100_000)]
EXTRA = (200, 10_000)  # of the recoverer's target
SPARSITY = {100: 10, 200: 20, 500: 20}
PACKAGES = ("maxsparse", "numpy", "numba", "scipy", "scikit-learn", "spams-bin", "skglm", "celer")
# signals per call, by the number of atoms
COUNTS = {
    "omp": {1_000: 1_000, 10_000: 256, 100_000: 64},
    "spams omp": {1_000: 1_000, 10_000: 64, 100_000: 8},
    "scikit-learn omp": {1_000: 8, 10_000: 4, 100_000: 2},
    "sbl": {1_000: 4},
    "sbl, operator": {1_000: 4, 10_000: 4, 100_000: 4},
    "recoverer": {1_000: 16, 10_000: 16, 100_000: 8},
    "recoverer, noise": {1_000: 16, 10_000: 16, 100_000: 8},
    "recoverer, many nonzeros": {10_000: 16},
    "celer lasso": {1_000: 4, 10_000: 4, 100_000: 2},
    "skglm lasso": {1_000: 4, 10_000: 4, 100_000: 2},
}
NOISE = 0.01
LASSO_SHARE = 0.05  # λ, of the one at which x = 0


def draw(n: int, m: int, k: int, N: int, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a gaussian Φ with unit atoms, made without copies, k-sparse coefficients and signals."""
    rng = np.random.default_rng(SEED)
    Phi = np.empty((n, m))
    squares = np.zeros(m)
    for row in Phi:
        row[:] = rng.standard_normal(m)
        squares += row**2
    Phi /= np.sqrt(squares)
    support = np.array([rng.choice(m, k, replace=False) for _ in range(N)])
    values = rng.choice([-1.0, 1.0], (N, k)) * rng.uniform(0.5, 1.0, (N, k))
    Y = np.array([Phi[:, S] @ x for S, x in zip(support, values, strict=True)])
    return Phi, support, Y + noise * rng.standard_normal(Y.shape)


def caller(method: str, Phi: np.ndarray, k: int) -> Any:
    """Return a function of signals (N, n) that returns the supports found, or None for a method that returns others."""
    import maxsparse as ms

    if method == "omp":
        return lambda Y: ms.solvers.omp(Phi, Y, sparsity=k, tol=0.0).support
    if method == "spams omp":
        import spams

        D = np.asfortranarray(Phi)
        return lambda Y: (spams.omp(np.asfortranarray(Y.T), D, L=k, eps=0.0, numThreads=1).T != 0).toarray()
    if method == "scikit-learn omp":
        from sklearn.linear_model import orthogonal_mp

        return lambda Y: orthogonal_mp(Phi, Y.T, n_nonzero_coefs=k).reshape(Phi.shape[1], -1).T != 0
    if method == "sbl":
        return lambda Y: ms.solvers.sbl(Phi, Y, noise=NOISE, sparsity=k).support
    if method == "sbl, operator":
        from scipy.sparse.linalg import aslinearoperator

        return lambda Y: ms.solvers.sbl(aslinearoperator(Phi), Y, noise=NOISE, sparsity=k).support
    if method.startswith("recoverer"):
        model = ms.SparseRecoverer(Phi)
        return lambda Y: model.recover(Y).support
    return lasso(method, Phi)


def lasso(method: str, Phi: np.ndarray) -> Any:
    """Return the lasso at one λ, for the time only."""
    n = len(Phi)
    if method == "celer lasso":
        from celer import Lasso
    else:
        from skglm import Lasso
    F = np.asfortranarray(Phi)

    def solve(Y: np.ndarray) -> None:
        for y in Y:
            Lasso(alpha=LASSO_SHARE * np.abs(F.T @ y).max() / n, fit_intercept=False, tol=1e-4).fit(F, y)

    return solve


def memory(key: str) -> float:
    """Return a number of bytes from the state of this process."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return 1024.0 * float(line.split()[1])


def warm_up(method: str, share: float, noise: float) -> None:
    """Compile what a method needs, and leave nothing in memory but that: compiled code is not counted."""
    small, _, few = draw(20, 5_200, 3, 4, noise)  # more atoms than where methods change
    caller(method, small, 3)(few)
    caller(method, np.ascontiguousarray(small[:, :200]), 3)(few)
    if method.startswith("recoverer"):  # where it does without the network, on easy and on hard signals
        k = int(share * 150)
        small, _, few = draw(150, 5_200, k, 2, noise)
        caller(method, small, k)(few)
    del small, few
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def cell(method: str, n: int, m: int, N: int) -> dict[str, Any]:
    """Measure one method on one size."""
    k = SPARSITY[n] if method != "recoverer, many nonzeros" else n // 4
    noise = NOISE if "noise" in method or method.startswith("sbl") else 0.0
    warm_up(method, k / n, noise)
    Phi, support, Y = draw(n, m, k, N, noise)
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    begun = time.process_time()
    run = caller(method, Phi, k)
    if method.startswith("recoverer"):
        run(Y[:1])  # prepares Φ, once
    prepared = time.process_time()
    found = run(Y)
    seconds = (time.process_time() - prepared) / N
    answer = 0 if found is None else 8 * N * m  # coefficients, and below the supports; not counted
    peak = memory("VmHWM")
    truth = np.zeros((N, m), dtype=bool)
    truth[np.arange(N)[:, None], support] = True
    return {
        "method": method, "n": n, "m": m, "nonzeros": k, "signals": N, "noise": noise,
        "milliseconds per signal": 1e3 * seconds,
        "seconds to prepare": prepared - begun,
        "memory over Phi": 1.0 + (peak - before - answer) / Phi.nbytes,
        "answer over Phi": answer / Phi.nbytes,
        "right": None if found is None else float((found == truth).all(axis=1).mean()),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(COUNTS), default=list(COUNTS))
    parser.add_argument("--sizes", nargs="*", default=[f"{n}x{m}" for n, m in [*SIZES, EXTRA]])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a cell is ended, and left out")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--signals", type=int)
    arguments = parser.parse_args()
    if arguments.cell:
        print(json.dumps(cell(*json.loads(arguments.cell))))
        return
    from machine import describe

    path = ROOT / "benchmarks" / "results" / "large.json"
    report = json.loads(path.read_text()) if path.exists() else {"cells": []}
    sizes = ["100x1000"] if arguments.quick else arguments.sizes
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    for size in sizes:
        n, m = map(int, size.split("x"))
        for method in arguments.only:
            N = arguments.signals or COUNTS[method].get(m)
            extra = method.startswith("recoverer") or method in ("omp", "spams omp")
            if N is None or (method.startswith("sbl") and n > 100) or ((n, m) == EXTRA and not extra):
                continue
            if method == "recoverer, many nonzeros" and (n, m) != EXTRA:
                continue
            command = [sys.executable, __file__, "--cell", json.dumps([method, n, m, N])]
            try:
                done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=arguments.limit)
            except subprocess.TimeoutExpired:
                print(f"{method} {size}: more than {arguments.limit:g} s", flush=True)
                continue
            if done.returncode:
                print(f"{method} {size}: {done.stderr.splitlines()[-1] if done.stderr else 'ended'}", flush=True)
                continue
            figures = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{method:26} {size:>12} {figures['milliseconds per signal']:10.2f} ms  "
                f"{figures['memory over Phi']:6.1f} × Φ  right {figures['right']}",
                flush=True,
            )
            if arguments.quick:
                continue
            same = (method, n, m, N)
            others = [c for c in report["cells"] if (c["method"], c["n"], c["m"], c["signals"]) != same]
            figures |= {"run": describe(PACKAGES), "seed": SEED}
            report |= {"command": "python benchmarks/large.py", "cells": [*others, figures]}
            path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
