"""Least squares on four readings drawn at random: the cheapest method in the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.registry import STEREO
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray
from maxsparse.stereo.fitting.fit import Fit, agreement
from maxsparse.stereo.fitting.kernels import fit_rows

__all__ = ["rnd4"]


@STEREO.register("rnd4", summary="least squares on four readings drawn at random", label="Rnd4", order=30)
def rnd4(readings: FloatArray, lights: FloatArray, *, rng: np.random.Generator) -> Fit:
    """Fit the normal to four readings of every pixel, drawn at random.

    Parameters
    ----------
    readings : ndarray of shape (P, q)
    lights : ndarray of shape (q, 3)
    rng : numpy.random.Generator

    Returns
    -------
    fit : Fit
        The four readings are the inliers. The confidence is at most 1/5, as for any four readings.
    """
    weights = np.zeros(readings.shape)
    over_slices(_draw_four, len(readings), rng.random((len(readings), 4)), weights)
    scaled = np.zeros((len(readings), 3))
    over_slices(fit_rows, len(readings), np.ascontiguousarray(readings, dtype=np.float64), lights, weights, scaled)
    inliers = weights > 0
    return Fit.from_scaled(scaled, inliers, agreement(readings, lights, scaled, inliers))


@kernel()
def _draw_four(piece: int, pieces: int, u: NDArray[Any], weights: NDArray[Any]) -> None:
    """Set four weights of every row to 1, chosen uniformly by Floyd's method from four numbers in [0, 1)."""
    P, q = weights.shape
    for row in range(piece, P, pieces):
        for c in range(4):
            top = q - 4 + c
            pick = int(u[row, c] * (top + 1))
            weights[row, top if weights[row, pick] > 0.0 else pick] = 1.0
