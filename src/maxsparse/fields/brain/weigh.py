r"""Probabilities of sets of places under MNE-Python's weighting.

:class:`maxsparse.SparseRecoverer` expects fields of one size from all places that it was given. Here the coefficients
of the weighted gain matrix are of one size, :math:`x \sim N(0, \delta)`, as depth and loose weighting mean it, and sets
are chosen out of all B places, not only out of those that were kept. δ is integrated out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["weighed"]

ONE_MORE = 0.6  # probability of one more source
SLABS = np.geomspace(1e-1, 1e9, 41)  # power of a source at the sensors over that of the noise


def weighed(
    rows: NDArray[np.float64], G: NDArray[np.float64], supports: list[NDArray[Any]], sources: list[int], places: int
) -> NDArray[np.float64]:
    """Return the probabilities of supports, relative to each other.

    Parameters
    ----------
    rows : ndarray of shape (r, n)
        Measurements in noise of unit variance.
    G : ndarray of shape (n, m)
        Weighted gain matrix.
    supports : list of ndarray of int
        Columns of every support.
    sources : list of int
        Number of places of every support.
    places : int
        B.

    Returns
    -------
    probabilities : ndarray of shape (len(supports),)
    """
    K, b = G.T @ G, G.T @ rows.T
    slabs = SLABS / max(float(np.trace(K)) / max(len(K), 1), 1e-300)
    values = np.empty(len(supports))
    for i, (columns, k) in enumerate(zip(supports, sources, strict=True)):
        sizes, basis = np.linalg.eigh(K[np.ix_(columns, columns)])
        energy = np.sum((basis.T @ b[columns]) ** 2, axis=1)
        gain = 1.0 + slabs[:, None] * np.maximum(sizes, 0.0)
        evidence = np.sum(0.5 * slabs[:, None] * energy / gain - 0.5 * len(rows) * np.log(gain), axis=1)
        choices = math.lgamma(places + 1) - math.lgamma(k + 1) - math.lgamma(places - k + 1)
        values[i] = np.logaddexp.reduce(evidence) - math.log(len(slabs)) + k * math.log(ONE_MORE) - choices
    total: NDArray[np.float64] = np.exp(values - np.logaddexp.reduce(values))
    return total
