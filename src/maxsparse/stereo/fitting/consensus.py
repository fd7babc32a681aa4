"""Trimmed consensus: the best fit to the better half of the readings that are not in shadow."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import copy_into, kth_largest
from maxsparse._core.registry import STEREO
from maxsparse._core.sorting import sort
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray
from maxsparse.stereo.fitting.fit import Fit
from maxsparse.stereo.fitting.kernels import fit, fit_three

__all__ = ["consensus", "lit_level"]

TRIPLES = 40  # elemental starts per pixel, in addition to the bands
BANDS = ((0.0, 1.0), (0.0, 0.6), (0.2, 0.8), (0.1, 0.5), (0.4, 0.9))  # of ranked brightness, as starts
KEPT = 4  # best starts that get concentration steps
SHADOW_SHARE = 0.06  # of the pixel's upper quartile; below it a reading carries no direction


@STEREO.register("consensus", summary="the better half of the readings that are not in shadow", order=10)
def consensus(readings: FloatArray, lights: FloatArray, *, share: float = 0.5) -> Fit:
    r"""Fit the normal to the share of lit readings that agree best, then to all that agree with that fit.

    .. math:: \min_{\tilde n} \sum_{i=1}^{h} r_{(i)}, \qquad r_i = (o_i - \max(l_i^\top \tilde n, 0))^2, \quad o_i
              \text{ lit}

    :math:`r_{(1)} \le r_{(2)} \le \ldots` are the ordered residuals and h is the share of the lit readings, at least
    four. Readings at the shadow level are known outliers and not used.

    Parameters
    ----------
    readings : ndarray of shape (P, q)
        Grey values of P pixels under q lights, divided by the lights' intensities.
    lights : ndarray of shape (q, 3)
        Unit directions as rows.
    share : float, default=0.5
        Share of the lit readings assumed to be inliers.

    Returns
    -------
    fit : Fit

    Notes
    -----
    Least trimmed squares with concentration steps [1]_. The starts are triples of readings in a fixed order and
    least-squares fits of bands of ranked brightness, since highlights are the brightest readings and shadows the
    darkest [2]_. The last fit uses every lit reading within 2.5 robust standard deviations, so the number of inliers
    is not fixed.

    References
    ----------
    .. [1] P. Rousseeuw, K. Van Driessen, "Computing LTS regression for large data sets", Data Mining and Knowledge
       Discovery 12, 2006.
    .. [2] B. Shi, P. Tan, Y. Matsushita, K. Ikeuchi, "Elevation angle from reflectance monotonicity", ECCV 2012.
    """
    P, q = readings.shape
    o = np.ascontiguousarray(readings, dtype=np.float64)
    L = np.ascontiguousarray(lights, dtype=np.float64)
    start = _Start(_triples(q), np.array(BANDS), share)
    found = _Found(np.zeros((P, 3)), np.zeros((P, q), dtype=np.bool_), np.zeros(P))
    over_slices(_consensus_rows, len(o), o, L, lit_level(o), start, found)
    return Fit.from_scaled(*found)


def lit_level(readings: FloatArray) -> NDArray[np.float64]:
    """Return the level (P,) below which a pixel's reading counts as shadow.

    It is a share of the pixel's upper quartile: ambient light and interreflections raise shadows above zero, and a
    highlight must not push the diffuse readings below the level.
    """
    P, q = readings.shape
    levels = np.zeros(P)
    over_slices(_upper_quartiles, P, np.ascontiguousarray(readings, dtype=np.float64), (3 * q) // 4, levels)
    return SHADOW_SHARE * np.maximum(levels, 0.0)


def _triples(q: int) -> NDArray[np.float64]:
    """Return starts as positions in [0, 1) of a pixel's list of lit readings, (T, 3): spread out, fixed."""
    rng = np.random.default_rng(q)
    if q <= 7:
        chosen = np.array(list(combinations(range(q), 3)), dtype=np.float64)
        return (chosen[rng.permutation(len(chosen))[:TRIPLES]] + 0.5) / q
    # One position in each third, shifted by a random offset: the three are always different.
    return (np.arange(3) / 3 + rng.random((TRIPLES, 3)) / 3 + rng.random((TRIPLES, 1))) % 1.0


@kernel()
def _upper_quartiles(piece: int, pieces: int, o: NDArray[Any], k: int, out: NDArray[Any]) -> None:
    P, q = o.shape
    work = np.empty(q)
    for row in range(piece, P, pieces):
        out[row] = kth_largest(o[row], q - min(k, q - 1), work)


class _Start(NamedTuple):
    """Which readings the first fits are made to."""

    triples: NDArray[np.float64]  # (T, 3)
    bands: NDArray[np.float64]  # (b, 2), ranks
    share: float  # of the readings, counted as inliers


class _Found(NamedTuple):
    """The answer for every pixel."""

    scaled: NDArray[np.float64]  # (P, 3), normals times albedo
    inliers: NDArray[np.bool_]  # (P, q)
    confidence: NDArray[np.float64]  # (P,)


@kernel()
def _consensus_rows(
    piece: int, pieces: int, o: NDArray[Any], L: NDArray[Any], level: NDArray[Any], start: _Start, found: _Found
) -> None:
    P, q = o.shape
    triples, bands, share = start
    normals, inliers, confidence = found
    a, D = np.empty(q), np.empty((q, 3))
    index = np.empty(q, dtype=np.int64)
    scratch = np.empty((4, q))
    best = np.empty(3)
    for row in range(piece, P, pieces):
        m = 0
        for i in range(q):
            if o[row, i] > level[row] and o[row, i] > 0.0:
                a[m], index[m] = o[row, i], i
                D[m, 0], D[m, 1], D[m, 2] = L[i, 0], L[i, 1], L[i, 2]
                m += 1
        best[0] = best[1] = best[2] = 0.0
        if m >= 3:
            trusted, error = _consensus_one(a[:m], D[:m], triples, bands, share, scratch, best)
            size = np.sqrt(best[0] ** 2 + best[1] ** 2 + best[2] ** 2)
            count = 0
            for i in range(m):
                if scratch[1, i] > 0.0:
                    inliers[row, index[i]] = True
                    count += 1
            # The same measure as `agreement` in the other methods.
            if trusted and size > 0.0:
                confidence[row] = (count - 3.0) / (count + 1.0) / (1.0 + (10.0 * error / size) ** 2)
        if best[0] == 0.0 and best[1] == 0.0 and best[2] == 0.0:
            for i in range(q):  # too dark or too few lit readings: use all of them
                scratch[1, i] = 1.0
            fit(o[row], L, scratch[1], best)
        normals[row, 0], normals[row, 1], normals[row, 2] = best[0], best[1], best[2]


@kernel(fast=True)
def _consensus_one(
    o: NDArray[Any],
    L: NDArray[Any],
    triples: NDArray[Any],
    bands: NDArray[Any],
    share: float,
    scratch: NDArray[Any],
    best: NDArray[Any],
) -> tuple[bool, float]:
    """Fit one pixel's lit readings; the weights of the last fit are left in scratch[1], its error is returned."""
    m = o.shape[0]
    # At least (m + 4) // 2: with fewer, three unknowns fit outliers as well as inliers.
    h = min(m, max((m + 4) // 2, int(np.ceil(share * m))))
    residual, weights, work = scratch[0, :m], scratch[1, :m], scratch[2, :m]
    goals, starts = np.full(KEPT, np.inf), np.empty((KEPT, 3))
    _try_starts(o, L, triples, bands, h, scratch, goals, starts)
    goal = np.inf
    for kept in range(KEPT):
        if goals[kept] == np.inf:
            break
        score = _concentrate(o, L, starts[kept], h, residual, weights, work)
        if score < goal:
            goal = score
            best[0], best[1], best[2] = starts[kept, 0], starts[kept, 1], starts[kept, 2]
    if goal == np.inf:
        return False, 0.0
    return True, _widen(o, L, h, goal, residual, weights, best)


@kernel(fast=True)
def _try_starts(
    o: NDArray[Any],
    L: NDArray[Any],
    triples: NDArray[Any],
    bands: NDArray[Any],
    h: int,
    scratch: NDArray[Any],
    goals: NDArray[Any],
    starts: NDArray[Any],
) -> None:
    """Keep the best starts in `starts` (K, 3), best first, with their trimmed sums in `goals` (K,)."""
    m = o.shape[0]
    residual, weights, work, ranked = scratch[0, :m], scratch[1, :m], scratch[2, :m], scratch[3, :m]
    copy_into(o, ranked)
    sort(ranked)
    x = np.empty(3)
    for start in range(bands.shape[0] + triples.shape[0]):
        if start < bands.shape[0]:
            low, high = ranked[int(bands[start, 0] * (m - 1))], ranked[int(bands[start, 1] * (m - 1))]
            for i in range(m):
                weights[i] = 1.0 if low <= o[i] <= high else 0.0
            found = fit(o, L, weights, x)
        else:
            triple = triples[start - bands.shape[0]]
            found = fit_three(o, L, int(triple[0] * m), int(triple[1] * m), int(triple[2] * m), x)
        if not found:
            continue
        score = _trim(o, L, x, h, residual, weights, work)
        place = goals.shape[0]
        while place > 0 and score < goals[place - 1]:
            place -= 1
        for later in range(goals.shape[0] - 1, place, -1):
            goals[later] = goals[later - 1]
            starts[later, 0], starts[later, 1], starts[later, 2] = (
                starts[later - 1, 0],
                starts[later - 1, 1],
                starts[later - 1, 2],
            )
        if place < goals.shape[0]:
            goals[place] = score
            starts[place, 0], starts[place, 1], starts[place, 2] = x[0], x[1], x[2]


@kernel(fast=True)
def _concentrate(
    o: NDArray[Any],
    L: NDArray[Any],
    x: NDArray[Any],
    h: int,
    residual: NDArray[Any],
    weights: NDArray[Any],
    work: NDArray[Any],
) -> float:
    """Refit x to its h best readings until they no longer change; return their sum of squares."""
    goal = _trim(o, L, x, h, residual, weights, work)
    candidate = np.empty(3)
    for _ in range(10):
        if not fit(o, L, weights, candidate):
            break
        score = _trim(o, L, candidate, h, residual, weights, work)
        if not score < goal * (1.0 - 1e-6):
            break
        goal = score
        x[0], x[1], x[2] = candidate[0], candidate[1], candidate[2]
    return goal


@kernel(fast=True)
def _trim(
    o: NDArray[Any],
    L: NDArray[Any],
    x: NDArray[Any],
    h: int,
    residual: NDArray[Any],
    weights: NDArray[Any],
    work: NDArray[Any],
) -> float:
    """Give the h best readings weight 1, the rest 0; return the sum of their squared residuals."""
    m = o.shape[0]
    for i in range(m):
        r = o[i] - max(L[i, 0] * x[0] + L[i, 1] * x[1] + L[i, 2] * x[2], 0.0)
        residual[i] = r * r
    threshold = kth_largest(residual, m - h + 1, work)
    total = 0.0
    for i in range(m):
        weights[i] = 1.0 if residual[i] <= threshold else 0.0
        total += weights[i] * residual[i]
    return total


@kernel(fast=True)
def _widen(
    o: NDArray[Any],
    L: NDArray[Any],
    h: int,
    goal: float,
    residual: NDArray[Any],
    weights: NDArray[Any],
    best: NDArray[Any],
) -> float:
    """Refit to every reading within 2.5 standard deviations of the trimmed fit; return the inliers' RMS error."""
    m = o.shape[0]
    size2 = best[0] ** 2 + best[1] ** 2 + best[2] ** 2
    # The best half of gaussian residuals has a seventh of their variance; three degrees of freedom are used.
    variance = goal / max(h - 3, 1) * (1.0 + 6.0 * (m - h) / m)
    limit = max(6.25 * variance, 1e-6 * size2)
    total, count = 0.0, 0
    for i in range(m):
        r = o[i] - max(L[i, 0] * best[0] + L[i, 1] * best[1] + L[i, 2] * best[2], 0.0)
        residual[i] = r * r
        weights[i] = 1.0 if residual[i] <= limit else 0.0
        total += weights[i] * residual[i]
        count += int(weights[i])
    x = np.empty(3)
    if fit(o, L, weights, x):
        best[0], best[1], best[2] = x[0], x[1], x[2]
    return float(np.sqrt(total / max(count - 3, 1)))
