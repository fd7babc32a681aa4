"""From scores to certificates, one chunk of signals at a time, and the record that holds the answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.linalg import residual_norms
from maxsparse._core.validation import FloatArray, check_integer
from maxsparse.recovery.certificate import certify_rows, spark_bound
from maxsparse.recovery.decode import best_guess, decode_exact, decode_noisy, stable_under_noise
from maxsparse.recovery.refit import Problem
from maxsparse.recovery.search import Budget, check_budget, search
from maxsparse.result import Result

__all__ = ["Recovery", "Scorer", "Steps", "blank"]

GLANCE = 50  # sets tested before a later pass, which costs as much as several hundred

Scorer = Callable[[NDArray[np.float64], float], tuple[NDArray[Any], Any]]


@runtime_checkable
class LooksAgain(Protocol):
    """A scorer with later passes, for signals that decoding did not solve."""

    passes: int

    def again(self, Y: NDArray[np.float64], logits: NDArray[Any], number: int) -> NDArray[Any]:
        """Return scores (N, m) of signals (N, n), given the logits (N, m) of the failed pass."""


def _empty(kind: str) -> NDArray[Any]:
    return np.empty(0, dtype=kind)


@dataclass(frozen=True, eq=False, repr=False)
class Recovery(Result):
    """Result of :meth:`SparseRecoverer.recover`: a :class:`maxsparse.Result` with arguments and stability.

    Attributes
    ----------
    scores : ndarray of shape (N, m)
        Of the last pass of a signal.
    argument : ndarray of shape (N,), str
        Why a certified answer is the unique sparsest one: ``"spark"`` (proven for every x) or ``"generic"`` (with
        probability one over the amplitudes). Empty where not certified.
    stable : ndarray of shape (N,), bool
        With noise: the support explains the signal up to the noise and needs each of its atoms. Not a proof.
    """

    argument: NDArray[np.str_] = field(default_factory=lambda: _empty("U7"))
    stable: NDArray[np.bool_] = field(default_factory=lambda: _empty("bool"))


def blank(N: int, m: int, dtype: Any, method: str) -> Recovery:
    """Return an answer of N signals and m atoms that is still to be written."""
    return Recovery(
        coef=np.zeros((N, m), dtype=dtype),
        residual=np.zeros(N, dtype=dtype),
        iterations=np.zeros(N, dtype=np.int64),
        converged=np.zeros(N, dtype=bool),
        certified=np.zeros(N, dtype=bool),
        method=method,
        explicit_scores=np.zeros((N, m), dtype=np.float32),
        argument=np.full(N, "", dtype="U7"),
        stable=np.zeros(N, dtype=bool),
    )


@dataclass(frozen=True)
class Steps:
    """Processes one chunk of signals, from scores to certificates."""

    Phi: NDArray[np.float64]
    problem: Problem
    scorer: Scorer
    noise: float
    budget: Budget
    seed: int
    spark: int

    @classmethod
    def of(
        cls, Phi: FloatArray, problem: Problem, scorer: Scorer, *, noise: float, budget: int | str, seed: int
    ) -> Steps:
        """Check the options of the search and bound the spark of Φ."""
        checked = check_budget(budget), check_integer(seed, "random_state")
        exact = np.asarray(Phi, dtype=np.float64)
        return cls(exact, problem, scorer, noise, *checked, spark_bound(exact) if noise == 0 else 2)

    def __call__(self, Y: NDArray[np.float64], out: Recovery, progress: bool = False) -> None:
        """Recover signals (N, n); write to the arrays of `out`."""
        (self._noisy if self.noise > 0 else self._exact)(Y, out, progress)

    def _exact(self, Y: NDArray[np.float64], out: Recovery, progress: bool) -> None:
        """Decode, run later passes, search and certify."""
        scores = np.asarray(self.scorer(Y, 0.0)[0])
        X, found = decode_exact(self.problem, Y, scores)
        left = self.budget
        if isinstance(self.scorer, LooksAgain) and self.scorer.passes > 0:
            self._search(Y, scores, X, found, out, Budget(min(GLANCE, left.sets)), progress)
            for number in range(self.scorer.passes):
                rest = np.flatnonzero(~found)
                again = self.scorer.again(Y[rest], scores[rest], number)
                finite = np.isfinite(again).all(axis=1, keepdims=True)  # extreme weights from a file may overflow
                scores[rest] = np.where(finite, again, scores[rest])
                X[rest], found[rest] = decode_exact(self.problem, Y[rest], scores[rest])
            left = replace(left, sets=max(0, left.sets - GLANCE))
        self._search(Y, scores, X, found, out, left, progress)
        certificates = certify_rows(self.problem, Y, X, self.spark)
        # Unsolved signals get a sparse guess from the scores, uncertified, with its residual.
        still = np.flatnonzero(~found)
        X[still] = best_guess(self.problem, Y[still], scores[still])
        out.coef[:], out.scores[:], out.converged[:] = X, scores, found
        out.certified[:], out.argument[:] = certificates.certified, certificates.argument
        out.residual[:] = residual_norms(Y, self.problem.atoms, X)

    def _search(
        self,
        Y: NDArray[np.float64],
        scores: NDArray[Any],
        X: NDArray[np.float64],
        found: NDArray[np.bool_],
        out: Recovery,
        budget: Budget,
        progress: bool,
    ) -> None:
        """Search for the signals that are not found yet; write to X and `found` what is, and count the sets."""
        rest = np.flatnonzero(~found)
        X[rest], found[rest], sets = search(
            self.problem, Y[rest], scores[rest], budget=budget, seed=self.seed, progress=progress
        )
        out.iterations[rest] += sets

    def _noisy(self, Y: NDArray[np.float64], out: Recovery, progress: bool) -> None:
        """Estimate and check for stability."""
        scores = np.asarray(self.scorer(Y, self.noise)[0])
        X = decode_noisy(self.Phi, Y, scores, self.noise)
        out.coef[:], out.scores[:] = X, scores
        out.residual[:] = residual_norms(Y, self.problem.atoms, X)
        out.stable[:] = stable_under_noise(self.problem, Y, X, self.noise)
        out.converged[:] = out.stable
