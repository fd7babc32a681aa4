r"""Does a number of sources below that of the sensors explain the covariance? A likelihood-ratio test.

The sources may be correlated: with directions given, the likelihood has its maximum at :math:`\Sigma = A P A^H +
\sigma^2 I` with :math:`\sigma^2 = \mathrm{tr}\, P_A^\perp \hat R / (n - K)` and :math:`P = A^+ (\hat R - \sigma^2 I)
A^{+H}` (P. Stoica, A. Nehorai, "On the concentrated stochastic likelihood function in array signal processing", 1995).
"""

from __future__ import annotations

import numpy as np

from maxsparse.fields.arrays.likelihood import Data, Fit, steering

__all__ = ["explained"]

ENOUGH = 3  # snapshots per sensor from which the test holds
LEAST_NOISE = 1e-10  # of the power: below, what is left are rounding errors, which are not white


def explained(data: Data, found: Fit) -> float:
    """Return the probability of a covariance this far from the sources' if these are all; 1 where it cannot be told."""
    from scipy.stats import chi2

    F, n, _ = data.R.shape
    K, d = found.directions.shape
    free = data.noise is None
    freedom = F * (n**2 - K**2 - free) - K * d
    exact = bool((found.noise < LEAST_NOISE * data.power).any())
    # Recordings and sensors that are not calibrated differ from the model, and what they allow for is not tested.
    if exact or data.blur > 0 or data.calibration > 0 or data.snapshots < ENOUGH * n or freedom <= 0:
        return 1.0
    ratio = 0.0
    for R, frequency in zip(data.R, data.frequencies, strict=True):
        A = steering(data, found.directions, frequency)[0]
        own = A @ np.linalg.pinv(A)
        rest = np.eye(n) - own
        noise = np.trace(rest @ R).real / (n - K) if data.noise is None else data.noise
        values, vectors = np.linalg.eigh(own @ R @ own + noise * rest)
        S = (vectors * np.maximum(values, 1e-12 * values[-1])) @ vectors.conj().T
        mine, theirs = (np.linalg.slogdet(matrix)[1] for matrix in (S, R))
        ratio += 2 * (data.snapshots - n) * (mine + np.trace(np.linalg.solve(S, R)).real - theirs - n)
    return float(chi2.sf(ratio, freedom))
