"""A noise level that was given, and does not fit: another one under which the signal is far more probable."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.prepared import Prepared
from maxsparse._core.validation import FloatArray
from maxsparse.recovery.decode import fit_supports
from maxsparse.recovery.noise_level import Levels, noise_level
from maxsparse.recovery.pooled_noise import evidence_by_level

__all__ = ["LEAST_MEASUREMENTS", "REFUTED", "UNLIKELY", "refute"]

LEAST_MEASUREMENTS = 4  # with fewer, noise cannot be told from signal
REFUTING_STARTS = 60  # climbs by which a given noise level is checked
UNLIKELY = 0.5  # difference of log σ between a given level and the learned one, from which on evidence decides
REFUTED = 8.0  # nats by which the learned one must be more probable
LARGE = 50_000  # nm, from which on the check costs more than the answer and only doubtful signals get it:
DOUBTFUL, CROWDED = 2.0, 0.25  # standard deviations of the squared residual, and nonzeros in units of n


def refute(
    changed: Prepared,
    Z: FloatArray,
    scores: NDArray[Any],
    support: NDArray[np.bool_],
    sigma: float,
    *,
    starts: int,
    seed: int,
) -> tuple[Levels, NDArray[np.bool_]]:
    """Return for which signals (N, n) the given noise level σ is refuted by a far more probable one, and these levels.

    `scores` and `support` (N, m) are those of the answers for σ; `starts` is the number of climbs of a search.
    """
    doubtful = np.flatnonzero(_doubtful(changed, Z, support, sigma) & (len(changed.Phi) >= LEAST_MEASUREMENTS))
    Q = changed.unit
    options: dict[str, Any] = {"starts": min(REFUTING_STARTS, starts), "brief": True, "seed": seed}
    levels = noise_level(Q, Z[doubtful], scores[doubtful], suggested=support[doubtful, None], **options)
    learned = np.sqrt(np.maximum(levels.variance, 1e-300))
    refuted = (levels.variance > 0) & (np.abs(np.log(learned / sigma)) > UNLIKELY)
    for i in np.flatnonzero(refuted):
        row = doubtful[i]
        supports = np.concatenate([levels.support[i], support[row : row + 1]])[None]
        at = evidence_by_level(Q, Z[row : row + 1], supports, np.array([sigma, learned[i]]))[0]
        refuted[i] = at[1] - at[0] > REFUTED
    wrong = np.zeros(len(Z), dtype=bool)
    wrong[doubtful[refuted]] = True
    return levels.of(refuted), wrong


def _doubtful(changed: Prepared, Z: FloatArray, support: NDArray[np.bool_], sigma: float) -> NDArray[np.bool_]:
    """Return for which signals the given level might be wrong: many nonzeros, or a residual of another size."""
    n, k = changed.shape[0], np.count_nonzero(support, axis=1)
    if n * changed.shape[1] < LARGE:
        return np.ones(len(Z), dtype=bool)
    X = fit_supports(changed, Z, support)
    square = (changed.residual_norms(Z, X) / sigma) ** 2
    usual = np.abs(square - (n - k)) < DOUBTFUL * np.sqrt(2.0 * np.maximum(n - k, 1))
    return np.asarray(~usual | (k > CROWDED * n))
