"""The method to use: consensus on lit readings, refined by a network that has seen what real outliers look like."""

from __future__ import annotations

import numpy as np

from maxsparse._validation import FloatArray
from maxsparse.stereo.learned.forward import refine
from maxsparse.stereo.learned.start import first_guess
from maxsparse.stereo.learned.store import bundled_weights
from maxsparse.stereo.methods._fit import Fit

__all__ = ["auto"]

HALF_SURE = 6.0  # degrees of expected error at which the confidence is one half
NEAR = 5.0  # degrees: fits further apart than this differ in kind, and are not averaged
DOUBT = 3.0  # the consensus fit knows its scatter but not its bias, so its expected error is taken this many times


def auto(readings: FloatArray, lights: FloatArray) -> Fit:
    """Fit by consensus, let the bundled network weigh every reading anew and correct the normal, and blend the two.

    Parameters
    ----------
    readings : ndarray of shape (P, q)
    lights : ndarray of shape (q, 3)

    Returns
    -------
    fit : Fit
        ``inliers`` are the lit readings that the network gives more than even odds; ``confidence`` falls from 1 to 0
        with the angular error it expects, 1/2 at 6 degrees.

    See Also
    --------
    maxsparse.stereo.learned.model.ReadingNetwork : The network.
    maxsparse.stereo.methods.consensus.consensus : Where it starts, and what it is where no network is bundled.
    """
    start, guess = first_guess(np.asarray(readings, dtype=np.float64), lights)
    weights = bundled_weights()
    if weights is None:
        return guess
    answer = refine(start, weights)
    known = guess.albedo > 0
    error = np.degrees(np.exp(np.minimum(answer.log_error.astype(np.float64), 2.0)))
    normals = _blend(answer.normals.astype(np.float64), error, guess, np.asarray(readings), lights)
    return Fit(
        np.where(known[:, None], normals, 0.0),
        np.where(known, answer.albedo, 0.0).astype(np.float64),
        (answer.logits > 0) & (start.lit > 0),
        np.where(known, 1.0 / (1.0 + (error / HALF_SURE) ** 2), 0.0),
    )


def _blend(normals: FloatArray, error: FloatArray, guess: Fit, readings: FloatArray, lights: FloatArray) -> FloatArray:
    """Average the network's normals and the consensus ones where they are near, by their expected errors.

    On clean, truly diffuse readings the consensus fit is the more exact of the two. Where the two are far apart one of
    them is plainly wrong, and that is the consensus fit far more often.
    """
    doubt = DOUBT * _expected_error(guess, readings, lights)
    share = error**2 / (error**2 + doubt**2)
    share = np.where(np.linalg.norm(normals - guess.normals, axis=1) < np.radians(NEAR), share, 0.0)
    mean = (1.0 - share)[:, None] * normals + share[:, None] * guess.normals
    return mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12)


def _expected_error(guess: Fit, readings: FloatArray, lights: FloatArray) -> FloatArray:
    r"""Standard error of a fit in degrees, :math:`s/\rho \, \sqrt{\mathrm{tr}\,(L_I^\top L_I)^{-1}}` over inliers."""
    count = guess.inliers.sum(axis=1)
    fitted = np.einsum("pi,qi->pq", guess.normals * guess.albedo[:, None], lights)
    residual = np.where(guess.inliers, readings - np.maximum(fitted, 0.0), 0.0)
    scatter = np.sqrt((residual**2).sum(axis=1) / np.maximum(count - 3, 1)) / np.maximum(guess.albedo, 1e-12)
    moments = np.einsum("pq,qi,qj->pij", guess.inliers.astype(np.float64), lights, lights) + 1e-6 * np.eye(3)
    spread = np.sqrt(np.trace(np.linalg.inv(moments), axis1=1, axis2=2))
    return np.where(count < 5, 90.0, np.degrees(np.minimum(scatter * spread, 1.0)))
