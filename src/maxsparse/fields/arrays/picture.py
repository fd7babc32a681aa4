"""The picture of an answer: what a beamformer receives, and the sources with their standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["draw"]

RANGE_DB = 35.0  # of the colours
MOST_DB = 80.0  # of the axis of powers
LABEL_WIDTH = 0.06  # of the axis
ROW_POINTS = 11  # height of a row of labels


def draw(found: Any, truth: ArrayLike | None, axes: Any) -> Any:
    """Draw :class:`~maxsparse.fields.arrays.Directions` into `axes`, a new figure if None."""
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots(figsize=(9.0, 3.8), layout="constrained")[1]
    true = None if truth is None else np.asarray(truth, dtype=float)
    rows = (_one_angle if found.grid.shape[1] == 1 else _two_angles)(found, true, axes)
    number = f"{len(found)} source{'' if len(found) == 1 else 's'}"
    axes.set_title(f"{number}, confidence {found.confidence:.2f}", fontsize=10, pad=6 + ROW_POINTS * rows)
    if axes.get_legend_handles_labels()[0]:
        # Below the axes, where it hides no source; grey, as sources in two angles are white.
        below = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.16), "borderaxespad": 0.0, "ncols": 4}
        axes.legend(fontsize=8, facecolor="0.85", edgecolor="none", **below)
    return axes


def _one_angle(found: Any, truth: Any, axes: Any) -> int:
    """Draw powers against azimuth; return the number of rows of labels above the axes."""
    level = 10 * np.log10(np.maximum(found.spectrum, 1e-300))
    axes.plot(found.grid[:, 0], level, color="C0", linewidth=1.3, label="beamformer")
    height = 10 * np.log10(found.powers)
    highest = max([level.max(), *height])
    floor = max(min([level.min() - 2, *(height - 5)]), highest - MOST_DB)
    if truth is not None:
        for place, direction in enumerate(truth.reshape(-1)):
            axes.axvline(direction, color="0.8", linewidth=5, zorder=0, label=None if place else "truth")
    if len(found):
        axes.vlines(found.azimuth, floor, height, color="black", linewidth=1.6)
        bars = {"fmt": "o", "color": "black", "markersize": 5, "capsize": 3}
        axes.errorbar(found.azimuth, height, xerr=2 * found.azimuth_error, **bars, label="sources, ± 2 standard errors")
    same = [(a, h) for own, h in zip(found.ambiguous, height, strict=True) for a, _ in own]
    if same:
        axes.plot(*np.array(same).T, "o", markerfacecolor="none", color="black", label="looks the same")
    above = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points", "ha": "center", "fontsize": 8}
    rows = _rows(found.azimuth, np.ptp(found.grid[:, 0]))
    for azimuth, row in zip(found.azimuth, rows, strict=True):
        axes.axvline(azimuth, color="0.6", linewidth=0.8, linestyle=":", zorder=0)
        axes.annotate(f"{azimuth:.1f}°", (azimuth, 1.0), (0, 3 + ROW_POINTS * row), **above)
    room = 0.05 * (highest - floor)
    low, high = found.grid[[0, -1], 0]
    axes.set(xlabel="azimuth in degrees", ylabel="power in dB", ylim=(floor, highest + room), xlim=(low, high))
    axes.grid(alpha=0.3)
    return 1 + max(rows, default=-1)


def _rows(azimuth: Any, width: float) -> list[int]:
    """Return for every label in which row above the axes it stands, so that those of close sources do not collide."""
    rows = [0] * len(azimuth)
    order = np.argsort(azimuth)
    for place, k in enumerate(order):
        near = {rows[j] for j in order[:place] if azimuth[k] - azimuth[j] < LABEL_WIDTH * width}
        rows[k] = min(set(range(len(azimuth))) - near)
    return rows


def _two_angles(found: Any, truth: Any, axes: Any) -> int:
    """Draw a map over azimuth and elevation; there are no labels above the axes."""
    azimuth, elevation = (np.unique(found.grid[:, axis]) for axis in (0, 1))
    level = 10 * np.log10(np.maximum(found.spectrum, 1e-300)).reshape(azimuth.size, elevation.size)
    mesh = axes.pcolormesh(azimuth, elevation, level.T, shading="nearest", vmin=level.max() - RANGE_DB, rasterized=True)
    axes.figure.colorbar(mesh, ax=axes, label="power that a beamformer receives, dB")
    if truth is not None:
        axes.scatter(truth[:, 0], truth[:, 1], s=90, marker="x", color="C3", linewidths=1.6, label="truth")
    style = {"fmt": "o", "color": "white", "markeredgecolor": "black", "ecolor": "white", "capsize": 2}
    errors = {"xerr": 2 * found.azimuth_error, "yerr": 2 * found.elevation_error}
    if len(found):
        axes.errorbar(found.azimuth, found.elevation, **errors, **style, label="sources, ± 2 standard errors")
    same = [place for own in found.ambiguous for place in own]
    if same:
        axes.plot(*np.array(same).T, "o", markerfacecolor="none", color="white", label="looks the same")
    axes.set(xlabel="azimuth in degrees", ylabel="elevation in degrees")
    return 0
