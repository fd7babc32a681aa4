"""If two normals are possible for a pixel, its neighbours decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.sorting import median
from maxsparse._core.threads import over_slices
from maxsparse.stereo.fitting.fit import Fit

__all__ = ["Grid", "decide", "lay_out"]

ROUNDS = 3
CAP = 30.0  # degrees: larger differences are edges, and their size does not matter
HANDICAP = 0.5  # degrees by which a rival must be better than the normal that the readings prefer
ALBEDO = 10.0  # degrees that a factor e between the albedo and that of the surroundings counts as


def decide(fit: Fit, mask: NDArray[np.bool_]) -> Fit:
    r"""Replace normals by rivals that fit better to the surroundings.

    .. math:: \min_c \; \frac{\sum_j w_j \min(\angle(n_c, n_j), 30°)}{\sum_j w_j}
              + 10° \min(|\log \rho_c - \operatorname{med} \log \rho|, 1)

    over a pixel's normal and its rivals c. j runs over the eight neighbours, :math:`w_j` is their confidence,
    decreasing with distance, and the median is over the surrounding 5×5 pixels. Pixels without rivals are not changed.

    Parameters
    ----------
    fit : Fit
        All pixels of the mask, in row-major order, with ``rivals``.
    mask : ndarray of shape (H, W), bool

    Returns
    -------
    fit : Fit
        Without rivals.

    Notes
    -----
    Three rounds; each uses the normals of the previous round, so that the result depends neither on the order of the
    pixels nor on the number of threads.
    """
    if fit.rivals is None or not len(fit.normals):
        return replace(fit, rivals=None)
    grid = lay_out(mask)
    chosen = fit.normals * fit.albedo[:, None]
    vectors = np.ascontiguousarray(np.concatenate([chosen[:, None], fit.rivals], axis=1), dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=2)
    directions = vectors / np.maximum(lengths, 1e-12)[..., None]
    open_ = np.flatnonzero((lengths[:, 1:] > 0).any(axis=1) & (lengths[:, 0] > 0))
    pick = np.zeros(len(chosen), dtype=np.int64)
    trust = np.where(lengths[:, 0] > 0, np.maximum(fit.confidence, 1e-6), 0.0)
    candidates = _Candidates(directions, lengths, np.log(np.maximum(lengths, 1e-12)), trust)
    for _ in range(ROUNDS):
        after = pick.copy()
        over_slices(_decide_rows, open_.size, open_, grid, candidates, pick, after)
        pick = after
    every = np.arange(len(pick))
    changed = pick > 0
    normals = np.where(changed[:, None], directions[every, pick], fit.normals)
    return replace(fit, normals=normals, albedo=np.where(changed, lengths[every, pick], fit.albedo), rivals=None)


class Grid(NamedTuple):
    """Where the pixels of a mask are."""

    place: NDArray[np.int64]  # (H + 4, W + 4), number of a pixel, −1 outside the mask and in a margin of two
    rows: NDArray[np.intp]  # (P,), in `place`
    columns: NDArray[np.intp]  # (P,)


class _Candidates(NamedTuple):
    """The normal of every pixel and its rivals."""

    directions: NDArray[np.float64]  # (P, C, 3), unit normals
    lengths: NDArray[np.float64]  # (P, C), albedos; 0 for none
    logs: NDArray[np.float64]  # (P, C), their logarithms
    trust: NDArray[np.float64]  # (P,)


def lay_out(mask: NDArray[np.bool_]) -> Grid:
    """Number the pixels of a mask in row-major order."""
    place = np.full((mask.shape[0] + 4, mask.shape[1] + 4), -1, dtype=np.int64)
    place[2:-2, 2:-2][mask] = np.arange(mask.sum())
    rows, columns = np.nonzero(place >= 0)
    return Grid(place, rows, columns)


@kernel()
def _decide_rows(
    piece: int,
    pieces: int,
    open_: NDArray[Any],
    grid: Grid,
    candidates: _Candidates,
    pick: NDArray[Any],
    after: NDArray[Any],
) -> None:
    """Choose for every open pixel; `pick` (P,) is the choice of the previous round, `after` that of this one."""
    place, rows, columns = grid
    directions, lengths, logs, trust = candidates
    around = np.empty(24)
    for number in range(piece, open_.shape[0], pieces):
        p = open_[number]
        found = 0
        for dy in range(-2, 3):
            for dx in range(-2, 3):
                j = place[rows[p] + dy, columns[p] + dx]
                if j >= 0 and (dx != 0 or dy != 0) and trust[j] > 0.0:
                    around[found] = logs[j, pick[j]]
                    found += 1
        middle = median(around, found) if found else logs[p, 0]
        best, least = 0, np.inf
        for c in range(directions.shape[1]):
            if lengths[p, c] == 0.0:
                continue
            total, weight = 0.0, 1e-9
            for dy in range(-1, 2):
                for dx in range(-1, 2):
                    j = place[rows[p] + dy, columns[p] + dx]
                    if j < 0 or (dx == 0 and dy == 0) or trust[j] == 0.0:
                        continue
                    dot = 0.0
                    for axis in range(3):
                        dot += directions[p, c, axis] * directions[j, pick[j], axis]
                    w = trust[j] * np.exp(-0.5 * (dx * dx + dy * dy))
                    total += w * min(np.degrees(np.arccos(min(max(dot, -1.0), 1.0))), CAP)
                    weight += w
            cost = total / weight + ALBEDO * min(abs(logs[p, c] - middle), 1.0) + (HANDICAP if c > 0 else 0.0)
            if cost < least:
                best, least = c, cost
        after[p] = best
