"""``maxsparse demo``: a two-minute tour, from a coherent dictionary to certified answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from maxsparse import dictionaries, signals, theory
from maxsparse._core.atomic import atomic_write
from maxsparse._core.validation import FloatArray
from maxsparse.cli.arguments import Json
from maxsparse.cli.compare import OURS, Curve, compare, print_table
from maxsparse.cli.printing import print_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_MEASUREMENTS, N_ATOMS = 20, 100
SPARSITIES = range(1, 11)
METHODS = ("omp", "iht", "l1", "sbl")  # one of each kind: greedy, thresholding, convex, Bayesian
SEED = 0


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for figure and files.")] = Path(
        "maxsparse-demo"
    ),
    signals_per_sparsity: Annotated[int, typer.Option("--signals", min=10, help="Signals per sparsity d.")] = 300,
    as_json: Json = False,
) -> None:
    """Compare methods on the paper's 20×100 dictionary, with certificates.

    Prints a table, writes a figure, and a dictionary and signals to try the other commands on.

    Example: maxsparse demo -o out --signals 1000
    """
    output.mkdir(parents=True, exist_ok=True)
    Phi = dictionaries.decaying(N_MEASUREMENTS, N_ATOMS, rng=SEED)
    W, D = theory.precondition(Phi)
    coherences = theory.coherence(Phi), theory.coherence(W @ Phi * D)
    methods = compare(Phi, METHODS, SPARSITIES, signals_per_sparsity, SEED)
    if as_json:
        curves = list(methods)
    else:
        _introduce(coherences, signals_per_sparsity)
        curves = print_table(methods, len("omp, whitened") + 2, SPARSITIES)
    picture = output / "demo.png"
    _draw(Phi, W @ Phi * D, curves, picture)
    _leave_files(Phi, output)
    if as_json:
        figures = {"coherence": coherences[0], "whitened_coherence": coherences[1], "picture": str(picture)}
        print_json(figures | {"signals_per_sparsity": signals_per_sparsity, "methods": [c.as_dict() for c in curves]})
    else:
        _conclude(curves[-1], signals_per_sparsity, output)


def _introduce(coherences: tuple[float, float], N: int) -> None:
    typer.echo(
        f"1. A dictionary: {N_MEASUREMENTS} measurements, {N_ATOMS} atoms, singular values decaying like 1/i² "
        f"(the paper's).\n   Coherence {coherences[0]:.4f}: some atoms are nearly the same. "
        f"After whitening {coherences[1]:.4f}.\n\n"
        f"2. What finds the sparsest x with y = Φx? {N} signals for every number d of nonzeros. "
        "The first run compiles,\n   which takes about a minute. Share of signals whose support is exactly right. "
        f"Classical methods are given d;\n   {OURS} is not, was not trained on this dictionary, and certifies its "
        "answers.\n"
    )


def _conclude(ours: Curve, N: int, output: Path) -> None:
    typer.echo(
        f"\n3. Certified to be the sparsest, but wrong: {ours.false} of {len(SPARSITIES) * N}.\n\n"
        f"4. Picture: {output / 'demo.png'}\n\n"
        "5. Next steps:\n"
        f"   maxsparse info {output / 'Phi.npy'}            properties of this dictionary, and which methods work\n"
        f"   maxsparse recover {output / 'Phi.npy'} {output / 'Y.npy'} -o {output / 'X.npz'}\n"
        f"   maxsparse bench {output / 'Phi.npy'}           every method on your own dictionary\n"
        "   README.md has ten lines of Python; docs/index.md is the guide."
    )


def _leave_files(Phi: FloatArray, output: Path) -> None:
    """Write the dictionary and a thousand signals, for the commands listed at the end."""
    for name, array in (("Phi", Phi), ("Y", signals.sample(Phi, 1000, sparsity=(1, 8), rng=SEED)[1])):
        with atomic_write(output / f"{name}.npy") as stream:
            np.save(stream, array)


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
    for label, matrix in matrices.items():
        G = np.abs(matrix.T @ matrix)[np.triu_indices(matrix.shape[1], 1)]
        axes.hist(G, bins=50, range=(0, 1), alpha=0.6, density=True, label=label)
    axes.set(title="how similar the atoms are", xlabel="|cosine| between two atoms", ylabel="density")
    axes.legend(fontsize=8)
