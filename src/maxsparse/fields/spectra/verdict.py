"""Whether a library explains spectra, and what to try where it does not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLOURS", "VERDICTS", "hints", "neighbour_correlation", "verdict_numbers"]

VERDICTS = ("fits", "incomplete", "none of the library")
COLOURS = dict(zip(VERDICTS, ("#18794e", "#8a6d00", "#cd2b31"), strict=True))
CORRELATED = 4.0  # standard errors of the correlation of neighbouring residuals: above, something is missing
OUTLYING = 6.0  # times the robust deviation of the residuals: a band above has something that is missing
POOR = 0.25  # share of a spectrum's variation, by medians, that nothing explains: above, nothing fits
SMOOTH = 0.5  # correlation of neighbouring residuals that looks like a distortion
MANY = 0.25  # share of the spectra that must look so
NUISANCES = {"baseline": "baseline=1", "gain": "gain=1", "shift": "shift=True"}


def verdict_numbers(
    rest: NDArray[np.float64], whole: NDArray[np.float64], found: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """Return the number in ``VERDICTS`` of each of N spectra.

    Parameters
    ----------
    rest, whole : ndarray of shape (N, n)
        Residuals and spectra, weighted so that noise is the same in all bands.
    found : ndarray of shape (N,), bool
        Whether any material was found.
    """
    middle = np.median(np.abs(rest), axis=1)
    varies = np.median(np.abs(whole - np.median(whole, axis=1, keepdims=True)), axis=1)
    none = ~found | (middle > POOR * varies)
    outlying = np.abs(rest).max(axis=1) > OUTLYING * 1.4826 * middle
    missing = outlying | (neighbour_correlation(rest) * np.sqrt(rest.shape[1]) > CORRELATED)
    tiny = np.sum(rest**2, axis=1) <= (1e-9 * np.linalg.norm(whole, axis=1)) ** 2  # all rounding
    return np.where(none, 2, np.where(missing & ~tiny, 1, 0)).astype(np.int8)


def neighbour_correlation(rest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the correlation of residuals (N, n) of neighbouring bands, (N,)."""
    power = np.sum(rest**2, axis=1)
    return np.asarray(np.sum(rest[:, 1:] * rest[:, :-1], axis=1) / np.maximum(power, 1e-300))


def hints(
    verdicts: NDArray[np.int8], correlation: NDArray[np.float64], materials: int, allowed: tuple[str, ...]
) -> list[str]:
    """Return what to try for N spectra, a sentence each.

    Parameters
    ----------
    verdicts : ndarray of shape (N,), int
    correlation : ndarray of shape (N,)
        Of the residuals of neighbouring bands.
    materials : int
        Size of the library.
    allowed : tuple of str
        Nuisances that were allowed for: "baseline", "gain", "shift".
    """
    N, found = len(verdicts), []
    distorted = int(np.sum((verdicts > 0) & (correlation > SMOOTH)))
    unused = [call for name, call in NUISANCES.items() if name not in allowed]
    if unused and distorted >= max(1.0, MANY * N):
        found.append(
            f"The residuals of {distorted} of {N} spectra are smooth over the bands: a material is missing from the "
            f"library, or the instrument distorts spectra; for the latter try {' or '.join(unused)}."
        )
    if materials < N and (verdicts == 2).all():
        found.append(
            f"No spectrum fits, and there are more spectra ({N}) than materials ({materials}): are library and spectra "
            "swapped?"
        )
    return found
