"""The most probable set among the places that were kept: a search over blocks, one block per place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import compiling
from maxsparse._core.threads import threads
from maxsparse.fields.brain.weigh import weighed
from maxsparse.recovery.block_search import block_search, blocks_of
from maxsparse.recovery.law import Law, usual_law
from maxsparse.recovery.noisy_search import climbs_of
from maxsparse.recovery.search import check_budget

__all__ = ["solved"]

KERNELS = 6  # that the first call compiles
GAUSSIAN = 3  # slabs of the usual law: amplitudes over time are taken as gaussian
SLOWER = 4.0  # a climb over blocks than one over atoms
LEAST = 1e-6  # probability of a set that is looked at


def solved(
    G: NDArray[np.float64],
    rows: NDArray[np.float64],
    n_orient: int,
    B: int,
    suggested: list[list[int]],
    budget: int | str,
) -> tuple[NDArray[np.intp], NDArray[np.float64], float]:
    """Return the most probable places, the probability of each, and that of the answer.

    Parameters
    ----------
    G : ndarray of shape (n, n_orient × K)
        Weighted gain matrix of the places that were kept.
    rows : ndarray of shape (r, n)
        Measurements in noise of unit variance.
    n_orient : int
    B : int
        Number of all places.
    suggested : list of list of int
        Sets of places, numbers from 0 to K − 1, to begin with.
    budget : int or str
        Search effort.

    Returns
    -------
    places : ndarray of int
        Numbers from 0 to K − 1, sorted.
    inclusion : ndarray of shape (K,)
    confidence : float
    """
    n, K = len(G), G.shape[1] // n_orient
    effort = check_budget(budget)
    starts = int(climbs_of(effort.sets, effort.milliseconds, n, G.shape[1]) / SLOWER)
    begin = np.zeros((1, len(suggested) + 1, K), dtype=bool)  # the last is empty: from there a climb is greedy
    for number, S in enumerate(suggested):
        begin[0, number, S] = True
    norms2 = np.sum(G**2, axis=0).reshape(K, n_orient).mean(axis=1)
    scale = np.repeat(np.sqrt(np.maximum(norms2, 1e-300)), n_orient)
    law = _law(max(1, min((n - 1) // n_orient, K)))
    with threads(None), compiling(KERNELS):
        blocks = blocks_of(np.ascontiguousarray(G / scale), n_orient * np.arange(K + 1))
        options: dict[str, Any] = {"snapshots": len(rows), "positive": False, "starts": starts, "suggested": begin}
        found = block_search(blocks, rows[None], np.zeros((1, K)), np.ones(1), law, **options)
    listed = np.flatnonzero(found.probability[0] > LEAST)
    before = found.probability[0, listed]
    sets = [np.sort(found.chosen[0, c, : found.size[0, c]]).astype(np.intp) for c in listed]
    after = before.sum() * weighed(rows, G, sets, n_orient, B)
    inclusion = found.inclusion[0].copy()  # of sets that are not listed too
    for own, change in zip(sets, after - before, strict=True):
        inclusion[own] += change
    best = int(np.argmax(after))
    return sets[best], np.clip(inclusion, 0.0, 1.0), float(min(after[best], 1.0))


def _law(most: int) -> Law:
    """Return what is usual, for at most so many places."""
    usual = usual_law(most)
    shapes = usual.shapes[:GAUSSIAN].copy()
    shapes[:, 2] -= np.logaddexp.reduce(shapes[:, 2])
    return Law(0.0, shapes, usual.sizes)
