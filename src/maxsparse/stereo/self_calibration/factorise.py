"""Readings as a product of rank 3, with shadows and highlights left out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import FloatArray

__all__ = ["Factors", "factorise", "shrink", "usable"]

PIXELS = 3000  # from which the lights' factor is found
LIT = 0.1  # of a pixel's upper quartile; darker readings are shadow
BRIGHT = 1.5  # of the upper quartile; brighter readings start as highlights
DARKEST = 0.02  # upper quartile, relative to the photographs' brightness, below which a pixel is not used
FILLS, ROUNDS, SHORT = 8, 30, 8
TOO_BRIGHT, TOO_DARK = 2.0, 4.0  # standard deviations at which a reading's weight is a quarter
LEAST = 0.005  # least standard deviation, of the upper quartile


class Factors(NamedTuple):
    """Readings O (P, q) ≈ max(B Sᵀ, 0); both factors are known up to B Aᵀ, S A⁻¹ for any invertible A (3, 3)."""

    surface: NDArray[np.float64]  # B (P, 3)
    lights: NDArray[np.float64]  # S (q, 3)


def factorise(readings: FloatArray, rng: np.random.Generator) -> Factors:
    r"""Find the factors of lit readings that are not highlights.

    .. math:: \min_{B, S} \sum_{p,i} w_{pi} (o_{pi} - b_p^\top s_i)^2

    by alternating least squares with the redescending weights of Geman and McClure, which fall twice as fast above the
    fit as below. It starts from a singular value decomposition in which shadows and highlights are filled in.

    Parameters
    ----------
    readings : ndarray of shape (P, q)
        Of usable pixels (:func:`usable`).
    rng : numpy.random.Generator
        Draws the pixels that determine S; B is then fitted for all.

    Returns
    -------
    factors : Factors

    References
    ----------
    .. [1] H. Hayakawa, "Photometric stereo under a light source with arbitrary motion", JOSA A 11, 1994.
    """
    brightness = np.quantile(readings, 0.9, axis=0)
    values = readings / brightness
    some = values[rng.permutation(len(values))[:PIXELS]]
    top = np.quantile(some, 0.75, axis=1)
    some = some / top[:, None]
    lit = some > LIT
    S = _first(some, lit & (some < BRIGHT))
    B = _fit(S, np.minimum(some, BRIGHT), lit.astype(np.float64))
    for _ in range(ROUNDS):
        weights = _weights(some, B @ S.T, lit)
        B = _fit(S, some, weights)
        S = _fit(B, some.T, weights.T)
    S = S * brightness[:, None]
    return Factors(fit_surface(readings, S), S)


def fit_surface(readings: FloatArray, lights: FloatArray) -> NDArray[np.float64]:
    """Return B (P, 3) for the readings (P, q) of all pixels, S (q, 3) being known."""
    length = np.linalg.norm(lights, axis=1)
    values, S = readings / length, lights / length[:, None]
    top = np.maximum(np.quantile(values, 0.75, axis=1, keepdims=True), 1e-12)
    values = values / top
    lit = values > LIT
    B = _fit(S, np.minimum(values, BRIGHT), lit.astype(np.float64))
    for _ in range(SHORT):
        B = _fit(S, values, _weights(values, B @ S.T, lit))
    return np.asarray(B * top)


def usable(readings: FloatArray) -> NDArray[np.bool_]:
    """Return which pixels (P,) are bright enough under a quarter of the lights to be factorised."""
    brightness = np.maximum(np.quantile(readings, 0.9, axis=0), 1e-12)
    bright: NDArray[np.bool_] = np.quantile(readings / brightness, 0.75, axis=1) > DARKEST
    return bright


def shrink(readings: FloatArray, mask: NDArray[np.bool_], most: int) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Average blocks of pixels until at most `most` are left; return their readings and the smaller mask.

    Parameters
    ----------
    readings : ndarray of shape (P, q)
    mask : ndarray of shape (H, W), bool
    most : int

    Returns
    -------
    readings : ndarray of shape (P', q)
    mask : ndarray of shape (H // f, W // f), bool
        Blocks of f×f pixels that lie completely in the mask.
    """
    f = int(np.ceil(np.sqrt(len(readings) / most)))
    if f == 1:
        return readings.astype(np.float64), mask
    h, w = mask.shape[0] // f, mask.shape[1] // f
    small = np.asarray(mask[: h * f, : w * f].reshape(h, f, w, f).all(axis=(1, 3)))
    means = np.empty((int(small.sum()), readings.shape[1]))
    picture = np.zeros(mask.shape)
    for i in range(readings.shape[1]):  # one by one: the whole stack may not fit into memory twice
        picture[mask] = readings[:, i]
        means[:, i] = picture[: h * f, : w * f].reshape(h, f, w, f).mean(axis=(1, 3))[small]
    return means, small


def _first(values: FloatArray, plain: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return S (q, 3) of a singular value decomposition that fills in what is not plain."""
    filled = np.minimum(values, BRIGHT)
    for _ in range(FILLS):
        _, vectors = np.linalg.eigh(filled.T @ filled)
        S = vectors[:, -3:]
        filled = np.where(plain, values, (filled @ S) @ S.T)
    return S


def _weights(values: FloatArray, predicted: FloatArray, lit: NDArray[np.bool_]) -> NDArray[np.float64]:
    residual = values - predicted
    sigma = max(1.4826 * float(np.median(np.abs(residual[lit]))), LEAST)
    scale = np.where(residual > 0, TOO_BRIGHT, TOO_DARK) * sigma
    weights: NDArray[np.float64] = lit / (1.0 + (residual / scale) ** 2) ** 2
    return weights


def _fit(known: FloatArray, values: FloatArray, weights: FloatArray) -> NDArray[np.float64]:
    """Weighted least squares for every row: values (P, q) ≈ x knownᵀ, known (q, 3); returns x (P, 3)."""
    squares = (known[:, :, None] * known[:, None, :]).reshape(len(known), 9)
    gram = (weights @ squares).reshape(-1, 3, 3) + 1e-9 * np.eye(3)
    return np.asarray(np.linalg.solve(gram, ((weights * values) @ known)[..., None])[..., 0])
