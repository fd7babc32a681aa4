"""A refit with redescending weights that penalises readings above the fit more than readings below it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray
from maxsparse.stereo.fitting.fit import Fit
from maxsparse.stereo.fitting.kernels import cofactors, fit, moments

__all__ = ["Refit", "redescending"]

ROUNDS = 4
TOO_BRIGHT, TOO_DARK = 1.0, 3.0  # standard deviations at which a reading's weight is a quarter
FLOOR, CEILING = 0.006, 0.05  # of the albedo: bounds of the standard deviation
ENOUGH = 4.5  # total weight below which three unknowns are not refitted


class Refit(NamedTuple):
    """Result of the refit for P pixels.

    Attributes
    ----------
    scaled : ndarray of shape (P, 3)
        Normals scaled by the albedo.
    support : ndarray of shape (P,)
        Sum of the weights.
    scatter : ndarray of shape (P,)
        Weighted root mean square residual, as a share of the albedo.
    error : ndarray of shape (P,)
        Expected error in degrees; 90 where the support is too small.
    """

    scaled: FloatArray
    support: FloatArray
    scatter: FloatArray
    error: FloatArray


def redescending(readings: FloatArray, lights: FloatArray, lit: NDArray[np.bool_], guess: Fit) -> Refit:
    r"""Refit normals to lit readings, starting from a consensus fit.

    .. math:: w_i = \frac{1}{(1 + (r_i / k\sigma)^2)^2}, \qquad k = 1 \text{ for } r_i > 0,
              \quad k = 3 \text{ for } r_i < 0

    with r the residuals and σ twice the scatter of the consensus inliers, both as shares of the albedo.

    Parameters
    ----------
    readings : ndarray of shape (P, q)
    lights : ndarray of shape (q, 3)
    lit : ndarray of shape (P, q), bool
        Readings that are not in shadow.
    guess : Fit
        Of :func:`maxsparse.stereo.fitting.consensus.consensus`.

    Returns
    -------
    refit : Refit

    Notes
    -----
    The tail of a highlight raises many readings slightly; noise acts in both directions. So a reading above the fit is
    downweighted at a third of the distance of one below it. The consensus fit has a hard threshold and keeps the whole
    tail below it; smoothly decreasing weights [1]_ do not.

    References
    ----------
    .. [1] S. Geman, D. McClure, "Statistical methods for tomographic image reconstruction", Bulletin of the ISI 52,
       1987.
    """
    P = len(readings)
    scaled = np.ascontiguousarray(guess.normals * guess.albedo[:, None], dtype=np.float64)
    refit = Refit(scaled, np.zeros(P), np.zeros(P), np.full(P, 90.0))
    over_slices(
        _redescend_rows,
        P,
        np.ascontiguousarray(readings, dtype=np.float64),
        np.ascontiguousarray(lights, dtype=np.float64),
        np.ascontiguousarray(lit),
        np.ascontiguousarray(guess.inliers),
        refit,
    )
    return refit


@kernel()
def _redescend_rows(
    piece: int,
    pieces: int,
    o: NDArray[Any],
    L: NDArray[Any],
    lit: NDArray[Any],
    inliers: NDArray[Any],
    refit: Refit,
) -> None:
    P, q = o.shape
    scaled, support, scatter, error = refit
    weights = np.empty(q)
    for row in range(piece, P, pieces):
        x = scaled[row]
        total, count = 0.0, 0
        for i in range(q):
            if inliers[row, i]:
                r = o[row, i] - max(L[i, 0] * x[0] + L[i, 1] * x[1] + L[i, 2] * x[2], 0.0)
                total += r * r
                count += 1
        albedo = max(np.sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]), 1e-12)
        sigma = min(max(2.0 * np.sqrt(total / max(count - 3, 1)) / albedo, FLOOR), CEILING)
        for _ in range(ROUNDS):
            k, _ = _weigh(o[row], L, lit[row], x, sigma, weights)
            if k < ENOUGH or not fit(o[row], L, weights, x):
                break
        k, squares = _weigh(o[row], L, lit[row], x, sigma, weights)
        support[row] = k
        scatter[row] = np.sqrt(squares / max(k - 3.0, 0.5))
        if k >= ENOUGH:
            xx, xy, xz, yy, yz, zz, _, _, _ = moments(o[row], L, weights)
            c00, _, _, c11, _, c22, determinant = cofactors(xx + 1e-6, xy, xz, yy + 1e-6, yz, zz + 1e-6)
            spread = np.sqrt((c00 + c11 + c22) / max(determinant, 1e-18))
            error[row] = np.degrees(min(scatter[row] * spread, 1.0))


@kernel(fast=True)
def _weigh(
    o: NDArray[Any], L: NDArray[Any], lit: NDArray[Any], x: NDArray[Any], sigma: float, weights: NDArray[Any]
) -> tuple[float, float]:
    """Write the weights; return their sum and the weighted sum of squared residuals, as shares of the albedo."""
    unit = 1.0 / max(np.sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]), 1e-12)
    total, squares = 0.0, 0.0
    for i in range(o.shape[0]):
        weights[i] = 0.0
        if lit[i]:
            r = (o[i] - max(L[i, 0] * x[0] + L[i, 1] * x[1] + L[i, 2] * x[2], 0.0)) * unit
            z = r / (sigma * (TOO_BRIGHT if r > 0.0 else TOO_DARK))
            weights[i] = 1.0 / ((1.0 + z * z) * (1.0 + z * z))
            total += weights[i]
            squares += weights[i] * r * r
    return total, squares
