"""Least squares on a support, judged where the data are: the step that every answer goes through.

The fit is done on the whitened dictionary, whose small sets of columns are well conditioned, and refined in the
residual of the caller's own Φ and y, so that its error is that of float64 there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from maxsparse import theory
from maxsparse._validation import FloatArray
from maxsparse.solvers._kernels import cholesky, cholesky_solve, dot, residual_into

SLACK = 16.0  # roundings in forming y, whitening it and forming Φx, over one rounding of each entry


class Problem(NamedTuple):
    """A dictionary as the compiled kernels want it; all arrays float64 and C-contiguous."""

    atoms: NDArray[np.float64]  # (m, n), Φᵀ
    W: FloatArray  # (r, n)
    D: FloatArray  # (m,)
    Q: NDArray[np.float64]  # (r, m), WΦD
    columns: NDArray[np.float64]  # (m, r), Qᵀ
    norms: NDArray[np.float64]  # (m,), of the atoms
    weakest: float  # smallest singular value of Φ, 1/‖W‖
    rounding: float  # relative rounding of the data that y and Φ came in


def prepare(
    Phi: FloatArray, rtol: float | None = None, preconditioner: tuple[FloatArray, FloatArray] | None = None
) -> Problem:
    """Whiten Φ and lay it out for the kernels; `rtol` is the relative rounding of the data, by default of Φ's dtype."""
    rounding = float(np.finfo(Phi.dtype).eps) if rtol is None else rtol
    exact = np.asarray(Phi, dtype=np.float64)
    W, D = preconditioner or theory.precondition(exact)
    Q = np.ascontiguousarray(W @ exact * D)
    return Problem(
        np.ascontiguousarray(exact.T),
        W,
        D,
        Q,
        np.ascontiguousarray(Q.T),
        np.linalg.norm(exact, axis=0),
        float(1.0 / np.linalg.norm(W, 2)),
        rounding,
    )


@njit(cache=True, nogil=True, error_model="numpy")
def refit(
    y: NDArray[Any], problem: Problem, support: NDArray[Any], k: int, L: NDArray[Any], x: NDArray[Any], r: NDArray[Any]
) -> float:
    """Fit y on the first k atoms of `support`; return ‖y − Φx‖₂, or infinity where they are dependent.

    x takes the k coefficients of the caller's Φ and r (n,) the residual. L (k, k) keeps the Cholesky factor of the
    whitened columns' Gram matrix.
    """
    for a in range(k):
        for b in range(a + 1):
            L[a, b] = dot(problem.columns[support[a]], problem.columns[support[b]])
    if not cholesky(L, k):
        return np.inf
    step = np.empty(k)
    rank, n = problem.W.shape
    white = np.empty(rank)
    for a in range(k):
        x[a] = 0.0
    for i in range(n):
        r[i] = y[i]
    size2 = 0.0
    for _ in range(3):
        for i in range(rank):
            white[i] = dot(problem.W[i], r)
        for a in range(k):
            step[a] = dot(problem.columns[support[a]], white)
        cholesky_solve(L, k, step)
        for a in range(k):
            x[a] += step[a] * problem.D[support[a]]
        size2 = residual_into(y, problem.atoms, support, x, k, r)
    return np.sqrt(size2)


@njit(cache=True, nogil=True, error_model="numpy")
def tolerance(y: NDArray[Any], problem: Problem, support: NDArray[Any], k: int, x: NDArray[Any]) -> float:
    """Largest ‖y − Φx‖₂ that roundings alone can leave: they are relative to every term of the sum, not to the sum."""
    size = np.sqrt(dot(y, y))
    for a in range(k):
        size += abs(x[a]) * problem.norms[support[a]]
    return SLACK * problem.rounding * np.sqrt(y.shape[0]) * size
