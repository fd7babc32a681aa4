"""Speed of the solvers as ratios to peers, measured in one interleaved run.

python benchmarks/solvers.py                  # everything, to benchmarks/results/solvers.json and a plot
python benchmarks/solvers.py --only omp l1    # some of it
python benchmarks/solvers.py --quick          # small batches, to see that it runs

Peers come with ``pip install -e '.[bench]'`` (``make bench`` does it). Every round runs ours and the peers one after
the other; the medians over the rounds are compared, so that a busy machine affects all of them equally.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from machine import instruction_sets

import maxsparse as ms

ROOT = Path(__file__).parents[1]
SEED = 0
OMP_SHAPES = [(20, 100, 10, 100_000), (256, 1024, 32, 5_000), (512, 2048, 64, 1_000)]
BATCH = 100  # signals of a call, in the comparison of many small calls


def interleave(tasks: dict[str, tuple[Callable[[], object], int]], rounds: int) -> dict[str, float]:
    """Return the median seconds per signal of every task; a task is a function and the number of signals it handles."""
    for function, _ in tasks.values():
        function()  # compile, warm caches
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, (function, count) in tasks.items():
            time.sleep(0.1)  # until the threads of the library before have stopped spinning
            begun = time.perf_counter()
            function()
            seconds[name].append((time.perf_counter() - begun) / count)
    return {name: statistics.median(values) for name, values in seconds.items()}


def row(name: str, medians: dict[str, float], target: dict[str, float]) -> dict[str, object]:
    ours = medians["maxsparse"]
    ratios = {peer: value / ours for peer, value in medians.items() if peer != "maxsparse"}
    shown = ", ".join(f"{peer} {1e6 * medians[peer]:.1f} µs ({ratio:.1f}×)" for peer, ratio in ratios.items())
    print(f"{name:24} {1e6 * ours:9.2f} µs per signal   {shown}", flush=True)
    return {"microseconds": {k: 1e6 * v for k, v in medians.items()}, "ratios": ratios, "targets": target}


def bench_omp(quick: bool, rounds: int) -> dict[str, object]:
    import spams
    from sklearn.linear_model import orthogonal_mp_gram

    results = {}
    for n, m, k, N in OMP_SHAPES:
        N = max(50, N // 50) if quick else N
        Phi = ms.dictionaries.gaussian(n, m, rng=SEED)
        _, Y = ms.signals.sample(Phi, N, sparsity=k, rng=SEED + 1)
        few = max(10, N // 100)
        Phi_f, Y_f = np.asfortranarray(Phi), np.asfortranarray(Y.T)
        medians = interleave(
            {
                "maxsparse": (lambda Phi=Phi, Y=Y, k=k: ms.solvers.omp(Phi, Y, sparsity=k, tol=0.0), N),
                "spams": (lambda D=Phi_f, X=Y_f, k=k: spams.omp(X, D, L=k, eps=0.0, numThreads=os.cpu_count()), N),
                "scikit-learn": (
                    lambda Phi=Phi, Y=Y[:few], k=k: orthogonal_mp_gram(Phi.T @ Phi, Phi.T @ Y.T, n_nonzero_coefs=k),
                    few,
                ),
            },
            rounds,
        )
        name = f"omp {n}×{m}, k={k}, N={N}"
        results[name] = row(name, medians, {"spams": 1.0, "scikit-learn": 100.0})
    return results


def bench_omp_batches(quick: bool, rounds: int) -> dict[str, object]:
    """One call after the other on small batches, each other signals, all by one thread."""
    import spams
    from sklearn.linear_model import orthogonal_mp_gram

    results = {}
    for n, m, k, N in OMP_SHAPES:
        calls = 3 if quick else max(10, N // 10 // BATCH)
        Phi = ms.dictionaries.gaussian(n, m, rng=SEED)
        batches = np.split(ms.signals.sample(Phi, calls * BATCH, sparsity=k, rng=SEED + 1)[1], calls)
        columns, D, G = [np.asfortranarray(B.T) for B in batches], np.asfortranarray(Phi), Phi.T @ Phi
        ours = partial(ms.solvers.omp, Phi, sparsity=k, tol=0.0, n_threads=1)
        theirs = partial(spams.omp, D=D, L=k, eps=0.0, numThreads=1)
        greedy = partial(orthogonal_mp_gram, G, Phi.T @ columns[0], n_nonzero_coefs=k)
        tasks = {
            "maxsparse": (lambda ours=ours, batches=batches: [ours(B) for B in batches], calls * BATCH),
            "spams": (lambda theirs=theirs, columns=columns: [theirs(B) for B in columns], calls * BATCH),
            "scikit-learn": (greedy, BATCH),
        }
        name = f"omp {n}×{m}, k={k}, batches of {BATCH}"
        medians = interleave(tasks, rounds)
        results[name] = row(name, medians, {"spams": 1.0, "scikit-learn": 100.0 if n < 100 else 16.0})
    return results


def bench_sbl(quick: bool, rounds: int) -> dict[str, object]:
    import torch

    n, m, iterations, N = 20, 100, 50, 100 if quick else 2_000
    Phi = ms.dictionaries.gaussian(n, m, rng=SEED)
    _, Y = ms.signals.sample(Phi, N, sparsity=6, rng=SEED + 1)
    P, Z = torch.tensor(Phi), torch.tensor(Y)

    def batched_torch() -> object:
        """The same EM update with one Cholesky per signal and iteration."""
        gamma, eye = torch.ones(len(Z), m, dtype=P.dtype), torch.eye(n, dtype=P.dtype)
        for _ in range(iterations):
            S = (P * gamma[:, None, :]) @ P.T + 1e-6 * eye
            L = torch.linalg.cholesky(S)
            W = torch.linalg.solve_triangular(L, P.expand(len(Z), n, m), upper=False)
            v = torch.linalg.solve_triangular(L, Z[:, :, None], upper=False)
            x = gamma * (W.transpose(1, 2) @ v)[:, :, 0]
            gamma = x**2 + (gamma - gamma**2 * (W**2).sum(1)).clamp_min(0)
        return x

    medians = interleave(
        {
            "maxsparse": (lambda: ms.solvers.sbl(Phi, Y, max_iter=iterations, tol=0.0), N * iterations),
            "torch, batched": (batched_torch, N * iterations),
        },
        rounds,
    )
    name = f"sbl {n}×{m}, per iteration, N={N}"
    return {name: row(name, medians, {"torch, batched": 5.0})}


def bench_l1(quick: bool, rounds: int) -> dict[str, object]:
    from scipy.optimize import linprog

    n, m, N = 20, 100, 500 if quick else 20_000
    results = {}
    for kind in ("gaussian", "decaying"):
        Phi = getattr(ms.dictionaries, kind)(n, m, rng=SEED)
        _, Y = ms.signals.sample(Phi, N, sparsity=6, rng=SEED + 1)
        A = np.hstack([Phi, -Phi])

        def highs(A: np.ndarray = A, Y: np.ndarray = Y[:50]) -> object:
            return [linprog(np.ones(2 * m), A_eq=A, b_eq=y, method="highs") for y in Y]

        medians = interleave(
            {
                "maxsparse": (lambda Phi=Phi, Y=Y: ms.solvers.l1(Phi, Y), N),
                "HiGHS, in a loop": (highs, 50),
            },
            rounds,
        )
        name = f"l1 {kind} {n}×{m}, N={N}"
        results[name] = row(name, medians, {"HiGHS, in a loop": 200.0})
    return results


def bench_lasso(quick: bool, rounds: int) -> dict[str, object]:
    from skglm.datafits import Quadratic
    from skglm.penalties import L1
    from skglm.solvers import AndersonCD

    n, m, N, lam = 20, 100, 100 if quick else 5_000, 0.01
    Phi = ms.dictionaries.gaussian(n, m, rng=SEED)
    _, Y = ms.signals.sample(Phi, N, sparsity=6, rng=SEED + 1)
    few = max(20, N // 50)
    solver, datafit, penalty = AndersonCD(tol=1e-6, fit_intercept=False), Quadratic(), L1(lam / n)
    Phi_f = np.asfortranarray(Phi)

    def skglm() -> object:
        for y in Y[:few]:
            datafit.initialize(Phi_f, y)
            solver.solve(Phi_f, y, datafit, penalty)
        return None

    medians = interleave(
        {
            "maxsparse": (lambda: ms.solvers.fista(Phi, Y, lam=lam, tol=1e-6, max_iter=20_000), N),
            "skglm, in a loop": (skglm, few),
        },
        rounds,
    )
    name = f"lasso (fista) {n}×{m}, N={N}"
    return {name: row(name, medians, {})}


def bench_scaling(quick: bool, rounds: int) -> dict[str, object]:
    """How the cost of OMP, SBL and ℓ1 grows with N, n, m and k, one at a time; seconds for the whole batch."""
    shape = {"n": 64, "m": 256, "k": 16}
    grids = {"n": [32, 64, 128, 192], "m": [128, 256, 512, 1024], "k": [4, 8, 16, 32]}
    methods: dict[str, tuple[int, Callable[..., object]]] = {
        "omp": (8000, lambda Phi, Y, k: ms.solvers.omp(Phi, Y, sparsity=k, tol=0.0)),
        "sbl, 20 iterations": (200, lambda Phi, Y, k: ms.solvers.sbl(Phi, Y, max_iter=20, tol=0.0)),
        "l1": (400, lambda Phi, Y, k: ms.solvers.l1(Phi, Y)),
    }
    results: dict[str, object] = {}
    for method, (N, solver) in methods.items():
        N = N // 8 if quick else N
        for axis, grid in {"N": [N // 4, N // 2, N, 2 * N], **grids}.items():
            seconds = []
            for value in grid:
                size = {"N": N, **shape, axis: value}
                Phi = ms.dictionaries.gaussian(size["n"], size["m"], rng=SEED)
                _, Y = ms.signals.sample(Phi, size["N"], sparsity=size["k"], rng=SEED + 1)
                task = {"maxsparse": (lambda Phi=Phi, Y=Y, k=size["k"], f=solver: f(Phi, Y, k), 1)}
                seconds.append(interleave(task, rounds)["maxsparse"])
            slope = float(np.polyfit(np.log(grid), np.log(seconds), 1)[0])
            print(f"{method:20} cost ∝ {axis}^{slope:.2f}", flush=True)
            results[f"{method} / {axis}"] = {"grid": grid, "seconds": seconds, "exponent": slope}
    return results


def draw_scaling(results: dict[str, object], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import matplotlib.ticker

    figure, panels = plt.subplots(1, 4, figsize=(15, 3.8), layout="constrained", sharey=True)
    for axes, axis in zip(panels, "Nnmk", strict=True):
        curves = []
        for name, curve in results.items():
            method, _, varied = name.partition(" / ")
            if varied == axis:
                label = f"{method}: {axis}^{curve['exponent']:.2f}"
                axes.loglog(curve["grid"], curve["seconds"], marker="o", label=label)
                curves.append(curve)
        axes.set(xlabel=axis, title=f"cost against {axis}")
        axes.grid(alpha=0.3, which="both")
        axes.legend(fontsize=8)
        if axis != "N":  # grids of N differ between methods, and powers of ten read well there
            axes.set_xticks(curves[0]["grid"], [str(value) for value in curves[0]["grid"]])
            axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    panels[0].set_ylabel("seconds for the batch")
    figure.savefig(path, dpi=110)


BENCHMARKS = {
    "omp": bench_omp,
    "omp, batches": bench_omp_batches,
    "sbl": bench_sbl,
    "l1": bench_l1,
    "lasso": bench_lasso,
    "scaling": bench_scaling,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=tuple(BENCHMARKS), default=tuple(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="small batches, to see that it runs; writes nothing")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results")
    arguments = parser.parse_args()
    results = {name: BENCHMARKS[name](arguments.quick, arguments.rounds) for name in arguments.only}
    if arguments.quick:
        return
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "solvers.json"
    report = json.loads(path.read_text()) if path.exists() else {}
    run = {
        "command": "python benchmarks/solvers.py",
        "arguments": sys.argv[1:],
        "seed": SEED,
        "rounds": arguments.rounds,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "instruction sets": instruction_sets(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("maxsparse", "numpy", "numba", "scipy", "scikit-learn", "torch")},
    }
    for name, figures in results.items():  # parts may come from different runs, so each says which
        report[name] = figures
        report.setdefault("runs", {})[name] = run
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    if "scaling" in results:
        draw_scaling(results["scaling"], arguments.output / "solvers-scaling.png")
    print(f"written to {arguments.output}")


if __name__ == "__main__":
    main()
