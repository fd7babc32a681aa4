"""Compiled functions shared by the methods: 3×3 fits of one pixel's readings, and an order statistic.

One thread handles a pixel in a fixed order of operations, so that its result does not depend on its batch.
Where thresholds are absolute numbers, readings are in units of the pixel's brightness.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel


@kernel(fast=True)
def moments(o: NDArray[Any], L: NDArray[Any], weights: NDArray[Any]) -> tuple[float, ...]:
    """Return the six entries xx, xy, xz, yy, yz, zz of LᵀWL and the three of LᵀWo."""
    xx = xy = xz = yy = yz = zz = b0 = b1 = b2 = 0.0
    for i in range(o.shape[0]):
        w, l0, l1, l2 = weights[i], L[i, 0], L[i, 1], L[i, 2]
        xx += w * l0 * l0
        xy += w * l0 * l1
        xz += w * l0 * l2
        yy += w * l1 * l1
        yz += w * l1 * l2
        zz += w * l2 * l2
        b0 += w * o[i] * l0
        b1 += w * o[i] * l1
        b2 += w * o[i] * l2
    return xx, xy, xz, yy, yz, zz, b0, b1, b2


@kernel(fast=True)
def cofactors(xx: float, xy: float, xz: float, yy: float, yz: float, zz: float) -> tuple[float, ...]:
    """Return the cofactors 00, 01, 02, 11, 12, 22 of a symmetric 3×3 matrix, and its determinant.

    In scalars: allocating an array would cost more than the sums.
    """
    c00, c01, c02 = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    c11, c12, c22 = xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
    return c00, c01, c02, c11, c12, c22, xx * c00 + xy * c01 + xz * c02


@kernel(fast=True)
def fit(o: NDArray[Any], L: NDArray[Any], weights: NDArray[Any], x: NDArray[Any]) -> bool:
    """Weighted least squares x = argmin Σ w_i (o_i − l_iᵀx)²; x is unchanged if the lights in use are coplanar."""
    xx, xy, xz, yy, yz, zz, b0, b1, b2 = moments(o, L, weights)
    c00, c01, c02, c11, c12, c22, determinant = cofactors(xx, xy, xz, yy, yz, zz)
    size = (xx + yy + zz) / 3.0
    if not determinant > 1e-9 * size * size * size:
        return False
    scale = 1.0 / determinant
    x[0] = (c00 * b0 + c01 * b1 + c02 * b2) * scale
    x[1] = (c01 * b0 + c11 * b1 + c12 * b2) * scale
    x[2] = (c02 * b0 + c12 * b1 + c22 * b2) * scale
    return True


@kernel(fast=True)
def fit_three(o: NDArray[Any], L: NDArray[Any], i: int, j: int, k: int, x: NDArray[Any]) -> bool:
    """Solve for the x that explains readings i, j and k exactly; False if their lights are nearly coplanar."""
    ax, ay, az = L[i, 0], L[i, 1], L[i, 2]
    bx, by, bz = L[j, 0], L[j, 1], L[j, 2]
    cx, cy, cz = L[k, 0], L[k, 1], L[k, 2]
    ux, uy, uz = by * cz - bz * cy, bz * cx - bx * cz, bx * cy - by * cx
    determinant = ax * ux + ay * uy + az * uz
    if abs(determinant) < 0.01:
        return False
    vx, vy, vz = cy * az - cz * ay, cz * ax - cx * az, cx * ay - cy * ax
    wx, wy, wz = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
    p, q, r = o[i] / determinant, o[j] / determinant, o[k] / determinant
    x[0] = p * ux + q * vx + r * wx
    x[1] = p * uy + q * vy + r * wy
    x[2] = p * uz + q * vz + r * wz
    return True


@kernel()
def fit_rows(
    piece: int, pieces: int, readings: NDArray[Any], L: NDArray[Any], weights: NDArray[Any], out: NDArray[Any]
) -> None:
    """Weighted least squares for every pixel; `out` (P, 3) stays zero where the lights in use are coplanar."""
    P = readings.shape[0]
    x = np.empty(3)
    for row in range(piece, P, pieces):
        if fit(readings[row], L, weights[row], x):
            out[row, 0], out[row, 1], out[row, 2] = x[0], x[1], x[2]
