"""How much posterior probability lies on a support and around it: best-first enumeration of neighbours.

Every support is expanded into all that differ from it by one atom added, removed or exchanged. Each is counted once, in
the total, in the probability of its atoms and in the posterior mean.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse.recovery._climb import Pool, Task, atom_key, find, hash_of, insert, make_pool, room_for
from maxsparse.recovery._shapes import entering_mean, flip_gains_humped, settle, swap_gains_humped
from maxsparse.recovery._sweep import Sweep, flip_gains, may_gain, penalise, swap_gains

__all__ = ["Mass", "enter_front", "forget", "forget_seen", "is_counted", "is_new", "make_mass", "merge", "weigh"]

NEGLIGIBLE = 14.0  # nats below the best: what is less probable is not counted
EXPANDED = 7.0  # nats below the best: what is less probable is counted, but not its neighbours
TABLE = 1 << 14


class Mass(NamedTuple):
    """What has been counted so far, in units of exp(reference)."""

    total: NDArray[np.float64]  # (2,), of all that was counted, and of what was expanded
    inclusion: NDArray[np.float64]  # (m,), sum over the supports that hold an atom
    mean: NDArray[np.float64]  # (m,), sum of posterior means
    sizes: NDArray[np.float64]  # (most + 2,), sum over the supports of each size, at the last noise level and slab
    seen: NDArray[np.uint64]  # hash table of supports, 0 where empty
    slots: NDArray[np.int64]  # places of its entries: clearing those is faster than clearing the table
    filled: NDArray[np.int64]  # (1,), number of entries
    best: Pool  # most probable supports, value: log probability


@kernel()
def make_mass(m: int, most: int, kept: int) -> Mass:
    """Return sums of nothing, with room for the `kept` most probable supports."""
    return Mass(
        np.zeros(2),
        np.zeros(m),
        np.zeros(m),
        np.zeros(most + 2),
        np.zeros(TABLE, np.uint64),
        np.empty(TABLE // 2 + 1, np.int64),
        np.zeros(1, np.int64),
        make_pool(kept, most),
    )


@kernel()
def forget(mass: Mass) -> None:
    """Make all sums zero."""
    mass.total[:] = 0.0
    mass.inclusion[:] = 0.0
    mass.mean[:] = 0.0
    mass.best.filled[0] = 0


@kernel()
def is_new(mass: Mass, key: np.uint64) -> bool:
    """Enter a key in the table; return False where it was there, or the table is half full."""
    if 2 * mass.filled[0] > TABLE:
        return False
    slot = np.int64(key >> np.uint64(50)) & (TABLE - 1)
    while mass.seen[slot] != 0:
        if mass.seen[slot] == key:
            return False
        slot = (slot + 1) & (TABLE - 1)
    mass.seen[slot] = key
    mass.slots[mass.filled[0]] = slot
    mass.filled[0] += 1
    return True


@kernel()
def forget_seen(mass: Mass) -> None:
    """Empty the table of supports."""
    for c in range(mass.filled[0]):
        mass.seen[mass.slots[c]] = np.uint64(0)
    mass.filled[0] = 0


@kernel()
def is_counted(mass: Mass, key: np.uint64) -> bool:
    """Return whether a support was met by the last enumeration."""
    slot = np.int64(key >> np.uint64(50)) & (TABLE - 1)
    while mass.seen[slot] != 0:
        if mass.seen[slot] == key:
            return True
        slot = (slot + 1) & (TABLE - 1)
    return False


@kernel()
def enter_front(pool: Pool, s: Any, leave: int, enter: int, value: float, key: np.uint64) -> None:
    """Put the support with `leave` (a position, or −1) replaced by `enter` (an atom, or −1) among the best."""
    place = room_for(pool, value)
    if place < 0:
        return
    size = 0
    for a in range(s.size[0]):
        if a != leave:
            pool.atoms[place, size] = s.support[a]
            size += 1
    if enter >= 0:
        pool.atoms[place, size] = enter
        size += 1
    pool.value[place], pool.key[place], pool.size[place], pool.visits[place] = value, key, size, 0


@kernel()
def _count(mass: Mass, s: Sweep, task: Task, leave: int, enter: int, weight: float) -> None:
    """Add a neighbour of the current support to the sums; its means follow from the swept rows."""
    k = s.size[0]
    inverse, own = 0.0, 0.0
    if leave >= 0:
        i = s.support[leave]
        inverse, own = 1.0 / s.t[i], s.u[i]
    mean = 0.0
    if enter >= 0:
        h = s.H[leave, enter] if leave >= 0 else 0.0
        mean = entering_mean(task, s.t[enter] + inverse * h * h, s.u[enter] + own * inverse * h)
        mass.inclusion[enter] += weight
        mass.mean[enter] += weight * mean
    for a in range(k):
        if a == leave:
            continue
        j = s.support[a]
        shared = s.H[a, s.support[leave]] * inverse if leave >= 0 else 0.0
        value = s.u[j] + shared * own
        if enter >= 0:
            slope = s.H[a, enter]
            if leave >= 0:
                slope += shared * s.H[leave, enter]
            value -= slope * mean
        mass.inclusion[j] += weight
        mass.mean[j] += weight * value
    mass.total[0] += weight
    mass.sizes[k - int(leave >= 0) + int(enter >= 0)] += weight


@kernel()
def _expand(s: Sweep, task: Task, value: float, front: Pool, mass: Mass, shift: float) -> None:
    """Count the neighbours of the current support; those worth it join `front`. `shift` makes values log weights."""
    m, k = s.t.shape[0], s.size[0]
    key = hash_of(s.support, k)
    least = -shift - NEGLIGIBLE
    if task.hump > 0.0:
        flip_gains_humped(s, task, least - value)
    else:
        flip_gains(s, task.slab, task.prior)
    for j in range(m):
        new = value + s.gains[j]
        if new > least:
            inside = s.place[j] >= 0
            other = key - atom_key(j) if inside else key + atom_key(j)
            if is_new(mass, other):
                leave, enter = (s.place[j], -1) if inside else (-1, j)
                _count(mass, s, task, leave, enter, math.exp(new + shift))
                enter_front(front, s, leave, enter, new, other)
    penalise(s)
    for a in range(k):
        if task.hump > 0.0:
            swap_gains_humped(s, task, a, least - value)
        elif may_gain(s, a, least - value):
            swap_gains(s, task.slab, a)
        else:
            continue
        rest = key - atom_key(s.support[a])
        for j in range(m):
            new = value + s.gains[j]
            if new > least and is_new(mass, rest + atom_key(j)):
                _count(mass, s, task, a, j, math.exp(new + shift))
                enter_front(front, s, a, j, new, rest + atom_key(j))


@kernel()
def weigh(s: Sweep, task: Task, G: NDArray[Any], found: Pool, mass: Mass, shift: float, expansions: int) -> None:
    """Count the supports in `found` and what is around them, the most probable first.

    `shift` is added to a log posterior to give the log weight in the sums: minus their reference, plus the log prior of
    this noise level and slab.
    """
    forget_seen(mass)
    mass.sizes[:] = 0.0
    front = make_pool(mass.best.value.shape[0], task.prior.shape[0])
    for c in range(found.filled[0]):
        _, value = settle(s, task, G, found.atoms[c], found.size[c])
        if value > -shift - NEGLIGIBLE and is_new(mass, hash_of(s.support, s.size[0])):
            _count(mass, s, task, -1, -1, math.exp(value + shift))
            enter_front(front, s, -1, -1, value, hash_of(s.support, s.size[0]))
    for _ in range(expansions):
        chosen = -1
        for c in range(front.filled[0]):
            if front.visits[c] == 0 and (chosen < 0 or front.value[c] > front.value[chosen]):
                chosen = c
        if chosen < 0 or front.value[chosen] < -shift - EXPANDED:
            break
        value, summed = settle(s, task, G, front.atoms[chosen], front.size[chosen])
        if summed > front.value[chosen]:  # as a neighbour it had the signs of the other
            _count(mass, s, task, -1, -1, math.exp(summed + shift) - math.exp(front.value[chosen] + shift))
            front.value[chosen] = summed
        front.visits[chosen] = 1
        mass.total[1] += math.exp(front.value[chosen] + shift)
        _expand(s, task, value, front, mass, shift)
    for c in range(front.filled[0]):
        merge(mass.best, front, c, front.value[c] + shift)


@kernel()
def merge(best: Pool, front: Pool, c: int, value: float) -> None:
    """Add the c-th support of `front` to the best of all noise levels and slabs."""
    place = find(best, front.key[c], front.size[c])
    if place < 0:
        insert(best, front.key[c], front.atoms[c], front.size[c], value)
    else:  # met at another noise level or slab: probabilities add up
        high, low = max(best.value[place], value), min(best.value[place], value)
        best.value[place] = high + math.log1p(math.exp(low - high))
