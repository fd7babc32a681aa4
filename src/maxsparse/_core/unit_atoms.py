"""Atoms of norm 1, for searches with noise: Φ divided by the norms of its atoms, or both where there are many."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.blocks import blocks
from maxsparse._core.linalg import times
from maxsparse._core.validation import FloatArray

__all__ = ["UnitAtoms", "unit_atoms"]


class UnitAtoms:
    """Q = Φ diag(1/norms).

    Parameters
    ----------
    matrix : ndarray of shape (n, m), float64
        Q, or Φ where norms are given: then Q is never in memory as a whole.
    norms : ndarray of shape (m,) or None, default=None
    """

    def __init__(self, matrix: Any, norms: FloatArray | None = None) -> None:
        self.matrix, self.norms = matrix, norms

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, m)."""
        n, m = self.matrix.shape
        return n, m

    def some(self, chosen: Any) -> NDArray[np.float64]:
        """Return some of the atoms, (n, k), C-contiguous."""
        part = np.ascontiguousarray(self.matrix[:, chosen])
        return part if self.norms is None else part / self.norms[chosen]

    def correlate(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ZQ, (N, m), each row by the same operations in any batch."""
        products = times(Z, np.ascontiguousarray(self.matrix))
        if self.norms is not None:
            products /= self.norms
        return products

    @cached_property
    def gram(self) -> NDArray[np.float64]:
        """QᵀQ, (m, m)."""
        Q = self.some(slice(None))
        return np.ascontiguousarray(Q.T @ Q)

    @cached_property
    def eigen(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Eigenvalues (n,) and eigenvectors (n, n) of QQᵀ."""
        if self.norms is None:
            values, basis = np.linalg.eigh(self.matrix @ self.matrix.T)
            return values, basis
        total = np.zeros((len(self.matrix), len(self.matrix)))
        for chosen in blocks(self.matrix):
            part = self.some(chosen)
            total += part @ part.T
        values, basis = np.linalg.eigh(total)
        return values, basis


def unit_atoms(Q: Any) -> UnitAtoms:
    """Return atoms of norm 1 (n, m) as such; what is given as such already is returned as it is."""
    return Q if isinstance(Q, UnitAtoms) else UnitAtoms(np.asarray(Q, dtype=np.float64))
