"""Compiled pieces that the methods share: 3×3 fits of one pixel's readings, and an order statistic.

A pixel is handled by one thread in a fixed order of operations, so that its answer does not depend on its batch.
Readings are in units of the pixel's own brightness wherever a threshold is an absolute number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

SLICES = 64  # pixels are dealt out as strided slices: hard ones that stand together do not end up on one thread
FAST = {"reassoc", "contract", "nsz", "arcp", "nnan"}


@njit(cache=True, nogil=True, fastmath=FAST)
def solve3(A: NDArray[Any], b: NDArray[Any], x: NDArray[Any]) -> bool:
    """Solve the symmetric Ax = b by cofactors; A holds xx, xy, xz, yy, yz, zz. False where A is singular."""
    xx, xy, xz, yy, yz, zz = A[0], A[1], A[2], A[3], A[4], A[5]
    c0, c1, c2 = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    determinant = xx * c0 + xy * c1 + xz * c2
    size = (xx + yy + zz) / 3.0
    if not determinant > 1e-9 * size * size * size:
        return False
    scale = 1.0 / determinant
    x[0] = (c0 * b[0] + c1 * b[1] + c2 * b[2]) * scale
    x[1] = (c1 * b[0] + (xx * zz - xz * xz) * b[1] + (xy * xz - xx * yz) * b[2]) * scale
    x[2] = (c2 * b[0] + (xy * xz - xx * yz) * b[1] + (xx * yy - xy * xy) * b[2]) * scale
    return True


@njit(cache=True, nogil=True, fastmath=FAST)
def fit(o: NDArray[Any], L: NDArray[Any], weights: NDArray[Any], x: NDArray[Any]) -> bool:
    """Weighted least squares x = argmin Σ w_i (o_i − l_iᵀx)²; x is left alone where the lights in use are coplanar."""
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
    return solve3(np.array((xx, xy, xz, yy, yz, zz)), np.array((b0, b1, b2)), x)


@njit(cache=True, nogil=True)
def kth_smallest(values: NDArray[Any], count: int, k: int, work: NDArray[Any]) -> float:
    """Return the k-th smallest (k from 0) of the first `count` values by quickselect; `work` is scratch."""
    for i in range(count):
        work[i] = values[i]
    low, high = 0, count - 1
    while low < high:
        pivot = work[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while work[i] < pivot:
                i += 1
            while work[j] > pivot:
                j -= 1
            if i <= j:
                work[i], work[j] = work[j], work[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return float(work[k])


@njit(cache=True, nogil=True, parallel=True)
def fit_rows(readings: NDArray[Any], L: NDArray[Any], weights: NDArray[Any], out: NDArray[Any]) -> None:
    """Weighted least squares for every pixel; `out` (P, 3) stays zero where the lights in use are coplanar."""
    P = readings.shape[0]
    for piece in prange(min(P, SLICES)):
        x = np.empty(3)
        for row in range(piece, P, SLICES):
            if fit(readings[row], L, weights[row], x):
                out[row, 0], out[row, 1], out[row, 2] = x[0], x[1], x[2]
