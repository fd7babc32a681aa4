r"""A signal whose nonzeros are too many to be told apart: x ~ N(0, vI).

With noise only :math:`r = \sum_i v\lambda_i / (\sigma^2 + v\lambda_i)` directions of y stand out of it, λ being the
eigenvalues of ΦΦᵀ. Where these are few, as for a coherent Φ and strong noise, a handful of atoms explains any y, and a
search that knows small supports only would be sure of them. Here the number of nonzeros is expected to be of any order
of magnitude between 1 and n, so that it is beyond r with the probability log(n/r) / log n; such a signal is taken for
dense, and the evidence decides between that and the supports that were found, with odds of ten to one for caution.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.linalg import times

__all__ = ["Dense", "explain_densely"]

FACTORS = np.array([0.5, 1.0, 2.0])  # of v, around what the power of a signal suggests
LEAST = 1e-9  # probability
CAUTION = math.log(10.0)  # in favour of a dense explanation: a few wrong atoms do more harm than many small ones


class Dense(NamedTuple):
    """A dense explanation of each of N signals."""

    evidence: NDArray[np.float64]  # (N,), log probability of the signal, averaged over v and σ²
    odds: NDArray[np.float64]  # (N,), log odds before the signal is seen
    coordinates: NDArray[np.float64]  # (N, n), C⁻¹y·v: times Φ they are the posterior mean


def explain_densely(
    spectrum: NDArray[np.float64],
    basis: NDArray[np.float64],
    coordinates: NDArray[np.float64],
    variance: NDArray[np.float64],
) -> Dense:
    """Weigh dense explanations.

    Parameters
    ----------
    spectrum, basis : ndarray of shape (n,) and (n, n)
        Eigenvalues and eigenvectors of ΦΦᵀ.
    coordinates : ndarray of shape (N, n)
        Signals in that basis.
    variance : ndarray of shape (N, L)
        σ² of every signal, or several that are equally likely.

    Returns
    -------
    dense : Dense
    """
    (N, n), L = coordinates.shape, variance.shape[1]
    power = np.sum(coordinates**2, axis=1, keepdims=True)
    signal = np.maximum(power - n * variance, 0.0) / spectrum.sum()
    v = (signal[:, :, None] * FACTORS).reshape(N, L * len(FACTORS), 1)
    total = np.repeat(variance, len(FACTORS), axis=1)[:, :, None] + v * spectrum  # (N, L·V, n)
    logs = -0.5 * (np.log(total) + coordinates[:, None] ** 2 / total).sum(axis=2) - math.log(L * len(FACTORS))
    evidence = np.logaddexp.reduce(logs, axis=1)
    weights = np.exp(logs - evidence[:, None])[:, :, None]
    directions = (weights * v * spectrum / total).sum(axis=(1, 2))
    beyond = np.clip(np.log(n / np.maximum(directions, 1.0)) / math.log(max(n, 2)), LEAST, 1.0 - LEAST)
    beyond[directions < 1.0] = LEAST  # nothing stands out: there is nothing to explain
    mean = (weights * v / total).sum(axis=1) * coordinates
    return Dense(evidence, np.log(beyond) - np.log1p(-beyond) + CAUTION, times(mean, np.ascontiguousarray(basis.T)))
