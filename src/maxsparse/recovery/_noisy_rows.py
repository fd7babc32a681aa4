"""The compiled search for the most probable supports, one signal after the other: climbs, then probabilities."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse.recovery._climb import Pool, Task, climb, drop_below, keep, search_signal, start_from
from maxsparse.recovery._neighbours import Mass
from maxsparse.recovery._probabilities import Slabs, Work, average, make_room
from maxsparse.recovery._sweep import Sweep
from maxsparse.recovery._tableau import start_random

__all__ = ["BEYOND_CHANCE", "Out", "Shared", "Signals", "search_rows"]

SHARPNESS = 0.3  # of the scores that draw the starts
SMALLEST, LARGEST = 0.1, 0.4  # sizes of starts, in units of n
LEAST_SLAB = 4.0  # mean square of the coefficients in units of σ²: smaller ones could not be told from noise
OUT_OF_REACH = 20.0  # nats below the best of what was met, beyond which no other slab makes a support probable
BEYOND_CHANCE = 12.0  # nats by which an answer must beat a dense explanation of y


class Shared(NamedTuple):
    """What all signals of one dictionary share."""

    G: NDArray[np.float64]  # (m, m), QᵀQ
    prior: NDArray[np.float64]  # (most + 1,), log probability of one support of each size
    spectrum: NDArray[np.float64]  # (n,), eigenvalues of ΦΦᵀ
    grid: NDArray[np.float64]  # (P, 4): log factors of σ² and δ, ratio μ/τ, log weight
    slab: float  # δ, or 0 where every signal has its own


class Signals(NamedTuple):
    """What belongs to each of N signals."""

    Z: NDArray[np.float64]  # (N, n)
    B: NDArray[np.float64]  # (N, m), ZQ
    energy: NDArray[np.float64]  # (N, n), squares in the basis that diagonalises QQᵀ
    odds: NDArray[np.float64]  # (N, m)
    suggested: NDArray[np.bool_]  # (N, C, m), supports to begin with


class Out(NamedTuple):
    """Where the answers go."""

    value: NDArray[np.float64]  # (N, KEPT), log probability
    size: NDArray[np.int64]  # (N, KEPT)
    atoms: NDArray[np.int32]  # (N, KEPT, most + 1)
    inclusion: NDArray[np.float64]  # (N, m)
    mean: NDArray[np.float64]  # (N, m)
    level: NDArray[np.float64]  # (N, 3), σ², δ and the log probability of the signal
    evidence: NDArray[np.float64]  # (N, P, most + 1) or empty: log evidence by noise level, slab and size
    starts: NDArray[np.int64]  # (N,)
    share: NDArray[np.float64]  # (N,), of the probability that was enumerated


@kernel()
def search_rows(
    piece: int, pieces: int, shared: Shared, signals: Signals, starts: int, work: Work, seed: np.uint64, out: Out
) -> None:
    N, m = signals.B.shape
    n, most = signals.Z.shape[1], shared.prior.shape[0] - 1
    room = make_room(m, most, len(shared.grid))
    s, pool = room.s, room.pool
    state, soft = np.empty(1, np.uint64), np.empty(m)
    largest = max(1, min(most, m, int(LARGEST * n)))
    sizes = (max(1, min(int(SMALLEST * n), largest)), largest)
    for row in range(piece, N, pieces):
        start_random(state, seed, signals.Z[row])
        for j in range(m):
            soft[j] = SHARPNESS * signals.odds[row, j]
        task = _learn(s, pool, shared, signals, soft, row, out.level[row, 0])
        out.starts[row] = search_signal(s, pool, task, shared.G, (starts, work.again), sizes, state)
        out.level[row, 1] = max(_slab_of(s, pool, task, shared.G), LEAST_SLAB * out.level[row, 0])
        drop_below(pool, OUT_OF_REACH)
        slab = shared.slab if shared.slab > 0.0 else out.level[row, 1]
        slabs = Slabs(n, shared.grid, slab)
        out.share[row], out.level[row, 2] = average(room, task, shared.G, slabs, work, state, out.evidence[row])
        _write(room.mass, out, row)


@kernel()
def _make_task(
    b: NDArray[Any], soft: NDArray[Any], shared: Shared, energy: NDArray[Any], variance: float, slab: float, size: int
) -> Task:
    """Set the noise level and the slab; an answer is beyond chance if it beats a dense x of the same power by far."""
    m, n = b.shape[0], energy.shape[0]
    share = slab * max(size, 1) / m
    base, dense = 0.0, BEYOND_CHANCE
    for i in range(n):
        total = variance + share * shared.spectrum[i]
        base -= 0.5 * (math.log(variance) + energy[i] / variance)
        dense -= 0.5 * (math.log(total) + energy[i] / total)
    return Task(b, soft, shared.prior, base, variance, slab, 0.0, dense)


@kernel()
def _learn(
    s: Sweep, pool: Pool, shared: Shared, signals: Signals, soft: NDArray[Any], row: int, variance: float
) -> Task:
    """Learn the slab's variance from climbs that begin at the suggested supports; leave these climbs in the pool."""
    b, energy, suggested = signals.B[row], signals.energy[row], signals.suggested[row]
    m, most, n = b.shape[0], shared.prior.shape[0] - 1, energy.shape[0]
    power = np.sum(energy)
    atoms = np.empty(most + 1, np.int64)
    slab, size = max(power - n * variance, 0.1 * power, 0.01 * variance) / max(1.0, 0.25 * n), n // 4
    for _ in range(3):
        task = _make_task(b, soft, shared, energy, variance, slab, size)
        pool.filled[0] = 0
        best = -np.inf
        for c in range(suggested.shape[0]):
            k = 0
            for j in range(m):
                if suggested[c, j] and k < most:
                    atoms[k] = j
                    k += 1
            value = start_from(s, task, shared.G, atoms, k)
            keep(pool, s.support, k, value)
            value = climb(s, task, shared.G, value, task.prior.shape[0])
            keep(pool, s.support, s.size[0], value)
            if value > best:
                best, size = value, s.size[0]
        learned = _slab_of(s, pool, task, shared.G)
        if abs(math.log(learned / slab)) < 0.2:
            break
        slab = learned
    return task


@kernel()
def _slab_of(s: Sweep, pool: Pool, task: Task, G: NDArray[Any]) -> float:
    """Return the mean square of the coefficients on the best support: one step of EM, pulled to the present value."""
    best = 0
    for c in range(pool.filled[0]):
        if pool.value[c] > pool.value[best]:
            best = c
    start_from(s, task, G, pool.atoms[best], pool.size[best])
    total = task.slab
    for a in range(s.size[0]):
        i = s.support[a]
        total += s.u[i] * s.u[i] + s.t[i]
    mean: float = total / (1.0 + s.size[0])
    return mean


@kernel()
def _write(mass: Mass, out: Out, row: int) -> None:
    best = mass.best
    for c in range(best.filled[0]):
        out.value[row, c], out.size[row, c] = best.value[c], best.size[c]
        for a in range(best.size[c]):
            out.atoms[row, c, a] = best.atoms[c, a]
    for j in range(mass.mean.shape[0]):
        out.mean[row, j] = mass.mean[j]
        out.inclusion[row, j] = min(1.0, mass.inclusion[j])
