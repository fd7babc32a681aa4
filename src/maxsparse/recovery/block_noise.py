r"""The noise level of every signal with a structure: that of its most probable sparse explanation.

As in :mod:`maxsparse.recovery.noise_level`: climbs on a ladder of levels, from the signal's own size downwards, and
what they reach is compared with σ integrated out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse.recovery.block_form import BlockForm
from maxsparse.recovery.block_search import block_search
from maxsparse.recovery.law import Law
from maxsparse.recovery.noise_level import RUNGS

__all__ = ["BlockLevels", "free_evidence", "learn_levels"]

LISTED = 4  # supports per rung whose evidence is compared
RATIOS = np.geomspace(1e-2, 1e11, 53)  # of the coefficients' variance to that of the noise
FAR_BELOW = 0.1  # of the learned level: rungs below it are left out
LEAST_LEFT = 1e-26  # of the signal's power


class BlockLevels(NamedTuple):
    """What was learned of N signals."""

    variance: NDArray[np.float64]  # (N,), σ² on every real measurement
    support: NDArray[np.bool_]  # (N, C, B), the best on every rung; the first is the best of all

    def of(self, rows: NDArray[Any]) -> BlockLevels:
        """Return what was learned of some of the signals."""
        return BlockLevels(self.variance[rows], self.support[rows])


def free_evidence(
    A: NDArray[np.float64], Z: NDArray[np.float64], snapshots: int, positive: bool
) -> tuple[float, float]:
    """Return the log evidence of columns A (n, K) for data (R, n) with σ integrated out, and σ²."""
    n, power = len(A), float(np.sum(Z**2))
    U, sizes, _ = np.linalg.svd(A, full_matrices=False)
    inside = np.sum((Z @ U) ** 2, axis=0)
    outside = max(float(np.sum((Z - (Z @ U) @ U.T) ** 2)), LEAST_LEFT * power)
    gains = 1.0 + RATIOS[:, None] * sizes**2
    q = outside + np.sum(inside / gains, axis=1)
    values = -0.5 * snapshots * (np.log(gains).sum(axis=1) + n * np.log(q / power))
    best = int(np.argmax(values))
    signs = float(snapshots * A.shape[1]) * np.log(2.0) if positive else 0.0
    return float(values[best]) + signs, float(q[best]) / (n * snapshots)


def learn_levels(
    form: BlockForm,
    Z: NDArray[np.float64],
    scores: NDArray[Any],
    suggested: NDArray[np.bool_],
    law: Law,
    *,
    snapshots: int,
    positive: bool,
    starts: int,
    seed: int = 0,
) -> BlockLevels:
    """Estimate the variance of the noise on every signal (N, R, n).

    Parameters
    ----------
    form : BlockForm
    Z, scores, suggested, law, snapshots, positive, starts, seed
        As for :func:`maxsparse.recovery.block_search.block_search`; `starts` on every rung.

    Returns
    -------
    levels : BlockLevels
    """
    n, N, B = form.shape[0], len(Z), suggested.shape[2]
    start, prior = form.blocks.start, law.prior(B)
    power = np.sum(Z**2, axis=(1, 2)) / (n * snapshots)
    best, variance = np.full(N, -np.inf), np.maximum(power, 1e-300)
    support = np.zeros((N, 1 + len(RUNGS), B), dtype=bool)
    before = suggested
    for rung, level in enumerate(RUNGS):
        # Far below the level of the best explanation so far there are only supports that explain noise.
        rows = np.flatnonzero((power > 0) & (level**2 * power > FAR_BELOW**2 * variance))
        if not len(rows):
            break
        found = block_search(
            form.blocks,
            Z[rows],
            scores[rows],
            level**2 * power[rows],
            law,
            snapshots=snapshots,
            positive=positive,
            starts=starts,
            suggested=before[rows],
            count=False,
            seed=seed,
        )
        listed = found.supports(LISTED)
        support[rows, 1 + rung] = listed[:, 0]
        # A support that was found with more noise is a good start with less.
        before = np.concatenate([suggested, support[:, 1 + rung, None]], axis=1)
        for place, i in enumerate(rows):
            for blocks in np.unique(listed[place], axis=0):
                chosen = np.flatnonzero(blocks)
                columns = np.concatenate([np.arange(start[b], start[b + 1]) for b in chosen] or [np.empty(0, int)])
                if len(columns) > n - 2:
                    continue
                value, own = free_evidence(form.blocks.atoms[columns].T, Z[i], snapshots, positive)
                value += prior[len(chosen)]
                if value > best[i]:
                    best[i], variance[i], support[i, 0] = value, own, blocks
    return BlockLevels(variance, support)
