"""Library and spectra on the same bands: units, wavelengths, bands that are used, and scales."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse.fields.spectra.table import Spectra
from maxsparse.fields.spectra.units import factor_between

__all__ = ["compared", "used_bands", "warn_of_scales"]

SAME_SCALE = 0.35  # of log10: ratios this near to 100 and 10,000 look like percent or like scaled integers


def compared(pure: Spectra, measured: Spectra) -> tuple[Spectra, Spectra]:
    """Return library and spectra on the bands of the spectra."""
    bands, own = pure.values.shape[1], measured.values.shape[1]
    if measured.wavelength is None and pure.wavelength is not None and bands == own:
        measured = Spectra(measured.values, pure.wavelength, measured.names, unit=pure.unit)
    if pure.wavelength is None or measured.wavelength is None:
        if bands != own:
            raise ValueError(f"library has {bands} bands, spectra {own}: {_hint(pure, measured)}")
        return pure, measured
    if factor_between(pure.unit, measured.unit) is None:
        raise ValueError(f"library has wavelengths in {pure.unit}, spectra in {measured.unit}: convert one of them")
    pure, axis = pure.in_unit(measured.unit), measured.wavelength
    assert pure.wavelength is not None
    low, high = pure.wavelength[0], pure.wavelength[-1]
    if not ((axis >= low) & (axis <= high)).any():
        raise ValueError(
            f"library covers wavelengths {low:g} to {high:g}, spectra {axis[0]:g} to {axis[-1]:g}: they have none in "
            "common; are they in the same unit? Spectra(..., unit='nm') states it"
        )
    return pure.resampled(axis), measured


def _hint(pure: Spectra, measured: Spectra) -> str:
    if measured.values.shape[1] == len(pure):
        return "the library fits transposed; spectra are rows, so pass library.T"
    if pure.values.shape[1] == len(measured):
        return "the spectra fit transposed; spectra are rows, so pass spectra.T"
    return "give wavelengths so that it can be resampled"


def used_bands(pure: Spectra, measured: Spectra, bad_bands: Any) -> NDArray[np.bool_]:
    """Return which bands are used, (n,): those that are not bad, and finite in library and spectra."""
    n = measured.values.shape[1]
    used: NDArray[np.bool_] = np.ones(n, dtype=bool)
    if bad_bands is not None:
        bad = np.asarray(bad_bands)
        if bad.dtype == bool:
            if bad.shape != (n,):
                raise ValueError(f"bad_bands must be {n} flags, one per band, got shape {bad.shape}")
            used &= ~bad
        elif bad.size:
            if not np.issubdtype(bad.dtype, np.integer) or bad.min() < 0 or bad.max() >= n:
                raise ValueError(f"bad_bands must be numbers of bands from 0 to {n - 1}, or {n} flags")
            used[bad] = False
    if not used.any():
        raise ValueError("no band is left: bad_bands names every one")
    for spectra, word in ((pure, "library spectrum"), (measured, "spectrum")):
        finite = np.isfinite(spectra.values)
        empty = np.flatnonzero(~finite[:, used].any(axis=1))
        # Where all are empty, it is the bands: wavelengths that the other one does not cover.
        if 0 < empty.size < len(spectra):
            name = spectra.names[empty[0]]
            raise ValueError(f"{word} {name!r} is missing (NaN) in all bands that are used; remove it")
        used &= finite.all(axis=0)
    if not used.any():
        raise ValueError("no band is left: every one is bad, or has NaN in the library or in a spectrum")
    zero = np.flatnonzero(~measured.values[:, used].any(axis=1))
    if zero.size:
        raise ValueError(f"spectrum {measured.names[zero[0]]!r} is zero in all bands that are used; remove it")
    return used


def warn_of_scales(pure: NDArray[np.float64], measured: NDArray[np.float64]) -> None:
    """Warn where library and spectra differ by about 100 or 10,000: percent, or scaled integers, next to fractions."""
    sizes = float(np.median(np.abs(measured))), float(np.median(np.abs(pure)))
    if min(sizes) <= 0:
        return
    power = float(np.log10(sizes[0] / sizes[1]))
    for exponent in (2, 4):
        if abs(abs(power) - exponent) < SAME_SCALE:
            large, small = ("spectra", "the library") if power > 0 else ("library values", "the spectra")
            factor = f"{10**exponent:,}"
            warnings.warn(
                f"{large} are about {factor} times as large as {small}: is one in percent or scaled? Divide by {factor}"
                ", or abundances are off by that factor",
                stacklevel=4,
            )
