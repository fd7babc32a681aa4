"""Compiled pieces that several solvers share: products, thresholds, small factorisations.

Rows are handled one by one in a fixed order of operations, so that a signal's result has the same bits whatever the
batch it is in and however many threads run. That is why products with Φ are done here and not by BLAS, whose order
depends on the number of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

# Sums may be reordered (it is fixed at compile time, so results stay reproducible) and multiply-adds fused.
FAST = {"reassoc", "contract", "nsz", "arcp", "nnan"}
COLUMN_TILE = 64  # a tile of Φ this wide stays in the second-level cache while many rows pass
ROW_BLOCK = 32
# Work is dealt out as many strided slices: hard signals that stand together do not end up on one thread.
SLICES = 64


@njit(cache=True, nogil=True, fastmath=FAST)
def axpy_rows(weights: NDArray[Any], matrix: NDArray[Any], start: int, stop: int, out: NDArray[Any]) -> None:
    """Set out[start:stop] = weights @ matrix[:, start:stop], four rows of `matrix` at a time."""
    rows = matrix.shape[0]
    for j in range(start, stop):
        out[j] = 0.0
    whole = rows - rows % 4
    for i in range(0, whole, 4):
        a, b, c, d = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(start, stop):
            out[j] += (a * matrix[i, j] + b * matrix[i + 1, j]) + (c * matrix[i + 2, j] + d * matrix[i + 3, j])
    for i in range(whole, rows):
        a = weights[i]
        for j in range(start, stop):
            out[j] += a * matrix[i, j]


@njit(cache=True, nogil=True, parallel=True)
def times(Y: NDArray[Any], matrix: NDArray[Any]) -> NDArray[Any]:
    """Return Y @ matrix for C-contiguous Y (N, n) and matrix (n, m), each row by the same operations."""
    N, m = Y.shape[0], matrix.shape[1]
    out = np.empty((N, m), dtype=Y.dtype)
    blocks = (N + ROW_BLOCK - 1) // ROW_BLOCK
    for block in prange(blocks):
        first = block * ROW_BLOCK
        last = min(N, first + ROW_BLOCK)
        for start in range(0, m, COLUMN_TILE):
            stop = min(m, start + COLUMN_TILE)
            for row in range(first, last):
                axpy_rows(Y[row], matrix, start, stop, out[row])
    return out


@njit(cache=True, nogil=True, fastmath=FAST)
def dot(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return aᵀb."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit(cache=True, nogil=True, fastmath=FAST)
def residual_into(
    y: NDArray[Any], atoms: NDArray[Any], indices: NDArray[Any], x: NDArray[Any], count: int, r: NDArray[Any]
) -> float:
    """Set r = y − Σ x_l φ_l over the first `count` indices (atoms are rows of `atoms`); return ‖r‖²."""
    n = y.shape[0]
    for i in range(n):
        r[i] = y[i]
    for l in range(count):
        value, atom = x[l], atoms[indices[l]]
        for i in range(n):
            r[i] -= value * atom[i]
    return dot(r, r)


@njit(cache=True, nogil=True, fastmath=FAST)
def residual_of(y: NDArray[Any], atoms: NDArray[Any], x: NDArray[Any], r: NDArray[Any]) -> float:
    """Set r = y − Φx (`atoms` is Φᵀ, C-contiguous) and return ‖r‖₂; the cost follows the nonzeros of x."""
    for i in range(y.shape[0]):
        r[i] = y[i]
    for j in range(x.shape[0]):
        if x[j] != 0.0:
            for i in range(y.shape[0]):
                r[i] -= x[j] * atoms[j, i]
    return np.sqrt(dot(r, r))


@njit(cache=True, nogil=True, fastmath=FAST)
def image_norm2(atoms: NDArray[Any], x: NDArray[Any], image: NDArray[Any]) -> float:
    """Set image = Φx and return its squared norm; the cost follows the nonzeros of x."""
    for i in range(image.shape[0]):
        image[i] = 0.0
    for j in range(x.shape[0]):
        if x[j] != 0.0:
            for i in range(image.shape[0]):
                image[i] += x[j] * atoms[j, i]
    return dot(image, image)


@njit(cache=True, nogil=True, parallel=True)
def residual_norms(Y: NDArray[Any], atoms: NDArray[Any], X: NDArray[Any]) -> NDArray[Any]:
    """Return ‖y − Φx‖₂ for every row; `atoms` is Φᵀ, C-contiguous."""
    N, n = Y.shape
    out = np.empty(N, dtype=Y.dtype)
    for piece in prange(min(N, SLICES)):
        r = np.empty(n, dtype=Y.dtype)
        for row in range(piece, N, SLICES):
            out[row] = residual_of(Y[row], atoms, X[row], r)
    return out


@njit(cache=True, nogil=True)
def kth_largest(values: NDArray[Any], k: int, work: NDArray[Any]) -> float:
    """Return the k-th largest of `values` by quickselect; `work` is scratch of the same length."""
    count = values.shape[0]
    for i in range(count):
        work[i] = values[i]
    low, high, target = 0, count - 1, k - 1
    while low < high:
        pivot = work[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while work[i] > pivot:
                i += 1
            while work[j] < pivot:
                j -= 1
            if i <= j:
                work[i], work[j] = work[j], work[i]
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            break
    return work[target]


@njit(cache=True, nogil=True)
def top_k(magnitude: NDArray[Any], k: int, work: NDArray[Any], chosen: NDArray[Any]) -> int:
    """Write the indices of the k largest entries to `chosen` in ascending order; of equal ones the lower index wins."""
    m = magnitude.shape[0]
    k = min(k, m)
    if k == 0:
        return 0
    threshold = kth_largest(magnitude, k, work)
    above = 0
    for j in range(m):
        if magnitude[j] > threshold:
            above += 1
    equal, count = k - above, 0
    for j in range(m):
        if magnitude[j] > threshold:
            chosen[count] = j
            count += 1
        elif magnitude[j] == threshold and equal > 0:
            chosen[count] = j
            count += 1
            equal -= 1
    return count


@njit(cache=True, nogil=True, fastmath=FAST)
def cholesky(S: NDArray[Any], size: int) -> bool:
    """Factor S = LLᵀ in place, on the lower triangle; return False where S is not positive definite."""
    for i in range(size):
        for j in range(i):
            total = S[i, j]
            for l in range(j):
                total -= S[i, l] * S[j, l]
            S[i, j] = total / S[j, j]
        total = S[i, i]
        for l in range(i):
            total -= S[i, l] * S[i, l]
        if not total > 0.0:
            return False
        S[i, i] = np.sqrt(total)
    return True


@njit(cache=True, nogil=True, fastmath=FAST)
def cholesky_solve(L: NDArray[Any], size: int, b: NDArray[Any]) -> None:
    """Solve LLᵀx = b in place."""
    for i in range(size):
        total = b[i]
        for l in range(i):
            total -= L[i, l] * b[l]
        b[i] = total / L[i, i]
    for i in range(size - 1, -1, -1):
        total = b[i]
        for l in range(i + 1, size):
            total -= L[l, i] * b[l]
        b[i] = total / L[i, i]


@njit(cache=True, nogil=True, fastmath=FAST)
def least_squares(
    y: NDArray[Any],
    atoms: NDArray[Any],
    indices: NDArray[Any],
    count: int,
    L: NDArray[Any],
    x: NDArray[Any],
    r: NDArray[Any],
) -> bool:
    """Fit y on the first `count` indices by normal equations with two steps of iterative refinement.

    Refinement in the residual makes the error that of the conditioning of Φ_S, not of its square, as long as the
    Cholesky factor exists at all. Scratch: L (count, count), r (n,). Returns False where it does not exist.
    """
    for i in range(count):
        for j in range(i + 1):
            L[i, j] = dot(atoms[indices[i]], atoms[indices[j]])
    if not cholesky(L, count):
        return False
    step = np.empty(count, dtype=y.dtype)
    for i in range(count):
        x[i] = 0.0
    for _ in range(3):
        residual_into(y, atoms, indices, x, count, r)
        for i in range(count):
            step[i] = dot(atoms[indices[i]], r)
        cholesky_solve(L, count, step)
        for i in range(count):
            x[i] += step[i]
    return True
