"""Sources placed one by one: for every number of them, the directions with the most evidence that were found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse.fields.arrays.likelihood import Data, Fit, addition, fit

__all__ = ["distances", "grid_of", "mesh", "search"]

STEPS_PER_BEAM = 6  # of the grid on which sources are looked for
SPLIT = 0.3  # of a beam, on both sides of a source that may be two
MOST_STARTS = 4  # sources that are tried to be two
PATIENCE = 2  # numbers of sources with less evidence than the best before the search ends
COARSE_GRID = 4000  # directions in two angles
FINEST_GRID = 50_000  # directions in one angle
LEAST_NATS = 1.0  # of the log likelihood, that a source must explain


def grid_of(data: Data) -> NDArray[np.float64]:
    """Return directions (m, d) wherever sources can be, a fraction of a beam apart."""
    return mesh(data, data.low, data.high, STEPS_PER_BEAM)


def mesh(data: Data, low: NDArray[np.float64], high: NDArray[np.float64], per_beam: int) -> NDArray[np.float64]:
    """Return directions (m, d) between `low` and `high`, so many in a beam, or as many as there is time for."""
    step, spans = data.beam / per_beam, high - low
    step = max(step, float(np.sqrt(spans.prod() / COARSE_GRID)) if data.two else float(spans[0]) / FINEST_GRID)
    axes = [np.linspace(a, b, max(2, int(np.ceil((b - a) / step)) + 1)) for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def search(data: Data, grid: NDArray[np.float64], most: int, *, least: int = 0) -> list[Fit]:
    """Return the best sources found for every number of them, from 0 to at least `least` and at most `most`.

    Beyond `least` it ends where more sources have had less evidence twice.
    """
    d = grid.shape[1]
    noise = data.power if data.noise is None else np.maximum(data.noise, data.blur * data.power)
    path = [fit(data, np.empty((0, d)), np.empty((len(data.R), 0)), noise)]
    while len(path) <= most:
        found = [fit(data, *start) for start in _starts(data, path[-1], grid)]
        path.append(min(found, key=lambda model: model.cost))
        _look_back(data, path)
        evidence = [model.evidence for model in path]
        if len(path) > least and len(path) - 1 - int(np.argmax(evidence)) >= PATIENCE:
            break
    return _supported(path)


def _supported(path: list[Fit]) -> list[Fit]:
    """Take the evidence from models that explain no more than one with a source less.

    Two sources in one place are as likely as one, over a range of powers that Laplace's approximation cannot see.
    """
    costs = [model.cost for model in path]
    for K in range(1, len(path)):
        if costs[K] > min(costs[:K]) - LEAST_NATS:
            path[K] = replace(path[K], evidence=-np.inf)
    return path


def _starts(data: Data, found: Fit, grid: NDArray[np.float64]) -> list[tuple[Any, Any, Any]]:
    """Return where to start with one source more: at the best two new directions, or with one source as two."""
    gain, powers = addition(data, found, grid)
    starts = []
    chosen = gain.copy()
    for _ in range(2):
        best = int(np.argmax(chosen))
        if chosen[best] <= 0:
            break
        starts.append(_with(found, grid[best], powers[:, best]))
        chosen[distances(grid, grid[best]) < data.beam] = 0.0
    shift = SPLIT * data.beam * np.eye(grid.shape[1])
    for k in np.argsort(-found.powers.sum(axis=0))[:MOST_STARTS]:
        for way in shift:
            moved, halves = found.directions.copy(), found.powers.copy()
            moved[k] -= way
            halves[:, k] /= 2
            half = Fit(moved, halves, found.noise, found.gains, 0.0, 0.0, found.errors)
            starts.append(_with(half, found.directions[k] + way, halves[:, k]))
    if not starts:  # nothing is left to explain
        best = int(np.argmax(gain))
        starts.append(_with(found, grid[best], 1e-3 * found.noise))
    return starts


def _with(found: Fit, direction: NDArray[Any], powers: NDArray[Any]) -> tuple[Any, Any, Any]:
    directions = np.concatenate([found.directions, direction[None]])
    return directions, np.concatenate([found.powers, powers[:, None]], axis=1), found.noise


def _look_back(data: Data, path: list[Fit]) -> None:
    """Improve every smaller number of sources by what remains when one of the next larger number goes."""
    for K in range(len(path) - 2, 0, -1):
        larger = path[K + 1]
        weakest = np.argsort(larger.powers.sum(axis=0))[:2]
        improved = False
        for k in weakest:
            fewer = np.delete(larger.directions, k, axis=0), np.delete(larger.powers, k, axis=1), larger.noise
            model = fit(data, *fewer)
            if model.cost < path[K].cost - 1e-3:
                path[K], improved = model, True
        if not improved:
            return


def distances(directions: NDArray[np.float64], one: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return distances in degrees between directions (K, d) and one of them; azimuths go around."""
    apart = directions - one
    apart[:, 0] = (apart[:, 0] + 180) % 360 - 180
    return np.asarray(np.linalg.norm(apart, axis=1))
