"""Least squares on a support, checked on the original data: the last step of every answer.

The search works on the whitened dictionary, whose sets of columns are well conditioned, but there rounding errors of y
are amplified in the weak directions of Φ. So answers are fitted and checked on the caller's Φ and y.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import dot, residual_into
from maxsparse._core.prepared import Whitened

DEPENDENT = 1e-13  # relative remainder of an atom modulo others, below which it is in their span
# Roundings in forming y and Φx, over one rounding of each entry. Right answers stay below 0.5; a much larger bound
# certifies answers that lack an atom whose part in y is small but no rounding.
SLACK = 2.0
CANCELLATION = 1e5  # terms this many times y, which cancel, are rejected: their rounding errors explain anything


@kernel()
def refit(y: NDArray[Any], problem: Whitened, support: NDArray[Any], k: int, x: NDArray[Any]) -> float:
    """Fit y on the first k atoms of `support`; return ‖y − Φx‖₂, or infinity if the atoms are dependent.

    x takes the k coefficients. Gram–Schmidt on the caller's own atoms, each orthogonalised twice, is backward stable:
    the residual of an exact fit is a few rounding errors of its terms, however coherent the atoms are.
    """
    n = y.shape[0]
    E, R = np.empty((k, n)), np.empty((k, k))
    v, r = np.empty(n), y.copy()
    for a in range(k):
        atom = problem.atoms[support[a]]
        for i in range(n):
            v[i] = atom[i]
        for l in range(a):
            R[l, a] = 0.0
        for _ in range(2):
            for l in range(a):
                share = dot(E[l], v)
                R[l, a] += share
                for i in range(n):
                    v[i] -= share * E[l, i]
        length = np.sqrt(dot(v, v))
        if not length > DEPENDENT * problem.norms[support[a]]:
            return np.inf
        R[a, a] = length
        for i in range(n):
            E[a, i] = v[i] / length
        x[a] = dot(E[a], r)
        for i in range(n):
            r[i] -= x[a] * E[a, i]
    for a in range(k - 1, -1, -1):
        for l in range(a + 1, k):
            x[a] -= R[a, l] * x[l]
        x[a] /= R[a, a]
    norm: float = np.sqrt(residual_into(y, problem.atoms, support, x, k, r))
    return norm


@kernel()
def tolerance(y: NDArray[Any], problem: Whitened, support: NDArray[Any], k: int, x: NDArray[Any]) -> float:
    """Largest ‖y − Φx‖₂ due to rounding errors, which are relative to every term of the sum, not to the sum."""
    own = np.sqrt(dot(y, y))
    size = own
    for a in range(k):
        size += abs(x[a]) * problem.norms[support[a]]
    tolerated: float = SLACK * problem.rounding * np.sqrt(y.shape[0]) * min(size, CANCELLATION * own)
    return tolerated
