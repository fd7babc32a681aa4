"""Least squares on all readings: Woodham's photometric stereo."""

from __future__ import annotations

import numpy as np

from maxsparse._core.registry import STEREO
from maxsparse._core.validation import FloatArray
from maxsparse.stereo.fitting.fit import Fit, agreement

__all__ = ["ls"]


@STEREO.register("ls", summary="least squares on all readings", label="LS", order=20)
def ls(readings: FloatArray, lights: FloatArray) -> Fit:
    r"""Fit the normal to all readings with equal weights.

    .. math:: \min_{\tilde n} \|o - L \tilde n\|_2^2, \qquad \tilde n = \rho\, n

    Parameters
    ----------
    readings : ndarray of shape (P, q)
    lights : ndarray of shape (q, 3)

    Returns
    -------
    fit : Fit
        Every reading counts as an inlier.

    References
    ----------
    .. [1] R. Woodham, "Photometric method for determining surface orientation from multiple images", Optical
       Engineering 19(1), 1980.
    """
    scaled = np.einsum("pq,iq->pi", readings, np.linalg.pinv(lights))  # not BLAS: its rounding depends on the batch
    inliers = np.ones(readings.shape, dtype=np.bool_)
    return Fit.from_scaled(scaled, inliers, agreement(readings, lights, scaled, inliers))
