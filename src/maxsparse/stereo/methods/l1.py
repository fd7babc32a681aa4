"""Least absolute deviations: the exact ℓ1 fit of three unknowns, by walking along edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.registry import STEREO
from maxsparse._core.sorting import argsort
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray
from maxsparse.stereo.fitting.fit import Fit
from maxsparse.stereo.fitting.kernels import fit

__all__ = ["l1"]

MAX_STEPS = 200  # a safeguard: a few dozen are enough


@STEREO.register("l1", summary="least absolute deviations, exactly", label="ℓ1", order=21)
def l1(readings: FloatArray, lights: FloatArray) -> Fit:
    r"""Fit the normal with the smallest ℓ1 norm of the outliers.

    .. math:: \min_{\tilde n} \|o - L \tilde n\|_1
              \;=\; \min_e \|e\|_1 \;\text{ s.t. }\; \Phi o = \Phi e

    Parameters
    ----------
    readings : ndarray of shape (P, q)
    lights : ndarray of shape (q, 3)

    Returns
    -------
    fit : Fit
        Readings explained to within 2 % of the albedo are the inliers.

    Notes
    -----
    At a solution three residuals vanish. From such a vertex, three edges start, along each of which two of the three
    stay zero; the best point of an edge is a weighted median [1]_. If no edge improves, this is the minimum, since the
    objective is convex. A relative shift of 1e-10 keeps more than three residuals from vanishing
    at once.

    References
    ----------
    .. [1] I. Barrodale, F. Roberts, "An improved algorithm for discrete l1 linear approximation", SIAM J. Numerical
       Analysis 10(5), 1973.
    """
    P, q = readings.shape
    o = np.ascontiguousarray(readings, dtype=np.float64)
    shift = 1e-10 * (np.random.default_rng(q).random(q) - 0.5)
    scaled = np.zeros((P, 3))
    over_slices(
        _l1_rows,
        len(o),
        o + shift * np.abs(o).max(axis=1, keepdims=True, initial=0.0),
        np.ascontiguousarray(lights),
        scaled,
    )
    return Fit.explaining(o, lights, scaled)


@kernel()
def _l1_rows(piece: int, pieces: int, o: NDArray[Any], L: NDArray[Any], out: NDArray[Any]) -> None:
    P, q = o.shape
    residual, slope, ratio = np.empty(q), np.empty(q), np.empty(q)
    ranks, ones = np.empty((2, q), np.int64), np.ones(q)
    for row in range(piece, P, pieces):
        fit(o[row], L, ones, out[row])
        _walk(o[row], L, out[row], residual, slope, ratio, ranks)


@kernel()
def _walk(
    o: NDArray[Any],
    L: NDArray[Any],
    x: NDArray[Any],
    residual: NDArray[Any],
    slope: NDArray[Any],
    ratio: NDArray[Any],
    ranks: NDArray[Any],
) -> None:
    """Move x from anywhere to the minimum of Σ|o − Lx|."""
    for i in range(o.shape[0]):
        residual[i] = o[i] - (L[i, 0] * x[0] + L[i, 1] * x[1] + L[i, 2] * x[2])
    d = np.zeros(3)
    zero = np.empty(3, dtype=np.int64)
    # Three line searches lead to a vertex: along z, along the plane of the first zero, along the line of the first two.
    d[2] = 1.0
    zero[0] = _line_search(L, d, x, residual, slope, ratio, ranks)
    first = L[zero[0]]
    if abs(first[2]) > 0.5:
        d[0], d[1], d[2] = first[2], 0.0, -first[0]
    else:
        d[0], d[1], d[2] = first[1], -first[0], 0.0
    zero[1] = _line_search(L, d, x, residual, slope, ratio, ranks)
    _cross(first, L[zero[1]], d)
    zero[2] = _line_search(L, d, x, residual, slope, ratio, ranks)
    if min(zero[0], zero[1], zero[2]) < 0:
        return
    still = 0
    for step in range(MAX_STEPS):
        leaving = step % 3
        _cross(L[zero[(leaving + 1) % 3]], L[zero[(leaving + 2) % 3]], d)
        entering = _line_search(L, d, x, residual, slope, ratio, ranks)
        still = still + 1 if entering == zero[leaving] or entering < 0 else 0
        if entering >= 0:
            zero[leaving] = entering
        if still == 3:  # no edge leads down
            return


@kernel()
def _line_search(
    L: NDArray[Any],
    d: NDArray[Any],
    x: NDArray[Any],
    residual: NDArray[Any],
    slope: NDArray[Any],
    ratio: NDArray[Any],
    ranks: NDArray[Any],
) -> int:
    """Move x to the best point of x + td, a weighted median; return the reading that vanishes there, -1 for none."""
    q = L.shape[0]
    total = 0.0
    for i in range(q):
        slope[i] = L[i, 0] * d[0] + L[i, 1] * d[1] + L[i, 2] * d[2]
        if abs(slope[i]) < 1e-12:  # this reading does not change along the line
            slope[i], ratio[i] = 0.0, np.inf
        else:
            ratio[i] = residual[i] / slope[i]
        total += abs(slope[i])
    if total == 0.0:
        return -1
    passed, chosen = 0.0, -1
    argsort(ratio, ranks[0], ranks[1])
    for i in ranks[0]:
        passed += abs(slope[i])
        chosen = i
        if passed >= 0.5 * total:
            break
    t = ratio[chosen]
    for c in range(3):
        x[c] += t * d[c]
    for i in range(q):
        residual[i] -= t * slope[i]
    residual[chosen] = 0.0
    return chosen


@kernel()
def _cross(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None:
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]
