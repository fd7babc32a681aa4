"""Orthogonal matching pursuit where Φ is known by its products: operators, and tensors on their device."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxsparse.solvers._large_omp import DEPENDENT

__all__ = ["omp_by_products"]


def omp_by_products(Phi: Any, Y: Any, limits: Any, tol: float, floor: float) -> tuple[Any, Any, Any]:
    """Run OMP on signals (B, n) up to `limits` (B,) atoms.

    Parameters
    ----------
    Phi : Products
    Y : array of shape (B, n)
    limits : array of shape (B,), int
    tol, floor : float
        Residuals of tol·‖y‖ or `floor` are small enough.

    Returns
    -------
    X : array of shape (B, m)
    found : array of shape (B,), int
        Numbers of atoms.
    small : array of shape (B,), bool
        Which residuals are small enough.
    """
    xp, (n, m), B = Phi.xp, Phi.shape, len(Y)
    K = max(1, min(n, int(limits.max()) if B else 0))
    every, places = Phi.array(np.arange(B)), Phi.array(np.arange(K))
    R, Q, T = Y + 0, Phi.zeros(B, K, n), Phi.zeros(B, K, K)  # atom j is Σ_l T[j, l] q_l
    T[:, places, places] = 1
    c, chosen = Phi.zeros(B, K), Phi.zeros(B, K, dtype=xp.int64)
    found, closed = Phi.zeros(B, dtype=xp.int64), Phi.zeros(B, m, dtype=xp.bool)
    stuck = Phi.zeros(B, dtype=xp.bool)
    goal2 = xp.clip(tol * tol * _squares(Y), floor * floor, None)
    while True:
        small = _squares(R) <= goal2
        active = every[~small & ~stuck & (found < limits)]
        if not len(active):
            break
        alpha = abs(Phi.correlate(R[active]))
        alpha[closed[active]] = 0
        j = alpha.argmax(-1)
        stuck[active] = xp.amax(alpha, -1) == 0
        closed[active, j] = True  # chosen, or dependent on those chosen
        atom = Phi.atoms(j)
        rest, share = atom, 0 * c[active]
        for _ in range(2):  # twice, so that the basis is orthonormal to rounding
            step = (Q[active].conj() @ rest[:, :, None])[:, :, 0]
            share, rest = share + step, rest - (step[:, None, :] @ Q[active])[:, 0]
        left = _squares(rest)
        good = (left > DEPENDENT * _squares(atom)) & ~stuck[active]
        i, length = active[good], xp.sqrt(left[good])[:, None]
        at, q = found[i], rest[good] / length
        Q[i, at], chosen[i, at] = q, j[good]
        T[i, at] = share[good]
        T[i, at, at] = length[:, 0] + 0 * T[i, at, at]
        value = (q.conj() * R[i]).sum(-1)
        c[i, at] = value
        R[i] = R[i] - value[:, None] * q
        found[i] += 1
    X = Phi.zeros(B, m)
    x = xp.linalg.solve(T.swapaxes(1, 2), c[:, :, None])[:, :, 0]
    for l in range(K):
        i = every[found > l]
        X[i, chosen[i, l]] = x[i, l]
    return X, found, small


def _squares(rows: Any) -> Any:
    """Return ‖r‖² of every row."""
    return (abs(rows) ** 2).sum(-1)
