r"""Sources between the places of a grid: what is left of their fields counts as noise.

A source near place b has a field that differs from that of b about as the best approximations by the neighbours j of b
do, but for what b itself can send: :math:`D_j = (I - P_b) P_j F_b`. Where there is little noise, sets of several places
around a source explain this difference; with the covariance :math:`I + \frac{s}{N r} \sum_b \sum_j D_j D_j^\top` of
noise they need not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxsparse.fields.brain.screen import Screen

__all__ = ["grid_whitener"]

NEIGHBOURS, AROUND = 6, 18  # places next to a source, and those among which others may be parts of it
SHARE = 0.3  # of D_j D_jᵀ: a source is less than half the way to the next place
LITTLE = 4.0  # variance, in units of the noise, that is not worth it


def grid_whitener(screen: Screen, S: list[int], level: float) -> NDArray[np.float64] | None:
    """Return the matrix (n, n) that makes noise with the differences of the grid white.

    None where these are small, or no two of the places are so close that they could be one source between them.

    Parameters
    ----------
    screen : Screen
    S : list of int
        Active places.
    level : float
        Standard deviation of the noise.

    Returns
    -------
    whitener : ndarray of shape (n, n) or None
    """
    if len(S) < 2:
        return None
    o, n = screen.o, screen.n
    courses = screen.Z * (screen.sizes / max(level, 1e-300))
    A = screen.G[:, [o * b + i for b in S for i in range(o)]]
    X = np.asarray(np.linalg.lstsq(A, courses, rcond=1e-4)[0], dtype=np.float64).reshape(len(S), o, -1)
    around = [screen.similar(b, own, AROUND) for b, own in zip(S, X, strict=True)]
    if not any(np.isin(S, near).any() for near in around):
        return None
    C = np.zeros((n, n))
    for k, near in enumerate(around):
        own = A[:, o * k : o * k + o]
        F = own @ X[k]
        U, sizes, _ = np.linalg.svd(own, full_matrices=False)
        P = U[:, sizes > 1e-4 * sizes[0]]
        for j in near[:NEIGHBOURS]:
            other = screen.G[:, o * j : o * j + o]
            D = other @ np.linalg.lstsq(other, F, rcond=1e-4)[0]
            D -= P @ (P.T @ D)
            C += SHARE / (NEIGHBOURS * screen.r) * D @ D.T
    sizes, basis = np.linalg.eigh(C)
    if sizes[-1] < LITTLE:
        return None
    return np.asarray((basis / np.sqrt(1.0 + np.maximum(sizes, 0.0))) @ basis.T)
