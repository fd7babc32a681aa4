"""From signals to answers, one chunk at a time: easy signals first, then harder ones.

Without noise: OMP → network → decode → later passes of the network → search, each step for the signals that the steps
before did not solve, and a certificate at the end. An answer does not depend on the step that found it. With noise:
network, OMP and VAMP suggest supports → search for the most probable one → probabilities → bounds if requested. Where
nobody says whether there is noise, :mod:`maxsparse.recovery.unknown_noise` decides for every signal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.linalg import times
from maxsparse._core.prepared import Prepared, Whitened, WideWhitened
from maxsparse._core.progress import track
from maxsparse._core.validation import FloatArray
from maxsparse.recovery.answers import Recovery
from maxsparse.recovery.bounds import noise_radius, prove
from maxsparse.recovery.certificate import Certificates, certify_rows
from maxsparse.recovery.decode import best_guess, decode_exact, fit_supports
from maxsparse.recovery.law import Law, learn_law, usual_law
from maxsparse.recovery.noise import Noise
from maxsparse.recovery.noise_level import Levels, noise_level
from maxsparse.recovery.noisy_search import Candidates, climbs_of, noisy_search
from maxsparse.recovery.posterior import Posterior
from maxsparse.recovery.refutation import refute
from maxsparse.recovery.search import BUDGETS, SearchBudget, search, search_promising
from maxsparse.recovery.steps import Found, Look, Suggestions
from maxsparse.solvers import omp, vamp

__all__ = ["LEAST_FOR_VAMP", "MOST_FOR_NETWORK", "WIDE", "Pipeline", "Scorer"]

NOISY_PIECE = 1_000  # signals searched at a time with noise: their supports are kept until they are packed
LEAST_FOR_VAMP = 30  # measurements; below it message passing does not hold
MOST_IN_TIME = 100_000_000  # n²m; beyond it, passes of the network take seconds per signal
MOST_FOR_NETWORK = 4_000_000  # n²m; beyond it a pass of the network takes longer than the search
DOUBTED, LONGER = 0.5, 4  # trust in a signal below which it is searched again, and times as long
OTHER_KIND = 12.0  # nats by which the usual law explains a signal better that is not like those of `fit`
LEARNED_STARTS = 60  # climbs at a level that was learned by a search of its own
WIDE = 5_000  # atoms beyond which searches are confined to promising ones, and OMP ends early
EASY_SHARE = 4  # OMP of a wide dictionary chooses up to n/4 atoms; it finds no larger supports there
GLANCE = 50  # sets tested before a later pass, which costs as much as several hundred

# Of signals (N, n), and the standard deviation of their noise: one for all, or one each.
Scorer = Callable[[NDArray[np.float64], Any], NDArray[Any]]


@runtime_checkable
class LooksAgain(Protocol):
    """A scorer with later passes, for signals that decoding did not solve."""

    passes: int

    def again(self, Y: NDArray[np.float64], logits: NDArray[Any], number: int) -> NDArray[Any]:
        """Return scores (N, m) of signals (N, n), given the logits (N, m) of the failed pass."""


@dataclass(frozen=True, eq=False)
class Pipeline:
    """From signals to answers, for one dictionary and one set of options.

    Attributes
    ----------
    prepared : Prepared
    problem : Whitened or WideWhitened
        Of the same Φ, for the rounding of the data.
    scorer : Scorer
    noise : Noise
        Its level, known to be larger than 0 or 0; with 0, answers are exact.
    budget : SearchBudget
    seed : int
        Of the search.
    easy_first : bool
        Whether OMP goes before the network, without noise.
    prove : float
        Milliseconds per signal to spend on proven bounds, with noise.
    progress : bool
        Show bars on a terminal.
    law : Law, optional
        What is expected of the coefficients, with noise; by default what is usual.
    """

    prepared: Prepared
    problem: Whitened | WideWhitened
    scorer: Scorer
    noise: Noise
    budget: SearchBudget
    seed: int
    easy_first: bool = True
    prove: float = 0.0
    progress: bool = False
    law: Law | None = None

    def __call__(self, Y: NDArray[np.float64], out: Recovery) -> Found | None:
        """Recover signals (N, n); write to the arrays of `out`, and return what is known beyond them, with noise."""
        if self.noise.sigma > 0:
            return self.noisy(Y, out)
        hard = self.easy(Y, out)
        if len(hard):
            self._exact_hard(Y[hard], hard, out)
        self.bound_exact(Y, out, np.arange(len(Y)))
        return None

    def easy(self, Y: NDArray[np.float64], out: Recovery) -> NDArray[np.intp]:
        """Answer the signals that OMP solves for certain; return the others."""
        if not self.easy_first:
            return np.arange(len(Y))
        prepared: Any = self.prepared  # which solvers take, though they do not say so
        n, m = self.prepared.shape
        most = max(1, n // EASY_SHARE) if m > WIDE else None
        X = omp(prepared, Y, sparsity=most, precondition=True, noise=0.0).coef
        certificates = self._certify(Y, X)
        easy, hard = np.flatnonzero(certificates.certified), np.flatnonzero(~certificates.certified)
        out.coef[easy], out.residual[easy] = X[easy], self.prepared.residual_norms(Y[easy], X[easy])
        out.converged[easy], out.certified[easy] = True, True
        out.argument[easy], out._waiting[easy] = certificates.argument[easy], 0
        return hard

    def _exact_hard(self, Y: NDArray[np.float64], rows: NDArray[np.intp], out: Recovery) -> None:
        """Let the network and the search find what OMP did not; write to these rows of `out`."""
        look = self.look(Y)
        self.search(Y, look, self.after_glance())
        self.write_exact(Y, look, rows, out)

    def write_exact(self, Y: NDArray[np.float64], look: Look, rows: NDArray[np.intp], out: Recovery) -> None:
        """Certify what was found, and write all to these rows of `out`."""
        certificates = self._certify(Y, look.X)
        # Unsolved signals get a sparse guess from the scores, uncertified, with its residual.
        still = np.flatnonzero(~look.found)
        look.X[still] = best_guess(self.problem, Y[still], look.scores[still])
        out.coef[rows], out.scores[rows] = look.X, look.scores
        out.converged[rows], out.iterations[rows] = look.found, look.sets
        out.certified[rows], out.argument[rows] = certificates.certified, certificates.argument
        out.residual[rows] = self.prepared.residual_norms(Y, look.X)

    def bound_exact(self, Y: NDArray[np.float64], out: Recovery, rows: NDArray[np.intp]) -> None:
        """Write confidence and bounds of exact answers."""
        sizes = np.count_nonzero(out.coef[rows], axis=1)
        certified, found = out.certified[rows], out.converged[rows]
        out.confidence[rows] = certified
        out.upper[rows] = np.where(found, sizes, out.upper[rows])
        out.lower[rows] = np.where(certified, sizes, Y[rows].any(axis=1))

    def scores(self, Y: NDArray[np.float64]) -> NDArray[Any]:
        """Return the scores (N, m) that the network gives signals (N, n) on the exact road."""
        return self._look_with_network(Y).scores

    @property
    def _passes(self) -> int:
        return self.scorer.passes if isinstance(self.scorer, LooksAgain) else 0

    @property
    def _quick(self) -> bool:
        """Whether passes of the network take seconds per signal, more than budgets but "thorough" are meant for."""
        n, m = self.prepared.shape
        lasting = not self.budget.named or self.budget.sets >= BUDGETS["thorough"]
        return n * n * m > MOST_IN_TIME and isinstance(self.scorer, LooksAgain) and not lasting

    def look(self, Y: NDArray[np.float64], passed: NDArray[Any] | None = None) -> Look:
        """Score and decode, pass after pass; large dictionaries have scores of message passing, `passed` if known."""
        if not self._quick:
            return self._look_with_network(Y)
        prepared: Any = self.prepared
        scores = (vamp(prepared, Y, noise=0.0).scores if passed is None else passed).astype(np.float32)
        return Look(scores, *decode_exact(self.problem, Y, scores), np.zeros(len(Y), dtype=np.int64))

    def _look_with_network(self, Y: NDArray[np.float64]) -> Look:
        scores = np.asarray(self.scorer(Y, 0.0))
        look = Look(scores, *decode_exact(self.problem, Y, scores), np.zeros(len(Y), dtype=np.int64))
        if isinstance(self.scorer, LooksAgain) and self._passes:
            self.search(Y, look, SearchBudget(min(GLANCE, self.budget.sets)))
            for number in range(self.scorer.passes):
                rest = np.flatnonzero(~look.found)
                again = self.scorer.again(Y[rest], scores[rest], number)
                finite = np.isfinite(again).all(axis=1, keepdims=True)  # extreme weights from a file may overflow
                scores[rest] = np.where(finite, again, scores[rest])
                look.X[rest], look.found[rest] = decode_exact(self.problem, Y[rest], scores[rest])
        return look

    def after_glance(self) -> SearchBudget:
        """Return the budget without the sets that :meth:`look` searches."""
        return replace(self.budget, sets=max(0, self.budget.sets - GLANCE)) if self._passes else self.budget

    def search(
        self, Y: NDArray[np.float64], look: Look, budget: SearchBudget, among: NDArray[np.bool_] | None = None
    ) -> None:
        """Search for the signals that are not found yet, or those `among` them; write to `look` what is found."""
        rest = np.flatnonzero(~look.found if among is None else ~look.found & among)
        options: dict[str, Any] = {"budget": budget, "seed": self.seed, "progress": self.progress}
        run: Any = search_promising if self.prepared.shape[1] > WIDE else search
        look.X[rest], look.found[rest], tested = run(self.problem, Y[rest], look.scores[rest], **options)
        look.sets[rest] += tested

    def _certify(self, Y: NDArray[np.float64], X: FloatArray) -> Certificates:
        return certify_rows(self.problem, Y, X, self.prepared.spark)

    def noisy(self, Y: NDArray[np.float64], out: Recovery) -> Found | None:
        """Find the most probable support of every signal, and how probable it is."""
        L = self.noise.whitener
        changed = self.prepared if L is None else self.prepared.changed(L)
        Z = Y if L is None else times(Y, np.ascontiguousarray(L.T))
        suggestions = self._suggestions(changed, Z)
        parts = []
        for start in track(range(0, len(Y), NOISY_PIECE), "search", self.progress):
            rows = np.arange(start, min(len(Y), start + NOISY_PIECE))
            given, own = np.full(len(rows), self.noise.sigma), suggestions.of(rows)
            found = self.weigh(changed, Y[rows], Z[rows], own, given, rows, out)
            options: dict[str, Any] = {"starts": self.starts(changed), "seed": self.seed}
            levels, wrong = refute(changed, Z[rows], own.scores, out.coef[rows] != 0, self.noise.sigma, **options)
            parts.append(found.of(~wrong))
            if wrong.any():
                parts.append(self.weigh_learned(changed, Y[rows][wrong], Z[rows][wrong], levels, rows[wrong], out))
        if self.prove > 0:
            self.bound_noisy(changed, Z, np.arange(len(Y)), out)
        return Found.join(parts)

    def weigh(
        self,
        changed: Prepared,
        Y: FloatArray,
        Z: FloatArray,
        suggestions: Suggestions,
        sigma: NDArray[np.float64],
        rows: NDArray[np.intp],
        out: Recovery,
        *,
        learned: bool = False,
    ) -> Found:
        """Search at the noise levels (N,); write to these rows of `out`. `learned`: from the same signals."""
        n, m = changed.shape
        starts = min(self.starts(changed), LEARNED_STARTS) if learned else self.starts(changed)
        answer = self._search_noisy(changed, Z, suggestions, sigma, self.law, starts=starts, learned=learned)
        trust, other = np.ones(len(Z)), np.zeros(len(Z), dtype=bool)
        if self.law is not None and self.law.typical is not None and not learned:
            other[self._search_strange(changed, Z, suggestions, sigma, answer)] = True
            trust = np.where(other, 1.0, self.law.trust(answer.whole))
        support = answer.support()
        X = fit_supports(changed, Z, support)
        out.coef[rows], out.scores[rows] = X, suggestions.scores
        out.residual[rows] = self.prepared.residual_norms(Y, X)
        probability = answer.probability * trust[:, None]
        out.confidence[rows], out.iterations[rows] = probability[:, 0], answer.starts
        out.converged[rows] = answer.starts < max(1, starts)
        radius = noise_radius(n, 1.0) * sigma
        inside = changed.residual_norms(Z, X) <= radius
        out.upper[rows] = np.where(inside, np.count_nonzero(support, axis=1), m + 1)
        out.lower[rows], out.noise[rows] = np.linalg.norm(Z, axis=1) > radius, sigma
        found = Posterior.of(probability, answer.size, answer.atoms)
        return Found(rows, answer.inclusion, answer.mean / changed.norms, found, other)

    def weigh_learned(
        self,
        changed: Prepared,
        Y: FloatArray,
        Z: FloatArray,
        levels: Levels,
        rows: NDArray[np.intp],
        out: Recovery,
        passed: NDArray[Any] | None = None,
    ) -> Found:
        """Search with the network's scores at the levels found so far, which also finds better levels.

        `passed` are scores (N, m) by message passing, if they are known.
        """
        n, m = changed.shape
        same = self._quick and passed is not None  # scores as those with which the levels were found
        if n * n * m > MOST_FOR_NETWORK:  # a pass of the network would take longer than the search
            prepared: Any = changed
            scores = vamp(prepared, Z).scores if passed is None else passed
        else:
            scores = np.asarray(self.scorer(np.asarray(Z, dtype=np.float64), np.sqrt(levels.variance)))
        starts = self.starts(changed)
        options: dict[str, Any] = {"suggested": levels.support, "ladder": not same, "seed": self.seed}
        better = noise_level(changed.unit, Z, scores, starts=starts, **options)
        suggestions, sigma = Suggestions(scores, tuple(better.support.transpose(1, 0, 2))), np.sqrt(better.variance)
        found = self.weigh(changed, Y, Z, suggestions, sigma, rows, out, learned=True)
        out.iterations[rows] += levels.starts + better.starts
        out.converged[rows] = better.starts < starts
        return found

    def starts(self, changed: Prepared) -> int:
        """Return the number of climbs that the budget allows."""
        return climbs_of(self.budget.sets, self.budget.milliseconds, *changed.shape)

    def _search_noisy(
        self,
        changed: Prepared,
        Z: FloatArray,
        suggestions: Suggestions,
        sigma: Any,
        law: Law | None,
        **options: Any,
    ) -> Candidates:
        """Search signals (N, n) in coordinates in which the noise is white, of level σ or one (N,) each."""
        variance = np.broadcast_to(np.asarray(sigma, dtype=np.float64) ** 2, len(Z))
        options = {"starts": self.starts(changed), **options, "law": law, "seed": self.seed}
        options |= {"candidates": suggestions.supports, "passed": suggestions.passed}
        return noisy_search(changed.unit, Z, suggestions.scores, variance, **options)

    def _search_strange(
        self, changed: Prepared, Z: FloatArray, suggestions: Suggestions, sigma: Any, answer: Candidates
    ) -> NDArray[np.intp]:
        """Search signals again that are much less probable than those that the law was learned from.

        If the usual law explains one far better, it is of another kind, and the answer is that of the usual law. Else
        its support was not found, and the search is longer. Returns the signals of another kind.
        """
        assert self.law is not None
        strange = np.flatnonzero(self.law.trust(answer.whole) < DOUBTED)
        if not len(strange):
            return strange
        usual = self._search_noisy(changed, Z[strange], suggestions.of(strange), sigma[strange], None)
        other = answer.improve(strange, usual, OTHER_KIND)
        missed = np.setdiff1d(strange, other)
        if len(missed):
            own, options = suggestions.of(missed), {"starts": LONGER * self.starts(changed), "thorough": True}
            answer.improve(missed, self._search_noisy(changed, Z[missed], own, sigma[missed], self.law, **options))
        return other

    def learn(self, Y: NDArray[np.float64]) -> Law:
        """Learn from signals (N, n) how many nonzeros there are, how large, and of which shape."""
        L = self.noise.whitener
        changed = self.prepared if L is None else self.prepared.changed(L)
        Z = Y if L is None else times(Y, np.ascontiguousarray(L.T))
        suggestions = self._suggestions(changed, Z)
        n, m = changed.shape
        usual = usual_law(max(1, min(n - 1, m)))

        def search(law: Law, evidence: bool = False) -> Candidates:
            return self._search_noisy(changed, Z, suggestions, self.noise.sigma, law, evidence=evidence)

        law = learn_law(search, usual)
        return law if law is usual else law.seen(search(law).whole)

    def _suggestions(self, changed: Prepared, Z: NDArray[np.float64]) -> Suggestions:
        """Return scores, and supports of classical methods; the search never answers with a less probable one.

        Where a pass of the network takes longer than all the rest, signals that message passing explains do without.
        """
        prepared: Any = changed
        n, m = changed.shape
        sigma = self.noise.sigma
        greedy = omp(prepared, Z, noise=sigma).support
        if n < LEAST_FOR_VAMP:
            return Suggestions(np.asarray(self.scorer(Z, sigma)), (greedy,))
        passed = vamp(prepared, Z, noise=sigma)
        likely = passed.scores > 0
        left = np.ones(len(Z), dtype=bool)
        if n * n * m > MOST_FOR_NETWORK:
            X = fit_supports(changed, Z, likely)
            left = ~(passed.converged & (changed.residual_norms(Z, X) <= noise_radius(n, sigma)))
        scores = passed.scores.copy()
        if left.any() and not self._quick:
            scores[left] = self.scorer(Z[left], sigma)
        mean = np.where(passed.converged[:, None], passed.coef * changed.norms, np.nan)
        return Suggestions(scores, (greedy, likely), mean)

    def bound_noisy(self, changed: Prepared, Z: FloatArray, rows: NDArray[np.intp], out: Recovery) -> None:
        """Prove bounds on the number of nonzeros of signals Z (N, n), at the noise levels in these rows of `out`."""
        support = out.support[rows]
        radius = noise_radius(changed.shape[0], 1.0) * out.noise[rows]
        bounds = prove(changed.Phi, Z, support, epsilon=radius, milliseconds=self.prove)
        out.lower[rows], out.upper[rows] = bounds.lower, np.minimum(bounds.upper, out.upper[rows])
        certified = bounds.optimal & (bounds.support == support).all(axis=1)
        out.certified[rows], out.argument[rows] = certified, np.where(certified, "optimal", "")
