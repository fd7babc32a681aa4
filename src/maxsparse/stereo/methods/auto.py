"""The method to use: consensus on lit readings, refined by a network that has seen what real outliers look like."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from maxsparse._validation import FloatArray
from maxsparse.stereo.methods._fit import Fit
from maxsparse.stereo.methods.consensus import consensus

if TYPE_CHECKING:
    from maxsparse.stereo.learned.model import ReadingNetwork

__all__ = ["auto"]

CHUNK_READINGS = 200_000  # what the network sees at once: about 100 MB


def auto(readings: FloatArray, lights: FloatArray) -> Fit:
    """Fit by consensus, then let the bundled network weigh every reading anew and correct the normal.

    Parameters
    ----------
    readings : ndarray of shape (P, q)
    lights : ndarray of shape (q, 3)

    Returns
    -------
    fit : Fit
        ``inliers`` are the readings the network gives more than even odds; ``confidence`` falls from 1 to 0 with the
        angular error it expects, 1/2 at 6 degrees.

    See Also
    --------
    maxsparse.stereo.learned.model.ReadingNetwork : The network.
    """
    import torch

    from maxsparse.stereo.learned.start import first_guess

    network = _network()
    if network is None:
        return consensus(readings, lights)
    rows = max(1, CHUNK_READINGS // readings.shape[1])
    fits = []
    for first in range(0, max(len(readings), 1), rows):
        start, guess = first_guess(np.asarray(readings[first : first + rows], dtype=np.float64), lights)
        with torch.inference_mode():
            refined = network(start)
        error = np.degrees(np.exp(refined.log_error.numpy().astype(np.float64)))
        normals = refined.normals.numpy().astype(np.float64)
        known = guess.albedo > 0
        fits.append(
            Fit(
                np.where(known[:, None], normals, 0.0),
                np.where(known, refined.albedo.numpy(), 0.0),
                (refined.logits > 0).numpy() & (start.lit > 0).numpy(),
                np.where(known, 1.0 / (1.0 + (error / 6.0) ** 2), 0.0),
            )
        )
    return Fit.join(fits)


@lru_cache(maxsize=1)
def _network() -> ReadingNetwork | None:
    from maxsparse.stereo.learned.store import bundled_network

    return bundled_network()
