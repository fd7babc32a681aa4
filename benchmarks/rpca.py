"""Photometric stereo by robust principal component analysis, a peer for benchmarks/stereo.py."""

from __future__ import annotations

import numpy as np

__all__ = ["rpca_normals"]

TOLERANCE = 1e-6
MOST = 300  # iterations


def rpca_normals(readings: np.ndarray, lights: np.ndarray) -> np.ndarray:
    r"""Return normals (P, 3) of a low-rank matrix plus sparse outliers, fitted to all pixels at once.

    .. math:: \min_{A, E} \|A\|_* + \lambda \|E\|_1 \quad \text{s.t.} \quad O = A + E,
              \qquad \lambda = 1 / \sqrt{\max(P, q)}

    by the inexact augmented Lagrangian method of Z. Lin, M. Chen and Y. Ma (2010), in the formulation of L. Wu et al.,
    "Robust photometric stereo via low-rank matrix completion and recovery", ACCV 2010; then least squares on A. Shadows
    (readings at zero) are left free, as there: E takes whatever value they need.
    """
    O = readings.T.astype(np.float64)  # (q, P)
    free = 0.02 * np.median(O, axis=0) >= O
    largest = np.linalg.norm(O, 2)
    weight = 1.0 / np.sqrt(max(O.shape))
    dual = O / max(largest, np.abs(O).max() / weight)
    mu, A, E = 1.25 / largest, np.zeros_like(O), np.zeros_like(O)
    size = np.linalg.norm(O)
    for _ in range(MOST):
        target = O - A + dual / mu
        E = np.where(free, target, np.sign(target) * np.maximum(np.abs(target) - weight / mu, 0.0))
        A = _shrunk(O - E + dual / mu, 1.0 / mu)
        rest = O - A - E
        dual = np.where(free, 0.0, dual + mu * rest)
        mu = min(1.1 * mu, 1e7 / largest)
        if np.linalg.norm(rest) < TOLERANCE * size:
            break
    scaled = np.linalg.lstsq(lights, A, rcond=None)[0].T
    return scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-12)


def _shrunk(M: np.ndarray, threshold: float) -> np.ndarray:
    """Shrink the singular values of M (q, P), P large, by the eigenvectors of M Mᵀ."""
    squares, U = np.linalg.eigh(M @ M.T)
    singular = np.sqrt(np.maximum(squares, 0.0))
    factor = np.maximum(singular - threshold, 0.0) / np.maximum(singular, 1e-12)
    return (U * factor) @ (U.T @ M)
