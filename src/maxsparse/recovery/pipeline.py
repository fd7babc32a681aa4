"""From signals to answers, one chunk at a time: easy signals first, then harder ones.

Without noise: OMP → network → decode → later passes of the network → search, each step for the signals that the steps
before did not solve, and a certificate at the end. An answer does not depend on the step that found it. With noise:
network, OMP and VAMP suggest supports → search for the most probable one → probabilities → bounds if requested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.linalg import residual_norms, times
from maxsparse._core.prepared import Prepared, Whitened
from maxsparse._core.progress import track
from maxsparse._core.validation import FloatArray
from maxsparse.recovery.answers import Recovery
from maxsparse.recovery.bounds import noise_radius, prove
from maxsparse.recovery.certificate import Certificates, certify_rows
from maxsparse.recovery.decode import best_guess, decode_exact, fit_supports
from maxsparse.recovery.law import Law, learn_law
from maxsparse.recovery.noise import Noise
from maxsparse.recovery.noisy_search import Candidates, climbs_of, noisy_search
from maxsparse.recovery.posterior import Posterior
from maxsparse.recovery.search import SearchBudget, search
from maxsparse.solvers import omp, vamp

__all__ = ["Pipeline", "Scorer"]

NOISY_PIECE = 1_000  # signals searched at a time with noise: their supports are kept until they are packed
LEAST_FOR_VAMP = 30  # measurements; below it message passing does not hold
MOST_FOR_NETWORK = 4_000_000  # n²m; beyond it a pass of the network takes longer than the search
GLANCE = 50  # sets tested before a later pass, which costs as much as several hundred

Scorer = Callable[[NDArray[np.float64], float], NDArray[Any]]


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
    problem : Whitened
        Of the same Φ, for the rounding of the data.
    scorer : Scorer
    noise : Noise
        Its level; with 0, answers are exact.
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
    problem: Whitened
    scorer: Scorer
    noise: Noise
    budget: SearchBudget
    seed: int
    easy_first: bool = True
    prove: float = 0.0
    progress: bool = False
    law: Law | None = None

    def __call__(self, Y: NDArray[np.float64], out: Recovery) -> Posterior | None:
        """Recover signals (N, n); write to the arrays of `out`. Return the supports that were found, with noise."""
        if self.noise.sigma > 0:
            return self.noisy(Y, out)
        self.exact(Y, out)
        out.confidence[:] = out.certified
        found = np.flatnonzero(out.converged)
        sizes = np.count_nonzero(out.coef, axis=1)
        out.upper[found] = sizes[found]
        out.lower[:] = np.where(out.certified, sizes, Y.any(axis=1))
        return None

    def exact(self, Y: NDArray[np.float64], out: Recovery) -> None:
        """Find sparse answers that explain y to rounding, and certify them."""
        hard = np.arange(len(Y))
        if self.easy_first:
            prepared: Any = self.prepared  # which solvers take, though they do not say so
            X = omp(prepared, Y, precondition=True, noise=0.0).coef
            certificates = self._certify(Y, X)
            done = certificates.certified
            easy, hard = np.flatnonzero(done), np.flatnonzero(~done)
            out.coef[easy], out.residual[easy] = X[easy], residual_norms(Y[easy], self.problem.atoms, X[easy])
            out.converged[easy], out.certified[easy] = True, True
            out.argument[easy], out._waiting[easy] = certificates.argument[easy], 0
        if len(hard):
            self._exact_hard(Y[hard], hard, out)

    def _exact_hard(self, Y: NDArray[np.float64], rows: NDArray[np.intp], out: Recovery) -> None:
        """Let the network and the search find what OMP did not; write to these rows of `out`."""
        scores, X, found, sets = self._look(Y)
        left = self.budget
        if self._passes:
            left = replace(left, sets=max(0, left.sets - GLANCE))
        self._search(Y, scores, X, found, sets, left)
        certificates = self._certify(Y, X)
        # Unsolved signals get a sparse guess from the scores, uncertified, with its residual.
        still = np.flatnonzero(~found)
        X[still] = best_guess(self.problem, Y[still], scores[still])
        out.coef[rows], out.scores[rows] = X, scores
        out.converged[rows], out.iterations[rows] = found, sets
        out.certified[rows], out.argument[rows] = certificates.certified, certificates.argument
        out.residual[rows] = residual_norms(Y, self.problem.atoms, X)

    def scores(self, Y: NDArray[np.float64]) -> NDArray[Any]:
        """Return the scores (N, m) that the network gives signals (N, n) on the exact road."""
        return self._look(Y)[0]

    @property
    def _passes(self) -> int:
        return self.scorer.passes if isinstance(self.scorer, LooksAgain) else 0

    def _look(
        self, Y: NDArray[np.float64]
    ) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]:
        """Score and decode, pass after pass; return scores, coefficients, which are found, and the sets searched."""
        scores = np.asarray(self.scorer(Y, 0.0))
        X, found = decode_exact(self.problem, Y, scores)
        sets = np.zeros(len(Y), dtype=np.int64)
        if isinstance(self.scorer, LooksAgain) and self._passes:
            self._search(Y, scores, X, found, sets, SearchBudget(min(GLANCE, self.budget.sets)))
            for number in range(self.scorer.passes):
                rest = np.flatnonzero(~found)
                again = self.scorer.again(Y[rest], scores[rest], number)
                finite = np.isfinite(again).all(axis=1, keepdims=True)  # extreme weights from a file may overflow
                scores[rest] = np.where(finite, again, scores[rest])
                X[rest], found[rest] = decode_exact(self.problem, Y[rest], scores[rest])
        return scores, X, found, sets

    def _search(
        self,
        Y: NDArray[np.float64],
        scores: NDArray[Any],
        X: NDArray[np.float64],
        found: NDArray[np.bool_],
        sets: NDArray[np.int64],
        budget: SearchBudget,
    ) -> None:
        """Search for the signals that are not found yet; write to X and `found` what is, and count the sets."""
        rest = np.flatnonzero(~found)
        options: dict[str, Any] = {"budget": budget, "seed": self.seed, "progress": self.progress}
        X[rest], found[rest], tested = search(self.problem, Y[rest], scores[rest], **options)
        sets[rest] += tested

    def _certify(self, Y: NDArray[np.float64], X: FloatArray) -> Certificates:
        return certify_rows(self.problem, Y, X, self.prepared.spark)

    def noisy(self, Y: NDArray[np.float64], out: Recovery) -> Posterior:
        """Find the most probable support of every signal, and how probable it is."""
        L = self.noise.whitener
        changed = self.prepared if L is None else self.prepared.changed(L)
        Z = Y if L is None else times(Y, np.ascontiguousarray(L.T))
        scores, candidates = self._suggestions(changed, Z)
        parts = []
        for start in track(range(0, len(Y), NOISY_PIECE), "search", self.progress):
            rows = slice(start, min(len(Y), start + NOISY_PIECE))
            parts.append(
                self._noisy_rows(changed, Y[rows], Z[rows], scores[rows], [c[rows] for c in candidates], rows, out)
            )
        out.scores[:] = scores
        if self.prove > 0:
            self._bound(changed, Z, out)
        return Posterior.join(parts)

    def _noisy_rows(
        self,
        changed: Prepared,
        Y: FloatArray,
        Z: FloatArray,
        scores: NDArray[Any],
        candidates: list[NDArray[np.bool_]],
        rows: slice,
        out: Recovery,
    ) -> Posterior:
        n, m = changed.shape
        sigma, starts = self.noise.sigma, self._starts(changed)
        answer = self._search_noisy(changed, Z, scores, candidates, self.law)
        support = answer.support()
        X = fit_supports(changed.plain.columns, Z, support)
        out.coef[rows], out.residual[rows] = X, residual_norms(Y, self.problem.atoms, X)
        out.explicit_mean[rows] = answer.mean / changed.norms  # type: ignore[index]  # blank(noisy=True) made it
        out.explicit_inclusion[rows] = answer.inclusion  # type: ignore[index]
        out.confidence[rows], out.iterations[rows] = answer.probability[:, 0], answer.starts
        out.converged[rows] = answer.starts < max(1, starts)
        inside = residual_norms(Z, changed.plain.columns, X) <= noise_radius(n, sigma)
        out.upper[rows] = np.where(inside, np.count_nonzero(support, axis=1), m + 1)
        out.lower[rows] = np.linalg.norm(Z, axis=1) > noise_radius(n, sigma)
        return Posterior.of(answer.probability, answer.size, answer.atoms)

    def _starts(self, changed: Prepared) -> int:
        return climbs_of(self.budget.sets, self.budget.milliseconds, *changed.shape)

    def _search_noisy(
        self,
        changed: Prepared,
        Z: FloatArray,
        scores: NDArray[Any],
        candidates: list[NDArray[np.bool_]],
        law: Law | None,
        evidence: bool = False,
    ) -> Candidates:
        """Search signals (N, n) in coordinates in which the noise is white."""
        return noisy_search(
            changed.Phi / changed.norms,
            Z,
            scores,
            np.full(len(Z), self.noise.sigma**2),
            starts=self._starts(changed),
            candidates=tuple(candidates),
            law=law,
            seed=self.seed,
            evidence=evidence,
        )

    def learn(self, Y: NDArray[np.float64]) -> Law:
        """Learn from signals (N, n) how many nonzeros there are, how large, and of which shape."""
        L = self.noise.whitener
        changed = self.prepared if L is None else self.prepared.changed(L)
        Z = Y if L is None else times(Y, np.ascontiguousarray(L.T))
        scores, candidates = self._suggestions(changed, Z)
        n, m = changed.shape
        return learn_law(
            lambda law, evidence: self._search_noisy(changed, Z, scores, candidates, law, evidence),
            max(1, min(n - 1, m)),
        )

    def _suggestions(self, changed: Prepared, Z: NDArray[np.float64]) -> tuple[NDArray[Any], list[NDArray[np.bool_]]]:
        """Return scores, and supports of classical methods; the search never answers with a less probable one.

        Where a pass of the network takes longer than all the rest, signals that message passing explains do without.
        """
        prepared: Any = changed
        n, m = changed.shape
        sigma = self.noise.sigma
        greedy = omp(prepared, Z, noise=sigma).support
        if n < LEAST_FOR_VAMP:
            return np.asarray(self.scorer(Z, sigma)), [greedy]
        passed = vamp(prepared, Z, noise=sigma)
        likely = passed.scores > 0
        left = np.ones(len(Z), dtype=bool)
        if n * n * m > MOST_FOR_NETWORK:
            X = fit_supports(changed.plain.columns, Z, likely)
            left = ~(passed.converged & (residual_norms(Z, changed.plain.columns, X) <= noise_radius(n, sigma)))
        scores = passed.scores.copy()
        if left.any():
            scores[left] = self.scorer(Z[left], sigma)
        return scores, [greedy, likely]

    def _bound(self, changed: Prepared, Z: FloatArray, out: Recovery) -> None:
        """Prove bounds on the number of nonzeros, and which answers are the only optimal ones."""
        n = changed.shape[0]
        radius = noise_radius(n, self.noise.sigma)
        bounds = prove(changed.Phi, Z, out.support, epsilon=radius, milliseconds=self.prove)
        out.lower[:], out.upper[:] = bounds.lower, np.minimum(bounds.upper, out.upper)
        same = (bounds.support == out.support).all(axis=1)
        out.certified[:] = bounds.optimal & same
        out.argument[:] = np.where(out.certified, "optimal", "")
