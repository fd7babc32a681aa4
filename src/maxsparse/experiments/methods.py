"""Recovery methods of the experiments: a name, a label for figures, and one function."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Any

import numpy as np

from maxsparse._core.registry import NETWORKS, SOLVERS, Entry
from maxsparse._core.validation import FloatArray
from maxsparse.dictionaries import ClusteredDictionary, NestedDictionary
from maxsparse.experiments.recipes import Recipe, current_store
from maxsparse.experiments.training_plans import NETWORK_METHODS, Training
from maxsparse.result import Result
from maxsparse.theory import null_low_rank

__all__ = ["BUILT_IN", "Method", "Problem", "network_method", "solver_methods"]

ISTA_ITERATIONS = 2000


@dataclass(frozen=True, eq=False)
class Problem:
    """What a method is given besides the signals.

    Attributes
    ----------
    dictionary : ndarray of shape (n, m), ClusteredDictionary or NestedDictionary
        Φ, with its parts if it has any.
    sparsity : int
        Number of nonzeros of every signal.
    rank : int or None
        Rank of the low-rank term, if there is one.
    cluster_sparsity : int, tuple of int or None
        Number of active clusters, if there are clusters; one per level.
    noise : float
        Standard deviation of the noise on every measurement.
    training : Training or None
        Training of the networks, if there are any.
    """

    dictionary: FloatArray | ClusteredDictionary | NestedDictionary
    sparsity: int
    rank: int | None = None
    cluster_sparsity: int | tuple[int, ...] | None = None
    noise: float = 0.0
    training: Training | None = None

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
        ``applies(problem)`` is False if the method cannot be used; such points are omitted.
    recipe : callable or None
        ``recipe(training)`` defines the training of the method's network, if it has one.
    depends : callable
        A string that changes when answers of the method may change; its results are then measured again.
    """

    name: str
    label: str
    recover: Callable[[Problem, FloatArray], Result | FloatArray]
    applies: Callable[[Problem], bool] = lambda problem: True
    recipe: Callable[[Training], Recipe] | None = None
    depends: Callable[[], str] = lambda: ""

    def scores(self, problem: Problem, Y: FloatArray) -> FloatArray:
        """Return scores (N, m), from the result of the method."""
        answer = self.recover(problem, Y)
        return answer.scores if isinstance(answer, Result) else np.asarray(answer)


def _solver(
    method: str, *, whitened: bool = False, with_sparsity: bool = True, **options: Any
) -> Callable[[Problem, FloatArray], Result]:
    """Return a classical solver; `with_sparsity` sets whether it is given the number of nonzeros."""

    def recover(problem: Problem, Y: FloatArray) -> Result:
        from maxsparse.solvers import solve  # compiled code: loaded only when used

        more: dict[str, Any] = {"noise": problem.noise} if problem.noise else {}
        sparsity = problem.sparsity if with_sparsity else None
        return solve(problem.dictionary, Y, method=method, sparsity=sparsity, precondition=whitened, **options, **more)

    return recover


def _ista(*, whitened: bool = False) -> Callable[[Problem, FloatArray], Result]:
    return _solver("ista", whitened=whitened, with_sparsity=False, max_iter=ISTA_ITERATIONS)


def solver_methods() -> Iterator[Method]:
    """Yield every registered solver, plain and whitened; it is given the number of nonzeros where it needs that."""
    for name in SOLVERS:
        if SOLVERS.entry(name).outside:
            SOLVERS[name]  # what a plug-in needs and can do is known when it is loaded
        entry = SOLVERS.entry(name)
        with_sparsity = "sparsity" in entry.needs
        for suffix, label, whitened in (("", "", False), ("-whitened", ", whitened", True)):
            recover = _solver(name, whitened=whitened, with_sparsity=with_sparsity)
            applies, depends = partial(_suits, entry), partial(_version, entry)
            yield Method(f"{name}{suffix}", f"{entry.label}{label}", recover, applies, depends=depends)


def _suits(entry: Entry, problem: Problem) -> bool:
    """Whether a solver can do what a problem asks for."""
    clusters = "clusters" not in entry.needs or _has_clusters(problem)
    return clusters and (not problem.noise or entry.can is None or "noise" in entry.can)


def _version(entry: Entry) -> str:
    """Return the version of the package that a plug-in came with."""
    dist = None if entry.plug_in is None else entry.plug_in.dist
    return "" if dist is None else f"{dist.name} {dist.version}"


def network_method(name: str, label: str | None = None) -> Method:
    """Return a network that is trained for the problem's dictionary, as a method."""

    def recover(problem: Problem, Y: FloatArray) -> FloatArray:
        if problem.training is None:
            raise ValueError("this problem has no training for a network")
        return current_store().network(problem.training.recipe(name)).scores(Y)

    label = label or NETWORKS.entry(name).label
    return Method(name, label, recover, _has_training, recipe=lambda training: training.recipe(name))


def _recoverer(problem: Problem, Y: FloatArray) -> Result:
    """Return the answer after the search, scored by the magnitudes of its coefficients.

    With noise: the posterior mean, scored by the probability of every atom to be in the support.
    """
    from dataclasses import replace

    from maxsparse.recovery import SparseRecoverer

    answer = SparseRecoverer(problem.Phi, noise=problem.noise).recover(Y)
    if problem.noise == 0:
        return replace(answer, explicit_scores=None)
    return replace(answer, coef=answer.mean, explicit_scores=answer.inclusion)


def _learned_sbl(problem: Problem, Y: FloatArray) -> FloatArray:
    from maxsparse.learned_sbl import LearnedScores

    return LearnedScores(problem.Phi)(np.asarray(Y, dtype=np.float64), problem.noise)


@cache
def _bundled_weights(*names: str) -> str:
    """Return a hash of bundled weights: results that use them are measured again when they change."""
    folder = resources.files("maxsparse.learned_sbl.weights")
    return "".join(hashlib.sha256((folder / f"{name}.safetensors").read_bytes()).hexdigest()[:16] for name in names)


def _first_pass() -> str:
    return _bundled_weights("learned_sbl")


def _all_passes() -> str:
    return _bundled_weights("learned_sbl", "second_pass", "third_pass")


def _iht_nulled(problem: Problem, Y: FloatArray) -> Result:
    from maxsparse.solvers import iht

    if problem.rank is None:
        raise ValueError("this problem has no low-rank term to remove")
    pair = null_low_rank(problem.Phi, problem.rank)
    return iht(problem.Phi, Y, sparsity=problem.sparsity, step="normalised", precondition=pair)


def _aiht(problem: Problem, Y: FloatArray) -> Result:
    from maxsparse.solvers import aiht

    if not isinstance(problem.dictionary, ClusteredDictionary | NestedDictionary):
        raise ValueError("this problem has no clusters")
    return aiht(problem.dictionary, Y, sparsity=problem.sparsity, cluster_sparsity=problem.cluster_sparsity)


def _has_rank(problem: Problem) -> bool:
    return problem.rank is not None


def _has_training(problem: Problem) -> bool:
    return problem.training is not None


def _has_clusters(problem: Problem) -> bool:
    clustered = isinstance(problem.dictionary, ClusteredDictionary | NestedDictionary)
    return clustered and problem.cluster_sparsity is not None


NETWORK_LABELS = {
    "residual": "residual network",
    "residual-raw": "residual network, input not whitened",
    "residual-plain": "no residual connections",
    "residual-helu": "HELU instead of ReLU",
    "residual-squares": "least-squares loss",
    "ista-net": "ISTA-Net",
    "iht-net": "IHT-Net",
    "ista-net-whitened": "ISTA-Net, whitened",
    "iht-net-whitened": "IHT-Net, whitened",
    "lstm": "LSTM",
    "gru": "GRU",
    "lstm-feedback": "LSTM, gated feedback",
    "gru-feedback": "GRU, gated feedback",
}

BUILT_IN = {
    method.name: method
    for method in (
        # The adaptive step is the strongest form of IHT, so that a failure is not due to the step size.
        Method("iht", "IHT", _solver("iht", step="normalised")),
        Method("iht-whitened", "IHT, whitened", _solver("iht", whitened=True, step="normalised")),
        Method("iht-nulled", "IHT, low-rank term removed", _iht_nulled, _has_rank),
        Method("aiht", "A-IHT", _aiht, _has_clusters),
        Method("omp", "OMP", _solver("omp")),
        Method("omp-whitened", "OMP, whitened", _solver("omp", whitened=True)),
        # ISTA is far from the minimum of ℓ1 then, on dictionaries such as the paper's; l1 is that minimum.
        Method("ista", f"ISTA ({ISTA_ITERATIONS} iterations)", _ista()),
        Method("ista-whitened", f"ISTA, whitened ({ISTA_ITERATIONS} iterations)", _ista(whitened=True)),
        Method("l1", "ℓ1", _solver("l1", with_sparsity=False)),
        Method("l1-whitened", "ℓ1, whitened", _solver("l1", whitened=True, with_sparsity=False)),
        Method("sbl", "SBL", _solver("sbl", with_sparsity=False)),
        Method("sbl-convex", "SBL, convex updates", _solver("sbl", with_sparsity=False, update="convex")),
        Method("sbl-mackay", "SBL, MacKay's updates", _solver("sbl", with_sparsity=False, update="mackay")),
        Method("sbl-whitened", "SBL, whitened", _solver("sbl", whitened=True, with_sparsity=False)),
        *(network_method(name, NETWORK_LABELS[name]) for name in NETWORK_METHODS),
        Method("learned-sbl", "learned SBL, scores alone", _learned_sbl, depends=_first_pass),
        Method("recoverer", "SparseRecoverer", _recoverer, depends=_all_passes),
    )
}
