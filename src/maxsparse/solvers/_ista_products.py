"""ISTA and FISTA where Φ is known by its products: operators, and tensors on their device."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ista_by_products"]


def ista_by_products(batch: Any, schedule: Any, state: Any, start: int, stop: int, least: float, every: int) -> None:
    """Run iterations start to stop from a state, and write to it.

    Parameters
    ----------
    batch : Batch
        Its Φ is a `Products`.
    schedule, state
        As for the compiled form.
    start, stop : int
    least : float
        Share of the λ at which x = 0 where λ ends, if none is given.
    every : int
        Iterations between checks of the duality gap.
    """
    Phi, Y = batch.Phi, batch.Y
    xp, mu, fixed = Phi.xp, schedule.mu, schedule.fixed
    numbers = Phi.array(np.arange(len(Y)))
    largest = xp.amax(abs(Phi.correlate(Y)), -1)  # the λ at which x = 0 is optimal
    last = xp.clip(least * largest, schedule.floor, None) if fixed < 0 else fixed + 0 * largest
    state.done[:] = state.done | (largest <= last)
    for t in range(start, stop):
        active = numbers[~state.done]
        if not len(active):
            return
        x, y, end = state.X[active], Y[active], last[active]
        lam = xp.maximum(end, largest[active] * schedule.decay**t) if fixed < 0 else end
        momentum = state.momentum[active]
        following = 0.5 * (1 + xp.sqrt(1 + 4 * momentum**2)) if schedule.accelerate else 1 + 0 * momentum
        z = x + ((momentum - 1) / following)[:, None] * (x - state.previous[active])
        value = z + mu * Phi.correlate(y - Phi.image(z))
        fresh = xp.sign(value) * xp.clip(abs(value) - mu * lam[:, None], 0, None)
        uphill = ((z - fresh) * (fresh - x)).sum(-1) > 0
        state.previous[active], state.X[active] = x, fresh
        state.momentum[active] = xp.where(uphill, 1 + 0 * following, following)
        state.spent[active] += 1
        if (t + 1) % every == 0:
            state.done[active] = (lam == end) & _gap_closed(Phi, y, fresh, lam, schedule.tol)


def _gap_closed(Phi: Any, y: Any, x: Any, lam: Any, tol: float) -> Any:
    """Return whether primal − dual ≤ tol · primal, with the residuals scaled into the dual's feasible set."""
    xp = Phi.xp
    r = y - Phi.image(x)
    largest = xp.amax(abs(Phi.correlate(r)), -1)
    scale = xp.clip(lam / xp.where(largest > 0, largest, lam), None, 1)
    primal = 0.5 * (r * r).sum(-1) + lam * abs(x).sum(-1)
    dual = 0.5 * (y * y).sum(-1) - 0.5 * ((y - scale[:, None] * r) ** 2).sum(-1)
    return primal - dual <= tol * primal
