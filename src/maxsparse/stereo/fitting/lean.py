"""Normals that the readings hardly determine lean on their neighbours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray
from maxsparse.stereo.fitting.fit import Fit
from maxsparse.stereo.fitting.neighbours import Grid, lay_out

__all__ = ["lean_on_neighbours"]

ROUNDS = 30
BEND = 5.0  # degrees by which the normals of neighbours typically differ
EDGE = 15.0  # degrees: a larger difference is rather an edge, and counts less
UNSURE = 3.0  # degrees of expected error up to which a normal is left as it is; from twice as much on it leans fully
LEAST, MOST = 0.1, 60.0  # degrees: limits of the expected error
ASIDE = ((-1, 0), (1, 0), (0, -1), (0, 1))


def lean_on_neighbours(fit: Fit, mask: NDArray[np.bool_], expected: FloatArray) -> Fit:
    r"""Replace unsure normals by the mean of what their readings say and of what their neighbours are.

    .. math:: n_p \propto \frac{\hat n_p}{e_p^2}
              + t_p \sum_j \frac{n_j}{\beta^2 (1 + (\angle(n_j, n_p) / \epsilon)^2)}

    over the four neighbours j, with the normal :math:`\hat n_p` of the readings, its expected error :math:`e_p`,
    :math:`\beta = 5°` and :math:`\epsilon = 15°`; :math:`t_p` grows from 0 at an expected error of 3° to 1 at 6°.

    Parameters
    ----------
    fit : Fit
        All pixels of the mask, in row-major order.
    mask : ndarray of shape (H, W), bool
    expected : ndarray of shape (P,)
        Expected angular error of every normal in degrees.

    Returns
    -------
    fit : Fit
        With new normals. Pixels without a normal get none.

    Notes
    -----
    30 rounds; each uses the normals of the previous round, so that the result depends neither on the order of the
    pixels nor on the number of threads.
    """
    known = fit.normals.any(axis=1)
    error = np.clip(expected, LEAST, MOST)
    leaning = np.where(known, np.clip(error / UNSURE - 1.0, 0.0, 1.0), 0.0)
    open_ = np.flatnonzero(leaning > 0)
    if not len(open_):
        return fit
    grid = lay_out(mask)
    own = np.ascontiguousarray(fit.normals, dtype=np.float64)
    before, after = own.copy(), own.copy()
    for _ in range(ROUNDS):
        over_slices(_lean_rows, len(open_), open_, grid, own, error, leaning, before, after)
        before[open_] = after[open_]
    return replace(fit, normals=before)


@kernel()
def _lean_rows(
    piece: int,
    pieces: int,
    open_: NDArray[Any],
    grid: Grid,
    own: NDArray[Any],
    error: NDArray[Any],
    leaning: NDArray[Any],
    before: NDArray[Any],
    after: NDArray[Any],
) -> None:
    """One round: write `after` (P, 3) of every open pixel from `before` (P, 3)."""
    place, rows, columns = grid
    total = np.empty(3)
    for number in range(piece, open_.shape[0], pieces):
        p = open_[number]
        for c in range(3):
            total[c] = own[p, c] / (error[p] * error[p])
        for dy, dx in ASIDE:
            j = place[rows[p] + dy, columns[p] + dx]
            if j < 0:
                continue
            n = before[j]
            if n[0] == 0.0 and n[1] == 0.0 and n[2] == 0.0:
                continue
            dot = n[0] * before[p, 0] + n[1] * before[p, 1] + n[2] * before[p, 2]
            angle = np.degrees(np.arccos(min(max(dot, -1.0), 1.0))) / EDGE
            weight = leaning[p] / (BEND * BEND * (1.0 + angle * angle))
            for c in range(3):
                total[c] += weight * n[c]
        length = np.sqrt(total[0] * total[0] + total[1] * total[1] + total[2] * total[2])
        for c in range(3):
            after[p, c] = total[c] / max(length, 1e-12)
