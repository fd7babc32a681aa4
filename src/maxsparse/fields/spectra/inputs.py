"""What may be given as a library or as spectra: Spectra, arrays, tables (DataFrame) and paths of files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from maxsparse.fields.spectra.readers import read_spectra
from maxsparse.fields.spectra.table import Spectra
from maxsparse.fields.spectra.units import unit_in

__all__ = ["as_spectra"]


def as_spectra(given: Any, names: Iterable[Any] | None = None) -> Spectra:
    """Return Spectra of an array, a table or a path; `names` replace those that it has.

    A table has one named column per spectrum and wavelengths as its index or as the column "wavelength"; or one row per
    spectrum, with its name in the index and wavelengths as columns.
    """
    if isinstance(given, str | os.PathLike):
        found = read_spectra(given)
    elif hasattr(given, "columns") and hasattr(given, "to_numpy"):
        found = _from_table(given)
    elif hasattr(given, "index") and hasattr(given, "to_numpy"):  # a Series: one spectrum
        name = getattr(given, "name", None)
        found = Spectra(given.to_numpy(), _wavelengths(given.index), None if name is None else [name])
    else:
        found = given if isinstance(given, Spectra) else Spectra(given)
    return found if names is None else Spectra(found.values, found.wavelength, names, unit=found.unit)


def _from_table(table: Any) -> Spectra:
    columns, index = list(table.columns), getattr(table, "index", None)
    axis = _wavelengths(columns)
    if axis is not None:
        return Spectra(table.to_numpy(), axis, None if index is None else list(index))
    if all(isinstance(name, int | np.integer) for name in columns):  # numbered, so nothing but an array
        return Spectra(table.to_numpy())
    for name in columns:
        if str(name).lower().startswith(("wavelength", "wavenumber")):
            values = table[[other for other in columns if other != name]].to_numpy()
            others = [other for other in columns if other != name]
            return Spectra(values.T, table[name].to_numpy(), others, unit=unit_in(str(name)))
    title = getattr(index, "name", None)
    unit = None if title is None else unit_in(str(title))
    return Spectra(table.to_numpy().T, None if index is None else _wavelengths(index), columns, unit=unit)


def _wavelengths(labels: Any) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Return labels as wavelengths; None if they are names, or numbers 0, 1, 2, … of rows."""
    try:
        axis = np.array(list(labels), dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return None if np.array_equal(axis, np.arange(axis.size)) else axis
