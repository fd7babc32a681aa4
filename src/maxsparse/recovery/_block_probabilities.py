"""How probable the sets of blocks that a search met are: sums over supports, noise levels and slabs.

Every support is expanded into all that differ from it by one block added, removed or exchanged, the most probable ones
first, as in :mod:`maxsparse.recovery._neighbours`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse.recovery._block_climb import Problem, level_of, log_sign, move, start_from, tighten
from maxsparse.recovery._block_sweep import Blocks, BlockSweep, flip_gains, swap_gains
from maxsparse.recovery._climb import Pool, atom_key, hash_of, make_pool
from maxsparse.recovery._neighbours import EXPANDED, NEGLIGIBLE, Mass, enter_front, forget, forget_seen, is_new, merge
from maxsparse.recovery._orthant import orthant_mean

__all__ = ["Room", "add_mean", "at_level", "average", "best_of"]

IMPROBABLE = 4.0  # nats below the best at which a noise level and slab are not worth counting
LEAST_IN_MEAN = 1e-3  # probability of a support that counts in the posterior mean


class Room(NamedTuple):
    """Memory for one signal at a time."""

    s: BlockSweep
    pool: Pool
    mass: Mass
    peaks: NDArray[np.float64]  # (P,)


@kernel()
def best_of(pool: Pool) -> int:
    """Return the position of the most probable support."""
    best = 0
    for c in range(pool.filled[0]):
        if pool.value[c] > pool.value[best]:
            best = c
    return best


@kernel()
def at_level(p: Problem, grid: NDArray[Any], slab: float, g: int) -> Problem:
    """Return the problem at the g-th noise level and slab."""
    variance, delta = p.level.variance * math.exp(grid[g, 0]), slab * math.exp(grid[g, 1])
    level = level_of(variance, delta, grid[g, 2], p.level.snapshots, p.positive)
    return Problem(p.b, p.odds, p.prior, p.power, p.n, p.positive, level, p.enough)


@kernel()
def average(
    room: Room,
    p: Problem,
    blocks: Blocks,
    grid: NDArray[Any],
    slab: float,
    expansions: int,
    mean: NDArray[Any],
    evidence: NDArray[Any],
) -> None:
    """Sum over noise levels and slabs, make the sums probabilities, and write the posterior mean (R, M).

    `evidence` (P, most + 1) gets the log evidence by noise level, slab and size, unless it is empty.
    """
    P, s, pool, mass = grid.shape[0], room.s, room.pool, room.mass
    reference, peak = -np.inf, 0
    for g in range(P):
        own = at_level(p, grid, slab, g)
        room.peaks[g] = -np.inf
        for c in range(pool.filled[0]):
            value = start_from(s, blocks, own, pool.atoms[c], pool.size[c])
            room.peaks[g] = max(room.peaks[g], value + grid[g, 3])
        if room.peaks[g] > reference:
            reference, peak = room.peaks[g], g
    forget(mass)
    learning = evidence.shape[0] > 0
    for g in range(P):
        if not learning and room.peaks[g] <= reference - IMPROBABLE:
            continue
        _weigh(s, blocks, at_level(p, grid, slab, g), pool, mass, grid[g, 3] - reference, expansions)
        for k in range(evidence.shape[1] if learning else 0):
            evidence[g, k] = math.log(max(mass.sizes[k], 1e-300)) + reference
    for b in range(mass.inclusion.shape[0]):
        mass.inclusion[b] /= mass.total[0]
    for c in range(mass.best.filled[0]):
        mass.best.value[c] -= math.log(mass.total[0])
    _posterior_mean(s, blocks, at_level(p, grid, slab, peak), mass.best, mean)


@kernel()
def _count(mass: Mass, s: BlockSweep, leave: int, enter: int, weight: float) -> None:
    """Add a support to the sums: the current one without `leave` and with `enter`, positions and blocks or −1."""
    mass.total[0] += weight
    mass.sizes[s.size[0] - int(leave >= 0) + int(enter >= 0)] += weight
    for a in range(s.size[0]):
        if a != leave:
            mass.inclusion[s.support[a]] += weight
    if enter >= 0:
        mass.inclusion[enter] += weight


@kernel()
def _signed_value(s: BlockSweep, blocks: Blocks, p: Problem, leave: int, enter: int, value: float) -> float:
    """Return the log posterior of a neighbour, signs included; `value` is without them. The support stays as it is."""
    out = s.support[leave] if leave >= 0 else -1
    move(s, blocks, p, out, enter)
    sign = log_sign(s, True)
    move(s, blocks, p, enter, out)
    if leave >= 0 and s.at[out] != leave:  # it came back in the last place: put it where it was
        other, place = s.support[leave], s.at[out]
        s.support[leave], s.support[place] = out, other
        s.at[out], s.at[other] = leave, place
    return value + sign


@kernel()
def _neighbour(
    s: BlockSweep, blocks: Blocks, p: Problem, front: Pool, mass: Mass, shift: float, leave: int, enter: int, new: float
) -> None:
    """Count one neighbour, unless it was counted before; `leave` is a position, `enter` a block, each may be −1."""
    key = hash_of(s.support, s.size[0])
    if leave >= 0:
        key -= atom_key(s.support[leave])
    if enter >= 0:
        key += atom_key(enter)
    if not is_new(mass, key):
        return
    if p.positive:
        new = _signed_value(s, blocks, p, leave, enter, new)
        if new <= -shift - NEGLIGIBLE:
            return
    _count(mass, s, leave, enter, math.exp(new + shift))
    enter_front(front, s, leave, enter, new, key)


@kernel()
def _expand(s: BlockSweep, blocks: Blocks, p: Problem, value: float, front: Pool, mass: Mass, shift: float) -> None:
    """Count the neighbours of the current support, whose log posterior without signs is `value`."""
    least = -shift - NEGLIGIBLE - value
    flip_gains(s, blocks, p.prior, p.level)
    for b in range(s.gains.shape[0]):
        inside, gain = s.at[b] >= 0, s.gains[b]
        if gain > least and (inside or not p.positive or gain + tighten(s, b, s.T, s.U) > least):
            leave, enter = (s.at[b], -1) if inside else (-1, b)
            _neighbour(s, blocks, p, front, mass, shift, leave, enter, value + gain)
    for a in range(s.size[0]):
        swap_gains(s, blocks, a, p.level)
        for b in range(s.gains.shape[0]):
            gain = s.gains[b]
            if gain > least and (not p.positive or gain + tighten(s, b, s.T2, s.U2) > least):
                _neighbour(s, blocks, p, front, mass, shift, a, b, value + gain)


@kernel()
def _weigh(s: BlockSweep, blocks: Blocks, p: Problem, found: Pool, mass: Mass, shift: float, expansions: int) -> None:
    """Count the supports in `found` and what is around them, the most probable first."""
    forget_seen(mass)
    mass.sizes[:] = 0.0
    front = make_pool(mass.best.value.shape[0], p.prior.shape[0])
    for c in range(found.filled[0]):
        value = start_from(s, blocks, p, found.atoms[c], found.size[c])
        key = hash_of(s.support, s.size[0])
        if value > -shift - NEGLIGIBLE and is_new(mass, key):
            _count(mass, s, -1, -1, math.exp(value + shift))
            enter_front(front, s, -1, -1, value, key)
    for _ in range(expansions):
        chosen = -1
        for c in range(front.filled[0]):
            if front.visits[c] == 0 and (chosen < 0 or front.value[c] > front.value[chosen]):
                chosen = c
        if chosen < 0 or front.value[chosen] < -shift - EXPANDED:
            break
        front.visits[chosen] = 1
        value = start_from(s, blocks, p, front.atoms[chosen], front.size[chosen])
        _expand(s, blocks, p, value - log_sign(s, p.positive), front, mass, shift)
    for c in range(front.filled[0]):
        merge(mass.best, front, c, front.value[c] + shift)


@kernel()
def _posterior_mean(s: BlockSweep, blocks: Blocks, p: Problem, best: Pool, out: NDArray[Any]) -> None:
    """Average the means (R, M) of the most probable supports."""
    total = 0.0
    for c in range(best.filled[0]):
        weight = math.exp(best.value[c])
        if weight < LEAST_IN_MEAN and best.value[c] < best.value[best_of(best)]:
            continue
        total += weight
        start_from(s, blocks, p, best.atoms[c], best.size[c])
        add_mean(s, p, weight, out)
    for r in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[r, c] /= max(total, 1e-300)


@kernel()
def add_mean(s: BlockSweep, p: Problem, weight: float, out: NDArray[Any]) -> None:
    """Add the posterior mean (R, M) of the current support, times a weight."""
    K = s.inside[0]
    mean, C = np.empty(K), np.empty((K, K))
    for r in range(s.U.shape[0]):
        for a in range(K):
            mean[a] = s.U[r, s.columns[a]]
        if p.positive:
            for a in range(K):
                for e in range(K):
                    C[a, e] = -s.H[a, s.columns[e]]
            orthant_mean(mean, C, K)
        for a in range(K):
            out[r, s.columns[a]] += weight * mean[a]
