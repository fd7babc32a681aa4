r"""Weighted subspace fitting: efficient directions of sources that may be correlated, from a start nearby.

With the largest eigenvalues λ of the covariance, their eigenvectors E and
:math:`W = (\lambda - \sigma^2)^2 / \lambda`,

.. math:: \min_\theta \; \mathrm{tr}\, P_A^\perp(\theta) \, E W E^H

has errors at the Cramér–Rao bound for many snapshots or little noise, whatever the correlation of the sources.
M. Viberg, B. Ottersten, T. Kailath, IEEE Trans. Signal Processing 39(11), 1991.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse.fields.arrays.likelihood import Data, Fit, steering

__all__ = ["refine"]

MOST_STEPS = 30
ENOUGH = 1e-4  # of a standard error: steps this small end it


def refine(data: Data, found: Fit) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return directions and standard errors, both (K, d) in degrees; those of `found` if it leads far away.

    Gains of sensors that are being learned depend on the directions: then `found` has both, and is kept.
    """
    K, d = found.directions.shape
    if K == 0 or data.calibration > 0:
        return found.directions, found.errors
    noise = found.noise
    weighted = [_weighted(R, K, data.snapshots, level) for R, level in zip(data.R, noise, strict=True)]
    theta = np.radians(found.directions)
    cost, slope, curvature = _terms(data, theta, weighted, noise)
    for _ in range(MOST_STEPS):
        try:
            step = -np.linalg.solve(curvature, slope)
        except np.linalg.LinAlgError:
            return found.directions, found.errors
        step *= min(1.0, np.radians(data.beam) / 4 / max(np.abs(step).max(), 1e-300))
        for _ in range(8):
            new = _terms(data, theta + step.reshape(K, d), weighted, noise)
            if new[0] <= cost:
                break
            step = step / 4
        else:
            break
        theta, (cost, slope, curvature) = theta + step.reshape(K, d), new
        if (step**2 * np.diag(curvature) * data.snapshots < ENOUGH**2).all():
            break
    directions = np.degrees(theta)
    moved = np.abs(directions - found.directions)
    low, high = data.limits
    inside = (directions >= low).all() and (directions <= high).all()
    try:
        variances = np.diag(np.linalg.inv(data.snapshots * curvature)).reshape(K, d)
    except np.linalg.LinAlgError:
        return found.directions, found.errors
    if not (inside and (variances > 0).all() and (moved <= data.beam / 2).all()):
        return found.directions, found.errors
    return directions, np.degrees(np.sqrt(variances))


def _weighted(R: NDArray[Any], K: int, snapshots: int, noise: float) -> NDArray[Any]:
    """Return E W Eᴴ, the part of the covariance that the sources explain, weighted."""
    values, vectors = np.linalg.eigh(R)
    rank = min(K, snapshots)
    values, vectors = values[-rank:], vectors[:, -rank:]
    weight = np.maximum(values - noise, 0.0) ** 2 / np.maximum(values, 1e-300)
    return np.asarray((vectors * weight) @ vectors.conj().T)


def _terms(
    data: Data, theta: NDArray[Any], weighted: list[NDArray[Any]], noise: NDArray[Any]
) -> tuple[float, NDArray[Any], NDArray[Any]]:
    """Return the cost over 2σ², its slope and its curvature, which is the Fisher information of one snapshot."""
    K, d = theta.shape
    cost, slope, curvature = 0.0, np.zeros(K * d), np.zeros((K * d, K * d))
    for f, frequency in enumerate(data.frequencies):
        A, slopes = steering(data, np.degrees(theta), frequency)
        D = slopes[:d].transpose(1, 2, 0).reshape(len(A), K * d)
        pseudo = np.linalg.pinv(A)
        outside = np.eye(len(A)) - A @ pseudo
        M, scale = weighted[f], 2 / noise[f]
        cost += scale / 2 * np.vdot(outside, M).real
        left = np.repeat(pseudo @ M, d, axis=0)
        slope -= scale * np.einsum("in,ni->i", left, outside @ D).real
        power = np.repeat(np.repeat(pseudo @ M @ pseudo.conj().T, d, axis=0), d, axis=1)
        curvature += scale * ((D.conj().T @ outside @ D) * power.T).real
    return cost, slope, curvature
