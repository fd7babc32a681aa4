"""Named spectra on a common axis of wavelengths, and their resampling to another one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse.fields.spectra.units import factor_between, unit_of

__all__ = ["Spectra"]

DELETED = -1e30  # below: a deleted channel
MOST_LOST = 0.1  # of the weight of a resampled band: if more is missing, so is the band


@dataclass(frozen=True, eq=False)
class Spectra:
    """Spectra as rows, with names and wavelengths.

    Parameters
    ----------
    values : array-like of shape (N, n), or (n,) for one spectrum
        Reflectance, absorbance, counts: whatever adds up in a mixture.
    wavelength : array-like of shape (n,) or None, default=None
        Or wavenumber, frequency, mass: rising or falling, in any unit. Bands are kept in rising order.
    names : iterable of N str or None, default=None
        None: "1", "2", …
    unit : str or None, default=None
        Of the wavelengths, such as "nm" or "µm"; None if it is not known.

    Values below −1e30, such as the −1.23e34 of deleted channels in USGS libraries, are missing: NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from maxsparse.fields.spectra import Spectra
    >>> library = Spectra(np.eye(3), wavelength=[400, 500, 600], names=["a", "b", "c"])
    >>> library
    Spectra(3 spectra, 3 bands from 400 to 600)
    """

    values: NDArray[np.float64]
    wavelength: NDArray[np.float64] | None
    names: tuple[str, ...]
    unit: str | None

    def __init__(
        self,
        values: ArrayLike,
        wavelength: ArrayLike | None = None,
        names: Iterable[Any] | None = None,
        *,
        unit: str | None = None,
    ) -> None:
        found = _numbers(values)
        found = found[None] if found.ndim == 1 else found
        if found.ndim != 2 or 0 in found.shape:
            raise ValueError(f"spectra must be rows of bands, got shape {found.shape}")
        axis = None
        if wavelength is not None:
            axis = np.asarray(wavelength, dtype=np.float64).ravel()
            if axis.size != found.shape[1]:
                hint = "; spectra are rows, so pass their transpose" if axis.size == found.shape[0] else ""
                raise ValueError(f"there are {axis.size} wavelengths for {found.shape[1]} bands{hint}")
            if not np.isfinite(axis).all() or (np.diff(axis) == 0).any() or len(np.unique(np.sign(np.diff(axis)))) > 1:
                raise ValueError("wavelengths must be finite numbers that rise (or fall) from band to band")
            if axis.size > 1 and axis[0] > axis[-1]:
                axis, found = axis[::-1].copy(), found[:, ::-1].copy()
        given = tuple(str(i + 1) for i in range(len(found))) if names is None else tuple(str(name) for name in names)
        if len(given) != len(found):
            raise ValueError(f"there are {len(given)} names for {len(found)} spectra")
        found[found < DELETED] = np.nan
        for name, value in (("values", found), ("wavelength", axis), ("names", given), ("unit", unit_of(unit))):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        count = f"{len(self)} spectr{'um' if len(self) == 1 else 'a'}, {self.values.shape[1]} bands"
        span = "" if self.wavelength is None else f" from {self.wavelength[0]:g} to {self.wavelength[-1]:g}"
        unit = f" {self.unit}" if span and self.unit else ""
        return f"Spectra({count}{span}{unit})"

    def in_unit(self, unit: str | None) -> Spectra:
        """Return the spectra with wavelengths in another unit; as they are where one of the units is not known.

        Parameters
        ----------
        unit : str or None

        Returns
        -------
        spectra : Spectra
        """
        factor = factor_between(self.unit, unit_of(unit))
        if factor is None:
            raise ValueError(f"wavelengths in {self.unit} cannot be converted to {unit}; convert them yourself")
        if factor == 1.0 or self.wavelength is None:
            return self
        # Rounded, so that 0.4 µm is 400 nm and not 400.00000000000006.
        return Spectra(self.values, np.round(self.wavelength * factor, 10), self.names, unit=unit)

    def resampled(self, wavelength: NDArray[np.float64]) -> Spectra:
        """Return the spectra at other wavelengths; NaN outside the range that they cover.

        Where the new bands are wider than the old ones, a band is the mean under a gaussian as wide (full width at half
        maximum) as the distance to its neighbours; else values are interpolated.

        Parameters
        ----------
        wavelength : ndarray of shape (n,)

        Returns
        -------
        spectra : Spectra
        """
        if self.wavelength is None:
            raise ValueError("spectra without wavelengths cannot be resampled")
        if np.shape(wavelength) == self.wavelength.shape and np.allclose(
            wavelength, self.wavelength, rtol=1e-9, atol=0
        ):
            return Spectra(self.values, wavelength, self.names, unit=self.unit)  # equal but for rounding errors
        old, new = self.wavelength, np.asarray(wavelength, dtype=np.float64)
        own_width, width = np.gradient(old) if old.size > 1 else np.ones(1), np.gradient(new)
        wide = width > 1.5 * np.interp(new, old, own_width)
        values = np.array([np.interp(new, old, row, left=np.nan, right=np.nan) for row in self.values])
        if wide.any():
            sigma = width[wide] / 2.3548
            weight = np.exp(-0.5 * ((old[:, None] - new[wide]) / sigma) ** 2) * own_width[:, None]
            weight /= np.maximum(weight.sum(axis=0), 1e-300)
            inside = (new[wide] >= old[0]) & (new[wide] <= old[-1])
            lost = np.isnan(self.values)
            share = lost @ weight
            mean = np.where(lost, 0.0, self.values) @ weight / np.maximum(1 - share, MOST_LOST)
            values[:, wide] = np.where(inside & (share < MOST_LOST), mean, np.nan)
        return Spectra(values, new, self.names, unit=self.unit)


def _numbers(values: Any) -> NDArray[np.float64]:
    """Return a new array of floats."""
    try:
        given = np.asarray(values)
        if given.dtype.kind != "c":
            return np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"spectra must be numbers, one spectrum per row: {error}") from error
    raise ValueError("spectra must be real, got complex numbers; pass their magnitude or real part")
