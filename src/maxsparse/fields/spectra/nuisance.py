"""What a measured spectrum has beyond its materials, and how noisy its bands are.

A baseline, a gain that varies slowly over the bands and a small shift of the wavelengths add a few smooth columns to a
spectrum. They are projected out of spectrum and library, which keeps noise white and abundances non-negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

__all__ = ["band_noise", "complement", "nuisance_columns"]

NEIGHBOURS = 3  # bands on each side that predict a band
LEAST_SPECTRA = 50  # to learn the noise of every band from


def nuisance_columns(
    y: NDArray[np.float64], wavelength: NDArray[np.float64], *, baseline: int, gain: int, shift: bool
) -> NDArray[np.float64]:
    """Return the columns (n, q) by which a spectrum y (n,) may differ from a mixture.

    Parameters
    ----------
    y : ndarray of shape (n,)
    wavelength : ndarray of shape (n,)
    baseline : int
        Degree of the polynomial that may be added, −1 for none.
    gain : int
        Degree of the polynomial that may multiply the spectrum, 0 for a constant gain, which abundances absorb.
    shift : bool
        Whether wavelengths may be shifted by a fraction of a band.
    """
    t = 2 * (wavelength - wavelength[0]) / (wavelength[-1] - wavelength[0]) - 1
    columns = [t**power for power in range(baseline + 1)]
    columns += [y * t**power for power in range(1, gain + 1)]
    if shift:
        # Differences to both neighbours: their mean is the slope, and what remains of a shift beyond it is curvature.
        slopes = np.diff(y) / np.diff(wavelength)
        columns += [np.append(slopes, slopes[-1]), np.insert(slopes, 0, slopes[0])]
    return np.column_stack(columns) if columns else np.empty((y.size, 0))


def complement(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return orthonormal rows (n − rank, n) that the columns (n, q) are orthogonal to."""
    n = len(columns)
    U, values, _ = np.linalg.svd(columns / np.linalg.norm(columns, axis=0).clip(1e-300), full_matrices=True)
    rank = int(np.count_nonzero(values > n * np.finfo(float).eps * values.max(initial=0.0)))
    return np.ascontiguousarray(U[:, rank:].T)


def band_noise(spectra: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard deviation of the noise of every band, (n,), learned from many spectra (N, n).

    Every band is predicted from its neighbours by least squares over all spectra. What remains is its own noise and,
    weighted, that of the neighbours; non-negative least squares tells them apart.
    """
    N, n = spectra.shape
    if N < LEAST_SPECTRA:
        raise ValueError(f"the noise of every band is learned from at least {LEAST_SPECTRA} spectra, got {N}")
    remaining, weights = np.empty(n), np.eye(n)
    for band in range(n):
        near = [other for other in range(max(0, band - NEIGHBOURS), min(n, band + NEIGHBOURS + 1)) if other != band]
        X: Any = np.column_stack([spectra[:, near], np.ones(N)])
        coefficients, *_ = np.linalg.lstsq(X, spectra[:, band], rcond=None)
        remaining[band] = np.sum((spectra[:, band] - X @ coefficients) ** 2) / max(1, N - X.shape[1])
        weights[band, near] = coefficients[:-1] ** 2
    variance = nnls(weights, remaining)[0]
    return np.sqrt(np.maximum(variance, 1e-3 * np.median(remaining)))
