"""Common drawing functions: a curve with its spread, and an axis of accuracies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maxsparse.experiments.data import Data, Series
from maxsparse.plotting import curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["accuracy_axes", "draw_series", "legend_below", "two_panels"]

# A method has the colour of its family in every figure; whitened forms are dashed.
COLOURS = {
    "ista": "navy",
    "l1": "C0",
    "iht": "C1",
    "omp": "C2",
    "sbl": "C4",
    "ista-net": "C9",
    "iht-net": "C8",
    "residual": "C3",
    "residual-raw": "lightcoral",
    "lstm": "C5",
    "learned-sbl": "C6",
    "recoverer": "black",
}


def draw_series(axes: Axes, series: Series, label: str, **style: Any) -> None:
    """Draw means with a band of one standard deviation."""
    curve(axes, series.x, series.mean, series.spread, label=label, **style)


def method_style(method: str) -> dict[str, Any]:
    """Return colour and line style of a method; methods without a family get the next colour."""
    family = method.removesuffix("-whitened")
    style: dict[str, Any] = {"linestyle": "--"} if family != method else {}
    return {**style, "color": COLOURS[family]} if family in COLOURS else style


def two_panels(
    figure: Figure,
    curves: Sequence[tuple[str, Data, dict[str, Any]]],
    guess: float,
    xlabel: str = "number of nonzeros d",
) -> None:
    """Draw strict accuracy on the left and loose accuracy on the right, as in the paper's figures.

    Parameters
    ----------
    figure : Figure
    curves : sequence of (label, data, style)
    guess : float
        Loose accuracy of guessing, n/m.
    xlabel : str
    """
    left, right = figure.subplots(1, 2)
    for axes, measure, title in ((left, "strict", "strict accuracy"), (right, "loose", "loose accuracy")):
        for label, data, style in curves:
            draw_series(axes, data.series("d", measure), label, **style)
        axes.set(xlabel=xlabel, title=title, ylim=(-0.02, 1.02))
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
    right.axhline(guess, color="gray", linestyle=":", linewidth=1, label="guessing")
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, ncols=4, loc="outside lower center", frameon=False)


def accuracy_axes(axes: Axes, xlabel: str, *, log: bool = False) -> None:
    """Label an axis of strict accuracies."""
    axes.set(xlabel=xlabel, title="strict accuracy", ylim=(-0.02, 1.02))
    if log:
        axes.set_xscale("log")
    legend_below(axes)


def legend_below(axes: Axes) -> None:
    """Put the legend below the axes, where it hides no curve."""
    axes.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False)
