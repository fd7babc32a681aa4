r"""A Markov chain over supports made of blocks, for posteriors that are spread over more supports than can be listed.

One step exchanges a block, adds one or removes one (Metropolis and Hastings). What enters is drawn in proportion to the
posterior without signs, times the probability of its own sign; given what stays, these weights are the same before and
after an exchange, so that only the other signs are left to accept or refuse. Noise level and slab are drawn again,
given the support, every few steps; the support then joins the listed ones, if it is among the most probable.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse.recovery._block_climb import Problem, log_sign, move, start_from, tighten
from maxsparse.recovery._block_probabilities import Room, add_mean, at_level, best_of
from maxsparse.recovery._block_sweep import Blocks, BlockSweep, flip_gains, swap_gains
from maxsparse.recovery._climb import Pool, find, hash_of, insert
from maxsparse.recovery._neighbours import EXPANDED
from maxsparse.recovery._orthant import SAFE, log_normal_cdf
from maxsparse.recovery._tableau import random_below, random_unit

__all__ = ["wander"]

CHAINS = 4  # from different local optima
FORGOTTEN = 5  # the first of so many parts of a chain do not count
OUT_OF_QUESTION = 10.0  # nats below the best at which a noise level and slab are left out
REFRESHED, AVERAGED = 100, 10  # steps after which noise level and slab are drawn again, and coefficients counted
EXCHANGES = 0.6  # share of the steps
LIGHTEST = 25.0  # nats below the heaviest: what weighs less is not drawn


@kernel()
def _own_sign(s: BlockSweep, b: int, positive: bool) -> float:
    """Return what `tighten` gives for a block that is inside, as if it was to enter."""
    if not positive or s.T.shape[1] > 1:
        return 0.0
    total, deviation = 0.0, math.sqrt(-s.H[s.place[b], b])
    for r in range(s.U.shape[0]):
        z = s.U[r, b] / deviation
        if z < SAFE:
            total += log_normal_cdf(z)
    return total


@kernel()
def _weights(s: BlockSweep, positive: bool, T: NDArray[Any], U: NDArray[Any], least: float) -> tuple[float, float]:
    """Make gains of what is outside log weights, those above `least` at least; return the reference and their sum."""
    top = least
    for b in range(s.gains.shape[0]):
        if s.at[b] < 0 and s.gains[b] > top:
            top = s.gains[b]
    total, best = 0.0, -np.inf
    for b in range(s.gains.shape[0]):
        if s.at[b] >= 0 or s.gains[b] < top - 2 * LIGHTEST:
            s.gains[b] = -np.inf
        elif positive:
            s.gains[b] += tighten(s, b, T, U)
        best = max(best, s.gains[b])
    best = max(best, least)
    for b in range(s.gains.shape[0]):
        if s.gains[b] > best - LIGHTEST:
            total += math.exp(s.gains[b] - best)
        else:
            s.gains[b] = -np.inf
    return best, total


@kernel()
def _draw(s: BlockSweep, reference: float, target: float) -> int:
    """Return the block at which the sum of the weights passes `target`, −1 if it does not."""
    total = 0.0
    for b in range(s.gains.shape[0]):
        if s.gains[b] > -np.inf:
            total += math.exp(s.gains[b] - reference)
            if total > target:
                return b
    return -1


@kernel()
def _exchange(
    s: BlockSweep, blocks: Blocks, p: Problem, sign: float, state: NDArray[Any], count: float, inclusion: NDArray[Any]
) -> float:
    """Exchange one block for another, or for itself; return log_sign of the support then.

    All that could take its place add to `inclusion` by their weights, `count` in sum: one of them alone says less.
    """
    a = random_below(state, s.size[0])
    out = s.support[a]
    swap_gains(s, blocks, a, p.level)
    stay = _own_sign(s, out, p.positive)
    reference, total = _weights(s, p.positive, s.T2, s.U2, stay)
    total += math.exp(stay - reference)
    for e in range(s.size[0]):
        inclusion[s.support[e]] += count * (math.exp(stay - reference) / total if e == a else 1.0)
    for b in range(s.gains.shape[0]):
        if s.gains[b] > -np.inf:
            inclusion[b] += count * math.exp(s.gains[b] - reference) / total
    b = _draw(s, reference, random_unit(state) * total)
    if b < 0:
        return sign
    own = 0.0 if not p.positive else tighten(s, b, s.T2, s.U2)
    move(s, blocks, p, out, b)
    fresh = log_sign(s, p.positive)
    if math.log(random_unit(state)) < fresh - own - sign + stay:
        return fresh
    move(s, blocks, p, b, out)
    return sign


@kernel()
def _flip(s: BlockSweep, blocks: Blocks, p: Problem, sign: float, state: NDArray[Any]) -> float:
    """Add or remove one block, each with probability one half; return log_sign of the support then."""
    if random_unit(state) < 0.5:
        flip_gains(s, blocks, p.prior, p.level)
        reference, total = _weights(s, p.positive, s.T, s.U, -np.inf)
        b = _draw(s, reference, random_unit(state) * total)
        if b < 0:
            return sign
        own = 0.0 if not p.positive else tighten(s, b, s.T, s.U)
        move(s, blocks, p, -1, b)
        fresh = log_sign(s, p.positive)
        ratio = reference + math.log(total) + fresh - sign - own - math.log(s.size[0])
        if math.log(random_unit(state)) < ratio:
            return fresh
        move(s, blocks, p, b, -1)
        return sign
    if s.size[0] == 0:
        return sign
    k = s.size[0]
    out = s.support[random_below(state, k)]
    stay = _own_sign(s, out, p.positive)
    move(s, blocks, p, out, -1)
    fresh = log_sign(s, p.positive)
    flip_gains(s, blocks, p.prior, p.level)
    reference, total = _weights(s, p.positive, s.T, s.U, -np.inf)
    ratio = reference + math.log(max(total, 1e-300)) + sign - fresh - stay - math.log(k)
    if math.log(random_unit(state)) < -ratio:
        return fresh
    move(s, blocks, p, -1, out)
    return sign


@kernel()
def _values(
    s: BlockSweep, blocks: Blocks, p: Problem, grid: NDArray[Any], slab: float, pool: Pool, c: int, values: NDArray[Any]
) -> float:
    """Set values to the log posteriors of a support at every noise level and slab; return the log of their sum."""
    top, total = -np.inf, 0.0
    for g in range(grid.shape[0]):
        values[g] = start_from(s, blocks, at_level(p, grid, slab, g), pool.atoms[c], pool.size[c]) + grid[g, 3]
        top = max(top, values[g])
    for g in range(grid.shape[0]):
        total += math.exp(values[g] - top)
    log_sum: float = top + math.log(total)
    return log_sum


@kernel()
def _draw_level(values: NDArray[Any], log_sum: float, state: NDArray[Any]) -> int:
    target, total = random_unit(state), 0.0
    for g in range(values.shape[0]):
        total += math.exp(values[g] - log_sum)
        if total > target:
            return g
    return int(np.argmax(values))


@kernel()
def _begin(pool: Pool, number: int, here: Pool) -> None:
    """Copy the support of the next best rank that is not far behind to `here`, the best one if there is none."""
    best, taken = best_of(pool), -1
    for c in range(pool.filled[0]):
        better = 0
        for other in range(pool.filled[0]):
            better += pool.value[other] > pool.value[c] or (pool.value[other] == pool.value[c] and other < c)
        if better == number and pool.value[c] > pool.value[best] - EXPANDED:
            taken = c
    taken = best if taken < 0 else taken
    here.size[0] = pool.size[taken]
    for a in range(pool.size[taken]):
        here.atoms[0, a] = pool.atoms[taken, a]


@kernel()
def wander(
    room: Room,
    p: Problem,
    blocks: Blocks,
    grid: NDArray[Any],
    slab: float,
    here: Pool,
    keys: NDArray[Any],
    state: NDArray[Any],
    mean: NDArray[Any],
    draws: tuple[NDArray[Any], NDArray[Any]],
) -> None:
    """Replace inclusion, posterior mean (R, M) and the listed supports of `room` by what chains of len(keys) steps say.

    `here` is room for one support, `keys` for those that were visited. `draws`, sizes (D,) and blocks (D, most), get D
    of them, the same number of steps apart.
    """
    s, mass, best = room.s, room.mass, room.mass.best
    sizes, drawn = draws
    first = best_of(best)
    offset = _values(s, blocks, p, grid, slab, best, first, room.peaks) - best.value[first]
    grid = grid[room.peaks > np.max(room.peaks) - OUT_OF_QUESTION]
    peaks = room.peaks[: len(grid)]
    mass.inclusion[:] = 0.0
    mean[:] = 0.0
    length, count, exchanges, averaged, sign, own = len(keys) // CHAINS, 0, 0, 0, 0.0, p
    apart = max(1, (length - length // FORGOTTEN) * CHAINS // len(drawn))
    for step in range(length * CHAINS):
        t = step % length
        if t % REFRESHED == 0:
            if t == 0:
                _begin(room.pool, step // length, here)
            else:
                here.size[0] = s.size[0]
                for a in range(s.size[0]):
                    here.atoms[0, a] = s.support[a]
            log_sum = _values(s, blocks, p, grid, slab, here, 0, peaks)
            key = hash_of(here.atoms[0], here.size[0])
            if find(best, key, here.size[0]) < 0:
                insert(best, key, here.atoms[0], here.size[0], log_sum - offset)
            own = at_level(p, grid, slab, _draw_level(peaks, log_sum, state))
            start_from(s, blocks, own, here.atoms[0], here.size[0])
            sign = log_sign(s, p.positive)
        counts = t >= length // FORGOTTEN
        if random_unit(state) < EXCHANGES:
            exchanges += counts
            if s.size[0] > 0:
                sign = _exchange(s, blocks, own, sign, state, 1.0 if counts else 0.0, mass.inclusion)
        else:
            sign = _flip(s, blocks, own, sign, state)
        if not counts:
            continue
        keys[count] = hash_of(s.support, s.size[0])
        count += 1
        if count % apart == 0 and count // apart <= len(drawn):
            place = count // apart - 1
            sizes[place] = min(s.size[0], drawn.shape[1])
            for a in range(sizes[place]):
                drawn[place, a] = s.support[a]
        if t % AVERAGED == 0:
            add_mean(s, own, 1.0, mean)
            averaged += 1
    mass.inclusion[:] /= max(exchanges, 1)
    mean[:] /= max(averaged, 1)
    _share(best, keys[:count])


@kernel()
def _share(best: Pool, keys: NDArray[Any]) -> None:
    """Make the listed supports together as probable as the share of time that chains spent among them."""
    inside, total, top = 0, 0.0, best.value[best_of(best)]
    for key in keys:
        for c in range(best.filled[0]):
            if best.key[c] == key:
                inside += 1
                break
    for c in range(best.filled[0]):
        total += math.exp(best.value[c] - top)
    change = math.log((inside + 1.0) / (len(keys) + 1.0)) - top - math.log(total)
    for c in range(best.filled[0]):
        best.value[c] += change
