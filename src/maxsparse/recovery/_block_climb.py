r"""Climbs over supports made of blocks: flips and exchanges of one block until none is a gain.

Where coefficients are non-negative, the slab ends at zero, and the posterior of a support is that of the gaussian slab
times the probability :math:`P(x_S \ge 0 \mid y)`, over that of the slab itself. It is at most one, so that gaussian
gains are bounds: the best of them are tried until one is a gain or none can be.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse.recovery._block_sweep import (
    Blocks,
    BlockSweep,
    Level,
    add_block,
    clear,
    flip_gains,
    remove_block,
    swap_gains,
)
from maxsparse.recovery._climb import LEAST_GAIN, MOST_STEPS, PATIENCE, SAME, Pool, keep
from maxsparse.recovery._orthant import SAFE, log_normal_cdf, log_orthant
from maxsparse.recovery._tableau import random_below, random_unit

__all__ = ["Problem", "climb", "largest", "level_of", "log_sign", "move", "search_signal", "start_from", "tighten"]

CROWDED = 0.7  # of n: a support of more columns explains noise, and exchanges in it take long
TRIES = 6  # moves that are made to see whether they are a gain, with non-negative coefficients
SURE, USUAL, AGAIN = 15, 30, 5  # starts without anything better before a search ends, as in `_climb`


class Problem(NamedTuple):
    """One signal as the search sees it."""

    b: NDArray[np.float64]  # (R, M), YΦ
    odds: NDArray[np.float64]  # (B,), log odds by which starts are drawn
    prior: NDArray[np.float64]  # (most + 1,), log probability of one support of each number of blocks
    power: float  # ‖Y‖²
    n: float  # measurements
    positive: bool
    level: Level
    enough: float  # log posterior that ends the search


@kernel()
def level_of(variance: float, slab: float, ratio: float, snapshots: float, positive: bool) -> Level:
    """Return the level for a slab of mean square `slab` with the ratio μ/τ of its mean and deviation."""
    tau2 = slab / (1.0 + ratio * ratio)
    cost = ratio * ratio + (2.0 * log_normal_cdf(ratio) if positive else 0.0)
    return Level(variance, tau2, ratio * math.sqrt(tau2), cost, snapshots)


@kernel()
def log_sign(s: BlockSweep, positive: bool) -> float:
    """Return log P(x ≥ 0 | y) of the current support, over all snapshots; 0 where signs are free."""
    total, K = 0.0, s.inside[0]
    if not positive or K == 0:
        return 0.0
    mean, C = np.empty(K), np.empty((K, K))
    for r in range(s.U.shape[0]):
        doubtful = False
        for a in range(K):
            j = s.columns[a]
            mean[a] = s.U[r, j]
            doubtful |= mean[a] < SAFE * math.sqrt(-s.H[a, j])
        if doubtful:
            for a in range(K):
                for c in range(K):
                    C[a, c] = -s.H[a, s.columns[c]]
            total += log_orthant(mean, C, K)
    return total


@kernel()
def start_from(s: BlockSweep, blocks: Blocks, p: Problem, chosen: NDArray[Any], size: int) -> float:
    """Make the chosen blocks the support, as far as there is room; return its log posterior."""
    level = p.level
    clear(s, blocks, p.b, level)
    value = -0.5 * (p.n * level.snapshots * math.log(level.variance) + p.power / level.variance)
    for a in range(size):
        b = chosen[a]
        if s.inside[0] + blocks.start[b + 1] - blocks.start[b] < s.H.shape[0] and s.size[0] + 1 < p.prior.shape[0]:
            value += add_block(s, blocks, b, level)
    total: float = value + p.prior[s.size[0]] + log_sign(s, p.positive)
    return total


@kernel()
def move(s: BlockSweep, blocks: Blocks, p: Problem, leave: int, enter: int) -> float:
    """Take block `leave` out and put `enter` in, where not −1; return the gain but for the signs' part."""
    k, gain = s.size[0], 0.0
    if leave >= 0:
        gain += remove_block(s, blocks, leave, p.level)
    if enter >= 0:
        gain += add_block(s, blocks, enter, p.level)
    total: float = gain + p.prior[s.size[0]] - p.prior[k]
    return total


@kernel()
def largest(values: NDArray[Any]) -> int:
    """Return the position of the largest value."""
    best = 0
    for j in range(1, values.shape[0]):
        if values[j] > values[best]:
            best = j
    return best


@kernel()
def tighten(s: BlockSweep, b: int, T: NDArray[Any], U: NDArray[Any]) -> float:
    """Return a bound on what signs add to the gain of entering block b: the probability of its own sign."""
    if s.T.shape[1] > 1:
        return 0.0
    total, deviation = 0.0, math.sqrt(T[b, 0])
    for r in range(U.shape[0]):
        z = U[r, b] / deviation
        if z < SAFE:
            total += log_normal_cdf(z)
    return total


@kernel()
def _try_moves(
    s: BlockSweep, blocks: Blocks, p: Problem, leave: int, T: NDArray[Any], U: NDArray[Any], sign: float
) -> tuple[float, float]:
    """Make the most promising moves until one is a gain, and undo the others; return the gain, or 0, and log_sign."""
    tight = np.zeros(s.gains.shape[0], np.bool_)
    tries = 0
    while tries < TRIES:
        b = largest(s.gains)
        if not s.gains[b] - sign > LEAST_GAIN:
            break
        inside = s.at[b] >= 0
        if not tight[b] and not inside:
            s.gains[b] += tighten(s, b, T, U)
            tight[b] = True
            continue
        out, into = (b, -1) if inside else (leave, b)
        gain = move(s, blocks, p, out, into)
        fresh = log_sign(s, True)
        if gain + fresh - sign > LEAST_GAIN:
            return gain + fresh - sign, fresh
        move(s, blocks, p, into, out)
        s.gains[b] = -np.inf
        tries += 1
    return 0.0, sign


@kernel()
def _climb_signed(s: BlockSweep, blocks: Blocks, p: Problem, value: float) -> float:
    """Climb with non-negative coefficients; the first exchange that is a gain is taken."""
    sign, held = log_sign(s, True), np.empty(s.support.shape[0], np.int64)
    for _ in range(MOST_STEPS):
        flip_gains(s, blocks, p.prior, p.level)
        gain, sign = _try_moves(s, blocks, p, -1, s.T, s.U, sign)
        k = s.size[0] if s.inside[0] <= CROWDED * p.n else 0
        for a in range(k):
            held[a] = s.support[a]
        for a in range(k):
            if gain > 0.0:
                break
            swap_gains(s, blocks, s.at[held[a]], p.level)
            gain, sign = _try_moves(s, blocks, p, held[a], s.T2, s.U2, sign)
        if gain == 0.0:
            break
        value += gain
    return value


@kernel()
def climb(s: BlockSweep, blocks: Blocks, p: Problem, value: float) -> float:
    """Take the best single change until none is a gain; return the log posterior that is reached."""
    if p.positive:
        return _climb_signed(s, blocks, p, value)
    for _ in range(MOST_STEPS):
        flip_gains(s, blocks, p.prior, p.level)
        enter, leave = largest(s.gains), -1
        gain = s.gains[enter]
        if gain > LEAST_GAIN:
            if s.at[enter] >= 0:
                enter, leave = -1, enter
        else:
            for a in range(s.size[0] if s.inside[0] <= CROWDED * p.n else 0):
                swap_gains(s, blocks, a, p.level)
                b = largest(s.gains)
                if s.gains[b] > gain:
                    gain, leave, enter = s.gains[b], s.support[a], b
            if not gain > LEAST_GAIN:
                break
        value += move(s, blocks, p, leave, enter)
    return value


@kernel()
def _draw(odds: NDArray[Any], size: int, state: NDArray[Any], keys: NDArray[Any], chosen: NDArray[Any]) -> None:
    """Draw `size` blocks without replacement, in proportion to exp(odds)."""
    for j in range(keys.shape[0]):
        keys[j] = odds[j] - math.log(-math.log(random_unit(state)))
    for a in range(size):
        best = largest(keys)
        chosen[a] = best
        keys[best] = -np.inf


@kernel()
def search_signal(
    s: BlockSweep, blocks: Blocks, p: Problem, pool: Pool, starts: int, sizes: tuple[int, int], state: NDArray[Any]
) -> int:
    """Climb from random starts of sizes[0] to sizes[1] blocks until the best stays the best; return how many."""
    keys, chosen = np.empty(p.odds.shape[0]), np.empty(sizes[1], np.int64)
    best, since, again, patience = -np.inf, 0, 0, 0
    for c in range(pool.filled[0]):
        best = max(best, pool.value[c])
    for start in range(starts):
        size = sizes[0] + random_below(state, sizes[1] - sizes[0] + 1)
        _draw(p.odds, size, state, keys, chosen)
        value = climb(s, blocks, p, start_from(s, blocks, p, chosen, size))
        keep(pool, s.support, s.size[0], value)
        if value > best + SAME:
            best, since, again, patience = value, 0, 0, start * PATIENCE
        else:
            since += 1
            again += value > best - SAME
        if (since >= SURE + patience and best > p.enough) or (since >= USUAL + patience and again >= AGAIN):
            return start + 1
    return starts
