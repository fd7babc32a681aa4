"""``maxsparse demo``: the paper's dictionary, what each method makes of it, and what is certified."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsparse import dictionaries, signals, theory
from maxsparse._validation import FloatArray
from maxsparse.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from maxsparse.result import Result

N_MEASUREMENTS, N_ATOMS = 20, 100
SPARSITIES = range(1, 11)
METHODS = ("omp", "iht", "l1", "sbl")  # one of each kind: greedy, thresholding, convex, Bayesian
OURS = "SparseRecoverer"
SEED = 0


@dataclass(frozen=True)
class Curve:
    """What one method reached, for every sparsity."""

    label: str
    right: list[float]  # share of signals whose support is exactly right
    certified: list[float]
    false: int  # certified, but not right
    milliseconds: list[float]  # per signal


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the picture.")] = Path("maxsparse-demo"),
    signals_per_sparsity: Annotated[int, typer.Option("--signals", min=10, help="Signals per sparsity d.")] = 300,
) -> None:
    """Build the paper's 20×100 dictionary and compare what recovers sparse signals from it.

    Prints a table and writes a picture. Example: maxsparse demo -o out --signals 1000
    """
    output.mkdir(parents=True, exist_ok=True)
    Phi = dictionaries.decaying(N_MEASUREMENTS, N_ATOMS, rng=SEED)
    W, D = theory.precondition(Phi)
    typer.echo(
        f"Dictionary: {N_MEASUREMENTS} measurements, {N_ATOMS} atoms, singular values decaying like 1/i² "
        f"(the paper's).\nCoherence {theory.coherence(Phi):.4f}; after whitening {theory.coherence(W @ Phi * D):.4f}.\n"
        f"\nRecovering {signals_per_sparsity} signals for every number d of nonzeros. "
        "The first run compiles, for a minute or two.\n"
    )
    typer.echo(
        "Share of signals whose support is exactly right. The methods of the literature are told d;\n"
        f"{OURS} is not, knows this dictionary as little as they do, and certifies its answers.\n"
    )
    curves = _measure(Phi, signals_per_sparsity)
    picture = output / "demo.png"
    _draw(Phi, W @ Phi * D, curves, picture)
    ours = curves[-1]
    typer.echo(f"\nCertified to be the sparsest, but wrong: {ours.false} of {len(SPARSITIES) * signals_per_sparsity}.")
    typer.echo(f"Picture: {picture}\nNext: README.md has ten lines of Python; docs/index.md is the guide.")


def _measure(Phi: FloatArray, N: int) -> list[Curve]:
    """Run every method, printing a row of the table as soon as it is there."""
    from maxsparse.recovery import SparseRecoverer  # compiled code: loaded only when used
    from maxsparse.solvers import solve

    def by_name(method: str, whitened: bool) -> Callable[[FloatArray, int], Result]:
        return lambda Y, d: solve(Phi, Y, method=method, sparsity=d, precondition=whitened)

    recoverers = {}
    for method in METHODS:
        recoverers[method] = by_name(method, False)
        recoverers[f"{method}, whitened"] = by_name(method, True)
    recoverers[OURS] = lambda Y, d: SparseRecoverer(Phi).recover(Y)
    width = max(len(label) for label in recoverers)
    typer.echo(f"{'':{width}}  " + "  ".join(f"d={d:<2}" for d in SPARSITIES) + "  ms/signal")
    curves = []
    for label, recover in recoverers.items():
        curve = _curve(label, recover, Phi, N)
        curves.append(curve)
        _print_row(f"{label:{width}}", curve.right, sum(curve.milliseconds) / len(SPARSITIES))
    _print_row(f"{'  … certified':{width}}", curves[-1].certified)
    return curves


def _curve(label: str, recover: Callable[[FloatArray, int], Result], Phi: FloatArray, N: int) -> Curve:
    shares, certified, milliseconds, false = [], [], [], 0
    hardest = max(SPARSITIES)  # reaches every part of a method, so that all is compiled before the clock starts
    recover(signals.sample(Phi, 2, sparsity=hardest, rng=SEED)[1], hardest)
    for d in SPARSITIES:
        X, Y = signals.sample(Phi, N, sparsity=d, rng=SEED + d)
        begun = time.perf_counter()
        result = recover(Y, d)
        milliseconds.append(1e3 * (time.perf_counter() - begun) / N)
        right = (result.support == (X != 0)).all(axis=1)
        shares.append(float(right.mean()))
        certified.append(float(result.certified.mean()))
        false += int((result.certified & ~right).sum())
    return Curve(label, shares, certified, false, milliseconds)


def _print_row(label: str, values: list[float], milliseconds: float | None = None) -> None:
    tail = "" if milliseconds is None else f"  {milliseconds:9.3f}"
    typer.echo(f"{label}  " + "  ".join(f"{value:4.2f}" for value in values) + tail)


def _draw(Phi: FloatArray, whitened: FloatArray, curves: list[Curve], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    _draw_cosines(left, {"Φ": Phi, "Φ whitened": whitened})
    for number, curve in enumerate(curves):
        style: dict[str, Any] = {
            "linestyle": "-" if "whitened" in curve.label else ":",
            "color": f"C{number // 2}",
            "marker": ".",
        }
        if curve.label == OURS:
            style = {"linestyle": "-", "color": "black", "linewidth": 2.5, "marker": "o"}
        middle.plot(SPARSITIES, curve.right, label=curve.label, **style)
        right.plot(SPARSITIES, curve.milliseconds, label=curve.label, **style)
    middle.set(title="supports exactly right", xlabel="nonzeros d", ylim=(-0.02, 1.02), xticks=list(SPARSITIES))
    right.set(title="milliseconds per signal", xlabel="nonzeros d", yscale="log", xticks=list(SPARSITIES))
    for axes in (middle, right):
        axes.grid(alpha=0.3)
    figure.legend(*middle.get_legend_handles_labels(), loc="outside right center", fontsize=9)
    with atomic_write(path) as stream:
        figure.savefig(stream, format="png", dpi=110)
    plt.close(figure)


def _draw_cosines(axes: Axes, matrices: dict[str, FloatArray]) -> None:
    import numpy as np

    for label, matrix in matrices.items():
        G = np.abs(matrix.T @ matrix)[np.triu_indices(matrix.shape[1], 1)]
        axes.hist(G, bins=50, range=(0, 1), alpha=0.6, density=True, label=label)
    axes.set(title="how similar the atoms are", xlabel="|cosine| between two atoms", ylabel="density")
    axes.legend(fontsize=8)
