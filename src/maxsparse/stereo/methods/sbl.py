"""Sparse Bayesian learning of the outliers, Ikehata's formulation, with 3×3 systems only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.registry import STEREO
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray
from maxsparse.stereo.fitting.fit import Fit
from maxsparse.stereo.fitting.kernels import cofactors, moments

__all__ = ["sbl"]


@STEREO.register("sbl", summary="sparse Bayesian learning of the outliers", label="SBL", order=22)
def sbl(
    readings: FloatArray, lights: FloatArray, *, noise: float = 1e-3, max_iter: int = 100, tol: float = 1e-4
) -> Fit:
    r"""Fit the normal while learning a variance for every outlier.

    .. math:: o = L \tilde n + e, \quad e \sim \mathcal{N}(0, \Gamma + \lambda I), \qquad
              \gamma_i \leftarrow \frac{|e_i|}{\sqrt{\phi_i^\top (\Phi \Gamma \Phi^\top + \lambda I)^{-1} \phi_i}}

    with a flat prior on :math:`\tilde n` and Φ the projection onto null(Lᵀ).

    Parameters
    ----------
    readings : ndarray of shape (P, q)
    lights : ndarray of shape (q, 3)
    noise : float, default=1e-3
        Standard deviation √λ, relative to the pixel's brightest reading.
    max_iter : int, default=100
    tol : float, default=1e-4
        Stop when the scaled normal moves by less than this share of its length.

    Returns
    -------
    fit : Fit
        Readings explained to within 2 % of the albedo are the inliers.

    Notes
    -----
    Since :math:`\Phi\Phi^\top = I` and :math:`\Phi L = 0`,

    .. math:: \Phi^\top (\Phi W^{-1} \Phi^\top)^{-1} \Phi = W - W L (L^\top W L)^{-1} L^\top W,
              \qquad W = (\Gamma + \lambda I)^{-1},

    so that an iteration needs a weighted 3×3 fit instead of a (q − 3)×(q − 3) inverse: the same result as sparse
    Bayesian learning on Φ, in O(q) instead of O(q³).

    References
    ----------
    .. [1] S. Ikehata, D. Wipf, Y. Matsushita, K. Aizawa, "Robust photometric stereo using sparse regression", CVPR
       2012.
    """
    o = np.ascontiguousarray(readings, dtype=np.float64)
    scaled = np.zeros((len(o), 3))
    over_slices(
        _sbl_rows, len(o), o, np.ascontiguousarray(lights, dtype=np.float64), noise * noise, max_iter, tol, scaled
    )
    return Fit.explaining(o, lights, scaled)


@kernel()
def _sbl_rows(
    piece: int, pieces: int, o: NDArray[Any], L: NDArray[Any], lam: float, max_iter: int, tol: float, out: NDArray[Any]
) -> None:
    P, q = o.shape
    y, gamma, weights = np.empty(q), np.empty(q), np.empty(q)
    for row in range(piece, P, pieces):
        size = 0.0
        for i in range(q):
            size = max(size, abs(o[row, i]))
        if size == 0.0:
            continue
        for i in range(q):
            y[i], gamma[i] = o[row, i] / size, 1.0
        _sbl_one(y, L, lam, max_iter, tol, gamma, weights, out[row])
        for c in range(3):
            out[row, c] *= size


@kernel(fast=True)
def _sbl_one(
    o: NDArray[Any],
    L: NDArray[Any],
    lam: float,
    max_iter: int,
    tol: float,
    gamma: NDArray[Any],
    weights: NDArray[Any],
    n: NDArray[Any],
) -> None:
    """Iterate for one pixel whose brightest reading is 1; n is zero on entry."""
    q = o.shape[0]
    for _ in range(max_iter):
        for i in range(q):
            weights[i] = 1.0 / (gamma[i] + lam)
        xx, xy, xz, yy, yz, zz, b0, b1, b2 = moments(o, L, weights)
        c00, c01, c02, c11, c12, c22, determinant = cofactors(xx, xy, xz, yy, yz, zz)
        if not determinant > 0.0:
            return
        s = 1.0 / determinant
        x0 = (c00 * b0 + c01 * b1 + c02 * b2) * s
        x1 = (c01 * b0 + c11 * b1 + c12 * b2) * s
        x2 = (c02 * b0 + c12 * b1 + c22 * b2) * s
        for i in range(q):
            w, l0, l1, l2 = weights[i], L[i, 0], L[i, 1], L[i, 2]
            r = o[i] - (l0 * x0 + l1 * x1 + l2 * x2)
            leverage = (
                c00 * l0 * l0 + c11 * l1 * l1 + c22 * l2 * l2 + 2.0 * (c01 * l0 * l1 + c02 * l0 * l2 + c12 * l1 * l2)
            ) * s
            precision = max(w - w * w * leverage, 1e-12 * w)
            gamma[i] = gamma[i] * w * abs(r) / np.sqrt(precision)
        moved = abs(x0 - n[0]) + abs(x1 - n[1]) + abs(x2 - n[2])
        n[0], n[1], n[2] = x0, x1, x2
        if moved <= tol * (abs(x0) + abs(x1) + abs(x2)):
            return
