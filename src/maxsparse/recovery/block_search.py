r"""Search for supports made of blocks of atoms that all snapshots share, and how probable they are.

The posterior of a set S of k blocks is :math:`p(S \mid Y) \propto \prod_l N(y_l; 0, \sigma^2 I +
\delta\Phi_S\Phi_S^\top) / \binom{B}{k}`, times the probability that coefficients on S are non-negative where they have
to be. As in :mod:`maxsparse.recovery.noisy_search`, δ is learned for every signal and averaged over where probabilities
are given; climbs find the supports, enumeration of what is around them the probabilities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.threads import over_slices
from maxsparse.recovery._block_chain import wander
from maxsparse.recovery._block_climb import (
    Problem,
    climb,
    level_of,
    search_signal,
    start_from,
)
from maxsparse.recovery._block_probabilities import Room, average, best_of
from maxsparse.recovery._block_sweep import Blocks, BlockSweep, make_sweep
from maxsparse.recovery._climb import Pool, drop_below, keep, make_pool
from maxsparse.recovery._neighbours import (
    make_mass,
)
from maxsparse.recovery._tableau import start_random
from maxsparse.recovery.law import Law

__all__ = ["BlockCandidates", "block_search", "blocks_of"]

POOL, KEPT = 16, 64  # local optima that a search remembers, and supports that are reported
EXPANSIONS = 32  # supports whose neighbours are counted
LISTED = 0.95  # probability of the reported supports: where it is less, a chain visits the others
STEPS = 1_000, 30_000  # of that chain, fewest and most
SMALLER = 0.35  # of δ: many supports of small coefficients may be worth more than the one that δ was learned from
DRAWN, WIDEST = 128, 64  # supports that are drawn from that chain, and most blocks of one that are kept
OUT_OF_REACH = 20.0
BEYOND_CHANCE = 12.0
SHARPNESS, CLIP = 0.3, 8.0
SMALLEST, LARGEST = 0.1, 0.4  # sizes of starts, in units of n
LONGEST_START = 24  # blocks
FEW = 64  # measurements up to which a search for supports alone goes up to n − 1 columns, else n/2
MOST_GRAM = 2500  # columns whose inner products are kept
LEVELS = np.array([-1.2, -0.8, -0.4, 0.0, 0.4, 0.8, 1.2])  # of log σ², around a level that was learned
GAUSSIAN, SIGNED = (0.0,), (0.0, 2.5)  # ratios μ/τ of slabs


class Shared(NamedTuple):
    """What all signals of one dictionary share."""

    blocks: Blocks
    prior: NDArray[np.float64]  # (most + 1,)
    spectrum: NDArray[np.float64]  # (n,), eigenvalues of ΦΦᵀ
    grid: NDArray[np.float64]  # (P, 4): log factors of σ² and δ, ratio μ/τ, log weight
    most: int  # columns of a support
    snapshots: float
    positive: bool
    slab: float  # δ, or 0 where every signal has its own
    chain: NDArray[np.float64]  # (P', 4), the grid for a chain


class Signals(NamedTuple):
    """What belongs to each of N signals."""

    Z: NDArray[np.float64]  # (N, R·n)
    b: NDArray[np.float64]  # (N, R, M)
    energy: NDArray[np.float64]  # (N, n), squares in the basis that diagonalises ΦΦᵀ, summed over rows
    odds: NDArray[np.float64]  # (N, B)
    suggested: NDArray[np.bool_]  # (N, C, B)


class Effort(NamedTuple):
    """How much is done for every signal."""

    starts: int  # climbs
    expansions: int  # supports whose neighbours are counted
    steps: int  # of a chain
    listed: float  # probability of the reported supports from which on no chain is needed


class Out(NamedTuple):
    """Where the answers go."""

    value: NDArray[np.float64]  # (N, KEPT), log probability
    size: NDArray[np.int64]  # (N, KEPT)
    chosen: NDArray[np.int32]  # (N, KEPT, most + 1)
    inclusion: NDArray[np.float64]  # (N, B)
    mean: NDArray[np.float64]  # (N, R, M)
    level: NDArray[np.float64]  # (N, 2), σ² and δ
    evidence: NDArray[np.float64]  # (N, P, most + 1) or (N, 0, most + 1): log evidence by noise level, slab and size
    starts: NDArray[np.int64]  # (N,)
    drawn_size: NDArray[np.int64]  # (N, DRAWN), −1 where no chain was run
    drawn: NDArray[np.int32]  # (N, DRAWN, widest)


@dataclass(frozen=True, eq=False)
class BlockCandidates:
    """The most probable supports of N signals.

    Attributes
    ----------
    probability : ndarray of shape (N, C)
        Of the supports, most probable first; 0 where there are fewer than C.
    size : ndarray of shape (N, C), int
        Numbers of blocks.
    chosen : ndarray of shape (N, C, most), int32
        The first ``size`` entries are the blocks of a support.
    inclusion : ndarray of shape (N, B)
    mean : ndarray of shape (N, R, M)
        Posterior mean, for columns of norm 1.
    slab : ndarray of shape (N,)
    evidence : ndarray of shape (N, P, most + 1)
        Log probability of the signal with each slab and size, if it was requested.
    starts : ndarray of shape (N,), int
    drawn_size, drawn : ndarray of shape (N, D) and (N, D, most), int
        Supports drawn from the posterior where it is spread over more than are listed; sizes are −1 elsewhere.
    """

    probability: NDArray[np.float64]
    size: NDArray[np.int64]
    chosen: NDArray[np.int32]
    inclusion: NDArray[np.float64]
    mean: NDArray[np.float64]
    slab: NDArray[np.float64]
    evidence: NDArray[np.float64]
    starts: NDArray[np.int64]
    drawn_size: NDArray[np.int64]
    drawn: NDArray[np.int32]

    @property
    def share(self) -> NDArray[np.float64]:
        """Probability of the supports that are listed, (N,): all of it, unless it is spread over many more."""
        return np.asarray(self.probability.sum(axis=1))

    def support(self) -> NDArray[np.bool_]:
        """Return the blocks of the most probable support of every signal, (N, B)."""
        return self.supports(1)[:, 0]

    def supports(self, count: int) -> NDArray[np.bool_]:
        """Return the blocks of the most probable supports of every signal, (N, count, B), empty beyond the last."""
        listed = np.zeros((len(self.size), count, self.inclusion.shape[1]), dtype=bool)
        inside = np.arange(self.chosen.shape[2]) < self.size[:, :count, None]
        rows, places, entries = np.nonzero(inside)
        listed[rows, places, self.chosen[rows, places, entries]] = True
        return listed


def blocks_of(Q: NDArray[np.float64], start: NDArray[np.int64]) -> Blocks:
    """Lay out a real dictionary (n, M) of columns of norm 1."""
    M, w = Q.shape[1], int(np.diff(start).max())
    inner = np.zeros((M, w))
    for size in np.unique(np.diff(start)):
        firsts = start[:-1][np.diff(start) == size]
        columns = firsts[:, None] + np.arange(size)  # (blocks, size)
        parts = Q.T[columns]  # (blocks, size, n)
        inner[columns.ravel(), :size] = (parts @ parts.transpose(0, 2, 1)).reshape(-1, size)
    G = Q.T @ Q if M <= MOST_GRAM else np.empty((0, 0))
    return Blocks(np.ascontiguousarray(Q.T), np.ascontiguousarray(G), inner, np.asarray(start, dtype=np.int64))


def block_search(
    blocks: Blocks,
    Z: NDArray[np.float64],
    scores: NDArray[Any],
    variance: NDArray[np.float64],
    law: Law,
    *,
    snapshots: int,
    positive: bool,
    starts: int,
    suggested: NDArray[np.bool_],
    learned: bool = False,
    count: bool = True,
    evidence: bool = False,
    steps: int = 0,
    listed: float = LISTED,
    seed: int = 0,
) -> BlockCandidates:
    """Search for the most probable sets of blocks.

    Parameters
    ----------
    blocks : Blocks
        Dictionary of n measurements, M columns and B blocks, in coordinates in which the noise is white.
    Z : ndarray of shape (N, R, n)
        Signals in these coordinates, R rows that hold all snapshots.
    scores : ndarray of shape (N, B)
        Log odds of every block to be in the support.
    variance : ndarray of shape (N,)
        σ² of every signal.
    law : Law
        Slabs and the probability of each number of blocks.
    snapshots : int
        L.
    positive : bool
        Whether coefficients must not be negative; R = L then.
    starts : int
        Most random climbs per signal.
    suggested : ndarray of shape (N, C, B), bool
        Supports to begin with. The answer is never less probable than any of them.
    learned : bool, default=False
        `variance` was learned from the same signals: probabilities are averaged over levels around it.
    count : bool, default=True
        Whether to compute probabilities; otherwise the best supports are listed with posteriors relative to the first,
        and those of one snapshot that could only explain noise are left out.
    evidence : bool, default=False
        Whether to keep the evidence by slab and size, from which a law is learned.
    steps : int, default=0
        Of a Markov chain that finds the probabilities where they are spread over more supports than are listed, at 1
        atom: M atoms get one M-th. 0: none.
    listed : float, default=0.95
        Probability of the supports that are listed; the chain is run where it is less.
    seed : int, default=0

    Returns
    -------
    candidates : BlockCandidates
    """
    N, R, n = Z.shape
    chain = count and steps > 0
    M, B = len(blocks.atoms), len(blocks.start) - 1
    most = max(1, min(n - 1 if count or snapshots > 1 or n <= FEW else n // 2, M))
    power = np.sum(Z**2, axis=(1, 2))
    variance = np.maximum(variance, 1e-30 + np.finfo(np.float64).eps * power)
    odds = np.clip(np.asarray(scores, dtype=np.float64), -CLIP, CLIP)
    spectrum, basis = np.linalg.eigh(blocks.atoms.T @ blocks.atoms)
    grid, spectrum = _grid(law, learned), np.maximum(spectrum, 0.0)
    smaller = grid[:0] if law.slab > 0.0 else grid + np.array([0.0, math.log(SMALLER), 0.0, 0.0])
    wide = np.concatenate([grid, smaller])
    shared = Shared(blocks, law.prior(B), spectrum, grid, most, float(snapshots), positive, law.slab, wide)
    signals = Signals(
        np.ascontiguousarray(Z.reshape(N, -1)),
        np.ascontiguousarray(Z @ blocks.atoms.T),
        np.sum((Z @ basis) ** 2, axis=1),
        odds,
        np.ascontiguousarray(suggested),
    )
    longest = len(shared.prior)
    out = Out(
        np.full((N, KEPT), -np.inf),
        np.zeros((N, KEPT), np.int64),
        np.zeros((N, KEPT, longest), np.int32),
        np.zeros((N, B)),
        np.zeros((N, R, M)),
        np.stack([variance, np.zeros(N)], axis=1),
        np.full((N, len(grid) if evidence else 0, longest), -np.inf),
        np.zeros(N, np.int64),
        np.full((N, DRAWN if chain else 0), -1),
        np.zeros((N, DRAWN if chain else 0, min(longest, WIDEST)), np.int32),
    )
    effort = Effort(starts, EXPANSIONS if count else 0, int(np.clip(steps // M, *STEPS)) if chain else 0, listed)
    over_slices(_search_rows, N, shared, signals, effort, np.uint64(seed), out)
    order = np.argsort(-out.value, axis=1, kind="stable")
    if not count:
        out.value[:] -= out.value.max(axis=1, keepdims=True)
    return BlockCandidates(
        np.exp(np.take_along_axis(out.value, order, axis=1)),
        np.take_along_axis(out.size, order, axis=1),
        np.take_along_axis(out.chosen, order[:, :, None], axis=1),
        out.inclusion,
        out.mean,
        out.level[:, 1].copy(),
        out.evidence,
        out.starts,
        out.drawn_size,
        out.drawn,
    )


def _grid(law: Law, learned: bool) -> NDArray[np.float64]:
    """Return log factors of σ² and δ, ratios and log weights, (P, 4)."""
    levels = LEVELS if learned else np.zeros(1)
    return np.array([(v, f, ratio, weight - math.log(len(levels))) for v in levels for f, ratio, weight in law.shapes])


@kernel()
def _search_rows(
    piece: int, pieces: int, shared: Shared, signals: Signals, effort: Effort, seed: np.uint64, out: Out
) -> None:
    blocks = shared.blocks
    N, R, _ = signals.b.shape
    B, n, longest = signals.odds.shape[1], shared.spectrum.shape[0], shared.prior.shape[0] - 1
    s = make_sweep(blocks, R, shared.most)
    pool, mass = make_pool(POOL, longest), make_mass(B, longest, KEPT)
    room = Room(s, pool, mass, np.empty(len(shared.chain)))
    here, keys = make_pool(1, longest), np.empty(effort.steps, np.uint64)
    state, soft = np.empty(1, np.uint64), np.empty(B)
    width = blocks.atoms.shape[0] / B
    smallest, most = int(SMALLEST * n / width), int(LARGEST * n / width)
    largest = max(1, min(longest, B, most, LONGEST_START))
    sizes = (max(1, min(smallest, LONGEST_START // 4, largest)), largest)
    for row in range(piece, N, pieces):
        start_random(state, seed, signals.Z[row])
        for j in range(B):
            soft[j] = SHARPNESS * signals.odds[row, j]
        p = _learn(s, pool, shared, signals, soft, row, out.level[row, 0])
        out.starts[row] = search_signal(s, blocks, p, pool, effort.starts, sizes, state)
        out.level[row, 1] = shared.slab if shared.slab > 0.0 else _slab_of(s, pool, blocks, p)
        drop_below(pool, OUT_OF_REACH)
        if effort.expansions > 0:
            slab, evidence = out.level[row, 1], out.evidence[row]
            average(room, p, blocks, shared.grid, slab, effort.expansions, out.mean[row], evidence)
            if effort.steps > 0 and np.sum(np.exp(mass.best.value[: mass.best.filled[0]])) < effort.listed:
                drawn = out.drawn_size[row], out.drawn[row]
                wander(room, p, blocks, shared.chain, slab, here, keys, state, out.mean[row], drawn)
            _write(mass.best, out, row)
            for b in range(B):
                out.inclusion[row, b] = min(1.0, mass.inclusion[b])
        else:
            _write(pool, out, row)


@kernel()
def _make_problem(
    shared: Shared, b: NDArray[Any], soft: NDArray[Any], energy: NDArray[Any], variance: float, slab: float, size: int
) -> Problem:
    """Set the noise level and the slab; an answer is beyond chance if it beats a dense x of the same power by far."""
    share = slab * max(size, 1) / soft.shape[0]
    dense, power = BEYOND_CHANCE, 0.0
    for i in range(energy.shape[0]):
        total = variance + share * shared.spectrum[i]
        power += energy[i]
        dense -= 0.5 * (shared.snapshots * math.log(total) + energy[i] / total)
    level = level_of(variance, slab, 0.0, shared.snapshots, shared.positive)
    return Problem(b, soft, shared.prior, power, float(energy.shape[0]), shared.positive, level, dense)


@kernel()
def _learn(
    s: BlockSweep, pool: Pool, shared: Shared, signals: Signals, soft: NDArray[Any], row: int, variance: float
) -> Problem:
    """Learn the slab's variance, unless it is given, from climbs from suggested supports; these stay in the pool."""
    blocks, energy, suggested = shared.blocks, signals.energy[row], signals.suggested[row]
    n, B = energy.shape[0], soft.shape[0]
    L, power = shared.snapshots, np.sum(energy)
    chosen = np.empty(B, np.int64)
    slab = max(power - n * L * variance, 0.1 * power, 0.01 * variance * L) / L / max(1.0, 0.25 * n)
    if shared.slab > 0.0:
        slab = shared.slab
    size = n // 4
    p = _make_problem(shared, signals.b[row], soft, energy, variance, slab, size)
    for _ in range(3):
        pool.filled[0] = 0
        best = -np.inf
        for c in range(suggested.shape[0]):
            k = 0
            for b in range(B):
                if suggested[c, b]:
                    chosen[k] = b
                    k += 1
            value = start_from(s, blocks, p, chosen, k)
            keep(pool, s.support, s.size[0], value)
            value = climb(s, blocks, p, value)
            keep(pool, s.support, s.size[0], value)
            if value > best:
                best, size = value, s.size[0]
        learned = shared.slab if shared.slab > 0.0 else _slab_of(s, pool, blocks, p)
        if abs(math.log(learned / slab)) < 0.2:
            break
        slab = learned
        p = _make_problem(shared, signals.b[row], soft, energy, variance, slab, size)
    return p


@kernel()
def _slab_of(s: BlockSweep, pool: Pool, blocks: Blocks, p: Problem) -> float:
    """Return the mean square of the coefficients on the best support: one step of EM, pulled to the present value."""
    best = best_of(pool)
    start_from(s, blocks, p, pool.atoms[best], pool.size[best])
    total, L = p.level.slab, p.level.snapshots
    for a in range(s.inside[0]):
        j = s.columns[a]
        total -= L * s.H[a, j]
        for r in range(s.U.shape[0]):
            total += s.U[r, j] * s.U[r, j]
    mean: float = total / (1.0 + L * s.inside[0])
    return mean


@kernel()
def _write(best: Pool, out: Out, row: int) -> None:
    for c in range(min(best.filled[0], out.value.shape[1])):
        out.value[row, c], out.size[row, c] = best.value[c], best.size[c]
        for a in range(best.size[c]):
            out.chosen[row, c, a] = best.atoms[c, a]
