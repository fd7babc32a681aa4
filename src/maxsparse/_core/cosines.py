"""Cosines between the atoms of a dictionary, or between the spans of groups of atoms."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.blocks import is_wide
from maxsparse._core.validation import Array, FloatArray

__all__ = ["coherence_sums", "column_norms", "cosines", "group_cosines"]

ATOMS_AT_ONCE = 1000  # whose cosines with all others are kept in memory
LEAST_AT_ONCE, SHARE = 16, 4  # where there are more atoms: cosines take a quarter of the memory of Φ, or less
WIDE_SHARE = 16  # and a sixteenth where atoms are very many


def coherence_sums(
    matrix: Array, k: int, start: NDArray[np.int64] | None = None, changes: tuple[Array, FloatArray] | None = None
) -> NDArray[np.float64]:
    """Return the largest sums of |cosines| between one atom (group) and j others, j = 1..k; see ``theory``.

    With `changes` (W, D), of real single atoms only, the cosines are those of WΦD, which is never formed as a whole.
    """
    if start is not None:
        return _largest_sums(group_cosines(matrix, start), k)
    n, m = matrix.shape
    share = WIDE_SHARE if is_wide(matrix) else SHARE
    at_once = ATOMS_AT_ONCE if m <= ATOMS_AT_ONCE else max(LEAST_AT_ONCE, min(ATOMS_AT_ONCE, n // share))
    norms = column_norms(matrix) if changes is None else 1.0 / changes[1]
    best = np.zeros(k)
    for first in range(0, m, at_once):
        some = np.arange(first, min(m, first + at_once))
        atoms = matrix[:, some] / norms[some]
        if changes is not None:  # one factor after the other: the square of W would square its condition
            atoms = changes[0].T @ (changes[0] @ atoms)
        G = atoms.conj().T @ matrix
        G = np.abs(G, out=G) if np.isrealobj(G) else np.abs(G)
        G /= norms
        G[some - first, some] = 0.0
        best = np.maximum(best, _largest_sums(G, k))
    return best


def column_norms(matrix: Array) -> FloatArray:
    """Return the norms of the columns, (m,), without a copy of the matrix."""
    m = matrix.shape[1]
    blocks = [np.linalg.norm(matrix[:, first : first + ATOMS_AT_ONCE], axis=0) for first in range(0, m, ATOMS_AT_ONCE)]
    norms: FloatArray = np.concatenate(blocks) if blocks else np.zeros(0)
    return norms


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
