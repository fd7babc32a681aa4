"""The picture of an answer: what a beamformer receives, and the sources with their standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["draw"]

RANGE_DB = 35.0


def draw(found: Any, truth: ArrayLike | None, axes: Any) -> Any:
    """Draw :class:`~maxsparse.fields.arrays.Directions` into `axes`, a new figure if None."""
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots(figsize=(9.0, 3.8), layout="constrained")[1]
    true = None if truth is None else np.asarray(truth, dtype=float)
    (_one_angle if found.grid.shape[1] == 1 else _two_angles)(found, true, axes)
    number = f"{len(found)} source{'' if len(found) == 1 else 's'}"
    axes.set_title(f"{number}, confidence {found.confidence:.2f}", fontsize=10)
    axes.legend(fontsize=8, loc="upper right")
    return axes


def _one_angle(found: Any, truth: Any, axes: Any) -> None:
    level = 10 * np.log10(np.maximum(found.spectrum, 1e-300))
    axes.plot(found.grid[:, 0], level, color="C0", linewidth=1.3, label="beamformer")
    height = 10 * np.log10(found.powers)
    floor = max(min(level.max() - RANGE_DB, *(height - 5)), level.max() - 80) if len(found) else level.max() - RANGE_DB
    if truth is not None:
        for place, direction in enumerate(truth.reshape(-1)):
            axes.axvline(direction, color="0.8", linewidth=5, zorder=0, label=None if place else "truth")
    axes.vlines(found.azimuth, floor, height, color="black", linewidth=1.6)
    bars = {"fmt": "o", "color": "black", "markersize": 5, "capsize": 3}
    axes.errorbar(found.azimuth, height, xerr=2 * found.azimuth_error, **bars, label="sources, ± 2 standard errors")
    for where in zip(found.azimuth, height, strict=True):
        axes.annotate(f"{where[0]:.1f}°", where, (0, 6), textcoords="offset points", ha="center", fontsize=8)
    top = max([level.max(), *height]) + 6
    axes.set(xlabel="azimuth in degrees", ylabel="power in dB", ylim=(floor, top))
    axes.grid(alpha=0.3)


def _two_angles(found: Any, truth: Any, axes: Any) -> None:
    azimuth, elevation = (np.unique(found.grid[:, axis]) for axis in (0, 1))
    level = 10 * np.log10(np.maximum(found.spectrum, 1e-300)).reshape(azimuth.size, elevation.size)
    mesh = axes.pcolormesh(azimuth, elevation, level.T, shading="nearest", vmin=level.max() - RANGE_DB, rasterized=True)
    axes.figure.colorbar(mesh, ax=axes, label="power that a beamformer receives, dB")
    if truth is not None:
        axes.scatter(truth[:, 0], truth[:, 1], s=90, marker="x", color="C3", linewidths=1.6, label="truth")
    style = {"fmt": "o", "color": "white", "markeredgecolor": "black", "ecolor": "white", "capsize": 2}
    errors = {"xerr": 2 * found.azimuth_error, "yerr": 2 * found.elevation_error}
    axes.errorbar(found.azimuth, found.elevation, **errors, **style, label="sources, ± 2 standard errors")
    axes.set(xlabel="azimuth in degrees", ylabel="elevation in degrees")
