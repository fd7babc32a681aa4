"""Recovery methods as experiments know them: a name, a label for figures, and one function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxsparse._validation import FloatArray
from maxsparse.dictionaries import ClusteredDictionary
from maxsparse.result import Result
from maxsparse.theory import null_low_rank

__all__ = ["BUILT_IN", "Method", "Problem"]


@dataclass(frozen=True, eq=False)
class Problem:
    """What a method may know before it sees signals.

    Attributes
    ----------
    dictionary : ndarray of shape (n, m) or ClusteredDictionary
        Φ, with its parts where it has parts.
    sparsity : int
        Number of nonzeros of every signal.
    rank : int or None
        Rank of the disturbing low-rank term, where there is one.
    cluster_sparsity : int or None
        Number of clusters in use, where there are clusters.
    """

    dictionary: FloatArray | ClusteredDictionary
    sparsity: int
    rank: int | None = None
    cluster_sparsity: int | None = None

    @property
    def Phi(self) -> FloatArray:
        """The dictionary as an array."""
        return np.asarray(self.dictionary)


@dataclass(frozen=True)
class Method:
    """A method to compare.

    Attributes
    ----------
    name : str
        For ``--methods``.
    label : str
        For figures and tables.
    recover : callable
        ``recover(problem, Y) -> Result`` or scores of shape (N, m).
    applies : callable
        ``applies(problem)`` is False where the method makes no sense; such points are left out.
    """

    name: str
    label: str
    recover: Callable[[Problem, FloatArray], Result | FloatArray]
    applies: Callable[[Problem], bool] = lambda problem: True

    def scores(self, problem: Problem, Y: FloatArray) -> FloatArray:
        """Return scores (N, m), from whatever the method returns."""
        answer = self.recover(problem, Y)
        return answer.scores if isinstance(answer, Result) else np.asarray(answer)


def _solver(method: str, *, whitened: bool = False, **options: Any) -> Callable[[Problem, FloatArray], Result]:
    def recover(problem: Problem, Y: FloatArray) -> Result:
        from maxsparse.solvers import solve  # compiled code: loaded only when used

        return solve(problem.Phi, Y, method=method, sparsity=problem.sparsity, precondition=whitened, **options)

    return recover


def _iht_nulled(problem: Problem, Y: FloatArray) -> Result:
    from maxsparse.solvers import iht

    if problem.rank is None:
        raise ValueError("this problem has no low-rank term to remove")
    pair = null_low_rank(problem.Phi, problem.rank)
    return iht(problem.Phi, Y, sparsity=problem.sparsity, step="normalised", precondition=pair)


def _aiht(problem: Problem, Y: FloatArray) -> Result:
    from maxsparse.solvers import aiht

    if not isinstance(problem.dictionary, ClusteredDictionary):
        raise ValueError("this problem has no clusters")
    return aiht(problem.dictionary, Y, sparsity=problem.sparsity, cluster_sparsity=problem.cluster_sparsity)


def _has_rank(problem: Problem) -> bool:
    return problem.rank is not None


def _has_clusters(problem: Problem) -> bool:
    return isinstance(problem.dictionary, ClusteredDictionary) and problem.cluster_sparsity is not None


BUILT_IN = {
    method.name: method
    for method in (
        # The adaptive step is the strongest form of IHT, so that a failure is not one of the step.
        Method("iht", "IHT", _solver("iht", step="normalised")),
        Method("iht-whitened", "IHT, whitened", _solver("iht", whitened=True, step="normalised")),
        Method("iht-nulled", "IHT, low-rank term removed", _iht_nulled, _has_rank),
        Method("aiht", "A-IHT", _aiht, _has_clusters),
        Method("omp", "OMP", _solver("omp")),
        Method("omp-whitened", "OMP, whitened", _solver("omp", whitened=True)),
        Method("l1", "ℓ1", _solver("l1")),
        Method("l1-whitened", "ℓ1, whitened", _solver("l1", whitened=True)),
        Method("sbl", "SBL", _solver("sbl")),
        Method("sbl-whitened", "SBL, whitened", _solver("sbl", whitened=True)),
    )
}
