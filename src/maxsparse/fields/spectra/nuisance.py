"""What a measured spectrum has beyond its materials.

A baseline, a gain that varies slowly over the bands and a small shift of the wavelengths add a few smooth columns to a
spectrum. They are projected out of spectrum and library, which keeps noise white and abundances non-negative.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Nuisance", "complement", "nuisance_columns"]


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


class Nuisance(NamedTuple):
    """What spectra on some bands may have beyond their materials, see :func:`nuisance_columns`."""

    wavelength: NDArray[np.float64]
    baseline: int
    gain: int
    shift: bool

    @property
    def alone(self) -> bool:
        """Whether every spectrum has columns of its own."""
        return self.gain > 0 or self.shift

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the options that are in use."""
        used = {"baseline": self.baseline >= 0, "gain": self.gain > 0, "shift": self.shift}
        return tuple(name for name, flag in used.items() if flag)

    def columns(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the columns (n, q) of a spectrum (n,)."""
        return nuisance_columns(y, self.wavelength, baseline=self.baseline, gain=self.gain, shift=self.shift)

    def extended(self, library: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a library (m, n) with the columns of all of its spectra as further rows."""
        return np.vstack([library, *(self.columns(row).T for row in library)]) if self.names else library
