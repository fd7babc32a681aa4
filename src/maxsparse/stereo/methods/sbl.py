"""Sparse Bayesian learning of the outliers, Ikehata's formulation, at the cost of 3×3 systems."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from maxsparse._validation import FloatArray
from maxsparse.stereo.methods._fit import Fit, agreement
from maxsparse.stereo.methods._kernels import FAST, SLICES

__all__ = ["sbl"]

INLIER = 0.02  # of the albedo: residuals this small count as explained


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

    so that an iteration needs a weighted 3×3 fit and not a (q − 3)×(q − 3) inverse: the same numbers as sparse Bayesian
    learning on Φ, at O(q) instead of O(q³).

    References
    ----------
    .. [1] S. Ikehata, D. Wipf, Y. Matsushita, K. Aizawa, "Robust photometric stereo using sparse regression", CVPR
       2012.
    """
    o = np.ascontiguousarray(readings, dtype=np.float64)
    scaled = np.zeros((len(o), 3))
    _sbl_rows(o, np.ascontiguousarray(lights, dtype=np.float64), noise * noise, max_iter, tol, scaled)
    residual = np.abs(o - np.einsum("pi,qi->pq", scaled, lights))
    inliers = residual <= INLIER * np.linalg.norm(scaled, axis=1, keepdims=True)
    return Fit.from_scaled(scaled, inliers, agreement(o, lights, scaled, inliers))


@njit(cache=True, nogil=True, parallel=True)
def _sbl_rows(o: NDArray[Any], L: NDArray[Any], lam: float, max_iter: int, tol: float, out: NDArray[Any]) -> None:
    P, q = o.shape
    for piece in prange(min(P, SLICES)):
        y, gamma = np.empty(q), np.empty(q)
        for row in range(piece, P, SLICES):
            size = 0.0
            for i in range(q):
                size = max(size, abs(o[row, i]))
            if size == 0.0:
                continue
            for i in range(q):
                y[i], gamma[i] = o[row, i] / size, 1.0
            _sbl_one(y, L, lam, max_iter, tol, gamma, out[row])
            for c in range(3):
                out[row, c] *= size


@njit(cache=True, nogil=True, fastmath=FAST)
def _sbl_one(
    o: NDArray[Any], L: NDArray[Any], lam: float, max_iter: int, tol: float, gamma: NDArray[Any], n: NDArray[Any]
) -> None:
    """Iterate for one pixel whose brightest reading is 1; n is zero on entry."""
    q = o.shape[0]
    for _ in range(max_iter):
        xx = xy = xz = yy = yz = zz = b0 = b1 = b2 = 0.0
        for i in range(q):
            w, l0, l1, l2 = 1.0 / (gamma[i] + lam), L[i, 0], L[i, 1], L[i, 2]
            xx += w * l0 * l0
            xy += w * l0 * l1
            xz += w * l0 * l2
            yy += w * l1 * l1
            yz += w * l1 * l2
            zz += w * l2 * l2
            b0 += w * o[i] * l0
            b1 += w * o[i] * l1
            b2 += w * o[i] * l2
        # Inverse of LᵀWL by cofactors.
        c00, c01, c02 = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
        c11, c12, c22 = xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
        determinant = xx * c00 + xy * c01 + xz * c02
        if not determinant > 0.0:
            return
        s = 1.0 / determinant
        x0 = (c00 * b0 + c01 * b1 + c02 * b2) * s
        x1 = (c01 * b0 + c11 * b1 + c12 * b2) * s
        x2 = (c02 * b0 + c12 * b1 + c22 * b2) * s
        for i in range(q):
            w, l0, l1, l2 = 1.0 / (gamma[i] + lam), L[i, 0], L[i, 1], L[i, 2]
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
