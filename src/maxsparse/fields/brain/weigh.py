r"""Probabilities of sets of places under MNE-Python's weighting.

A search over blocks expects fields of one size from all places that it was given. Here the coefficients of the weighted
gain matrix are of one size, :math:`x \sim N(0, \delta)`, as depth and loose weighting mean it, and sets are chosen out
of all B places, not only out of those that were kept. δ is integrated out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["log_evidence", "weighed"]

ONE_MORE = 0.6  # probability of one more source
SLABS = np.geomspace(1e-1, 1e9, 41)  # power of a source at the sensors over that of the noise


def log_evidence(
    rows: NDArray[np.float64], G: NDArray[np.float64], sets: list[NDArray[Any]], n_orient: int, places: int
) -> NDArray[np.float64]:
    """Return log probabilities of the measurements and sets of places together, up to a constant of `rows`' size.

    Parameters
    ----------
    rows : ndarray of shape (r, n)
        Measurements in noise of unit variance.
    G : ndarray of shape (n, m)
        Weighted gain matrix, n_orient columns per place.
    sets : list of ndarray of int
        Places of every set.
    n_orient : int
    places : int
        B.

    Returns
    -------
    values : ndarray of shape (len(sets),)
    """
    K, b = G.T @ G, G.T @ rows.T
    slabs = SLABS / max(float(np.trace(K)) / max(len(K), 1), 1e-300)
    values, sizes = np.empty(len(sets)), np.array([len(S) for S in sets])
    for k in np.unique(sizes):
        own = np.flatnonzero(sizes == k)
        chosen = np.array([sets[i] for i in own], dtype=np.intp).reshape(len(own), k, 1)
        columns = (n_orient * chosen + np.arange(n_orient)).reshape(len(own), -1)
        heights, basis = np.linalg.eigh(K[columns[:, :, None], columns[:, None, :]])
        energy = np.sum((basis.transpose(0, 2, 1) @ b[columns]) ** 2, axis=2)  # (sets, columns)
        gain = 1.0 + slabs[:, None, None] * np.maximum(heights, 0.0)  # (slabs, sets, columns)
        parts = slabs[:, None, None] * energy / gain - len(rows) * np.log(gain)
        choices = math.lgamma(places + 1) - math.lgamma(k + 1) - math.lgamma(places - k + 1)
        values[own] = np.logaddexp.reduce(0.5 * parts.sum(axis=2), axis=0) + k * math.log(ONE_MORE) - choices
    return values - math.log(len(slabs)) - 0.5 * float(np.sum(rows**2))


def weighed(
    rows: NDArray[np.float64], G: NDArray[np.float64], sets: list[NDArray[Any]], n_orient: int, places: int
) -> NDArray[np.float64]:
    """Return the probabilities of sets of places, relative to each other; parameters as for :func:`log_evidence`."""
    values = log_evidence(rows, G, sets, n_orient, places)
    total: NDArray[np.float64] = np.exp(values - np.logaddexp.reduce(values))
    return total
