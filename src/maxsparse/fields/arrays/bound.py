"""The Cramér–Rao bound: no unbiased estimate of directions has smaller standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import check_integer, check_number
from maxsparse.fields.arrays.geometry import Array

__all__ = ["cramer_rao"]


def cramer_rao(
    array: Array,
    azimuth: ArrayLike,
    elevation: ArrayLike | None = None,
    *,
    snapshots: int,
    noise: float,
    covariance: ArrayLike = 1.0,
    frequency: float | None = None,
) -> NDArray[np.float64]:
    r"""Return the smallest standard errors that unbiased estimates of the directions can have, in degrees.

    .. math:: \mathrm{var} \ge \frac{\sigma^2}{2L} \left[ \mathrm{Re}\left(D^H P_A^\perp D \odot
       (P A^H \Sigma^{-1} A P)^T\right) \right]^{-1}

    for gaussian sources with an unknown covariance P in white noise of unknown level (the stochastic bound).

    Parameters
    ----------
    array : Array
    azimuth : array-like of shape (K,), in degrees
    elevation : array-like of shape (K,) or None, default=None
        None: elevations are known to be 0, and only azimuths are unknown.
    snapshots : int
    noise : float
        Standard deviation σ of the noise at a sensor.
    covariance : float, array-like of shape (K,) or (K, K), default=1.0
        Of the sources: one power, a power each, or their covariance.
    frequency : float or None, default=None
        In hertz, for an array in metres.

    Returns
    -------
    errors : ndarray of shape (K,), or (K, 2) with elevations

    References
    ----------
    P. Stoica, E. G. Larsson, A. B. Gershman, "The stochastic CRB for array processing: a textbook derivation", IEEE
    Signal Processing Letters 8(5), 2001.

    Examples
    --------
    >>> import maxsparse as ms
    >>> array = ms.fields.arrays.linear(16)
    >>> ms.fields.arrays.cramer_rao(array, [0.0, 4.0], snapshots=10, noise=0.1).round(3)
    array([0.048, 0.048])
    """
    a = np.atleast_1d(np.asarray(azimuth, dtype=float))
    K, L = a.size, check_integer(snapshots, "snapshots", low=1)
    sigma = check_number(noise, "noise", low=1e-300)
    given = np.asarray(covariance)
    P: NDArray[Any] = given if given.ndim == 2 else np.diag(np.broadcast_to(given, (K,)))
    if P.shape != (K, K):
        raise ValueError(f"covariance must be that of {K} sources, got shape {given.shape}")
    if len(array) <= K:
        raise ValueError(f"{K} sources need more than {K} sensors, the array has {len(array)}")
    A, slopes = array.steering_with_slopes(a, 0.0 if elevation is None else elevation, frequency=frequency)
    d = 1 if elevation is None else 2
    D = np.concatenate(slopes[:d], axis=1)  # (n, d K)
    Q, _ = np.linalg.qr(A)
    outside = D - Q @ (Q.conj().T @ D)
    S = A @ P @ A.conj().T + sigma**2 * np.eye(len(A))
    weight = np.tile((P @ A.conj().T @ np.linalg.solve(S, A @ P)).T, (d, d))
    information = 2 * L / sigma**2 * ((D.conj().T @ outside) * weight).real
    errors = np.degrees(np.sqrt(np.diag(np.linalg.inv(information))))
    return errors if d == 1 else errors.reshape(2, K).T
