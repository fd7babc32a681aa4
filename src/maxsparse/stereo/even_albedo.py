"""A last refit for scenes with clean readings, assuming that neighbouring pixels have similar albedo."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import copy_into
from maxsparse._core.sorting import median
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray
from maxsparse.stereo.fitting.consensus import lit_level
from maxsparse.stereo.fitting.fit import Fit
from maxsparse.stereo.fitting.kernels import fit as fit_readings
from maxsparse.stereo.fitting.neighbours import Grid, lay_out
from maxsparse.stereo.material import Material

__all__ = ["refit_evenly"]

CHUNK_PIXELS = 16384
CLEAN = 0.0065  # largest scatter of the material for which this refit is used
SURE = 0.2  # quantile of the confidence below which a pixel is not used for its neighbours
PASSES = 2  # the second uses the normals and albedos of the first
ROUNDS = 6  # of reweighting
TOO_BRIGHT, TOO_DARK = 1.0, 3.0  # factors k of the standard deviation, above and below the fit
FLOOR = 0.006  # of the albedo: least standard deviation of readings
EVEN = 0.01  # least standard deviation of log albedo among neighbours
SPREAD = 2.2  # median absolute deviations that count as one standard deviation, half as many again as for a normal law
AT_MOST = 2.0  # largest cost of a differing albedo; an outlying reading costs one
HANDICAP = 1.0  # margin by which a fit started at a neighbour's normal must be better


def refit_evenly(
    readings: FloatArray, lights: FloatArray, before: Fit, mask: NDArray[np.bool_], material: Material
) -> Fit:
    r"""Refit every pixel, with the albedo of its neighbours as one more reading.

    .. math:: \min_x \sum_i \frac{z_i^2}{1 + z_i^2} + \frac{z^2}{1 + z^2 / 2}, \qquad
              z_i = \frac{o_i - l_i^\top x}{k\sigma\|x\|}, \quad z = \frac{\log\|x\| - \log\bar\rho}{\tau}

    over lit readings o, divided by the material; k is 1 for readings above the fit and 3 for those
    below. :math:`\bar\rho` is the median albedo of the surrounding 5×5 pixels, τ its spread. The search starts at the
    pixel's own normal and at its neighbours'.

    Parameters
    ----------
    readings : ndarray of shape (P, q)
    lights : ndarray of shape (q, 3)
    before : Fit
        All pixels of the mask, in row-major order.
    mask : ndarray of shape (H, W), bool
    material : Material
        Estimated from the readings with these normals.

    Returns
    -------
    fit : Fit
        With new normals, albedos and inliers; unchanged if the scatter of the material is above 0.65 % of the albedo:
        then interreflections dominate, which the network handles better.

    Notes
    -----
    If shadows leave three or four readings, any normal explains them; with known albedo, two are enough. Also close
    to the fit, a reading above it has nine times the weight of one below: once the material is removed, most errors
    are missing light.
    """
    if material.scatter > CLEAN or not len(readings):
        return before
    grid = lay_out(mask)
    scaled = np.ascontiguousarray(before.normals * before.albedo[:, None], dtype=np.float64)
    known = np.linalg.norm(scaled, axis=1) > 0
    if not known.any():
        return before
    sure = known & (before.confidence >= np.quantile(before.confidence[known], SURE))
    sigma = max(2.0 * material.scatter, FLOOR)
    inliers = before.inliers.copy()
    for _ in range(PASSES):
        albedo = np.linalg.norm(scaled, axis=1)
        normals = np.divide(scaled, albedo[:, None], out=np.zeros_like(scaled), where=known[:, None])
        logs = np.log(np.where(known, albedo, 1.0))
        out = scaled.copy()
        for first in range(0, len(readings), CHUNK_PIXELS):
            chunk = slice(first, first + CHUNK_PIXELS)
            raw = np.maximum(readings[chunk], 0.0).astype(np.float64)
            lit = raw > lit_level(raw)[:, None]
            matt = material.divided_out(raw, lights, normals[chunk])
            around = _Surroundings(Grid(grid.place, grid.rows[chunk], grid.columns[chunk]), scaled, logs, sure)
            over_slices(_refit_rows, len(matt), matt, lights, lit, around, sigma, out[chunk])
            error = matt - np.maximum(out[chunk] @ lights.T, 0.0)
            allowed = sigma * np.linalg.norm(out[chunk], axis=1, keepdims=True)
            inliers[chunk] = lit & (error < TOO_BRIGHT * allowed) & (error > -TOO_DARK * allowed)
        scaled = out
    fit = Fit.from_scaled(scaled, inliers, before.confidence)
    return replace(fit, rivals=before.rivals)


class _Surroundings(NamedTuple):
    """Positions of a chunk's pixels, and what is known of all pixels."""

    grid: Grid
    scaled: NDArray[np.float64]  # (P, 3), normals times albedo
    logs: NDArray[np.float64]  # (P,), of the albedo
    sure: NDArray[np.bool_]  # (P,)


@kernel()
def _refit_rows(
    piece: int,
    pieces: int,
    o: NDArray[Any],
    L: NDArray[Any],
    lit: NDArray[Any],
    surroundings: _Surroundings,
    sigma: float,
    out: NDArray[Any],
) -> None:
    P, q = o.shape
    place, rows, columns = surroundings.grid
    scaled, logs, sure = surroundings.scaled, surroundings.logs, surroundings.sure
    # One more light, along the normal: the reading under it would be the albedo.
    more_lights, more, weights = np.empty((q + 1, 3)), np.empty(q + 1), np.empty(q + 1)
    for i in range(q):
        copy_into(L[i], more_lights[i])
    around, x = np.empty(25), np.empty(3)
    for row in range(piece, P, pieces):
        here = place[rows[row], columns[row]]
        if scaled[here, 0] == 0.0 and scaled[here, 1] == 0.0 and scaled[here, 2] == 0.0:
            continue
        albedo, spread = _albedo_around(place, rows[row], columns[row], logs, sure, around)
        if albedo == 0.0:
            continue
        copy_into(o[row], more)
        more[q] = albedo
        least = np.inf
        for step in range(10):
            j = here if step == 0 else place[rows[row] + (step - 1) // 3 - 1, columns[row] + (step - 1) % 3 - 1]
            if j < 0 or (step > 0 and (j == here or not sure[j])):
                continue
            length = np.sqrt(scaled[j, 0] ** 2 + scaled[j, 1] ** 2 + scaled[j, 2] ** 2)
            for axis in range(3):
                x[axis] = scaled[j, axis] * (1.0 if step == 0 else albedo / length)
            for _ in range(ROUNDS):
                _weigh(more, more_lights, lit[row], x, sigma, spread, weights)
                if not fit_readings(more, more_lights, weights, x):
                    break
            cost = _weigh(more, more_lights, lit[row], x, sigma, spread, weights)
            cost += HANDICAP if step > 0 else 0.0
            if cost < least and x[2] > 0.0:
                least = cost
                out[row, 0], out[row, 1], out[row, 2] = x[0], x[1], x[2]


@kernel()
def _albedo_around(
    place: NDArray[Any], row: int, column: int, logs: NDArray[Any], sure: NDArray[Any], around: NDArray[Any]
) -> tuple[float, float]:
    """Return median albedo and spread of log albedo of the confident pixels among 5×5; 0 where there is none."""
    found = 0
    for dy in range(-2, 3):
        for dx in range(-2, 3):
            j = place[row + dy, column + dx]
            if j >= 0 and sure[j]:
                around[found] = logs[j]
                found += 1
    if found == 0:
        return 0.0, 1.0
    middle = median(around, found)
    for i in range(found):
        around[i] = abs(around[i] - middle)
    spread = max(SPREAD * median(around, found), EVEN)
    return np.exp(middle), spread * np.sqrt(1.0 + 4.0 / found)  # fewer neighbours, larger spread


@kernel()
def _weigh(
    o: NDArray[Any],
    L: NDArray[Any],
    lit: NDArray[Any],
    x: NDArray[Any],
    sigma: float,
    spread: float,
    weights: NDArray[Any],
) -> float:
    """Write the weights of all readings, and of the albedo as the last one; return the cost."""
    q = len(lit)
    albedo = max(np.sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]), 1e-12)
    cost = 0.0
    for i in range(q):
        weights[i] = 0.0
        if lit[i]:
            r = (o[i] - max(L[i, 0] * x[0] + L[i, 1] * x[1] + L[i, 2] * x[2], 0.0)) / albedo
            scale = sigma * (TOO_BRIGHT if r > 0.0 else TOO_DARK)
            z2 = (r / scale) ** 2
            cost += z2 / (1.0 + z2)
            weights[i] = 1.0 / ((1.0 + z2) * scale) ** 2
    for axis in range(3):
        L[q, axis] = x[axis] / albedo
    z2 = (np.log(albedo / o[q]) / spread) ** 2
    weights[q] = 1.0 / ((1.0 + z2 / AT_MOST) * spread) ** 2
    increased: float = cost + z2 / (1.0 + z2 / AT_MOST)
    return increased
