"""How noisy every band is, learned from many spectra and the library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import median_filter

__all__ = ["LearnedNoise", "band_noise"]

LEAST_SPECTRA = 50  # to learn the noise of every band from
PRIOR = 6.0  # spectra that the level of the neighbouring bands counts for
NEIGHBOURS = 15  # bands whose median is that level
MAX_ITER, TOL = 100, 1e-2  # TOL: of log σ²
LEAST_NOISE = 1e-7  # relative to the spectra, where they are exact


@dataclass(frozen=True, eq=False)
class LearnedNoise:
    """Noise of every band, (n,), learned beforehand: its level is still that of every spectrum."""

    sigma: NDArray[np.float64]


def band_noise(spectra: ArrayLike, library: ArrayLike) -> NDArray[np.float64]:
    r"""Learn the standard deviation of the noise of every band from many mixtures.

    A mixture of materials with random abundances has the covariance :math:`c \Phi \Phi^T`, a measured one in addition
    a diagonal of noise. The diagonal and c are those of maximum likelihood; a band whose own noise the data hardly
    show, as materials explain all of it, has the level of its neighbours.

    Parameters
    ----------
    spectra : array-like of shape (N, n)
        Measured spectra, at least 50.
    library : array-like of shape (m, n)
        Pure spectra on the same bands.

    Returns
    -------
    sigma : ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from maxsparse.fields.spectra import band_noise
    >>> rng = np.random.default_rng(0)
    >>> library, sigma = rng.random((5, 40)), np.repeat([0.1, 0.01], 20)
    >>> mixtures = rng.dirichlet(np.ones(5), 200) @ library + sigma * rng.standard_normal((200, 40))
    >>> learned = band_noise(mixtures, library)
    >>> bool((np.abs(np.log2(learned / sigma)) < 1).all())
    True
    """
    Y, pure = np.asarray(spectra, dtype=np.float64), np.asarray(library, dtype=np.float64)
    if Y.ndim != 2 or pure.ndim != 2 or Y.shape[1] != pure.shape[1]:
        raise ValueError(f"spectra and library must be rows of the same bands, got shapes {Y.shape} and {pure.shape}")
    if not np.isfinite(Y).all() or not np.isfinite(pure).all():
        raise ValueError("spectra and library must be finite; leave out bands with missing values")
    if len(Y) < LEAST_SPECTRA:
        raise ValueError(
            f"the noise of every band is learned from at least {LEAST_SPECTRA} spectra, got {len(Y)}; "
            "use noise='auto', or give its standard deviation per band"
        )
    return np.sqrt(_variances(Y, pure.T @ pure))


def _variances(Y: NDArray[np.float64], signal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the noise variance of every band for spectra whose covariance without noise is proportional to `signal`.

    Where the likelihood is stationary, (K y)² has the mean K_bb, with K the inverse covariance of the spectra; so the
    ratio of the two says how much too small a variance is.
    """
    power = float(np.mean(Y**2))
    if power == 0:
        raise ValueError("spectra are zero in all bands")
    scale = power / max(float(np.mean(np.diag(signal))), 1e-300)
    variance = np.full(Y.shape[1], 1e-4 * power)
    for _ in range(MAX_ITER):
        K = np.linalg.inv(scale * signal + np.diag(variance))
        Z, diagonal = Y @ K, np.diag(K)
        own = np.log(variance * np.maximum(np.mean(Z**2, axis=0) / diagonal, 1e-300))
        common = median_filter(np.log(variance), size=NEIGHBOURS, mode="reflect")
        counts = len(Y) * variance * diagonal  # degrees of freedom that materials leave to the noise of a band
        share = counts / (counts + PRIOR)
        # Half of a step in the logarithm: the full one can overshoot.
        step = 0.5 * (share * own + (1 - share) * common - np.log(variance))
        scale *= np.sqrt(float(np.mean(np.sum((Z @ signal) * Z, axis=1))) / float(np.sum(K * signal)))
        variance = np.maximum(variance * np.exp(step), LEAST_NOISE**2 * power)
        if np.abs(step).max() < TOL:
            break
    return np.asarray(variance)
