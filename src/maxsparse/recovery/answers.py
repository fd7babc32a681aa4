"""The record that holds the answers of a recoverer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.threads import threads
from maxsparse._core.validation import FloatArray
from maxsparse.recovery.posterior import CredibleSet, Posterior
from maxsparse.result import Result

__all__ = ["Beyond", "Groups", "Recovery", "Unscored", "blank"]

CHUNK = 10_000  # signals that are scored at a time


class Unscored(NamedTuple):
    """Signals that were solved without the network, and the function that scores them on demand."""

    score: Callable[[NDArray[np.float64]], NDArray[Any]]  # of a pipeline: (N, n) to (N, m)
    Y: NDArray[np.float64]  # a copy
    n_threads: int | None

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Score these rows of Y."""
        with threads(self.n_threads):
            pieces = [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]
            return np.concatenate([self.score(self.Y[piece]) for piece in pieces])


class Groups(NamedTuple):
    """Atoms that come and go together: supports are listed by numbers of groups."""

    labels: NDArray[np.int64]  # (m,), number of the group of every atom, in the order of the caller's labels

    def atoms(self, groups: NDArray[Any]) -> NDArray[np.intp]:
        """Return the atoms of some groups, sorted."""
        return np.flatnonzero(np.isin(self.labels, groups))

    def of_atoms(self, values: FloatArray) -> FloatArray:
        """Return one value per group of values (m,) that its atoms share."""
        own = np.zeros(self.labels.max(initial=-1) + 1, dtype=values.dtype)
        own[self.labels] = values
        return own


@dataclass(frozen=True, eq=False, repr=False)
class Recovery(Result):
    """Result of :meth:`SparseRecoverer.recover`: a :class:`maxsparse.Result` with arguments and stability.

    Attributes
    ----------
    scores : ndarray of shape (N, m)
        Scores of the network, of the last pass that a signal needs. If OMP solved a signal, the network has not run:
        its scores are computed on first access.
    argument : ndarray of shape (N,), str
        Why a certified answer is the unique sparsest one: ``"spark"`` (proven for every x) or ``"generic"`` (with
        probability one over the amplitudes); with noise ``"optimal"``: proven, no other support of at most this size
        explains y up to the noise. Empty where not certified.
    confidence : ndarray of shape (N,)
        Probability that the support is exactly right: 1 where it is certified without noise, 0 where an answer was
        asked to be exact and none was found.
    inclusion : ndarray of shape (N, m)
        Probability of every atom to be in the support; without noise, of the answer's own.
    mean : ndarray of shape (N, m)
        Posterior mean over supports, which has the smallest expected squared error; without noise, `coef`.
    lower, upper : ndarray of shape (N,), int
        Proven bounds on the fewest nonzeros that explain y, up to the noise. m + 1 where none is known.
    noise : ndarray of shape (N,)
        Standard deviation of the noise that the answer is for: the one given, or the one learned from the signal; 0
        where the answer is exact. With a covariance, 1: noise was whitened.
    """

    argument: NDArray[np.str_] = field(default_factory=lambda: np.empty(0, dtype="U7"))
    confidence: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    lower: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    upper: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    noise: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    # None means what follows from coef alone: without noise nobody pays for copies.
    explicit_inclusion: FloatArray | None = None
    explicit_mean: FloatArray | None = None
    posterior: Posterior | None = None
    _cosines: Callable[[], FloatArray] | None = None
    _waiting: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # row of Y, or −1
    _unscored: Unscored | None = None
    _groups: Groups | None = None

    @cached_property
    def scores(self) -> FloatArray:
        """How likely every atom is to be in the support, (N, m)."""
        if self.explicit_scores is not None and self._unscored is not None:
            rows = np.flatnonzero(self._waiting >= 0)
            if len(rows):
                self.explicit_scores[rows] = self._unscored(self._waiting[rows])
                self._waiting[rows] = -1
        return self._magnitudes() if self.explicit_scores is None else self.explicit_scores

    @property
    def inclusion(self) -> FloatArray:
        """Probability of every atom to be in the support, (N, m)."""
        if self.explicit_inclusion is not None:
            return self.explicit_inclusion
        return np.where(self.support, np.where(self.certified, 1.0, self.confidence)[:, None], 0.0)

    @property
    def mean(self) -> FloatArray:
        """Posterior mean over supports, (N, m)."""
        return self.coef if self.explicit_mean is None else self.explicit_mean

    def alternatives(self, i: int) -> list[tuple[NDArray[np.intp], float]]:
        """Return the most probable supports of signal i with their probabilities, most probable first.

        Parameters
        ----------
        i : int
            Number of the signal.

        Returns
        -------
        supports : list of (ndarray of int, float)
            Sorted atoms, and the probability that they are exactly the support. Less than 1 in sum where rarer
            supports were left out.
        """
        i = self._signal(i)
        if self.posterior is None:
            return [(np.flatnonzero(self.support[i]), float(self.confidence[i]))]
        listed = self.posterior.alternatives(i)
        return listed if self._groups is None else [(self._groups.atoms(S), probability) for S, probability in listed]

    def credible_sets(self, i: int, level: float = 0.95) -> list[CredibleSet]:
        """Return sets of interchangeable atoms: for every place in the support, the atoms that may fill it.

        Parameters
        ----------
        i : int
            Number of the signal.
        level : float, default=0.95
            Probability that the right atom is in its set.

        Returns
        -------
        sets : list of CredibleSet
            Each with ``atoms``, most probable first, their ``probability`` and, if atoms have names, ``names``. With
            ``groups=``, ``atoms`` are numbers of groups, in the order of their sorted labels.
        """
        i = self._signal(i)
        if self.posterior is None or self._cosines is None:
            used = np.flatnonzero(self.support[i])
            return [CredibleSet(np.array([j]), np.array([self.confidence[i]])).named(self.names) for j in used]
        names, inclusion = self.names, self.inclusion[i]
        if self._groups is not None:
            names, inclusion = None, self._groups.of_atoms(inclusion)
        return [found.named(names) for found in self.posterior.credible_sets(i, self._cosines(), inclusion, level)]

    def _signal(self, i: int) -> int:
        if not -len(self) <= i < len(self):
            raise IndexError(f"signal {i} is out of range: there are {len(self)} signals")
        return i % len(self)

    def __getitem__(self, index: Any) -> Recovery:
        """Return the result of some of the signals; a single index keeps a batch of one."""
        part = super().__getitem__(index)
        assert isinstance(part, Recovery)
        return part if self.posterior is None else replace(part, posterior=self.posterior[index])

    def __getstate__(self) -> dict[str, Any]:
        """Compute missing scores before pickling: the network is not pickled."""
        self.scores  # noqa: B018
        fixed = None if self._cosines is None else _Fixed(self._cosines())
        return {**self.__dict__, "_unscored": None, "_cosines": fixed}


class _Fixed(NamedTuple):
    """A matrix as a function without arguments, which can be sent to another process."""

    matrix: FloatArray

    def __call__(self) -> FloatArray:
        return self.matrix


def blank(
    N: int, m: int, dtype: Any, method: str, names: tuple[str, ...] | None = None, *, snapshots: int | None = None
) -> Recovery:
    """Return an answer of N signals (of several snapshots) and m atoms that is still to be written."""
    return Recovery(
        coef=np.zeros((N, m) if snapshots is None else (N, snapshots, m), dtype=dtype),
        residual=np.zeros(N, dtype=np.zeros(0, dtype).real.dtype),
        iterations=np.zeros(N, dtype=np.int64),
        converged=np.zeros(N, dtype=bool),
        certified=np.zeros(N, dtype=bool),
        method=method,
        names=names,
        explicit_scores=np.zeros((N, m), dtype=np.float32),
        argument=np.full(N, "", dtype="U7"),
        confidence=np.zeros(N),
        lower=np.zeros(N, dtype=np.int64),
        upper=np.full(N, m + 1, dtype=np.int64),
        noise=np.zeros(N),
        _waiting=np.full(N, -1, dtype=np.int64),
    )


class Beyond:
    """What noisy signals among N have beyond a support; nothing is stored before the first of them."""

    def __init__(self, N: int, m: int, dtype: Any) -> None:
        self.shape, self.dtype = (N, m), dtype
        self.arrays: tuple[FloatArray, FloatArray] | None = None  # inclusion and mean
        self.rows: list[NDArray[np.intp]] = []
        self.posteriors: list[Posterior] = []

    def add(self, rows: NDArray[np.intp], inclusion: FloatArray, mean: FloatArray, posterior: Posterior) -> None:
        """Add some signals."""
        if self.arrays is None:
            self.arrays = np.zeros(self.shape, dtype=self.dtype), np.zeros(self.shape, dtype=self.dtype)
        self.arrays[0][rows], self.arrays[1][rows] = inclusion, mean
        self.rows.append(rows)
        self.posteriors.append(posterior)

    def complete(self, result: Recovery, cosines: Callable[[], FloatArray], *, always: bool) -> Recovery:
        """Give a result what is known, exact answers included; `always` even where no signal is noisy."""
        if self.arrays is None:
            if not always:
                return result
            self.arrays = np.zeros(self.shape, dtype=self.dtype), np.zeros(self.shape, dtype=self.dtype)
        inclusion, mean = self.arrays
        noisy = np.concatenate([*self.rows, np.empty(0, np.intp)])
        exact = np.delete(np.arange(self.shape[0]), noisy)
        inclusion[exact], mean[exact] = result[exact].inclusion, result.coef[exact]
        own = Posterior.of_supports(result.coef[exact] != 0, result.confidence[exact])
        together = Posterior.join([*self.posteriors, own])
        back = np.argsort(np.concatenate([noisy, exact]), kind="stable")
        return replace(
            result,
            explicit_inclusion=inclusion,
            explicit_mean=mean,
            posterior=together[back],
            _cosines=cosines,
        )
