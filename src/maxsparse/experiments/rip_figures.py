"""Figures of the experiment ``rip``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maxsparse import theory
from maxsparse.experiments.data import Data
from maxsparse.experiments.drawing import accuracy_axes, draw_series, legend_below

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_bounds", "draw_rank", "draw_search"]


def draw_rank(figure: Figure, data: Data) -> None:
    """Draw constants and accuracy against the rank."""
    left, right = figure.subplots(1, 2)
    rank = data.select(kind="rank")
    labels = {"plain": "Φ", "nulled": "Φ, r directions removed", "reduced": "Ã: random, n − r rows"}
    for variant, label in labels.items():
        draw_series(left, rank.series("rank", variant), label)
        draw_series(right, rank.series("rank", f"strict_{variant}"), f"IHT on {label}")
    draw_series(left, rank.series("rank", "known"), "Φ, range of Δ_r known and removed")
    draw_series(right, rank.series("rank", "strict_whitened"), "IHT on Φ, whitened")
    left.axhline(theory.IHT_THRESHOLD, color="black", linestyle="--", linewidth=1, label="1/√32")
    left.set(xlabel="rank r of the disturbing term", title="δ_3, exact", ylim=(0, 2.1))
    legend_below(left)
    accuracy_axes(right, "rank r of the disturbing term")
    for axes in (left, right):
        axes.grid(alpha=0.3)


def draw_search(figure: Figure, data: Data) -> None:
    """Draw δ_3 before and after the search, one dot per dictionary."""
    axes = figure.subplots()
    search = data.select(kind="search")
    names = {"before": "Φ", "start": "best closed form", "after": "after search"}
    families = search.unique("family")
    for number, (name, label) in enumerate(names.items()):
        for position, family in enumerate(families):
            values = search.values(name, family=family)
            x = position + 0.22 * (number - 1) + np.linspace(-0.05, 0.05, values.size)
            axes.plot(x, values, "o", color=f"C{number}", markersize=5, label=label if position == 0 else None)
    axes.set(xticks=range(len(families)), xticklabels=families, ylabel="δ_3, exact", ylim=(0, 1.05))
    axes.legend(fontsize=8, loc="lower left")
    axes.grid(alpha=0.3, axis="y")


def draw_bounds(figure: Figure, data: Data) -> None:
    """Draw certified intervals and exact constants."""
    for axes, family in zip(figure.subplots(1, 2), data.unique("family"), strict=True):
        chosen = data.select(family=family)
        lower, upper, exact = (chosen.series("order", name) for name in ("lower", "upper", "exact"))
        axes.bar(lower.x, upper.mean - lower.mean, bottom=lower.mean, width=0.5, alpha=0.4, label="certified interval")
        axes.plot(exact.x, exact.mean, "o", color="black", markersize=5, label="exact")
        axes.set(xlabel="order k", ylabel="δ_k", title=family, xticks=exact.x, ylim=(0, None))
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
