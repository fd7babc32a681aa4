"""Climbs to supports that no change of one atom improves, from many random starts, and the best of what was met.

A start is a small random set of atoms, drawn in proportion to softened odds of the network: the true support has a
large basin around its own subsets, and a network that is wrong is wrong about some of the atoms only.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse.recovery._sweep import Sweep, add, best_flip, best_swap, clear, remove
from maxsparse.recovery._tableau import random_below, random_unit

__all__ = [
    "Pool",
    "Task",
    "atom_key",
    "climb",
    "draw_start",
    "drop_below",
    "find",
    "hash_of",
    "insert",
    "keep",
    "make_pool",
    "room_for",
    "search_signal",
    "settled",
    "start_from",
]

LEAST_GAIN = 1e-7  # in nats; less is rounding
MOST_STEPS = 1000  # of one climb; none was seen to come near it
SAME = 1e-4  # in nats: two climbs to one support differ by rounding errors only
# Starts without anything better before a search ends: so many where the best is no chance hit, so many where it was
# reached AGAIN times, and in both cases PATIENCE times as many as the best took to be found.
SURE, USUAL, AGAIN, PATIENCE = 60, 100, 10, 3
# So many are enough for a best that is no chance hit if this share of them ended there: no other basin is large.
FEW, ALIKE = 10, 0.8


class Task(NamedTuple):
    """One signal as the search sees it."""

    b: NDArray[np.float64]  # (m,), Φᵀy
    odds: NDArray[np.float64]  # (m,), log odds by which starts are drawn
    prior: NDArray[np.float64]  # (most + 1,), log probability of one support of each size
    base: float  # evidence of the empty support
    variance: float  # σ²
    slab: float  # δ, or τ² where the slab has two humps
    hump: float  # μ
    enough: float  # log posterior that ends the search


class Pool(NamedTuple):
    """The best supports met so far, in no order."""

    value: NDArray[np.float64]  # (K,), log posterior
    key: NDArray[np.uint64]  # (K,), hash of the support
    size: NDArray[np.int64]  # (K,)
    atoms: NDArray[np.int64]  # (K, most)
    visits: NDArray[np.int64]  # (K,)
    filled: NDArray[np.int64]  # (1,)


@kernel()
def make_pool(K: int, most: int) -> Pool:
    """Return a pool for K supports."""
    return Pool(
        np.empty(K),
        np.empty(K, np.uint64),
        np.empty(K, np.int64),
        np.empty((K, most + 1), np.int64),
        np.empty(K, np.int64),
        np.zeros(1, np.int64),
    )


@kernel()
def atom_key(j: int) -> np.uint64:
    """Return 64 random bits for an atom; the key of a support is the sum over its atoms."""
    x = np.uint64(j) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel()
def hash_of(atoms: NDArray[Any], size: int) -> np.uint64:
    """Return the key of a support, which does not depend on the order of its atoms; never 0."""
    key = np.uint64(1)
    for a in range(size):
        key += atom_key(atoms[a])
    return key


@kernel()
def find(pool: Pool, key: np.uint64, size: int) -> int:
    """Return the place of a support in the pool, −1 if it is not there."""
    for c in range(pool.filled[0]):
        if pool.key[c] == key and pool.size[c] == size:
            return c
    return -1


@kernel()
def room_for(pool: Pool, value: float) -> int:
    """Return a place for a new support: a free one, or that of the worst if this one is better; else −1."""
    count: int = pool.filled[0]
    if count < pool.value.shape[0]:
        pool.filled[0] += 1
        return count
    low = lowest(pool.value)
    if not value > low:
        return -1
    place = 0
    while pool.value[place] != low:
        place += 1
    return place


@kernel(fast=True)
def lowest(values: NDArray[Any]) -> float:
    """Return the smallest of the values, of which none is NaN; vectorised."""
    low = np.inf
    for c in range(values.shape[0]):
        low = min(low, values[c])
    return low


@kernel()
def insert(pool: Pool, key: np.uint64, atoms: NDArray[Any], size: int, value: float) -> int:
    """Put a new support in the pool where it is among the best; return its place, −1 if it is not."""
    place = room_for(pool, value)
    if place >= 0:
        pool.value[place], pool.key[place], pool.size[place], pool.visits[place] = value, key, size, 1
        for a in range(size):
            pool.atoms[place, a] = atoms[a]
    return place


@kernel()
def keep(pool: Pool, atoms: NDArray[Any], size: int, value: float) -> None:
    """Count a visit to a support; put it in the pool where it is among the best."""
    key = hash_of(atoms, size)
    place = find(pool, key, size)
    if place >= 0:
        pool.visits[place] += 1
    else:
        insert(pool, key, atoms, size, value)


@kernel()
def drop_below(pool: Pool, nats: float) -> None:
    """Forget the supports that are so much less probable than the best."""
    best, kept = -np.inf, 0
    for c in range(pool.filled[0]):
        best = max(best, pool.value[c])
    for c in range(pool.filled[0]):
        if pool.value[c] >= best - nats:
            pool.value[kept], pool.key[kept], pool.size[kept] = pool.value[c], pool.key[c], pool.size[c]
            pool.visits[kept] = pool.visits[c]
            for a in range(pool.size[c]):
                pool.atoms[kept, a] = pool.atoms[c, a]
            kept += 1
    pool.filled[0] = kept


@kernel()
def start_from(s: Sweep, task: Task, G: NDArray[Any], atoms: NDArray[Any], size: int) -> float:
    """Make `atoms` the support; return its log posterior."""
    clear(s, task.b, task.variance, task.slab)
    value = task.base
    for a in range(size):
        value += add(s, G, task.variance, task.slab, atoms[a])
    evidence: float = value + task.prior[size]
    return evidence


@kernel()
def climb(s: Sweep, task: Task, G: NDArray[Any], value: float, most: int) -> float:
    """Take the best single change until none is a gain, or more than `most` atoms are in; return the log posterior."""
    for _ in range(MOST_STEPS):
        if s.size[0] > most:
            break
        gain, j = best_flip(s, task.slab, task.prior)
        if gain > LEAST_GAIN:
            k = s.size[0]
            if s.place[j] >= 0:
                value += remove(s, task.slab, j)
            else:
                value += add(s, G, task.variance, task.slab, j)
            value += task.prior[s.size[0]] - task.prior[k]
            continue
        _, leave, enter = best_swap(s, task.slab, LEAST_GAIN)
        if enter < 0:
            break
        value += remove(s, task.slab, leave)
        value += add(s, G, task.variance, task.slab, enter)
    return value


@kernel()
def draw_start(task: Task, size: int, state: NDArray[Any], keys: NDArray[Any], atoms: NDArray[Any]) -> None:
    """Draw `size` atoms without replacement, in proportion to exp(odds): the largest of odds plus Gumbel noise."""
    m = keys.shape[0]
    for j in range(m):
        keys[j] = task.odds[j] - math.log(-math.log(random_unit(state)))
    for a in range(size):
        best = 0
        for j in range(1, m):
            if keys[j] > keys[best]:
                best = j
        atoms[a] = best
        keys[best] = -np.inf


@kernel()
def search_signal(
    s: Sweep,
    pool: Pool,
    task: Task,
    G: NDArray[Any],
    limits: tuple[int, int],
    sizes: tuple[int, int],
    state: NDArray[Any],
) -> int:
    """Climb from random starts of sizes[0] to sizes[1] atoms until the best stays the best; return how many were made.

    There are at most limits[0] of them. The search ends early when nothing better came up for long after the best was
    first met, and the best is either beyond what chance could explain (`task.enough`) or was reached limits[1] times;
    :func:`settled` says how long.
    """
    starts, enough = limits
    keys, atoms = np.empty(s.t.shape[0]), np.empty(sizes[1], np.int64)
    best, since, again, patience = -np.inf, 0, 0, 0
    for c in range(pool.filled[0]):
        best = max(best, pool.value[c])
    for start in range(starts):
        size = sizes[0] + random_below(state, sizes[1] - sizes[0] + 1)
        draw_start(task, size, state, keys, atoms)
        value = climb(s, task, G, start_from(s, task, G, atoms, size), task.prior.shape[0])
        keep(pool, s.support, s.size[0], value)
        if value > best + SAME:
            best, since, again, patience = value, 0, 0, start * PATIENCE
        else:
            since += 1
            again += value > best - SAME
        beyond_chance = best > task.enough
        if (beyond_chance and settled(since, again, patience)) or (since >= USUAL + patience and again >= enough):
            return start + 1
    return starts


@kernel()
def settled(since: int, again: int, patience: int) -> bool:
    """Return whether a best that is no chance hit is final, if `again` of the last `since` climbs ended there."""
    return since >= SURE + patience or (since >= FEW + patience and again >= ALIKE * since)
