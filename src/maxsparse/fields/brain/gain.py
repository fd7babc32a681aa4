"""A gain matrix and what follows from it alone, which problems with the same head share."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["SILENT", "Gain"]

SILENT = 1e-9  # of the mean square gain of a place: directions of less are as good as silent


class Gain:
    """A gain matrix (n, o × B); the o columns of a place stand side by side.

    Parameters
    ----------
    G : ndarray of shape (n, o × B)
    o : int
    """

    def __init__(self, G: NDArray[np.float64], o: int) -> None:
        self.G, self.n, self.o, self.B = G, len(G), o, G.shape[1] // o

    @cached_property
    def columns(self) -> NDArray[np.float64]:
        """Components of all places in rows whose last axis is the place, (n, o · B)."""
        parts = self.G.reshape(self.n, self.B, self.o).transpose(0, 2, 1)
        return np.ascontiguousarray(parts).reshape(self.n, -1)

    @cached_property
    def gram(self) -> dict[tuple[int, int], NDArray[np.float64]]:
        """Inner products (B,) of the i-th and the j-th column of every place, j ≤ i."""
        o, parts = self.o, self.columns.reshape(self.n, self.o, self.B)
        gram = {(i, j): np.einsum("nb,nb->b", parts[:, i], parts[:, j]) for i in range(o) for j in range(i + 1)}
        power = sum(gram[i, i] for i in range(o)) / o
        for i in range(o):
            gram[i, i] += SILENT * power + 1e-300
        return gram

    @cached_property
    def covariance(self) -> NDArray[np.float64]:
        """G Gᵀ with trace 1, (n, n)."""
        C = self.G @ self.G.T
        return np.asarray(C / max(float(np.trace(C)), 1e-300))
