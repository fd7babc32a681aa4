r"""A Markov chain over supports, for what enumeration around the best ones leaves out.

The chain knows all its neighbours (one atom added, removed or exchanged) and jumps to each at the rate
:math:`p'/(p + p')` of the probabilities there and here, so that no step is ever rejected; a support counts for the mean
time that the chain would wait there. These times are in proportion to the posterior under the gaussian slab [1]_. The
share of time spent among the supports that were enumerated says how much probability was missed.

References
----------
.. [1] G. Zanella, "Informed proposals for local MCMC in discrete spaces", JASA 115, 2020.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse.recovery._climb import Task, atom_key, hash_of, start_from
from maxsparse.recovery._neighbours import Mass, is_counted
from maxsparse.recovery._sweep import Sweep, add, flip_gains, may_gain, penalise, remove, swap_gains

__all__ = ["Chain", "begin", "jump", "list_jumps", "make_chain", "note_time"]

SLOWEST = -7.0  # log rate below which a jump is left out


class Chain(NamedTuple):
    """Where a chain is, and where it has been."""

    time: NDArray[np.float64]  # (2,), outside and inside the enumerated supports
    key: NDArray[np.uint64]  # (1,), of the present support
    value: NDArray[np.float64]  # (1,), its log posterior
    rates: NDArray[np.float64]  # (moves,), sums of the rates of the jumps from there
    leave: NDArray[np.int64]  # (moves,), position in the support of the atom that leaves, or −1
    enter: NDArray[np.int64]  # (moves,), atom that enters, or −1


@kernel()
def make_chain(m: int, most: int) -> Chain:
    """Return room for a chain over supports of at most so many of m atoms."""
    moves = m * (most + 2)
    return Chain(
        np.zeros(2),
        np.zeros(1, np.uint64),
        np.zeros(1),
        np.empty(moves),
        np.empty(moves, np.int64),
        np.empty(moves, np.int64),
    )


@kernel()
def begin(chain: Chain, s: Sweep, task: Task, G: NDArray[Any], atoms: NDArray[Any], size: int) -> None:
    """Start at a support."""
    chain.time[:] = 0.0
    chain.value[0] = start_from(s, task, G, atoms, size)
    chain.key[0] = hash_of(s.support, size)


@kernel()
def note_time(chain: Chain, known: Mass, wait: float) -> bool:
    """Count the time at the present support; return whether it was enumerated."""
    inside: bool = is_counted(known, chain.key[0])
    chain.time[int(inside)] += wait
    return inside


@kernel()
def _list(chain: Chain, gain: float, leave: int, enter: int, count: int, total: float) -> tuple[int, float]:
    """Append a jump; return the new number of jumps and the sum of their rates."""
    if gain > SLOWEST:
        total += 1.0 / (1.0 + math.exp(-gain))
        chain.rates[count], chain.leave[count], chain.enter[count] = total, leave, enter
        count += 1
    return count, total


@kernel()
def list_jumps(chain: Chain, s: Sweep, task: Task) -> tuple[int, float]:
    """List the jumps from the current support; return how many, and the sum of their rates."""
    m, k = s.t.shape[0], s.size[0]
    count, total = 0, 0.0
    flip_gains(s, task.slab, task.prior)
    for j in range(m):
        leave = s.place[j]
        count, total = _list(chain, s.gains[j], leave, -1 if leave >= 0 else j, count, total)
    penalise(s)
    for a in range(k):
        if may_gain(s, a, SLOWEST):
            swap_gains(s, task.slab, a)
            for j in range(m):
                count, total = _list(chain, s.gains[j], a, j, count, total)
    return count, total


@kernel()
def jump(chain: Chain, s: Sweep, task: Task, G: NDArray[Any], count: int, target: float) -> None:
    """Make the jump whose cumulative rate is the first above `target`; there must be one."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if chain.rates[middle] > target:
            high = middle
        else:
            low = middle + 1
    before = s.size[0]
    if chain.leave[low] >= 0:
        i = s.support[chain.leave[low]]
        chain.key[0] -= atom_key(i)
        chain.value[0] += remove(s, task.slab, i)
    if chain.enter[low] >= 0:
        chain.key[0] += atom_key(chain.enter[low])
        chain.value[0] += add(s, G, task.variance, task.slab, chain.enter[low])
    chain.value[0] += task.prior[s.size[0]] - task.prior[before]
