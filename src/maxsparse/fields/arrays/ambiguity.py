"""Directions that an array cannot tell from those that were found: mirror images and grating lobes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse.fields.arrays.likelihood import Data, Fit, cost_at, fit, steering
from maxsparse.fields.arrays.search import STEPS_PER_BEAM, distances, mesh

__all__ = ["Lookalike", "in_view", "inside", "lookalikes"]

ALIKE = 0.7  # correlation of steering vectors, at every frequency, from which directions are compared
CLOSE = 3.0  # log likelihood that a direction may lack to be as good as the one that was found
MOST = 8  # directions that are compared with one source
ON_THE_WAY = 9  # directions between two, of which one must be worse: else both are one wide maximum


class Lookalike(NamedTuple):
    """Sources of which one is elsewhere, and by how much less likely they are than those that were found."""

    fit: Fit
    lacks: float


def lookalikes(data: Data, found: Fit, k: int) -> list[Lookalike]:
    """Return other directions of source k, in the field of view, that explain the snapshots about as well."""
    from scipy.ndimage import maximum_filter

    grid = mesh(data, *data.view, STEPS_PER_BEAM)
    alike = _alike(data, grid, found.directions[k])
    sizes = [np.unique(axis).size for axis in grid.T]
    peaks = maximum_filter(alike.reshape(sizes), size=3, mode="nearest").ravel() == alike
    peaks &= (alike >= ALIKE) & (distances(grid, found.directions[k]) > 1.5 * np.ptp(grid[:, 0]) / (sizes[0] - 1))
    others: list[Lookalike] = []
    for place in np.flatnonzero(peaks)[np.argsort(-alike[peaks], kind="stable")][:MOST]:
        moved = found.directions.copy()
        moved[k] = grid[place]
        model = fit(data, moved, found.powers, found.noise)
        known = [found.directions[k], *(other.fit.directions[k] for other in others)]
        lacks = model.cost - found.cost
        if lacks < CLOSE and inside(data, model)[k] and all(_apart(data, found, model, k, one) for one in known):
            others.append(Lookalike(model, lacks))
    return others


def in_view(data: Data, found: Fit) -> Fit:
    """Return the sources, with those outside the field of view moved to a direction inside that looks the same."""
    for k in np.flatnonzero(~inside(data, found)):
        found = min(lookalikes(data, found, int(k)), key=lambda other: other.lacks, default=Lookalike(found, 0.0)).fit
    return found


def inside(data: Data, found: Fit) -> NDArray[np.bool_]:
    """Return which sources are in the field of view, up to two standard errors."""
    low, high = data.view
    margin = 2 * np.minimum(found.errors, data.beam / 4)
    beyond = found.directions - low + margin
    beyond[:, 0] %= 360.0
    return np.asarray(((beyond >= 0) & (beyond <= high - low + 2 * margin)).all(axis=1))


def _alike(data: Data, grid: NDArray[np.float64], direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the correlation of steering vectors of a grid with that of a direction, the least of all frequencies."""
    alike = np.ones(len(grid))
    for frequency in data.frequencies:
        own = steering(data, direction[None], frequency)[0]
        alike = np.minimum(alike, np.abs(own.conj().T @ steering(data, grid, frequency)[0])[0] / len(own))
    return alike


def _apart(data: Data, found: Fit, model: Fit, k: int, one: NDArray[np.float64]) -> bool:
    """Whether source k of `model` is at another maximum of the likelihood than the direction `one`."""
    way = model.directions[k] - one
    way[0] = (way[0] + 180) % 360 - 180
    for share in np.linspace(0, 1, ON_THE_WAY + 2)[1:-1]:
        between = found.directions.copy()
        between[k] = one + share * way
        if cost_at(data, found, between) - found.cost > CLOSE:
            return True
    return False
