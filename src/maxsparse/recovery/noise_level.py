r"""The noise level of every signal by itself: that of its most probable sparse explanation.

With m > n some x explains every y exactly, so that the residual of a fit says nothing about the noise: the number of
supports of that size has to be held against it. A search at a level that is several times too large still finds the
true support, one at a level that is too small finds nothing. So climbs are made on a ladder of levels, from the
signal's own size downwards, and what they reach is compared with σ integrated out (:mod:`maxsparse.recovery._free`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import times
from maxsparse._core.threads import over_slices
from maxsparse._core.unit_atoms import UnitAtoms, unit_atoms
from maxsparse._core.validation import FloatArray
from maxsparse.recovery._climb import PATIENCE, SAME, Pool, Task, climb, draw_start, make_pool, settled, start_from
from maxsparse.recovery._free import Free, dense_evidence, keep_free, settle_free, start_free
from maxsparse.recovery._noisy_rows import BEYOND_CHANCE, LARGEST, SHARPNESS, SMALLEST, Signals
from maxsparse.recovery._probabilities import POOL
from maxsparse.recovery._sweep import Sweep, make_sweep
from maxsparse.recovery._tableau import random_below, start_random
from maxsparse.recovery.law import wide_law
from maxsparse.recovery.noisy_search import CLIP, climbs_of, most_atoms, promising

__all__ = ["LISTED", "Levels", "noise_level", "signal_levels"]

RUNGS: NDArray[np.float64] = 0.25 * 4.0 ** -np.arange(
    10.0
)  # σ relative to the root mean square of y: from 12 dB to 120 dB
RATIOS = (10.0, 1e4, 1e8)  # ρ with which to climb from suggested supports
LISTED = 4  # supports
CROWDED = 0.6  # of n: climbs that end with so many atoms say nothing, and lower rungs less
LEAST_TRIED = 3  # climbs before a rung is judged
WIDE, COSTLY = 5_000, 5_000_000  # atoms, and n²m: beyond either, crowded climbs take most of the time
EXACT = 1e-5  # of the size of a signal: a smaller level, near the lowest rung, is rounding
FEWEST_MEASUREMENTS = 4  # with fewer, noise cannot be told from signal
SETS, SIGNAL_MILLISECONDS = 150_000, 8.0  # of search for a level without a network
BETTER = 0.1  # in nats: ρ is learned up to so much only


class Levels(NamedTuple):
    """What was learned of N signals.

    Attributes
    ----------
    variance : ndarray of shape (N,)
        σ², the geometric mean over supports by their probability.
    support : ndarray of shape (N, LISTED, m), bool
        The most probable supports, best first; empty where there are fewer.
    margin : ndarray of shape (N,)
        Nats by which the best support beats a dense explanation.
    starts : ndarray of shape (N,), int
        Climbs that were made.
    """

    variance: NDArray[np.float64]
    support: NDArray[np.bool_]
    margin: NDArray[np.float64]
    starts: NDArray[np.int64]

    def of(self, rows: NDArray[Any]) -> Levels:
        """Return what was learned of some of the signals."""
        return Levels(self.variance[rows], self.support[rows], self.margin[rows], self.starts[rows])


class Shared(NamedTuple):
    """What all signals of one dictionary share."""

    G: NDArray[np.float64]  # (m, m), QᵀQ; empty where signals are searched on their promising atoms alone
    prior: NDArray[np.float64]  # (most + 1,), log probability of one support of each size
    spectrum: NDArray[np.float64]  # (n,), eigenvalues of ΦΦᵀ
    rungs: NDArray[np.float64]  # (R,)
    brief: bool  # the ladder ends where a climb is crowded
    ladder: bool  # whether to climb on every rung first


def noise_level(
    Q: FloatArray | UnitAtoms,
    Z: FloatArray,
    scores: NDArray[Any],
    *,
    starts: int,
    suggested: NDArray[np.bool_] | None = None,
    ladder: bool = True,
    brief: bool = False,
    seed: int = 0,
) -> Levels:
    """Estimate the standard deviation of the noise on every signal.

    Parameters
    ----------
    Q : ndarray of shape (n, m), or UnitAtoms
        Atoms of norm 1.
    Z : ndarray of shape (N, n)
        Signals.
    scores : ndarray of shape (N, m)
        Log odds of every atom to be in the support.
    starts : int
        Most climbs per signal, besides one on every rung of the ladder from the atoms with positive scores.
    suggested : ndarray of shape (N, C, m), bool, or None, default=None
        Supports from which to climb first.
    ladder : bool, default=True
        False where the suggested supports come from climbs on all rungs with the same scores.
    brief : bool, default=False
        End the ladder where a climb is crowded, as is always done for a large Φ.
    seed : int, default=0
        What is found depends on the seed, the signal, its scores and what is suggested alone.

    Returns
    -------
    levels : Levels
    """
    atoms, Z64 = unit_atoms(Q), np.ascontiguousarray(Z, dtype=np.float64)
    n, m = atoms.shape
    N, most = len(Z), max(1, min(n - 2, m))
    spectrum, basis = atoms.eigen
    odds = np.clip(np.asarray(scores, dtype=np.float64), -CLIP, CLIP)
    first = np.zeros((N, 0, m), bool) if suggested is None else np.ascontiguousarray(suggested)
    signals = Signals(Z64, atoms.correlate(Z64), times(Z64, basis) ** 2, odds, first)
    whole = m <= most_atoms(n)
    G = atoms.gram if whole else np.empty((0, 0))
    shared = Shared(
        G,
        wide_law(1.0, most).prior(m),
        np.maximum(spectrum, 0.0),
        RUNGS,
        brief or m > WIDE or n * n * m > COSTLY,
        ladder,
    )
    out = Levels(np.zeros(N), np.zeros((N, LISTED, m), bool), np.full(N, -np.inf), np.zeros(N, np.int64))
    arguments = shared, signals, starts, np.uint64(seed), out
    if whole:
        over_slices(_level_rows, N, *arguments)
    else:
        over_slices(_restricted_rows, N, atoms, *arguments)
    return out


def signal_levels(Phi: FloatArray, Y: FloatArray) -> NDArray[np.float64]:
    """Return the standard deviation of the noise on every signal, without a network.

    Parameters
    ----------
    Phi : ndarray of shape (n, m)
        Dictionary.
    Y : ndarray of shape (N, n)
        Signals.

    Returns
    -------
    sigma : ndarray of shape (N,)
        0 where an explanation is exact to rounding, or none is better than chance.
    """
    n, m = Phi.shape
    if n < FEWEST_MEASUREMENTS or not len(Y):
        return np.zeros(len(Y))
    Q = np.asarray(Phi, dtype=np.float64)
    starts = climbs_of(SETS, SIGNAL_MILLISECONDS, n, m)
    levels = noise_level(Q / np.linalg.norm(Q, axis=0), Y, np.zeros((len(Y), m)), starts=starts)
    size = np.sqrt(np.mean(np.asarray(Y, dtype=np.float64) ** 2, axis=1))
    noisy = (levels.margin > BEYOND_CHANCE) & (np.sqrt(levels.variance) > EXACT * size)
    return np.where(noisy, np.sqrt(levels.variance), 0.0)


def _restricted_rows(
    piece: int,
    pieces: int,
    atoms: UnitAtoms,
    shared: Shared,
    signals: Signals,
    starts: int,
    seed: np.uint64,
    out: Levels,
) -> None:
    """Search every signal on its promising atoms."""
    for row in range(piece, len(signals.Z), pieces):
        one = slice(row, row + 1)
        likely = (signals.odds[row] > 0) | signals.suggested[row].any(axis=0)
        chosen = promising(signals.odds[row], signals.B[row], likely, most_atoms(atoms.shape[0]))
        part = atoms.some(chosen)
        own = Signals(
            signals.Z[one],
            signals.B[one][:, chosen].copy(),
            signals.energy[one],
            signals.odds[one][:, chosen].copy(),
            signals.suggested[one][:, :, chosen].copy(),
        )
        local = Levels(out.variance[one], np.zeros((1, LISTED, len(chosen)), bool), out.margin[one], out.starts[one])
        _level_rows(0, 1, shared._replace(G=part.T @ part), own, starts, seed, local)
        out.support[row][:, chosen] = local.support[0]


@kernel()
def _level_rows(
    piece: int, pieces: int, shared: Shared, signals: Signals, starts: int, seed: np.uint64, out: Levels
) -> None:
    N, m = signals.B.shape
    most = shared.prior.shape[0] - 1
    s, pool, ratios = make_sweep(m, most + 1), make_pool(POOL, most), np.empty(POOL)
    state = np.empty(1, np.uint64)
    for row in range(piece, N, pieces):
        power = np.sum(signals.energy[row])
        if power == 0.0:
            continue
        start_random(state, seed, signals.Z[row])
        free = Free(signals.B[row], signals.odds[row], shared.prior, shared.spectrum, signals.energy[row], power)
        pool.filled[0] = 0
        _begin(s, pool, ratios, free, shared.G, signals.suggested[row])
        out.starts[row] = _search(s, pool, ratios, free, shared, starts, state)
        _write(s, pool, ratios, free, shared.G, out, row)


@kernel()
def _begin(s: Sweep, pool: Pool, ratios: NDArray[Any], free: Free, G: NDArray[Any], suggested: NDArray[Any]) -> None:
    """Climb from the supports that others found."""
    most = free.prior.shape[0] - 1
    atoms = np.empty(most + 1, np.int64)
    for c in range(suggested.shape[0]):
        size = 0
        for j in range(suggested.shape[1]):
            if suggested[c, j] and size < most:
                atoms[size] = j
                size += 1
        for ratio in RATIOS:
            value, _, learned = settle_free(s, free, G, ratio, atoms, size)
            keep_free(pool, ratios, s, value, learned)


@kernel()
def _write(s: Sweep, pool: Pool, ratios: NDArray[Any], free: Free, G: NDArray[Any], out: Levels, row: int) -> None:
    n, count = free.energy.shape[0], pool.filled[0]
    used = np.zeros(count, np.bool_)
    first, total, logs = 0.0, 0.0, 0.0
    for place in range(count):
        best = -1
        for c in range(count):
            if not used[c] and (best < 0 or pool.value[c] > pool.value[best]):
                best = c
        used[best] = True
        value, q = start_free(s, free, G, ratios[best], pool.atoms[best], pool.size[best])
        if place == 0:
            first = value
            out.margin[row] = value - dense_evidence(free, ratios[best], pool.size[best])
        weight = math.exp(min(0.0, value - first))
        total += weight
        logs += weight * math.log(q / n)
        if place < LISTED:
            for a in range(pool.size[best]):
                out.support[row, place, pool.atoms[best, a]] = True
    out.variance[row] = math.exp(logs / total)


@kernel()
def _search(
    s: Sweep, pool: Pool, ratios: NDArray[Any], free: Free, shared: Shared, starts: int, state: NDArray[Any]
) -> int:
    """Climb on all rungs until an explanation is no chance hit, then on the rung above its level; return the climbs."""
    n, R, most = free.energy.shape[0], shared.rungs.shape[0], free.prior.shape[0] - 1
    keys, atoms = np.empty(free.b.shape[0]), np.empty(most + 1, np.int64)
    top, sizes, tried = np.full(R, -np.inf), np.zeros(R), np.zeros(R)
    high = max(1, min(most, free.b.shape[0], int(LARGEST * n)))
    low = max(1, min(int(SMALLEST * n), high))
    slab, soft = free.power / max(1.0, 0.25 * n), SHARPNESS * free.odds
    best, enough, best_rung, since, again, patience, rung = -np.inf, np.inf, 0, 0, 0, 0, -1
    lowest = R if shared.ladder else 0  # rungs of the ladder that are climbed
    for c in range(pool.filled[0]):
        if pool.value[c] > best:
            best, enough = pool.value[c], dense_evidence(free, ratios[c], pool.size[c]) + BEYOND_CHANCE
            _, q = start_free(s, free, shared.G, ratios[c], pool.atoms[c], pool.size[c])
            best_rung = _rung_above(shared.rungs, q / free.power)
    for start in range(R + starts):
        if start >= R and best > enough:
            rung = best_rung
        else:
            rung += 1
            crowded = rung > 0 and tried[rung - 1] > LEAST_TRIED and sizes[rung - 1] > CROWDED * n * tried[rung - 1]
            if rung == R or (start > R and crowded):
                rung = 0
        if start < R and rung >= lowest:
            continue
        variance = shared.rungs[rung] ** 2 * free.power / n
        base = -0.5 * (n * math.log(variance) + free.power / variance)
        task = Task(free.b, soft, free.prior, base, variance, slab, 0.0, np.inf)
        size = 0
        if start < R:
            for j in range(free.b.shape[0]):
                if free.odds[j] > 0 and size < most:
                    atoms[size] = j
                    size += 1
        else:
            size = low + random_below(state, high - low + 1)
            draw_start(task, size, state, keys, atoms)
        brief = shared.brief and start < R
        longest = int(CROWDED * n) if brief else most
        value = climb(s, task, shared.G, start_from(s, task, shared.G, atoms, size), longest)
        tried[rung] += 1
        sizes[rung] += s.size[0]
        since += 1
        again += rung == best_rung and value > top[rung] - SAME
        if brief and s.size[0] > longest:  # given up
            lowest = rung + 1
        elif value > top[rung] + SAME:
            top[rung] = value
            size = s.size[0]
            atoms[:size] = s.support[:size]
            value, q, ratio = settle_free(s, free, shared.G, slab / variance, atoms, size)
            keep_free(pool, ratios, s, value, ratio)
            if value > best + BETTER:
                best, since, again, patience = value, 0, 0, start * PATIENCE
                enough = dense_evidence(free, ratio, s.size[0]) + BEYOND_CHANCE
                best_rung = _rung_above(shared.rungs, q / free.power)
        if best > enough and settled(since, again, patience):
            return start + 1
    total: int = R + starts
    return total


@kernel()
def _rung_above(rungs: NDArray[Any], variance: float) -> int:
    """Return the lowest rung that is not below a level, which is given as its square."""
    rung = 0
    while rung + 1 < rungs.shape[0] and rungs[rung + 1] >= math.sqrt(variance):
        rung += 1
    return rung
