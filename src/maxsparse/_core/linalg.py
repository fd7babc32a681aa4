"""Compiled functions shared by solvers: products, thresholds, small factorisations.

Rows are handled one by one in a fixed order of operations, so that a signal's result is bitwise identical in every
batch and for every number of threads. Therefore products with Φ are computed here and not by BLAS, whose order depends
on the number of rows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.threads import over_slices

DEPENDENT = 1e-13  # share of an atom's squared norm below which its remainder is rounding error
COLUMN_TILE = 32  # columns of Φ handled together
LEAST_ROWS, MOST_ROWS = 32, 256
ALONE = 2**20  # multiplications that take less time than to wake up a thread
NEAR = 2**15  # bytes of a matrix that stays in the first-level cache


@kernel()
def copy_into(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Set target = source for vectors; as an assignment of slices it takes numba seconds to compile."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@kernel()
def largest_magnitude(x: NDArray[Any]) -> float:
    """Return max |x|, 0 for an empty x."""
    largest = 0.0
    for i in range(x.shape[0]):
        largest = max(largest, abs(x[i]))
    return largest


@cache
def magnitude_bits(dtype: Any) -> NDArray[Any]:
    """Return an integer (1,) of the size of these real numbers: all of its bits but the sign's."""
    whole = np.dtype(f"i{np.dtype(dtype).itemsize}")
    return np.array([np.iinfo(whole).max], dtype=whole)


@kernel()
def first_largest(x: NDArray[Any], magnitude: NDArray[Any]) -> int:
    """Index of the largest magnitude, the lowest among equals; `magnitude` is :func:`magnitude_bits` of its numbers.

    Without the sign, numbers are in the order of their bits, and the largest of integers takes a fraction of the time:
    that loop vectorises.
    """
    bits, mask = x.view(magnitude.dtype), magnitude[0]
    best = bits[0] & mask
    for j in range(bits.shape[0]):
        best = max(best, bits[j] & mask)
    place = 0
    while bits[place] & mask != best:
        place += 1
    return place


@kernel(fast=True, apart=True, alone=True)
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


def times(Y: NDArray[Any], matrix: NDArray[Any]) -> NDArray[Any]:
    """Return Y @ matrix for C-contiguous Y (N, n) and matrix (n, m), each row by the same operations."""
    if np.iscomplexobj(Y):
        return times(Y.view(Y.real.dtype), _interleaved(matrix)).view(Y.dtype)
    N = Y.shape[0]
    out = np.empty((N, matrix.shape[1]), dtype=Y.dtype)
    size = min(MOST_ROWS, max(LEAST_ROWS, N // 16))  # large blocks copy the matrix less often, small ones share work
    product = _times_near_rows if matrix.nbytes <= NEAR else _times_rows
    if N * matrix.size <= ALONE:
        product(0, 1, Y, matrix, size, out)
    else:
        over_slices(product, -(-N // size), Y, matrix, size, out)
    return out


def _interleaved(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the real (2n, 2m) form of a complex matrix, for rows of real and imaginary parts in turns."""
    n, m = matrix.shape
    real = np.empty((n, 2, m, 2), dtype=matrix.real.dtype)
    real[:, 0, :, 0] = real[:, 1, :, 1] = matrix.real
    real[:, 0, :, 1], real[:, 1, :, 0] = matrix.imag, -matrix.imag
    return real.reshape(2 * n, 2 * m)


@kernel()
def _times_near_rows(
    piece: int, pieces: int, Y: NDArray[Any], matrix: NDArray[Any], size: int, out: NDArray[Any]
) -> None:
    """Do what `_times_rows` does for a matrix that is at hand: one row after the other, without copies."""
    N = Y.shape[0]
    for first in range(piece * size, N, pieces * size):
        for row in range(first, min(N, first + size)):
            axpy_rows(Y[row], matrix, 0, matrix.shape[1], out[row])


@kernel()
def _times_rows(piece: int, pieces: int, Y: NDArray[Any], matrix: NDArray[Any], size: int, out: NDArray[Any]) -> None:
    """Set out = Y @ matrix for the blocks of `size` rows in this slice of the blocks."""
    N, n = Y.shape
    m = matrix.shape[1]
    # Contiguous copies: rows at distances of a power of two would compete for the same cache lines.
    tile = np.zeros((n, COLUMN_TILE), dtype=Y.dtype)
    rows = np.zeros((4, n), dtype=Y.dtype)
    sums = np.empty((4, COLUMN_TILE), dtype=Y.dtype)
    for first in range(piece * size, N, pieces * size):
        last = min(N, first + size)
        for start in range(0, m, COLUMN_TILE):
            width = min(m - start, COLUMN_TILE)
            for i in range(n):
                for j in range(width):
                    tile[i, j] = matrix[i, start + j]
            for row in range(first, last, 4):
                count = min(4, last - row)
                for l in range(count):
                    copy_into(Y[row + l], rows[l])
                four_rows(rows, tile, sums)
                for l in range(count):
                    for j in range(width):
                        out[row + l, start + j] = sums[l, j]


@kernel(fast=True)
def four_rows(Y: NDArray[Any], tile: NDArray[Any], out: NDArray[Any]) -> None:
    """Set out = Y @ tile for four rows, so that one load of `tile` serves four."""
    n = tile.shape[0]
    y0, y1, y2, y3 = Y[0], Y[1], Y[2], Y[3]
    o0, o1, o2, o3 = out[0], out[1], out[2], out[3]
    for j in range(COLUMN_TILE):
        o0[j] = o1[j] = o2[j] = o3[j] = 0.0
    whole = n - n % 4
    for i in range(0, whole, 4):
        p, q, r, s = tile[i], tile[i + 1], tile[i + 2], tile[i + 3]
        a0, b0, c0, d0 = y0[i], y0[i + 1], y0[i + 2], y0[i + 3]
        a1, b1, c1, d1 = y1[i], y1[i + 1], y1[i + 2], y1[i + 3]
        a2, b2, c2, d2 = y2[i], y2[i + 1], y2[i + 2], y2[i + 3]
        a3, b3, c3, d3 = y3[i], y3[i + 1], y3[i + 2], y3[i + 3]
        for j in range(COLUMN_TILE):
            e, f, g, h = p[j], q[j], r[j], s[j]
            o0[j] = o0[j] + a0 * e + b0 * f + c0 * g + d0 * h
            o1[j] = o1[j] + a1 * e + b1 * f + c1 * g + d1 * h
            o2[j] = o2[j] + a2 * e + b2 * f + c2 * g + d2 * h
            o3[j] = o3[j] + a3 * e + b3 * f + c3 * g + d3 * h
    for i in range(whole, n):
        p = tile[i]
        a0, a1, a2, a3 = y0[i], y1[i], y2[i], y3[i]
        for j in range(COLUMN_TILE):
            o0[j] += a0 * p[j]
            o1[j] += a1 * p[j]
            o2[j] += a2 * p[j]
            o3[j] += a3 * p[j]


@kernel(fast=True)
def dot(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return aᵀb."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@kernel(fast=True)
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


@kernel(fast=True, apart=True, alone=True)
def residual_of(y: NDArray[Any], atoms: NDArray[Any], x: NDArray[Any], r: NDArray[Any]) -> float:
    """Set r = y − Φx (`atoms` is Φᵀ, C-contiguous) and return ‖r‖₂; the cost follows the nonzeros of x."""
    for i in range(y.shape[0]):
        r[i] = y[i]
    for j in range(x.shape[0]):
        if x[j] != 0.0:
            for i in range(y.shape[0]):
                r[i] -= x[j] * atoms[j, i]
    norm: float = np.sqrt(dot(r, r))
    return norm


@kernel(fast=True)
def image_norm2(atoms: NDArray[Any], x: NDArray[Any], image: NDArray[Any]) -> float:
    """Set image = Φx and return its squared norm; the cost follows the nonzeros of x."""
    for i in range(image.shape[0]):
        image[i] = 0.0
    for j in range(x.shape[0]):
        if x[j] != 0.0:
            for i in range(image.shape[0]):
                image[i] += x[j] * atoms[j, i]
    return dot(image, image)


def residual_norms(Y: NDArray[Any], atoms: NDArray[Any], X: NDArray[Any]) -> NDArray[Any]:
    """Return ‖y − Φx‖₂ for every row; `atoms` is Φᵀ, C-contiguous."""
    out = np.empty(len(Y), dtype=Y.dtype)
    if len(Y) * atoms.size <= ALONE:
        _residual_rows(0, 1, Y, atoms, X, out)
    else:
        over_slices(_residual_rows, len(Y), Y, atoms, X, out)
    return out


def wide_residual_norms(Y: NDArray[Any], Phi: NDArray[Any], X: NDArray[Any]) -> NDArray[Any]:
    """Return ‖y − Φx‖₂ for every row, from Φ itself (n, m): slower, but without a copy of it."""
    out = np.empty(len(Y), dtype=Y.dtype)
    over_slices(_wide_residual_rows, len(Y), Y, Phi, X, out)
    return out


@kernel()
def _wide_residual_rows(
    piece: int, pieces: int, Y: NDArray[Any], Phi: NDArray[Any], X: NDArray[Any], out: NDArray[Any]
) -> None:
    n, m = Phi.shape
    used, values, r = np.empty(m, dtype=np.int64), np.empty(m, dtype=Y.dtype), np.empty(n, dtype=Y.dtype)
    for row in range(piece, len(Y), pieces):
        count = 0
        for j in range(m):
            if X[row, j] != 0.0:
                used[count], values[count] = j, X[row, j]
                count += 1
        for i in range(n):
            total, line = Y[row, i], Phi[i]
            for l in range(count):
                total -= values[l] * line[used[l]]
            r[i] = total
        out[row] = np.sqrt(dot(r, r))


@kernel()
def _residual_rows(
    piece: int, pieces: int, Y: NDArray[Any], atoms: NDArray[Any], X: NDArray[Any], out: NDArray[Any]
) -> None:
    N, n = Y.shape
    r = np.empty(n, dtype=Y.dtype)
    for row in range(piece, N, pieces):
        out[row] = residual_of(Y[row], atoms, X[row], r)


@kernel()
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
    value: float = work[target]
    return value


@kernel()
def top_k(magnitude: NDArray[Any], k: int, work: NDArray[Any], chosen: NDArray[Any]) -> int:
    """Write the indices of the k largest entries to `chosen` in ascending order; among equal ones, the lower index."""
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


@kernel(fast=True)
def cholesky(S: NDArray[Any], size: int) -> bool:
    """Factor S = LLᵀ in place, on the lower triangle; return False if S is not positive definite."""
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


@kernel(fast=True)
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


@kernel(fast=True)
def least_squares(
    y: NDArray[Any],
    atoms: NDArray[Any],
    indices: NDArray[Any],
    count: int,
    L: NDArray[Any],
    x: NDArray[Any],
    r: NDArray[Any],
) -> None:
    """Fit y on the first `count` indices by normal equations with two steps of iterative refinement.

    With refinement the error depends on the condition number of Φ_S, not on its square. An atom that depends on
    earlier ones up to rounding gets the coefficient 0. Scratch: L (count, count), r (n,).
    """
    for i in range(count):
        for j in range(i + 1):
            L[i, j] = dot(atoms[indices[i]], atoms[indices[j]])
        size = L[i, i]
        for j in range(i + 1):
            total = L[i, j]
            for l in range(j):
                total -= L[i, l] * L[j, l]
            if j < i:
                L[i, j] = total / L[j, j]
            else:  # an infinite pivot makes every quotient by it zero, which excludes the atom
                L[i, i] = np.sqrt(total) if total > DEPENDENT * size else np.inf
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
