"""``maxsparse demo``: the paper's dictionary, how coherent it is, and what each method makes of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maxsparse import dictionaries, metrics, signals, theory
from maxsparse._validation import FloatArray
from maxsparse.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_MEASUREMENTS, N_ATOMS = 20, 100
SPARSITIES = range(1, 11)
METHODS = ("omp", "iht", "l1", "sbl")  # one of each kind: greedy, thresholding, convex, Bayesian
SEED = 0


@dataclass(frozen=True)
class Curve:
    """Accuracies of one method over the sparsities, with its time per signal."""

    label: str
    strict: list[float]
    loose: list[float]
    microseconds: float


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the picture.")] = Path("maxsparse-demo"),
    signals_per_sparsity: Annotated[int, typer.Option("--signals", min=10, help="Signals per sparsity d.")] = 1000,
) -> None:
    """Build the paper's 20×100 dictionary and compare what recovers sparse signals from it.

    Prints a table and writes a picture. Example: maxsparse demo -o out --signals 2000
    """
    output.mkdir(parents=True, exist_ok=True)
    Phi = dictionaries.decaying(N_MEASUREMENTS, N_ATOMS, rng=SEED)
    W, D = theory.precondition(Phi)
    typer.echo(
        f"Dictionary: {N_MEASUREMENTS} measurements, {N_ATOMS} atoms, singular values decaying like 1/i² "
        f"(the paper's).\nCoherence {theory.coherence(Phi):.4f}; after whitening {theory.coherence(W @ Phi * D):.4f}.\n"
        f"\nRecovering {signals_per_sparsity} signals for every number d of nonzeros "
        "(the first run compiles for about a minute) …\n"
    )
    curves = list(_curves(Phi, signals_per_sparsity))
    _print_table(curves)
    picture = output / "demo.png"
    _draw(Phi, W @ Phi * D, curves, picture)
    typer.echo(f"\nPicture: {picture}\nNext: README.md has ten lines of Python; docs/ has the guide.")


def _curves(Phi: FloatArray, N: int) -> list[Curve]:
    from maxsparse.solvers import solve  # compiled code: loaded only when used

    curves = []
    for method in METHODS:
        for whitened in (False, True):
            strict: list[float] = []
            loose: list[float] = []
            seconds = 0.0
            for d in SPARSITIES:
                X, Y = signals.sample(Phi, N, sparsity=d, rng=SEED + d)
                options = {"sparsity": d} if method in ("omp", "iht") else {}
                if not strict:
                    solve(
                        Phi, Y[:2], method=method, precondition=whitened, **options
                    )  # compile before the clock starts
                begun = time.perf_counter()
                result = solve(Phi, Y, method=method, precondition=whitened, **options)
                seconds += time.perf_counter() - begun
                strict.append(metrics.strict_accuracy(X, result.scores))
                loose.append(metrics.loose_accuracy(X, result.scores, n=N_MEASUREMENTS))
            label = f"{method}, whitened" if whitened else method
            curves.append(Curve(label, strict, loose, 1e6 * seconds / (N * len(SPARSITIES))))
    return curves


def _print_table(curves: list[Curve]) -> None:
    width = max(len(curve.label) for curve in curves)
    typer.echo("Strict accuracy: share of signals whose d largest scores are exactly the support.\n")
    typer.echo(f"{'':{width}}  " + "  ".join(f"d={d:<2}" for d in SPARSITIES) + "  µs/signal")
    for curve in curves:
        cells = "  ".join(f"{value:4.2f}" for value in curve.strict)
        typer.echo(f"{curve.label:{width}}  {cells}  {curve.microseconds:9.1f}")


def _draw(Phi: FloatArray, whitened: FloatArray, curves: list[Curve], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    _draw_cosines(left, {"Φ": Phi, "Φ whitened": whitened})
    for number, curve in enumerate(curves):
        style = {"linestyle": "-" if "whitened" in curve.label else ":", "color": f"C{number // 2}"}
        middle.plot(SPARSITIES, curve.strict, marker="o", markersize=3, label=curve.label, **style)
        right.plot(SPARSITIES, curve.loose, marker="o", markersize=3, label=curve.label, **style)
    for axes, title in ((middle, "strict accuracy"), (right, "loose accuracy")):
        axes.set(title=title, xlabel="nonzeros d", ylim=(-0.02, 1.02), xticks=list(SPARSITIES))
        axes.grid(alpha=0.3)
    middle.legend(fontsize=8)
    with atomic_write(path) as stream:
        figure.savefig(stream, format="png", dpi=130)
    plt.close(figure)


def _draw_cosines(axes: Axes, matrices: dict[str, FloatArray]) -> None:
    import numpy as np

    for label, matrix in matrices.items():
        G = np.abs(matrix.T @ matrix)[np.triu_indices(matrix.shape[1], 1)]
        axes.hist(G, bins=50, range=(0, 1), alpha=0.6, density=True, label=label)
    axes.set(title="|cosine| between atoms", xlabel="|cosine|", ylabel="density")
    axes.legend(fontsize=8)
