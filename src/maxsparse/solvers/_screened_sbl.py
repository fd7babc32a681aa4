r"""Sparse Bayesian learning where Φ is an operator: exact on the atoms that matter, and checked on all others.

A variance :math:`\gamma_i = 0` is optimal exactly where :math:`u_i^2 \le q_i`, with :math:`u = \Phi^\top S^{-1} y` and
:math:`q_i = \phi_i^\top S^{-1} \phi_i`. So atoms are looked up and solved for, and then both numbers are computed for
all m atoms, by n + 1 products; atoms that break the rule join, until none does. The answer is then a stationary point
of the objective over all atoms, though not always the one that EM finds from all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Solved", "screened_sbl"]

FIRST, MORE = 2.0, 0.5  # atoms looked up at the start and per round, for every measurement
LEAST = 64  # atoms
ROUNDS = 10
SLACK = 1e-2  # by which u² may be larger than q: γ has converged up to a tolerance


class Solved(NamedTuple):
    """The answer on some atoms, for a signal of unit mean square."""

    x: NDArray[Any]  # (s,), of the signal itself
    gamma: NDArray[Any]  # (s,)
    lam: float
    iterations: int
    converged: bool


def screened_sbl(Phi: Any, y: NDArray[Any], solve: Callable[[NDArray[Any]], Solved], least: float) -> Any:
    """Solve for one signal.

    Parameters
    ----------
    Phi : Operator
    y : ndarray of shape (n,)
    solve : callable
        Solves for atoms (n, s).
    least : float
        λ at which optimality is checked, if it ends smaller: S is too ill-conditioned below.

    Returns
    -------
    x : ndarray of shape (m,)
    iterations : int
    converged : bool
        Whether γ converged, and no atom that was left out would be better used.
    """
    n, m = Phi.shape
    x, spent = np.zeros(m, dtype=Phi.dtype), 0
    scale = np.sqrt(np.mean(y**2))
    if scale == 0:
        return x, 0, True
    norms = np.maximum(Phi.norms, np.finfo(Phi.dtype).tiny)
    merit = np.abs(Phi.correlate(y[None])[0]) / norms
    inside = np.zeros(m, dtype=bool)
    atoms = np.empty((n, 0), dtype=Phi.dtype)
    count = int(max(LEAST, FIRST * n))
    converged, numbers = False, np.empty(0, dtype=np.intp)
    for _ in range(ROUNDS):
        fresh = np.argsort(-np.where(inside, -np.inf, merit), kind="stable")[: min(count, m - len(numbers))]
        fresh = np.sort(fresh[np.isfinite(merit[fresh])])
        inside[fresh] = True
        numbers = np.concatenate([numbers, fresh])
        atoms = np.ascontiguousarray(np.hstack([atoms, Phi.atoms(fresh).T]))
        found = solve(atoms)
        spent += found.iterations
        if len(numbers) == m:
            converged = found.converged
            break
        merit = _violations(Phi, atoms, y / scale, found.gamma, max(found.lam, least))
        merit[merit <= 1.0 + SLACK] = -np.inf
        if not (merit[~inside] > -np.inf).any():
            converged = found.converged
            break
        count = int(max(LEAST, MORE * n))
    x[numbers] = found.x
    return x, spent, converged


def _violations(Phi: Any, atoms: Any, y: Any, gamma: Any, lam: float) -> NDArray[np.float64]:
    """Return u²/q for all atoms, (m,): above 1, a positive γ is better than none."""
    n = len(y)
    S = (atoms * gamma) @ atoms.T
    S[np.arange(n), np.arange(n)] += lam
    rows = np.linalg.inv(np.linalg.cholesky(S.astype(np.float64)))
    u = Phi.correlate(((rows @ y) @ rows)[None].astype(Phi.dtype))[0]
    q = np.zeros(Phi.shape[1])
    for row in rows.astype(Phi.dtype):
        q += Phi.correlate(row[None])[0].astype(np.float64) ** 2
    return np.asarray(np.asarray(u, dtype=np.float64) ** 2 / np.maximum(q, np.finfo(np.float64).tiny))
