"""Compiled functions for signals with a structure: several snapshots, complex numbers, blocks of atoms.

A signal is (L, n), its coefficients (L, m). Everything serves real and complex numbers alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import DEPENDENT, top_k
from maxsparse._core.nonnegative import fit_nonnegative
from maxsparse._core.structure import Structure
from maxsparse._core.threads import over_slices

__all__ = ["fit", "fit_blocks", "inner", "keep_largest", "residual_norms", "residual_of", "size2"]


@kernel(fast=True)
def inner(a: NDArray[Any], b: NDArray[Any]) -> Any:
    """Return aᴴb."""
    total = a[0] * 0
    for i in range(a.shape[0]):
        total += np.conj(a[i]) * b[i]
    return total


@kernel(fast=True)
def size2(Y: NDArray[Any]) -> float:
    """Return the sum of squared magnitudes of a matrix."""
    total = 0.0
    for l in range(Y.shape[0]):
        for i in range(Y.shape[1]):
            total += Y[l, i].real * Y[l, i].real + Y[l, i].imag * Y[l, i].imag
    return total


@kernel(fast=True)
def residual_of(
    Y: NDArray[Any], atoms: NDArray[Any], columns: NDArray[Any], count: int, X: NDArray[Any], R: NDArray[Any]
) -> float:
    """Set R = Y − Σ_c X[:, c] φ_c over the first `count` columns, X (L, count); return its squared norm."""
    L, n = Y.shape
    for l in range(L):
        for i in range(n):
            R[l, i] = Y[l, i]
        for c in range(count):
            value, atom = X[l, c], atoms[columns[c]]
            if value != 0:
                for i in range(n):
                    R[l, i] -= value * atom[i]
    return size2(R)


@kernel(fast=True)
def fit(
    Y: NDArray[Any],
    atoms: NDArray[Any],
    columns: NDArray[Any],
    count: int,
    C: NDArray[Any],
    X: NDArray[Any],
    R: NDArray[Any],
) -> float:
    """Fit all snapshots on the first `count` columns by least squares into X (L, count); return ‖R‖².

    Normal equations with two steps of iterative refinement: the error depends on the condition number of Φ_S, not on
    its square. An atom that depends on earlier ones up to rounding gets the coefficient 0. Scratch: C (count, count).
    """
    for i in range(count):
        for j in range(i + 1):
            C[i, j] = inner(atoms[columns[i]], atoms[columns[j]])
        length = C[i, i].real
        for j in range(i + 1):
            total = C[i, j]
            for l in range(j):
                total -= C[i, l] * np.conj(C[j, l])
            if j < i:
                C[i, j] = total / C[j, j].real
            else:  # an infinite pivot makes every quotient by it zero, which excludes the atom
                C[i, i] = np.sqrt(total.real) if total.real > DEPENDENT * length else np.inf
    step = np.empty(count, dtype=Y.dtype)
    X[:, :count] = 0
    left = residual_of(Y, atoms, columns, 0, X, R)
    for _ in range(3):
        for l in range(Y.shape[0]):
            for c in range(count):
                step[c] = inner(atoms[columns[c]], R[l])
            solve_triangles(C, count, step)
            for c in range(count):
                X[l, c] += step[c]
        left = residual_of(Y, atoms, columns, count, X, R)
    return left


@kernel(fast=True)
def solve_triangles(C: NDArray[Any], size: int, b: NDArray[Any]) -> None:
    """Solve CCᴴx = b in place, C lower triangular with a real diagonal."""
    for i in range(size):
        total = b[i]
        for l in range(i):
            total -= C[i, l] * b[l]
        b[i] = total / C[i, i].real
    for i in range(size - 1, -1, -1):
        total = b[i]
        for l in range(i + 1, size):
            total -= np.conj(C[l, i]) * b[l]
        b[i] = total / C[i, i].real


@kernel()
def fit_blocks(
    Y: NDArray[Any],
    atoms: NDArray[Any],
    columns: NDArray[Any],
    count: int,
    positive: bool | None,
    C: NDArray[Any],
    X: NDArray[Any],
    R: NDArray[Any],
) -> float:
    """Fit all snapshots on the first `count` columns into X (L, count), non-negative where asked; return ‖R‖².

    `positive` is True or None, not False: numba leaves out the branch that None does not take, which complex numbers
    could not be compiled for.
    """
    if positive is None:
        return fit(Y, atoms, columns, count, C, X, R)
    left = 0.0
    for l in range(Y.shape[0]):
        left += fit_nonnegative(Y[l], atoms, columns, count, C, X[l], R[l])
    return left


def keep_largest(Y: NDArray[Any], atoms: NDArray[Any], X: NDArray[Any], structure: Structure, k: int) -> None:
    """Keep the k largest blocks of every signal (N, L, n) and refit them by least squares, in place in X (N, L, m)."""
    over_slices(_keep_rows, len(Y), Y, atoms, structure.start, structure.positive or None, k, X)


@kernel()
def _keep_rows(
    piece: int,
    pieces: int,
    Y: NDArray[Any],
    atoms: NDArray[Any],
    start: NDArray[Any],
    positive: bool | None,
    k: int,
    X: NDArray[Any],
) -> None:
    N, L, n = Y.shape
    m, B = atoms.shape[0], start.shape[0] - 1
    most = min(m, n) if k else 0
    magnitude, work = np.empty(B), np.empty(B)
    chosen, columns = np.empty(B, dtype=np.int64), np.empty(m, dtype=np.int64)
    C, R = np.empty((m, m) if m <= n else (n, n), dtype=Y.dtype), np.empty((L, n), dtype=Y.dtype)
    fitted = np.empty((L, m), dtype=Y.dtype)
    for row in range(piece, N, pieces):
        for b in range(B):
            magnitude[b] = size2(X[row, :, start[b] : start[b + 1]])
        count = 0
        for l in range(top_k(magnitude, k, work, chosen)):
            b = chosen[l]
            # Never blocks that the solver did not select, nor more columns than measurements.
            if magnitude[b] > 0.0 and count + start[b + 1] - start[b] <= most:
                for j in range(start[b], start[b + 1]):
                    columns[count] = j
                    count += 1
        fit_blocks(Y[row], atoms, columns, count, positive, C, fitted, R)
        X[row, :, :] = 0
        for l in range(L):
            for c in range(count):
                X[row, l, columns[c]] = fitted[l, c]


def residual_norms(Y: NDArray[Any], atoms: NDArray[Any], X: NDArray[Any]) -> NDArray[Any]:
    """Return ‖Y − XΦᵀ‖ over all snapshots for every signal; `atoms` is Φᵀ, C-contiguous."""
    out = np.empty(len(Y), dtype=Y.real.dtype)
    over_slices(_residual_rows, len(Y), Y, atoms, X, out)
    return out


@kernel()
def _residual_rows(
    piece: int, pieces: int, Y: NDArray[Any], atoms: NDArray[Any], X: NDArray[Any], out: NDArray[Any]
) -> None:
    R, every = np.empty(Y.shape[1:], dtype=Y.dtype), np.empty(atoms.shape[0], dtype=np.int64)
    for j in range(atoms.shape[0]):
        every[j] = j
    for row in range(piece, Y.shape[0], pieces):
        out[row] = np.sqrt(residual_of(Y[row], atoms, every, len(every), X[row], R))
