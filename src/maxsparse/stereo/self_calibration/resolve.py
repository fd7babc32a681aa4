"""The 3×3 matrix that turns the factors of the readings into a surface and its lights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import FloatArray
from maxsparse.stereo.self_calibration.cues import Cues, lights_of, residuals

__all__ = ["Resolved", "resolve"]

ANGLES = 24  # first guesses for the rotation about the line of sight
REFINED = 5  # of the first guesses
EVALUATIONS = 40
APART = 12.0  # degrees between the lights of two answers that count as different
GOOD = 200.0  # cost up to which the cues agree; chosen so that the expected error covers the true one on most scenes
LEAST_CURVATURE = 1e-6
FACING, WIDTH = 0.7, 0.5  # mean n_z and standard deviation of n_x and n_y of the first guesses: a ball's


@dataclass(frozen=True, eq=False)
class Resolved:
    """The best matrix, and how much worse the next one is.

    Attributes
    ----------
    A : ndarray of shape (3, 3)
    cost : float
    error : ndarray of shape (q,)
        Expected error of every light in degrees, from the curvature and the size of the cost.
    margin : float
        Cost of the best answer with other lights minus `cost`; infinite if there is none.
    rival : ndarray of shape (q, 3) or None
        Lights of that answer.
    """

    A: NDArray[np.float64]
    cost: float
    error: NDArray[np.float64]
    margin: float
    rival: NDArray[np.float64] | None


def resolve(cues: Cues, surface: FloatArray, start: FloatArray | None = None) -> Resolved:
    """Minimise the cost of the cues over A.

    Parameters
    ----------
    cues : Cues
    surface : ndarray of shape (P, 3)
        B, for the first guesses.
    start : ndarray of shape (3, 3) or None, default=None
        A first guess; None tries many.

    Returns
    -------
    resolved : Resolved
    """
    from scipy.optimize import least_squares

    def shifted(x: FloatArray) -> NDArray[np.float64]:
        return residuals(x.reshape(3, 3), cues)

    guesses = _guesses(surface) if start is None else [start / np.linalg.norm(start)]
    order = np.argsort([(residuals(A, cues) ** 2).sum() for A in guesses])[:REFINED]
    answers = [least_squares(shifted, guesses[i].ravel(), max_nfev=EVALUATIONS) for i in order]
    best = min(answers, key=lambda answer: float(answer.cost))
    A = best.x.reshape(3, 3)
    mine = lights_of(A, cues.lights)[0]
    # Turned by half a turn about the line of sight, concave is convex: only the silhouette tells them apart.
    others = [(2.0 * float(other.cost), other.x.reshape(3, 3)) for other in answers]
    flipped = np.diag([-1.0, -1.0, 1.0]) @ A
    others.append((float((residuals(flipped, cues) ** 2).sum()), flipped))
    margin, rival = np.inf, None
    for cost, other in others:
        lights = lights_of(other, cues.lights)[0]
        if _apart(mine, lights) > APART and cost - 2.0 * best.cost < margin:
            margin, rival = cost - 2.0 * float(best.cost), lights
    cost = 2.0 * float(best.cost)
    return Resolved(A, cost, _expected_error(A, np.asarray(best.jac), cost, cues), margin, rival)


def _guesses(surface: FloatArray) -> list[NDArray[np.float64]]:
    """Return matrices that give the normals the mean and the spread of a ball's, under rotations and a reflection."""
    unit = surface / np.maximum(np.linalg.norm(surface, axis=1, keepdims=True), 1e-12)
    mean = unit.mean(axis=0)
    plane = np.linalg.svd(mean[None])[2][1:]  # (2, 3), orthogonal to the mean
    values, vectors = np.linalg.eigh(plane @ np.cov(unit.T) @ plane.T)
    white = (vectors * (WIDTH / np.sqrt(np.maximum(values, 1e-12)))) @ vectors.T @ plane
    found = []
    for mirror in (1.0, -1.0):
        for angle in 2.0 * np.pi * np.arange(ANGLES) / ANGLES:
            c, s = np.cos(angle), np.sin(angle)
            A = np.vstack([np.array([[c, -s * mirror], [s, c * mirror]]) @ white, FACING * mean / (mean @ mean)])
            found.append(A / np.linalg.norm(A))
    return found


def _apart(one: FloatArray, other: FloatArray) -> float:
    """Return the mean angle in degrees between two sets of directions."""
    return float(np.degrees(np.arccos(np.clip((one * other).sum(axis=1), -1.0, 1.0))).mean())


def _expected_error(A: FloatArray, jacobian: FloatArray, cost: float, cues: Cues) -> NDArray[np.float64]:
    """Propagate the inverse curvature of the cost, scaled by how badly the cues agree, to the lights, in degrees."""
    curvature = jacobian.T @ jacobian
    covariance = np.linalg.inv(curvature + LEAST_CURVATURE * np.eye(9)) * max(cost / GOOD, 1.0)
    here = lights_of(A, cues.lights)[0]
    step = 1e-5
    moves = np.empty((9, *here.shape))
    for k in range(9):
        shifted = A.copy().ravel()
        shifted[k] += step
        moves[k] = (lights_of(shifted.reshape(3, 3), cues.lights)[0] - here) / step
    square = np.einsum("kqi,kl,lqi->q", moves, covariance, moves)
    return np.asarray(np.degrees(np.sqrt(np.maximum(square, 0.0))))
