"""Noise levels that nobody gives: estimated by the search for sparse explanations.

The search stands above the solvers, which ask for its estimate. So it is found by name, when it is first needed, as the
entries of a registry are.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["estimated_levels"]

STEPS = 10  # levels are rounded to so many per factor e, so that few groups of signals are solved separately


def estimated_levels(Phi: Any, Y: Any) -> NDArray[np.float64]:
    """Return the standard deviation of the noise on each of N signals, (N,), rounded to steps of 10 %.

    Parameters
    ----------
    Phi : ndarray of shape (n, m)
    Y : ndarray of shape (N, n) or (N, L, n)
        Snapshots share one level.
    """
    estimate = import_module("maxsparse.recovery.noise_level").signal_levels
    snapshots = 1 if Y.ndim == 2 else Y.shape[1]
    levels = estimate(Phi, Y.reshape(-1, Y.shape[-1])).reshape(len(Y), snapshots)
    noisy = (levels > 0).all(axis=1) & (snapshots > 0)
    logs = np.log(np.where(noisy[:, None], levels, 1.0)).sum(axis=1) / max(1, snapshots)
    return np.where(noisy, np.exp(np.round(STEPS * logs) / STEPS), 0.0)
