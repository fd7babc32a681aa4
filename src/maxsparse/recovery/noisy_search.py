r"""Search with noise: the most probable support of every signal, and how probable it and its rivals are.

The posterior of a support S of size k is :math:`p(S \mid y) \propto N(y; 0, \sigma^2 I + \delta\Phi_S\Phi_S^\top) /
\binom{m}{k} \, p(k)`: all supports of one size are equally likely, and what is expected of sizes and amplitudes is a
:class:`maxsparse.recovery.law.Law`. The slab's variance δ is learned for every signal. Climbs from starts that the
network's scores suggest (:mod:`maxsparse.recovery._climb`) find the supports; their probabilities are averages over
slabs (:mod:`maxsparse.recovery._probabilities`).

The posterior mean is the average over supports by their probability. Where these are too many to be enumerated, a chain
samples the rest, and message passing, which sums over all supports approximately, is a second estimate of the same
mean: the answer is halfway between the two, whose squared error is at most the average of theirs, and less if they err
differently. Message passing has a say only if its own support is about as probable as the best one. Where every signal
is judged by itself, a dense explanation (:mod:`maxsparse.recovery._dense`) gets its share too, by evidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.linalg import times
from maxsparse._core.threads import over_slices
from maxsparse._core.unit_atoms import UnitAtoms, unit_atoms
from maxsparse._core.validation import FloatArray
from maxsparse.recovery._climb import AGAIN
from maxsparse.recovery._dense import Dense, explain_densely
from maxsparse.recovery._noisy_rows import Out, Shared, Signals, search_rows
from maxsparse.recovery._probabilities import KEPT, Work
from maxsparse.recovery.law import Law, usual_law

__all__ = ["Candidates", "climbs_of", "most_atoms", "noisy_search", "promising"]

EXPANSIONS = (2, 32)  # supports whose neighbours are counted: fewest and most
EXPANSION_WORK = 4_000_000  # of them times nm, in between
STEPS, STEP_WORK = (60, 300), 10_000_000  # of a chain, likewise
MOST_ATOMS = 512  # beyond that, or beyond 2n, a signal is searched on its promising atoms alone
CLIP = 8.0
CLIMB_NANOSECONDS = 5.0  # of one climb, per measurement and atom, on a quiet machine
MANY = 64  # measurements beyond which a climb, which then goes through more atoms, takes longer in proportion
WIDE, CROWDED = 5_000, 4.0  # atoms beyond which climbs take longer, by that factor: more atoms fit by chance
SETS_PER_MILLISECOND = 3_000  # what a budget in information sets means in time
RIVAL = 10.0  # nats below the best support at which that of message passing is not worth hearing
CERTAIN = 1.0 - 1e-9  # of an explanation by few atoms
DENSE = 0.25  # nonzeros of a dense explanation, in units of n, for the probability of every atom
LEVELS = np.array([-1.2, -0.8, -0.4, 0.0, 0.4, 0.8, 1.2])  # of log σ², around the level that a signal suggests


@dataclass(frozen=True, eq=False)
class Candidates:
    """The most probable supports of N signals, and what they say together.

    Attributes
    ----------
    probability : ndarray of shape (N, C)
        Of the supports, most probable first; 0 where there are fewer than C.
    size : ndarray of shape (N, C), int
    atoms : ndarray of shape (N, C, most), int32
        The first ``size`` entries are the atoms of a support.
    inclusion : ndarray of shape (N, m)
        Probability that an atom is in the support.
    mean : ndarray of shape (N, m)
        Posterior mean over all supports, for atoms of norm 1.
    slab : ndarray of shape (N,)
        Learned variance δ of the coefficients of atoms of norm 1.
    starts : ndarray of shape (N,), int
        Climbs that were made.
    share : ndarray of shape (N,)
        Share of all probability, by estimate, on the supports that were enumerated; with `evidence` 1 or 0, all or not.
    evidence : ndarray of shape (N, P, most + 1)
        Log probability of the signal with each slab and size, if it was requested.
    whole : ndarray of shape (N,)
        Log probability of the signal over all supports, up to a constant.
    """

    probability: NDArray[np.float64]
    size: NDArray[np.int64]
    atoms: NDArray[np.int32]
    inclusion: NDArray[np.float64]
    mean: NDArray[np.float64]
    slab: NDArray[np.float64]
    starts: NDArray[np.int64]
    share: NDArray[np.float64]
    evidence: NDArray[np.float64]
    whole: NDArray[np.float64]

    def improve(self, rows: NDArray[np.intp], other: Candidates, nats: float = 0.0) -> NDArray[np.intp]:
        """Take over what `other` says of these rows, where it makes them more probable by so much; return where."""
        better = other.whole > self.whole[rows] + nats
        for field in fields(self):
            getattr(self, field.name)[rows[better]] = getattr(other, field.name)[better]
        return rows[better]

    def support(self) -> NDArray[np.bool_]:
        """Return the most probable support of every signal, (N, m)."""
        chosen = np.zeros(self.inclusion.shape, dtype=bool)
        for k in np.unique(self.size[:, 0]):
            rows = np.flatnonzero(self.size[:, 0] == k)
            chosen[rows[:, None], self.atoms[rows, 0, :k]] = True
        return chosen


def climbs_of(sets: int, milliseconds: float, n: int, m: int) -> int:
    """Turn a budget into a number of climbs that takes about as long, so that answers stay reproducible."""
    per_climb = CLIMB_NANOSECONDS * 1e-6 * n * min(m, most_atoms(n)) * max(1.0, n / MANY)  # milliseconds
    per_climb *= CROWDED if m > WIDE else 1.0
    return int(min(milliseconds, sets / SETS_PER_MILLISECOND) / per_climb) if sets > 0 else 0


def most_atoms(n: int) -> int:
    """Return how many atoms a search takes in; with more, each signal is searched on its promising ones."""
    return max(MOST_ATOMS, 2 * n)


def promising(
    odds: NDArray[np.float64], b: NDArray[np.float64], suggested: NDArray[np.bool_], count: int
) -> NDArray[np.intp]:
    """Return the atoms (count,) of one signal that are suggested, score best or correlate best, sorted."""
    m = len(b)
    if m <= count:
        return np.arange(m)
    place = np.full(m, count)  # the better of both places; atoms that are not among the first of either count alike
    for values in (odds, np.abs(b)):
        first = _largest(values, count)
        place[first] = np.minimum(place[first], np.arange(count))
    place[suggested] -= m
    return np.sort(_largest(-place, count))


def noisy_search(
    Q: FloatArray | UnitAtoms,
    Z: FloatArray,
    scores: NDArray[Any],
    variance: NDArray[np.float64],
    *,
    starts: int,
    candidates: tuple[NDArray[np.bool_], ...] = (),
    law: Law | None = None,
    passed: NDArray[np.float64] | None = None,
    spread: float = 0.0,
    learned: bool = False,
    seed: int = 0,
    evidence: bool = False,
    thorough: bool = False,
) -> Candidates:
    """Search for the most probable supports.

    Parameters
    ----------
    Q : ndarray of shape (n, m), or UnitAtoms
        Atoms of norm 1, in coordinates in which the noise is white.
    Z : ndarray of shape (N, n)
        Signals in these coordinates.
    scores : ndarray of shape (N, m)
        Log odds of every atom to be in the support.
    variance : ndarray of shape (N,)
        σ² of every signal.
    starts : int
        Most climbs per signal.
    candidates : tuple of ndarray of shape (N, m), bool
        Supports that other methods found. The answer is never less probable than any of them.
    law : Law, optional
        What is expected of the coefficients; by default what is usual.
    passed : ndarray of shape (N, m), optional
        Posterior mean by message passing, for atoms of norm 1; NaN where it did not converge. The last of `candidates`
        is its support.
    spread : float, default=0.0
        Standard deviation of log σ² where it was estimated from other data: probabilities are averaged over it.
    learned : bool, default=False
        `variance` was learned from the same signals: probabilities are averaged over levels around it, all of them
        equally likely before the signal was seen.
    seed : int, default=0
        What is found depends on the seed, the signal, its scores and candidates alone.
    evidence : bool, default=False
        Whether to keep the evidence by slab and size, from which a law is learned.
    thorough : bool, default=False
        Use up all climbs where chance could explain the best support, also if it is reached again and again.

    Returns
    -------
    candidates : Candidates
    """
    atoms, Z64 = unit_atoms(Q), np.ascontiguousarray(Z, dtype=np.float64)
    n, m = atoms.shape
    N, most = len(Z), max(1, min(n - 1, m))
    power = np.sum(Z64**2, axis=1)
    variance = np.maximum(variance, 1e-30 + np.finfo(np.float64).eps * power)
    odds = np.clip(np.asarray(scores, dtype=np.float64), -CLIP, CLIP)
    suggested = np.stack([np.asarray(c, dtype=bool) for c in (*candidates, odds > 0)], axis=1)
    spectrum, basis = atoms.eigen
    law = usual_law(most) if law is None else law
    grid = _grid(law, spread, learned)
    shared = Shared(np.empty((0, 0)), law.prior(m), np.maximum(spectrum, 0.0), grid, law.slab)
    coordinates = times(Z64, basis)
    signals = Signals(Z64, atoms.correlate(Z64), coordinates**2, odds, suggested)
    out = Out(
        np.full((N, KEPT), -np.inf),
        np.zeros((N, KEPT), np.int64),
        np.zeros((N, KEPT, most + 1), np.int32),
        np.zeros((N, m)),
        np.zeros((N, m)),
        np.stack([variance, np.zeros(N), np.zeros(N)], axis=1),
        np.full((N, len(grid), most + 1) if evidence else (N, 0, most + 1), -np.inf),
        np.zeros(N, np.int64),
        np.ones(N),
    )
    # A large dictionary is cut down to the promising atoms of every signal; their own Gram matrix stays in the cache.
    whole = m <= most_atoms(n)
    cost = n * min(m, MOST_ATOMS)
    work = Work(
        int(np.clip(EXPANSION_WORK // cost, *EXPANSIONS)),
        0 if evidence else int(np.clip(STEP_WORK // cost, *STEPS)),
        starts if thorough else AGAIN,
    )
    if whole:
        over_slices(search_rows, N, shared._replace(G=atoms.gram), signals, starts, work, np.uint64(seed), out)
    else:
        over_slices(_restricted_rows, N, atoms, shared, signals, starts, work, np.uint64(seed), out)
    if passed is not None and not evidence:
        passed = _trusted(passed, candidates[-1], atoms, Z64, shared.prior, out)
        rows = np.flatnonzero(np.isfinite(passed[:, 0]) & (out.share < 1.0))
        out.mean[rows] = 0.5 * (out.mean[rows] + passed[rows])
    if law.slab == 0 and not evidence:
        levels = np.unique(grid[:, 0])
        dense = explain_densely(shared.spectrum, basis, coordinates, variance[:, None] * np.exp(levels))
        _consider_dense(out, dense, atoms, passed)
    order = np.argsort(-out.value, axis=1, kind="stable")
    return Candidates(
        np.exp(np.take_along_axis(out.value, order, axis=1)),
        np.take_along_axis(out.size, order, axis=1),
        np.take_along_axis(out.atoms, order[:, :, None], axis=1),
        out.inclusion,
        out.mean,
        out.level[:, 1].copy(),
        out.starts,
        out.share,
        out.evidence,
        out.level[:, 2].copy(),
    )


def _trusted(
    passed: NDArray[np.float64],
    support: NDArray[np.bool_],
    Q: UnitAtoms,
    Z: NDArray[np.float64],
    prior: NDArray[np.float64],
    out: Out,
) -> NDArray[np.float64]:
    """Return the means by message passing, NaN where its own `support` is far less probable than the best one."""
    kept = np.full(passed.shape, np.nan)
    for i in np.flatnonzero(np.isfinite(passed).all(axis=1) & (support.sum(axis=1) < len(prior))):
        best = np.argmax(out.value[i])
        atoms = out.atoms[i, best, : out.size[i, best]]
        values = [_log_posterior(Q.some(S), Z[i], out.level[i], prior) for S in (atoms, np.flatnonzero(support[i]))]
        if values[1] > values[0] - RIVAL:
            kept[i] = passed[i]
    return kept


def _log_posterior(
    A: NDArray[np.float64], z: NDArray[np.float64], level: NDArray[np.float64], prior: NDArray[np.float64]
) -> float:
    """Return the log posterior of the support with atoms A (n, k) under the gaussian slab, up to a constant."""
    k, ratio = A.shape[1], level[1] / level[0]
    L = np.linalg.cholesky(np.eye(k) + ratio * (A.T @ A))
    b = np.linalg.solve(L, A.T @ z)
    return float(0.5 * ratio * (b @ b) / level[0] - np.log(L.diagonal()).sum() + prior[k])


def _consider_dense(out: Out, dense: Dense, Q: UnitAtoms, passed: NDArray[np.float64] | None) -> None:
    """Give a dense explanation its share of the probability; its mean is that of message passing where there is one."""
    sparse = 1.0 / (1.0 + np.exp(np.minimum(dense.odds + dense.evidence - out.level[:, 2], 700.0)))
    rows = np.flatnonzero(sparse < CERTAIN)
    rest = (1.0 - sparse[rows])[:, None]
    mean = Q.correlate(dense.coordinates[rows])  # each row by the same operations in any batch
    if passed is not None:
        trusted = np.isfinite(passed[rows, 0])
        mean[trusted] = passed[rows[trusted]]
    out.mean[rows] += rest * (mean - out.mean[rows])
    out.inclusion[rows] += rest * (DENSE * Q.shape[0] / Q.shape[1] - out.inclusion[rows])
    out.value[rows] += np.log(sparse[rows])[:, None]


def _grid(law: Law, spread: float, learned: bool) -> NDArray[np.float64]:
    """Return log factors of σ² and δ, ratios and log weights, (P, 4).

    Three levels of σ² match a normal distribution of its logarithm to fourth order.
    """
    points, weights = np.zeros(1), np.zeros(1)
    if learned:
        points, weights = LEVELS, np.full(len(LEVELS), -math.log(len(LEVELS)))
    elif spread > 0:
        points, weights = spread * math.sqrt(3.0) * np.array([-1.0, 0.0, 1.0]), np.log([1 / 6, 2 / 3, 1 / 6])
    return np.array(
        [
            (v, factor, ratio, w + weight)
            for v, w in zip(points, weights, strict=True)
            for factor, ratio, weight in law.shapes
        ]
    )


def _restricted_rows(
    piece: int,
    pieces: int,
    atoms: UnitAtoms,
    shared: Shared,
    signals: Signals,
    starts: int,
    work: Work,
    seed: np.uint64,
    out: Out,
) -> None:
    """Search every signal on the atoms that are suggested, score best or correlate best."""
    count = most_atoms(atoms.shape[0])
    for row in range(piece, len(signals.Z), pieces):
        one = slice(row, row + 1)
        chosen = promising(signals.odds[row], signals.B[row], signals.suggested[row].any(axis=0), count)
        part = atoms.some(chosen)
        own = Signals(
            signals.Z[one],
            signals.B[one][:, chosen].copy(),
            signals.energy[one],
            signals.odds[one][:, chosen].copy(),
            signals.suggested[one][:, :, chosen].copy(),
        )
        inclusion, mean = np.zeros((1, count)), np.zeros((1, count))
        views: list[Any] = [array[one] for array in out]
        local = Out(*views)._replace(inclusion=inclusion, mean=mean)
        search_rows(0, 1, shared._replace(G=part.T @ part), own, starts, work, seed, local)
        out.atoms[row] = chosen[out.atoms[row]]
        out.inclusion[row, chosen], out.mean[row, chosen] = inclusion[0], mean[0]


def _largest(values: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Return the places of the largest values, largest first and equal ones in order, without sorting the others."""
    least = np.partition(values, -count)[-count]
    above, equal = np.flatnonzero(values > least), np.flatnonzero(values == least)
    above = above[np.argsort(-values[above], kind="stable")]
    return np.concatenate([above, equal[: count - len(above)]])
