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


def auto(readings: FloatArray, lights: FloatArray) -> Fit:
    """Fit by consensus, then let the bundled network weigh every reading anew and correct the normal.

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
    normals = answer.normals.astype(np.float64)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    return Fit(
        np.where(known[:, None], normals, 0.0),
        np.where(known, answer.albedo, 0.0).astype(np.float64),
        (answer.logits > 0) & (start.lit > 0),
        np.where(known, 1.0 / (1.0 + (error / HALF_SURE) ** 2), 0.0),
    )
