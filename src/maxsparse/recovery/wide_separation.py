"""How far an answer is from its neighbours among many thousand atoms, which are never whitened all at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from maxsparse._core.prepared import Whitened, WideWhitened

__all__ = ["wide_separation"]

ENTRIES = 2**16  # of the coefficients of some atoms on a support, at a time
IN_SPAN = 1e-13  # of an atom outside the span, in units of its squared coefficients: less is rounding


def wide_separation(
    problem: WideWhitened, own: Whitened, S: NDArray[np.intp], x: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Return the smallest residual of Wy on a support that differs in one atom, and the sizes of the terms of Wy.

    With c = Q_S⁺ q_j, h_i = ‖q_i modulo the rest of S‖² and o = ‖q_j modulo S‖², exchanging i for j leaves
    |x_i| √(h_i o / (o + c_i² h_i)).

    Parameters
    ----------
    problem : WideWhitened
        All m atoms.
    own : Whitened
        Those of the support.
    S : ndarray of shape (k,), int
        The support.
    x : ndarray of shape (k,)
        Its coefficients.

    Returns
    -------
    gap : float
        0 if another atom lies in the span of the support, or the support is dependent.
    sizes : ndarray of shape (k,)
        Of every term, modulo the others.
    """
    Q, k, m = own.columns, len(S), problem.shape[1]
    try:
        L = np.linalg.cholesky(Q @ Q.T)
    except np.linalg.LinAlgError:  # atoms of the support depend on each other, to rounding
        return 0.0, np.zeros(k)
    h = 1.0 / (solve_triangular(L, np.eye(k), lower=True) ** 2).sum(axis=0)
    amplitude2 = (x / own.D) ** 2 * h
    smallest = float(amplitude2.min())
    back = Q @ problem.W  # (k, n): whitened atoms of the support times W, so that no other atom is whitened
    width = max(1, ENTRIES // k)
    for start in range(0, m, width):
        some = slice(start, min(m, start + width))
        P = solve_triangular(L, back @ problem.Phi[:, some] * problem.D[some], lower=True)
        outside = 1.0 - (P**2).sum(axis=0)
        c2 = solve_triangular(L, P, lower=True, trans=1) ** 2
        inside = S[(start <= S) & (start + width > S)] - start
        outside[inside], c2[:, inside] = 1.0, 0.0  # as far away as an atom can be: those of S are no neighbours
        if (outside < IN_SPAN * (1.0 + c2.sum(axis=0))).any():
            return 0.0, np.sqrt(amplitude2)
        left = amplitude2[:, None] * outside / (outside + c2 * h[:, None])
        smallest = min(smallest, float(left.min()))
    return float(np.sqrt(smallest)), np.sqrt(amplitude2)
