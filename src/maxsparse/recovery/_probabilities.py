"""How probable the supports that a search met are: sums over supports, noise levels and slabs.

Supports near those that were met are enumerated (:mod:`maxsparse.recovery._neighbours`), under each slab; a chain
(:mod:`maxsparse.recovery._chain`) estimates how much probability that leaves out.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse.recovery._chain import Chain, begin, jump, list_jumps, make_chain, note_time
from maxsparse.recovery._climb import Pool, Task, make_pool, start_from
from maxsparse.recovery._neighbours import Mass, forget, make_mass, weigh
from maxsparse.recovery._shapes import settle
from maxsparse.recovery._sweep import Sweep, make_sweep
from maxsparse.recovery._tableau import random_unit

__all__ = ["KEPT", "POOL", "Room", "Slabs", "Work", "average", "make_room"]

POOL = 16  # local optima that a search remembers
KEPT = 64  # most probable supports that are reported
COMPLETE = 0.7  # share of the probability whose neighbours were all counted that makes a chain needless
OVERFLOW, SHIFTS = 600.0, 3  # nats, close to the largest whose exponential is a number, and times it is gone beyond
IMPROBABLE = 4.0  # nats below the best at which a noise level and slab are not worth counting


class Slabs(NamedTuple):
    """Noise levels and slabs over which is averaged."""

    n: int
    grid: NDArray[np.float64]  # (P, 4): log factors of σ² and δ, ratio μ/τ, log weight
    slab: float  # δ


class Work(NamedTuple):
    """How much is spent: supports whose neighbours are counted, and steps of the chain."""

    expansions: int
    steps: int
    again: int  # times that the best support must be reached again to end a search, if chance could explain it


class Room(NamedTuple):
    """Memory for one signal at a time."""

    s: Sweep
    pool: Pool
    mass: Mass
    aside: Mass
    chain: Chain
    inclusion: NDArray[np.float64]  # (m,)
    mean: NDArray[np.float64]  # (m,)
    peaks: NDArray[np.float64]  # (P,), log posterior of the best support by noise level and slab


@kernel()
def make_room(m: int, most: int, P: int) -> Room:
    """Return memory for supports of at most so many of m atoms, and P noise levels and slabs."""
    return Room(
        make_sweep(m, most + 1),
        make_pool(POOL, most),
        make_mass(m, most, KEPT),
        make_mass(m, most, KEPT),
        make_chain(m, most),
        np.empty(m),
        np.empty(m),
        np.empty(P),
    )


@kernel()
def _level(task: Task, n: int, log_factor: float) -> tuple[float, float]:
    """Return the evidence of the empty support and σ² at another noise level."""
    quadratic = -2.0 * task.base - n * math.log(task.variance)  # yᵀy/σ²
    variance = task.variance * math.exp(log_factor)
    base = -0.5 * (n * math.log(variance) + quadratic * task.variance / variance)
    return base, variance


@kernel()
def _at(task: Task, slabs: Slabs, p: int) -> Task:
    """Return the task at the p-th noise level and slab."""
    base, variance = _level(task, slabs.n, slabs.grid[p, 0])
    ratio = slabs.grid[p, 2]
    tau2 = slabs.slab * math.exp(slabs.grid[p, 1]) / (1.0 + ratio * ratio)
    return Task(task.b, task.odds, task.prior, base, variance, tau2, ratio * math.sqrt(tau2), task.enough)


@kernel()
def _find_peaks(r: Room, task: Task, G: NDArray[Any], slabs: Slabs, best: int) -> int:
    """Set `peaks`; return the number of the most probable noise level and slab."""
    P, highest = slabs.grid.shape[0], 0
    levels = slabs.grid[0, 0] != slabs.grid[P - 1, 0]  # supports are the most probable ones at different levels
    for p in range(P):
        own = _at(task, slabs, p)
        _, value = settle(r.s, own, G, r.pool.atoms[best], r.pool.size[best])
        for c in range(r.pool.filled[0] if levels else 0):
            _, other = settle(r.s, own, G, r.pool.atoms[c], r.pool.size[c])
            value = max(value, other)
        r.peaks[p] = value + slabs.grid[p, 3]
        if r.peaks[p] > r.peaks[highest]:
            highest = p
    return highest


@kernel()
def _sum_slabs(
    r: Room,
    task: Task,
    G: NDArray[Any],
    slabs: Slabs,
    work: Work,
    evidence: NDArray[Any],
    highest: int,
    reference: float,
) -> None:
    """Sum over supports, noise levels and slabs, in units of exp(reference)."""
    forget(r.mass)
    learning = evidence.shape[0] > 0
    for p in range(slabs.grid.shape[0]):
        if not learning and r.peaks[p] < r.peaks[highest] - IMPROBABLE:
            continue
        weigh(r.s, _at(task, slabs, p), G, r.pool, r.mass, slabs.grid[p, 3] - reference, work.expansions)
        for k in range(evidence.shape[1] if learning else 0):
            evidence[p, k] = math.log(max(r.mass.sizes[k], 1e-300)) + reference


@kernel()
def average(
    r: Room, task: Task, G: NDArray[Any], slabs: Slabs, work: Work, state: NDArray[Any], evidence: NDArray[Any]
) -> tuple[float, float]:
    """Sum over supports, noise levels and slabs, and make the sums in `mass` probabilities.

    Parameters
    ----------
    r : with the supports that were met in `pool`.
    evidence : (P, most + 1), log evidence by noise level, slab and size, to be filled; (0, most + 1) for none.

    Returns
    -------
    share : of all probability, by estimate, on the supports that were enumerated.
    whole : log probability of the signal, up to a constant (2π)^(−n/2); −∞ if no slab is anywhere near it.
    """
    best = 0
    for c in range(r.pool.filled[0]):
        if r.pool.value[c] > r.pool.value[best]:
            best = c
    highest = _find_peaks(r, task, G, slabs, best)
    reference = r.peaks[highest]
    _sum_slabs(r, task, G, slabs, work, evidence, highest, reference)
    for _ in range(SHIFTS):  # needed where a support that is not the best under the gaussian slab is far better
        if r.mass.total[0] < np.inf:
            break
        reference += OVERFLOW
        _sum_slabs(r, task, G, slabs, work, evidence, highest, reference)
    if not r.mass.total[0] < np.inf:  # these slabs have nothing to do with the signal
        forget(r.mass)
        return 0.0, -np.inf
    base, variance = _level(task, slabs.n, slabs.grid[highest, 0])
    gaussian = Task(task.b, task.odds, task.prior, base, variance, slabs.slab, 0.0, task.enough)
    share = _enumerated(r, gaussian, G, best, work, state)
    total = r.mass.total[0] / share if share > 0.0 else r.mass.total[0]
    for j in range(r.mass.mean.shape[0]):
        r.mass.mean[j] /= total
        r.mass.inclusion[j] /= total
        if share < 1.0:
            r.mass.mean[j] += r.mean[j]
            r.mass.inclusion[j] += r.inclusion[j]
    for c in range(r.mass.best.filled[0]):
        r.mass.best.value[c] -= math.log(total)
    return share, reference + math.log(total)


@kernel()
def _enumerated(r: Room, task: Task, G: NDArray[Any], best: int, work: Work, state: NDArray[Any]) -> float:
    """Return the share of the probability that enumeration counts, under the gaussian slab of `task`.

    Where it is not all of it, a chain says how much, and leaves the time that it spent outside in `inclusion` and
    `mean`, divided by all that time. Without steps of a chain it is 0.
    """
    highest = -np.inf
    for c in range(r.pool.filled[0]):
        highest = max(highest, start_from(r.s, task, G, r.pool.atoms[c], r.pool.size[c]))
    forget(r.aside)
    weigh(r.s, task, G, r.pool, r.aside, -highest, work.expansions)
    if r.aside.total[1] > COMPLETE * r.aside.total[0]:
        return 1.0
    if work.steps == 0:
        return 0.0
    begin(r.chain, r.s, task, G, r.pool.atoms[best], r.pool.size[best])
    r.inclusion[:] = 0.0
    r.mean[:] = 0.0
    for step in range(-(work.steps // 5), work.steps):
        count, rate = list_jumps(r.chain, r.s, task)
        if count == 0:  # no neighbour to speak of: nothing is missed
            return 1.0
        if step >= 0 and not note_time(r.chain, r.aside, 1.0 / rate):
            for a in range(r.s.size[0]):
                i = r.s.support[a]
                r.inclusion[i] += 1.0 / rate
                r.mean[i] += r.s.u[i] / rate
        jump(r.chain, r.s, task, G, count, rate * random_unit(state))
    whole = r.chain.time[0] + r.chain.time[1]
    for j in range(r.mean.shape[0]):
        r.inclusion[j] /= whole
        r.mean[j] /= whole
    share: float = max(r.chain.time[1] / whole, 0.5 / work.steps)
    return share
