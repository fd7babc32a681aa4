r"""Inverses of many small symmetric matrices at once, for training.

A stack of B symmetric n × n matrices is an array (n(n + 1)/2, B): row i(i + 1)/2 + j holds entry (i, j), j ≤ i, of all
of them. Every inner loop runs over neighbouring matrices and vectorises, which LAPACK's call per matrix does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel

LANES = 32  # matrices handled together: their factors stay in the first-level caches
SMALLEST = np.float32(1e-12)


@kernel()
def invert(S: NDArray[np.float32], c: NDArray[np.float32]) -> None:
    """Replace every packed matrix of S (n(n + 1)/2, B) by (S + diag c)⁻¹, for c of shape (n, B)."""
    size, B = S.shape
    n = c.shape[0]
    block = np.ones((size, LANES), np.float32)
    L, V = np.empty((size, LANES), np.float32), np.empty((size, LANES), np.float32)
    total = np.empty(LANES, np.float32)
    for start in range(0, B, LANES):
        count = min(LANES, B - start)
        for entry in range(size):
            for j in range(count):
                block[entry, j] = S[entry, start + j]
        for i in range(n):
            for j in range(count):
                block[i * (i + 3) // 2, j] += c[i, start + j]
        _factorise(block, L, total, n)
        _invert_factor(L, V, total, n)
        _square(V, block, total, n)
        for entry in range(size):
            for j in range(count):
                S[entry, start + j] = block[entry, j]


@kernel(fast=True)
def _factorise(S: NDArray[Any], L: NDArray[Any], total: NDArray[Any], n: int) -> None:
    """Write the Cholesky factors of S to L; the diagonal holds inverses."""
    lanes = total.shape[0]
    row = 0
    for i in range(n):
        column = 0
        for k in range(i + 1):
            for b in range(lanes):
                total[b] = S[row + k, b]
            for l in range(k):
                left, right = L[row + l], L[column + l]
                for b in range(lanes):
                    total[b] -= left[b] * right[b]
            if k < i:
                for b in range(lanes):
                    L[row + k, b] = total[b] * L[column + k, b]
            else:
                for b in range(lanes):
                    L[row + k, b] = np.float32(1.0) / np.sqrt(max(total[b], SMALLEST))
            column += k + 1
        row += i + 1


@kernel(fast=True)
def _invert_factor(L: NDArray[Any], V: NDArray[Any], total: NDArray[Any], n: int) -> None:
    """Set V = L⁻¹, row by row."""
    lanes = total.shape[0]
    row = 0
    for i in range(n):
        for k in range(i):
            for b in range(lanes):
                total[b] = np.float32(0.0)
            inner = k * (k + 1) // 2
            for l in range(k, i):
                left, right = L[row + l], V[inner + k]
                for b in range(lanes):
                    total[b] -= left[b] * right[b]
                inner += l + 1
            for b in range(lanes):
                V[row + k, b] = total[b] * L[row + i, b]
        for b in range(lanes):
            V[row + i, b] = L[row + i, b]
        row += i + 1


@kernel(fast=True)
def _square(V: NDArray[Any], S: NDArray[Any], total: NDArray[Any], n: int) -> None:
    """Set S = VᵀV for lower triangular V."""
    lanes = total.shape[0]
    row = 0
    for i in range(n):
        for k in range(i + 1):
            for b in range(lanes):
                total[b] = np.float32(0.0)
            inner = row
            for l in range(i, n):
                left, right = V[inner + i], V[inner + k]
                for b in range(lanes):
                    total[b] += left[b] * right[b]
                inner += l + 1
            for b in range(lanes):
                S[row + k, b] = total[b]
        row += i + 1
