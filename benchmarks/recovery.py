"""Accuracy against time per signal: every method on one dictionary, and the table of the guide.

python benchmarks/recovery.py --signals 1000             the authors' dictionary if its file exists, and new ones
python benchmarks/recovery.py --picture recovery.png     also draws accuracy against time
Time is the processor time of all threads, so that a busy machine does not count against a method; "ms" is wall time,
meaningful only on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from machine import describe

import maxsparse as ms

ROOT = Path(__file__).parent
RESULTS = ROOT / "results" / "recovery.json"
SPARSITIES = (2, 4, 6, 7, 8, 9, 10, 12)
HARDEST = (10, 12)  # measured with the budget "thorough", too
CURVE_SPARSITIES = (6, 8, 10)
RESIDUAL_SAMPLES = 300_000  # a minute of training for the residual network of the picture


def dictionaries():
    """Yield names and dictionaries: the authors' where the file exists, then decaying ones of fresh seeds."""
    data = Path(os.environ.get("MAXSPARSE_DATA", "data")) / "authors_20x100.npz"
    if data.exists():
        yield "authors", ms.dictionaries.load(data, "Phi").astype(np.float64)
    else:
        print(f"{data} is missing: the authors' dictionary is left out; MAXSPARSE_DATA names its folder")
    for seed in (2024, 2025):
        yield f"decaying 20x100, seed {seed}", ms.dictionaries.decaying(20, 100, rng=seed)


def measure(Phi, method, d, N, amplitudes="uniform"):
    """Return strict accuracy, shares recovered and certified, false certificates and ms."""
    X, Y = ms.signals.sample(Phi, N, sparsity=d, amplitudes=amplitudes, rng=10_000 + d)
    method(np.vstack([Y[:3], np.ones_like(Y[:1])]))  # compile: no sparse x explains ones, so the search runs too
    begun, started = time.process_time(), time.perf_counter()
    result = method(Y)
    waited = 1e3 * (time.perf_counter() - started) / N
    milliseconds = 1e3 * (time.process_time() - begun) / N
    right = (result.support == (X != 0)).all(axis=1)
    return {
        "d": d,
        "top d": round(ms.metrics.strict_accuracy(X, result.scores), 4),
        "recovered": round(float(right.mean()), 4),
        "certified": round(float(result.certified.mean()), 4),
        "false": int((result.certified & ~right).sum()),
        "cpu ms": round(milliseconds, 4),
        "ms": round(waited, 4),
    }


def tenfold(rng, size):
    return 10.0 ** rng.uniform(-1, 0, size) * rng.choice([-1.0, 1.0], size)


def table(N, budget):
    """Measure the default recoverer at every d, on every dictionary; other amplitudes on the first."""
    figures = {}
    for number, (name, Phi) in enumerate(dictionaries()):
        model = ms.SparseRecoverer(Phi, noise=0, budget=budget)
        figures[name] = []
        scores, first = (ms.SparseRecoverer(Phi, noise=0, budget="none") for _ in range(2))
        first.later_weights_ = ()
        for d in SPARSITIES:
            count = N if d < 12 else max(100, N // 4)
            row = measure(Phi, model.recover, d, count)
            # scores alone, so without a search in between
            row["top d"] = measure(Phi, scores.recover, d, count)["top d"]
            row["first pass"] = measure(Phi, first.recover, d, count)["top d"]
            figures[name].append(row)
            print(name, row, flush=True)
        if number == 0:
            for law in ("unit", "gaussian", tenfold):
                label = law if isinstance(law, str) else "tenfold"
                figures[f"{name}, {label} amplitudes"] = [
                    measure(Phi, model.recover, d, max(100, N // 2), law) for d in (6, 8)
                ]
                print(label, figures[f"{name}, {label} amplitudes"], flush=True)
    return figures


def thorough(N):
    """Measure the hardest signals with the budget "thorough"."""
    figures = {}
    for name, Phi in dictionaries():
        model = ms.SparseRecoverer(Phi, noise=0, budget="thorough")
        figures[name] = [measure(Phi, model.recover, d, N) for d in HARDEST]
        print(name, figures[name], flush=True)
    return figures


def methods(Phi):
    """Yield the methods of the picture, by name."""

    def classical(name, **options):
        return lambda d: lambda Y: ms.solve(Phi, Y, method=name, sparsity=d, **options)

    yield "OMP", classical("omp")
    yield "OMP, whitened", classical("omp", precondition=True)
    yield "l1", classical("l1")
    yield "l1, whitened", classical("l1", precondition=True)
    yield "SBL (EM)", classical("sbl", update="em")
    yield "SBL (EM), whitened", classical("sbl", update="em", precondition=True)
    yield "SBL (convex), whitened", classical("sbl", update="convex", precondition=True)
    residual = ms.SparseRecoverer(Phi, noise=0, network="residual", budget="none")
    residual.fit(samples=RESIDUAL_SAMPLES, hyperparameters={"depth": 8})
    yield "residual network, decoded", lambda d: residual.recover
    for budget in ("none", 300, 3_000, 30_000):
        label = "learned SBL, three passes, decoded" if budget == "none" else f"ours, {budget} sets"
        yield label, lambda d, budget=budget: ms.SparseRecoverer(Phi, noise=0, budget=budget).recover


def curves(N):
    """Measure every method at a few sparsities."""
    Phi = ms.dictionaries.decaying(20, 100, rng=2024)
    figures = {}
    for label, make in methods(Phi):
        figures[label] = [measure(Phi, make(d), d, N) for d in CURVE_SPARSITIES]
        print(label, [(row["d"], row["recovered"], row["cpu ms"]) for row in figures[label]], flush=True)
    return figures


COLOURS = {"OMP": "C0", "l1": "C2", "SBL (EM)": "C3", "SBL (convex)": "C4", "residual network": "C1"}


def draw(figures, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(CURVE_SPARSITIES), figsize=(14, 4.2), layout="constrained", sharey=True)
    for column, (axes, d) in enumerate(zip(panels, CURVE_SPARSITIES, strict=True)):
        ours = [label for label in figures if label.startswith(("learned", "ours"))]
        for label, rows in figures.items():
            if label not in ours:
                method, _, how = label.partition(",")
                filled = "full" if how else "none"
                axes.plot(
                    rows[column]["cpu ms"],
                    rows[column]["recovered"],
                    "o",
                    c=COLOURS[method],
                    fillstyle=filled,
                    label=label,
                )
        line = [figures[label][column] for label in ours]
        axes.plot(
            [row["cpu ms"] for row in line], [row["recovered"] for row in line], "k.-", label="maxsparse, by budget"
        )
        axes.set(title=f"d = {d}", xscale="log", xlabel="processor ms per signal", ylim=(-0.02, 1.02))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("support exactly right")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=1000)
    parser.add_argument("--budget", default="normal")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    before = json.loads(options.results.read_text()) if options.results.exists() else {}
    summary = {
        **before,
        "command": f"python benchmarks/recovery.py --signals {options.signals} --budget {options.budget}",
        "table": table(options.signals, options.budget),
        "thorough": thorough(options.signals),
        "run": describe(("maxsparse", "numpy", "numba")),
    }
    options.results.write_text(json.dumps(summary, indent=1) + "\n")
    if options.picture:
        summary["curves"] = curves(max(100, options.signals // 4))
        options.results.write_text(json.dumps(summary, indent=1) + "\n")
        draw(summary["curves"], options.picture)


if __name__ == "__main__":
    main()
