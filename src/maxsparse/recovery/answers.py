"""The record that holds the answers of a recoverer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.threads import threads
from maxsparse._core.validation import FloatArray
from maxsparse.result import Result

__all__ = ["Recovery", "Unscored", "blank"]

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
        probability one over the amplitudes). Empty where not certified.
    stable : ndarray of shape (N,), bool
        With noise: the support explains the signal up to the noise and needs each of its atoms. Not a proof.
    """

    argument: NDArray[np.str_] = field(default_factory=lambda: np.empty(0, dtype="U7"))
    stable: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))
    _waiting: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # row of Y, or −1
    _unscored: Unscored | None = None

    @cached_property
    def scores(self) -> FloatArray:
        """How likely every atom is to be in the support, (N, m)."""
        if self.explicit_scores is not None and self._unscored is not None:
            rows = np.flatnonzero(self._waiting >= 0)
            if len(rows):
                self.explicit_scores[rows] = self._unscored(self._waiting[rows])
                self._waiting[rows] = -1
        return np.abs(self.coef) if self.explicit_scores is None else self.explicit_scores

    def __getstate__(self) -> dict[str, Any]:
        """Compute missing scores before pickling: the network is not pickled."""
        self.scores  # noqa: B018
        return {**self.__dict__, "_unscored": None}


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
        _waiting=np.full(N, -1, dtype=np.int64),
    )
