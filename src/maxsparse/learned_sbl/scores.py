"""Scores of the bundled network for any dictionary: which atoms are in the support, without training."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.linalg import times
from maxsparse._core.prepared import Prepared, beyond_single, noise_levels
from maxsparse._core.products import as_numpy, is_elsewhere, is_tensor
from maxsparse._core.progress import track
from maxsparse._core.threads import over_slices
from maxsparse.learned_sbl.kernels import Signals, score_rows
from maxsparse.learned_sbl.spec import ITERATIONS, Weights, as_arrays
from maxsparse.learned_sbl.weights import bundled_weights

__all__ = ["LearnedScores"]

MOST_NOISE = 1e15  # relative to a signal; its square fits into float32
WORK = 100_000_000  # n²m of all signals in one compiled call: well under a second, so that Ctrl-C works
CONFIDENT = 3.0  # log odds of 20 to 1 for every single atom


class LearnedScores:
    """Learned SBL for one dictionary.

    Parameters
    ----------
    Phi : array-like of shape (n, m), or Prepared
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
    >>> ms.metrics.strict_accuracy(X, LearnedScores(Phi)(Y)) > 0.9
    True
    """

    def __init__(
        self,
        Phi: ArrayLike | Prepared,
        weights: Weights | None = None,
        later: tuple[Weights, ...] = (),
        iterations: int = ITERATIONS,
        confident: float = CONFIDENT,
    ) -> None:
        self.prepared = Prepared.of(Phi)
        self.weights = bundled_weights() if weights is None else weights
        self.later = later
        self.progress = False  # whether to show bars on a terminal
        self.iterations, self.confident = iterations, confident
        self._device: Any = None  # of the network; None for the compiled one

    def __call__(self, Y: NDArray[np.float64], noise: Any = 0.0) -> NDArray[np.float32]:
        """Score signals (N, n) with noise of that standard deviation on every measurement, or one (N,) for each signal.

        Returns
        -------
        logits : ndarray of shape (N, m), float32
            Log odds of every atom to be in the support. Of a torch tensor Y, a tensor on the same device.
        """
        logits: NDArray[np.float32] = self._run(self.weights, Y, noise, np.empty((len(Y), 0), dtype=np.float32))
        return logits

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
        earlier = np.ascontiguousarray(as_numpy(logits), dtype=np.float32)
        again: NDArray[np.float32] = self._run(self.later[number], Y, 0.0, earlier)
        return again

    def _run(self, weights: Weights, Y: NDArray[np.float64], noise: Any, earlier: NDArray[np.float32]) -> Any:
        if is_tensor(Y):
            return self._run_tensor(weights, Y, as_numpy(noise), earlier)
        m = self.prepared.shape[1]
        logits = np.zeros((len(Y), m), dtype=np.float32)
        sigma = np.broadcast_to(np.asarray(noise, dtype=np.float64), len(Y))
        for level, rows in noise_levels(Y, noise):
            table = self.prepared.form(level).single
            exact = times(np.ascontiguousarray(Y[rows]), table.back)
            size = beyond_single(np.abs(exact).max(axis=1, initial=0.0))
            Z = (exact / size[:, None]).astype(np.float32)
            noises = np.minimum(sigma[rows] / size, MOST_NOISE).astype(np.float32)
            per_call = max(1, WORK // table.Q.size // len(table.Q))
            for start in track(range(0, len(Z), per_call), "score", self.progress):
                some = slice(start, start + per_call)
                own = rows[some]
                logits[own] = self._part(weights, table, Signals(Z[some], noises[some], earlier[own]))
        return logits

    def _part(self, weights: Weights, table: Any, signals: Signals) -> Any:
        """Return the logits of some signals that share one table."""
        if self._device is not None:
            from maxsparse.learned_sbl.device import score_on_device

            return as_numpy(score_on_device(weights, table, signals, self.iterations, self.confident, self._device))
        part = np.empty((len(signals.Z), table.Q.shape[1]), dtype=np.float32)
        over_slices(score_rows, len(part), weights, table, signals, self.iterations, self.confident, part)
        return part

    def _run_tensor(self, weights: Weights, Y: Any, noise: Any, earlier: Any) -> Any:
        """Score a tensor (N, n), on its device; whitening, in float64, is done on the CPU."""
        import torch

        other = copy(self)
        other._device = Y.device if is_elsewhere(Y) else None
        logits = other._run(weights, np.ascontiguousarray(as_numpy(Y), dtype=np.float64), noise, earlier)
        return torch.from_numpy(logits).to(Y.device)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the weights as numpy arrays by name, those of later passes prefixed with ``later.0.`` and so on."""
        arrays = as_arrays(self.weights)
        for number, weights in enumerate(self.later):
            arrays |= {f"later.{number}.{name}": array for name, array in as_arrays(weights).items()}
        return arrays

    def header(self) -> None:
        """Return an empty header: everything is in the arrays."""
