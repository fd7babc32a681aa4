"""ENVI headers: bad bands, scale factor, missing values and unit, for libraries and images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.extras import needs
from maxsparse.fields.spectra.table import Spectra
from maxsparse.fields.spectra.units import unit_of

__all__ = ["EnviCube", "open_envi_cube", "read_envi_library"]


@dataclass(frozen=True)
class _Header:
    """What a header says about values and bands."""

    bad: NDArray[np.intp]
    scale: float
    ignored: float | None
    unit: str | None

    def values(self, stored: Any) -> NDArray[np.float64]:
        """Return stored numbers (…, bands) as values: divided by the scale factor, NaN where they are missing."""
        raw = np.asarray(stored)
        found = raw.astype(np.float64)
        if self.ignored is not None:
            # In the type of the file: -1.23e34 of a header is another number than that of a float32.
            same = raw.dtype.type(self.ignored) if raw.dtype.kind == "f" else self.ignored
            found[raw == same] = np.nan
        found /= self.scale
        found[..., self.bad] = np.nan
        return found


@dataclass(frozen=True, eq=False)
class EnviCube:
    """An image on disk (rows, columns, bands); indexing reads values, NaN where they are missing or a band is bad."""

    stored: Any
    header: _Header

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, columns, bands."""
        return tuple(self.stored.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def unit(self) -> str | None:
        """Unit of the wavelengths."""
        return self.header.unit

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: int | slice) -> NDArray[np.float64]:
        if not isinstance(rows, int | slice | np.integer):
            raise TypeError(f"index an ENVI image by a row or a slice of rows, got {rows!r}")
        return self.header.values(self.stored[rows])


def read_envi_library(path: Path) -> Spectra:
    """Read an ENVI spectral library."""
    library, fields = _open(path if path.suffix.lower() == ".hdr" else path.with_suffix(".hdr"))
    if not hasattr(library, "spectra"):
        raise ValueError("it is an image, not a spectral library; unmix it as a cube")
    stored = np.asarray(library.spectra)
    header = _header(fields, stored.shape[1])
    centers = getattr(library.bands, "centers", None)
    return Spectra(header.values(stored), centers or None, library.names, unit=header.unit)


def open_envi_cube(path: Path) -> tuple[EnviCube, NDArray[np.float64] | None]:
    """Open an ENVI image without reading it; return it and its wavelengths."""
    image, fields = _open(path)
    if not hasattr(image, "open_memmap"):
        raise ValueError(f"{str(path)!r} is a spectral library, not an image")
    stored = image.open_memmap(interleave="bip")
    if stored is None:
        raise ValueError(f"cannot read {str(path)!r}: its data file is missing or of another size")
    try:
        header = _header(fields, stored.shape[-1])
    except ValueError as error:
        raise ValueError(f"cannot read {str(path)!r}: {error}") from error
    centers = getattr(image.bands, "centers", None)
    return EnviCube(stored, header), np.asarray(centers, dtype=float) if centers else None


def _open(path: Path) -> tuple[Any, dict[str, Any]]:
    with needs("reading ENVI files"):
        from spectral.io import envi
    try:
        return envi.open(str(path)), envi.read_envi_header(str(path))
    except Exception as error:
        raise ValueError(f"cannot read {str(path)!r} as an ENVI file: {error or type(error).__name__}") from error


def _header(fields: dict[str, Any], bands: int) -> _Header:
    good = fields.get("bbl")
    bad: NDArray[np.intp] = np.empty(0, dtype=np.intp)
    if good is not None:
        flags = [_number(fields, "bbl", word) for word in good]
        if len(flags) != bands:
            raise ValueError(f"its header has {len(flags)} flags in 'bbl' for {bands} bands")
        bad = np.flatnonzero(np.array(flags) == 0)
    scale = _number(fields, "reflectance scale factor") or 1.0  # 0 stands for none
    if not np.isfinite(scale):
        raise ValueError(f"its header has a 'reflectance scale factor' of {scale}")
    unit = fields.get("wavelength units")
    return _Header(bad, scale, _number(fields, "data ignore value"), unit_of(unit if isinstance(unit, str) else None))


def _number(fields: dict[str, Any], name: str, word: Any = None) -> float | None:
    """Return a number of the header; None if there is none."""
    text = fields.get(name) if word is None else word
    if text is None:
        return None
    try:
        return float(text)
    except (TypeError, ValueError) as error:
        raise ValueError(f"its header has {str(text)[:20]!r} in {name!r}, not a number") from error
