"""Scores of the bundled network for any dictionary: which atoms are in the support, without training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse import theory
from maxsparse._core.linalg import times
from maxsparse._core.progress import track
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray
from maxsparse.learned_sbl.kernels import score_rows
from maxsparse.learned_sbl.spec import ITERATIONS, Weights, as_arrays
from maxsparse.learned_sbl.weights import bundled_weights

__all__ = ["LearnedScores", "noise_levels"]

MOST_NOISE = 1e15  # relative to a signal; its square fits into float32
WORK = 100_000_000  # n²m of all signals in one compiled call: well under a second, so that Ctrl-C works
CONFIDENT = 3.0  # log odds of 20 to 1 for every single atom


class LearnedScores:
    """Learned SBL for one dictionary.

    Parameters
    ----------
    Phi : ndarray of shape (n, m)
        Checked dictionary.
    weights : Weights or None, default=None
        None for the bundled ones.
    later : tuple of Weights, default=()
        Weights of the later passes, for :meth:`again`.
    iterations : int, default=16
        Number of iterations, all of equal cost.
    confident : float, default=CONFIDENT
        A signal is finished earlier when no logit is closer to zero than this; infinity runs all iterations.

    Examples
    --------
    >>> import maxsparse as ms
    >>> from maxsparse.learned_sbl import LearnedScores
    >>> Phi = ms.dictionaries.decaying(20, 100, rng=5)
    >>> X, Y = ms.signals.sample(Phi, 200, sparsity=4, rng=1)
    >>> ms.metrics.strict_accuracy(X, LearnedScores(Phi)(Y)[0]) > 0.9
    True
    """

    def __init__(
        self,
        Phi: FloatArray,
        weights: Weights | None = None,
        later: tuple[Weights, ...] = (),
        iterations: int = ITERATIONS,
        confident: float = CONFIDENT,
    ) -> None:
        self.Phi = np.asarray(Phi, dtype=np.float64)
        self.weights = bundled_weights() if weights is None else weights
        self.later = later
        self.progress = False  # whether to show bars on a terminal
        self.iterations, self.confident = iterations, confident
        self._prepared: dict[int | None, tuple[NDArray[Any], ...]] = {}

    def __call__(self, Y: NDArray[np.float64], noise: float = 0.0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Score signals (N, n) with noise of that standard deviation on every measurement.

        Returns
        -------
        logits : ndarray of shape (N, m), float32
            Log odds of every atom to be in the support.
        gamma : ndarray of shape (N, m), float32
            Prior variances of the coefficients of Φ that the last iteration used.
        """
        return self._run(self.weights, Y, noise, np.empty((len(Y), 0), dtype=np.float32))

    @property
    def passes(self) -> int:
        """Number of passes after the first."""
        return len(self.later)

    def again(self, Y: NDArray[np.float64], logits: NDArray[Any], number: int) -> NDArray[np.float32]:
        """Score noiseless signals (N, n) again, given the logits (N, m) of the failed pass.

        The network of a later pass was trained on such signals only: its log odds are conditional on wrong answers so
        far, as the search needs them.

        Parameters
        ----------
        Y : ndarray of shape (N, n)
        logits : ndarray of shape (N, m)
            Of the previous pass.
        number : int
            Which of the later passes, from 0.

        Returns
        -------
        logits : ndarray of shape (N, m), float32
        """
        return self._run(self.later[number], Y, 0.0, np.ascontiguousarray(logits, dtype=np.float32))[0]

    def _run(
        self, weights: Weights, Y: NDArray[np.float64], noise: float, earlier: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        N, m = len(Y), self.Phi.shape[1]
        logits, gamma = np.zeros((N, m), dtype=np.float32), np.zeros((N, m), dtype=np.float32)
        for level, rows in noise_levels(Y, noise):
            W, D, variance, Q, outer, unit = self._whitened(level)
            exact = times(np.ascontiguousarray(Y[rows]), np.ascontiguousarray(W.T))
            size = beyond_single(np.abs(exact).max(axis=1, initial=0.0))
            Z = (exact / size[:, None]).astype(np.float32)
            noises = np.minimum(noise / size, MOST_NOISE).astype(np.float32)
            per_call = max(1, WORK // Q.size // len(Q))
            for start in track(range(0, len(Z), per_call), "score", self.progress):
                some = slice(start, start + per_call)
                own = rows[some]
                part, variances = np.empty((len(own), m), dtype=np.float32), np.empty((len(own), m), dtype=np.float32)
                options = earlier[own], self.iterations, self.confident
                own_signals = Z[some], noises[some]
                over_slices(score_rows, len(own), weights, Q, outer, variance, *own_signals, *options, part, variances)
                with np.errstate(over="ignore"):
                    logits[own], gamma[own] = part, variances * (D * unit * size[some, None]) ** 2
        return logits, gamma

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the weights as numpy arrays by name, those of later passes prefixed with ``later.0.`` and so on."""
        arrays = as_arrays(self.weights)
        for number, weights in enumerate(self.later):
            arrays |= {f"later.{number}.{name}": array for name, array in as_arrays(weights).items()}
        return arrays

    def header(self) -> None:
        """Return an empty header: everything is in the arrays."""

    def _whitened(self, level: int | None) -> tuple[NDArray[Any], ...]:
        """Return W, D, diag WWᵀ, WΦD, its packed outer products for noise 2^level relative to the signal, and a unit.

        W and diag WWᵀ are in that unit, a power of two: 1, unless Φ is too small or large for float32.
        """
        if level not in self._prepared:
            if len(self._prepared) > 4:  # levels of noise in use at once; more are computed again
                self._prepared.clear()
            W, D = theory.precondition(self.Phi, noise=0.0 if level is None else 2.0**level)
            Q = W @ self.Phi * D
            rows, columns = np.tril_indices(len(Q))
            packed = np.ascontiguousarray(Q[rows].T * Q[columns].T, dtype=np.float32)
            unit = beyond_single(np.abs(W).max())
            variance = ((W / unit) ** 2).sum(axis=1).astype(np.float32)
            self._prepared[level] = W / unit, D, variance, np.ascontiguousarray(Q, dtype=np.float32), packed, unit
        return self._prepared[level]


def beyond_single(sizes: Any) -> NDArray[np.float64]:
    """Return powers of two by which to divide numbers of these sizes, so that their squares fit into float32.

    They are 1 if no scaling is needed, so that ordinary signals do not change.
    """
    exponents = np.frexp(sizes)[1]
    return np.where(np.abs(exponents) > 40, np.ldexp(1.0, exponents), 1.0)


def noise_levels(Y: NDArray[np.float64], noise: float) -> list[tuple[int | None, NDArray[np.intp]]]:
    """Group signals by their noise relative to their size, rounded to powers of two, None for no noise.

    So a signal's scores do not depend on its batch, and few preconditioners are needed.
    """
    if noise == 0 or len(Y) == 0:
        return [(None, np.arange(len(Y)))]
    size = np.sqrt(np.maximum(np.mean(Y**2, axis=1) - noise**2, 0.01 * noise**2))  # of the signal without its noise
    level = np.clip(np.rint(np.log2(noise / size)), -30, 3).astype(np.int64)
    return [(int(value), np.flatnonzero(level == value)) for value in np.unique(level)]
