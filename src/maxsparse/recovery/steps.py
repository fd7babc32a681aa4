"""What the steps of a recovery hand on to each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse.recovery.posterior import Posterior

__all__ = ["Found", "Look", "Suggestions"]


class Found(NamedTuple):
    """What the noisy road knows of some signals beyond a support."""

    rows: NDArray[np.intp]  # (N,)
    inclusion: NDArray[np.float64]  # (N, m)
    mean: NDArray[np.float64]  # (N, m)
    posterior: Posterior
    strange: NDArray[np.bool_]  # (N,), of another kind than the signals that a law was learned from

    def of(self, chosen: NDArray[np.bool_]) -> Found:
        """Return some of the signals."""
        rows, inclusion, mean, posterior, strange = self
        return Found(rows[chosen], inclusion[chosen], mean[chosen], posterior[chosen], strange[chosen])

    @classmethod
    def join(cls, parts: list[Found]) -> Found | None:
        """Put signals behind each other."""
        if not parts:
            return None
        rows, inclusion, mean, posteriors, strange = zip(*parts, strict=True)
        posterior = Posterior.join(posteriors)
        return cls(
            np.concatenate(rows), np.concatenate(inclusion), np.concatenate(mean), posterior, np.concatenate(strange)
        )


class Suggestions(NamedTuple):
    """What other methods say of N signals."""

    scores: NDArray[Any]  # (N, m)
    supports: tuple[NDArray[np.bool_], ...]  # (N, m) each
    passed: NDArray[np.float64] | None = None  # (N, m), mean by message passing, NaN where it did not converge;
    # then the last of `supports` is its own

    def of(self, rows: NDArray[np.intp]) -> Suggestions:
        """Return what is said of some of the signals."""
        passed = None if self.passed is None else self.passed[rows]
        return Suggestions(self.scores[rows], tuple(support[rows] for support in self.supports), passed)


class Look(NamedTuple):
    """How far signals have come on the exact road."""

    scores: NDArray[Any]  # (N, m)
    X: NDArray[np.float64]  # (N, m)
    found: NDArray[np.bool_]  # (N,)
    sets: NDArray[np.int64]  # (N,), that were searched
