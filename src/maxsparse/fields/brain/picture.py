"""The picture of an answer: places seen from three sides, and time courses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["draw"]

# title, axes across and upwards, their names
VIEWS = (
    ("from above", 0, 1, "left – right", "back – front"),
    ("from behind", 0, 2, "left – right", "down – up"),
    ("from the right", 1, 2, "back – front", "down – up"),
)
RIVAL = 0.01  # probability of a place that is drawn although it is not in the answer


def draw(
    found: Any, space: NDArray[np.float64], inclusion: NDArray[np.float64], truth: ArrayLike | None, axes: Any
) -> Any:
    """Draw :class:`~maxsparse.fields.brain.BrainSources` into four axes, of a new figure if None."""
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots(1, 4, figsize=(13.0, 3.4), layout="constrained", width_ratios=[1, 1, 1, 1.4])[1]
    axes = np.asarray(axes).ravel()
    if axes.size != 4:
        raise ValueError(f"axes must be four, for three views and the time courses; got {axes.size}")
    true = None if truth is None else 1e3 * np.asarray(truth, dtype=float).reshape(-1, 3)
    millimetres = 1e3 * space
    rivals = np.setdiff1d(np.flatnonzero(inclusion > RIVAL), found.places)
    for one, (title, x, y, across, upwards) in zip(axes, VIEWS, strict=False):
        one.scatter(millimetres[:, x], millimetres[:, y], s=3, color="0.85", linewidths=0, rasterized=True)
        if rivals.size:
            sizes = 15 + 60 * inclusion[rivals]
            one.scatter(*millimetres[rivals][:, [x, y]].T, s=sizes, facecolors="none", edgecolors="0.4", linewidths=0.8)
        for k, place in enumerate(found.places):
            size = 20 + 70 * inclusion[place]
            one.scatter(
                *millimetres[place, [x, y]], s=size, color=f"C{k}", edgecolors="black", linewidths=0.5, zorder=3
            )
        if true is not None:
            one.scatter(true[:, x], true[:, y], s=70, marker="x", color="black", linewidths=1.2, zorder=4)
        half = 0.54 * np.ptp(millimetres, axis=0).max()  # the same for all views, so that heads have one size
        middle = (millimetres.max(axis=0) + millimetres.min(axis=0)) / 2
        one.set(xlabel=across, ylabel=upwards, xticks=[], yticks=[], aspect="equal")
        one.set(xlim=(middle[x] - half, middle[x] + half), ylim=(middle[y] - half, middle[y] + half))
        one.set_title(title, fontsize=9)
    last = axes[3]
    for k, (place, position, dipole) in enumerate(zip(found.places, found.positions, found.dipoles, strict=True)):
        where = ", ".join(f"{1e3 * axis:.0f}" for axis in position)
        label = f"({where}) mm, probability {inclusion[place]:.2f}"
        last.plot(1e3 * dipole.times, 1e9 * dipole.amplitude, color=f"C{k}", linewidth=1.2, label=label)
    number = f"{len(found)} active place{'' if len(found) == 1 else 's'}"
    last.set_title(f"{number}, confidence {found.confidence:.2f}", fontsize=9)
    if not len(found):
        last.axis("off")
        last.text(0.5, 0.5, "no active place", transform=last.transAxes, ha="center", fontsize=9)
        return axes
    last.set(xlabel="ms", ylabel="nAm")
    last.legend(fontsize=7, loc="best")
    last.margins(y=0.25)
    last.grid(alpha=0.3)
    return axes
