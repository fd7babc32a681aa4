"""Iterative hard thresholding where Φ is known by its products: operators, and tensors on their device."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["iht_by_products"]


def iht_by_products(
    batch: Any, limits: Any, mu: float, rule: tuple[float, float], iterations: int, tol: float, spent: Any, done: Any
) -> None:
    """Run iterations from the coefficients of a batch, and write to them.

    Parameters
    ----------
    batch : Batch
        Its Φ is a `Products`.
    limits : array of shape (N,), int
        Number of coefficients to keep.
    mu : float
        Step; 0 means the adaptive rule.
    rule : (float, float)
        Share of the largest safe step, and the factor by which a step that is too long shrinks.
    iterations : int
    tol : float
    spent, done : arrays of shape (N,)
        Written too.
    """
    Phi, X, Y = batch.Phi, batch.X, batch.Y
    xp = Phi.xp
    every = Phi.array(np.arange(len(Y)))
    goal = xp.clip(tol * _norms(xp, Y), batch.floor, None)
    R = Y - Phi.image(X)
    done[:] = done | (_norms(xp, R) <= goal)
    lost = done & False  # diverged: the step is too large for Φ
    for _ in range(iterations):
        active = every[~done & ~lost]
        if not len(active):
            return
        x, g, k = X[active], Phi.correlate(R[active]), limits[active]
        steps = mu + 0 * abs(g[:, 0]) if mu > 0 else _exact_steps(Phi, x, g, k)
        fresh = _kept(Phi, x + steps[:, None] * g, k)
        pending = every[: len(active)] if mu == 0 else every[:0]
        while len(pending):
            delta = fresh[pending] - x[pending]
            new = ((fresh[pending] != 0) & (x[pending] == 0)).any(-1)  # on an unchanged support the exact step is safe
            long = new & (steps[pending] * _norms(xp, Phi.image(delta)) ** 2 > rule[0] * _norms(xp, delta) ** 2)
            pending = pending[long]
            steps[pending] = steps[pending] / (rule[1] * rule[0])
            fresh[pending] = _kept(Phi, x[pending] + steps[pending][:, None] * g[pending], k[pending])
        moved = _norms(xp, fresh - x)
        X[active], R[active] = fresh, Y[active] - Phi.image(fresh)
        spent[active] += 1
        residual = _norms(xp, R[active])
        lost[active] = ~xp.isfinite(residual)
        done[active] = (residual <= goal[active]) | (moved <= tol * _norms(xp, fresh))


def _exact_steps(Phi: Any, x: Any, g: Any, k: Any) -> Any:
    """Return ‖g_S‖²/‖Φ_S g_S‖² for the present supports S; of an empty one, the k largest of g."""
    xp = Phi.xp
    empty = ~(x != 0).any(-1)
    restricted = xp.where(x != 0, g, 0 * g)
    if bool(empty.any()):
        restricted[empty] = _kept(Phi, g[empty], k[empty])
    image2 = _norms(xp, Phi.image(restricted)) ** 2
    return xp.where(image2 > 0, _norms(xp, restricted) ** 2 / xp.where(image2 > 0, image2, 1 + 0 * image2), 1.0)


def _kept(Phi: Any, x: Any, k: Any) -> Any:
    """Return x with all but the k largest of every row set to zero; of equal ones, the first are kept."""
    out, most = 0 * x, int(k.max()) if len(k) else 0
    order = Phi.xp.argsort(-abs(x), stable=True)[:, :most]
    rows = Phi.array(np.arange(len(x)))[:, None]
    out[rows, order] = Phi.xp.where(Phi.array(np.arange(most))[None] < k[:, None], x[rows, order], 0 * x[rows, order])
    return out


def _norms(xp: Any, rows: Any) -> Any:
    return xp.sqrt((abs(rows) ** 2).sum(-1))
