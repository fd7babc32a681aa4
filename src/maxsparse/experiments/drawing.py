"""How all figures draw a curve with its spread, and an axis of accuracies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maxsparse.experiments.data import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["accuracy_axes", "draw_series", "legend_below"]

MARKERS = "osv^D<>pP*X"


def draw_series(axes: Axes, series: Series, label: str) -> None:
    """Draw means with a band of one standard deviation."""
    marker = MARKERS[len(axes.get_lines()) % len(MARKERS)]
    (line,) = axes.plot(series.x, series.mean, marker=marker, markersize=4, linewidth=1.4, label=label)
    if np.any(series.spread > 0):
        low, high = series.mean - series.spread, series.mean + series.spread
        axes.fill_between(series.x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)


def accuracy_axes(axes: Axes, xlabel: str, *, log: bool = False) -> None:
    """Label an axis of strict accuracies."""
    axes.set(xlabel=xlabel, title="strict accuracy", ylim=(-0.02, 1.02))
    if log:
        axes.set_xscale("log")
    legend_below(axes)


def legend_below(axes: Axes) -> None:
    """Put the legend under the axes, where it hides no curve."""
    axes.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False)
