"""Cosines between the atoms of a dictionary, or between the spans of groups of atoms."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import Array, FloatArray

__all__ = ["coherence_sums", "cosines", "group_cosines"]

ATOMS_AT_ONCE = 1000  # whose cosines with all others are kept in memory


def coherence_sums(matrix: Array, k: int, start: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """Return the largest sums of |cosines| between one atom (group) and j others, j = 1..k; see ``theory``."""
    if start is not None:
        return _largest_sums(group_cosines(matrix, start), k)
    unit = matrix / np.linalg.norm(matrix, axis=0)
    m = unit.shape[1]
    best = np.zeros(k)
    for first in range(0, m, ATOMS_AT_ONCE):
        some = np.arange(first, min(m, first + ATOMS_AT_ONCE))
        G = np.abs(unit[:, some].conj().T @ unit)
        G[some - first, some] = 0.0
        best = np.maximum(best, _largest_sums(G, k))
    return best


def _largest_sums(G: FloatArray, k: int) -> NDArray[np.float64]:
    """Return the largest sums of j entries of one row, j = 1..k."""
    largest = G if k >= G.shape[1] // 2 else np.partition(G, G.shape[1] - k, axis=1)[:, G.shape[1] - k :]
    ordered = -np.sort(-largest, axis=1)[:, :k]
    return np.asarray(np.cumsum(ordered, axis=1).max(axis=0), dtype=np.float64)


def cosines(matrix: Array) -> FloatArray:
    """Return |cosines| between atoms with a zero diagonal, (m, m)."""
    unit = matrix / np.linalg.norm(matrix, axis=0)
    G: FloatArray = np.abs(unit.conj().T @ unit)
    np.fill_diagonal(G, 0.0)
    return G


def group_cosines(matrix: Array, start: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the cosines of the smallest angles between the spans of two groups, with a zero diagonal, (B, B).

    Atoms start[b] to start[b + 1] are group b.
    """
    bases = []
    for first, stop in pairwise(start):
        U, sigma, _ = np.linalg.svd(matrix[:, first:stop], full_matrices=False)
        bases.append(U[:, sigma > 1e-12 * sigma[0]])
    G = np.zeros((len(bases), len(bases)))
    for b, left in enumerate(bases):
        for c, right in enumerate(bases[:b]):
            G[b, c] = G[c, b] = np.linalg.norm(left.conj().T @ right, 2)
    return G
