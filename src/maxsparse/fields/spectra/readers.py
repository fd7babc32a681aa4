"""Read spectra and libraries: CSV and TSV, JCAMP-DX, ENVI, .npz, .npy and .mat."""

from __future__ import annotations

import csv
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from maxsparse import files
from maxsparse.fields.spectra.envi import open_envi_cube, read_envi_library
from maxsparse.fields.spectra.jcamp import read_jcamp
from maxsparse.fields.spectra.table import Spectra
from maxsparse.fields.spectra.units import unit_in

__all__ = ["open_cube", "read_spectra"]

TEXT, JCAMP, ARRAYS = (".csv", ".tsv", ".txt"), (".jdx", ".dx", ".jcm", ".jcamp"), (".npz", ".npy", ".mat")
LARGEST_TEXT = 500_000_000  # bytes
DECIMAL = "; numbers need decimal points, not commas"


def read_spectra(path: str | os.PathLike[str]) -> Spectra:
    """Read spectra with their names and wavelengths, as far as the file holds them.

    Parameters
    ----------
    path : str or path
        ``.csv``, ``.tsv``, ``.txt``
            A header, then either a column of wavelengths and one named column per spectrum, or one row per spectrum:
            its name, then values; wavelengths in the header.
        ``.jdx``, ``.dx``, ``.jcm``
            JCAMP-DX.
        ``.hdr``, ``.sli``
            ENVI spectral library (needs the package ``spectral``); its bad bands (``bbl``), scale factor,
            missing values and unit count.
        ``.npz``, ``.mat``
            Arrays ``spectra``, ``wavelength`` and ``names``; in .mat, names are a cell array of texts or rows of text.
        ``.npy``
            Spectra as rows.

    Returns
    -------
    spectra : Spectra
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"{str(source)!r} is not a file")
    suffix = source.suffix.lower()
    readers = dict.fromkeys(TEXT, _read_text) | dict.fromkeys(JCAMP, _read_jcamp) | dict.fromkeys(ARRAYS, _read_arrays)
    readers |= {".hdr": read_envi_library, ".sli": read_envi_library}
    if suffix not in readers:
        raise ValueError(f"cannot read {str(source)!r}: unknown suffix {suffix!r}; use one of {', '.join(readers)}")
    if not source.stat().st_size:
        raise ValueError(f"cannot read {str(source)!r}: the file is empty")
    try:
        return readers[suffix](source)
    except (ImportError, FileNotFoundError):
        raise
    except Exception as error:  # parsers raise anything for a damaged file
        text = str(error) or type(error).__name__
        raise ValueError(text if str(source) in text else f"cannot read {str(source)!r}: {text}") from error


def open_cube(path: str | os.PathLike[str]) -> tuple[Any, Any]:
    """Open a hyperspectral image without reading it: an ENVI header (.hdr) or a .npy file (rows, columns, bands).

    Parameters
    ----------
    path : str or path

    Returns
    -------
    cube : array-like of shape (rows, columns, bands)
        Read from disk where it is indexed; of an ENVI image divided by its scale factor, NaN where data are missing or
        its header marks a band as bad.
    wavelength : ndarray of shape (bands,) or None
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"{str(source)!r} is not a file")
    if source.suffix.lower() == ".npy":
        with source.open("rb") as stream:
            try:
                files.check_npy_header(stream, source.stat().st_size)
            except ValueError as error:
                raise ValueError(f"cannot read {str(source)!r}: {error}") from error
        cube, wavelength = np.load(source, mmap_mode="r", allow_pickle=False), None
    else:
        cube, wavelength = open_envi_cube(source)
    if cube.ndim != 3:
        raise ValueError(f"a cube has rows, columns and bands; {str(source)!r} has shape {cube.shape}")
    return cube, wavelength


def _read_text(path: Path) -> Spectra:
    if path.stat().st_size > LARGEST_TEXT:
        raise ValueError(f"it has more than {LARGEST_TEXT:,} bytes; save it as .npz")
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if len(lines) < 2:
        raise ValueError("it needs a header and at least one row")
    # On a tie the semicolon: the commas are decimal ones then.
    separator = max(";\t,", key=lines[0].count) if any(mark in lines[0] for mark in ",;\t") else None
    rows = [line.split() for line in lines] if separator is None else list(csv.reader(lines, delimiter=separator))
    rows = [[cell.strip() for cell in row] for row in rows]
    header, body = rows[0], rows[1:]
    _check_rows(header, body)
    if all(_is_number(cell) for cell in header[1:]):
        return Spectra(_numbers(body, 1), [float(cell) for cell in header[1:]], [row[0] for row in body])
    table = _numbers(body, 0)
    return Spectra(table[:, 1:].T, table[:, 0], header[1:], unit=unit_in(header[0]))


def _check_rows(header: list[str], body: list[list[str]]) -> None:
    for number, row in enumerate(body, start=2):
        if len(row) != len(header):
            decimal = DECIMAL if len(row) == 2 * len(header) else ""
            raise ValueError(f"row {number} has {len(row)} cells, the header {len(header)}{decimal}")
    if len(header) < 2:
        raise ValueError("its rows have one cell; cells are separated by commas, semicolons, tabs or spaces")
    if not _is_number(header[1]) and all(_is_number(cell.replace(",", ".")) for cell in header[1:]):
        raise ValueError(f"its header has the wavelength {header[1][:20]!r}{DECIMAL}")
    if all(_is_number(cell) for cell in header):
        raise ValueError(
            "its first row holds numbers only; a header is expected: 'wavelength' and the names of the spectra, or "
            "'name' and wavelengths"
        )


def _numbers(rows: list[list[str]], first: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return cells from column `first` on as numbers; empty cells are NaN."""
    values = np.empty((len(rows), len(rows[0]) - first))
    for i, row in enumerate(rows):
        for j, cell in enumerate(row[first:]):
            try:
                values[i, j] = float(cell) if cell else np.nan
            except ValueError as error:
                decimal = DECIMAL if _is_number(cell.replace(",", ".")) else ""
                raise ValueError(
                    f"row {i + 2}, cell {j + first + 1} is {cell[:20]!r}, not a number{decimal}"
                ) from error
    return values


def _is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def _read_jcamp(path: Path) -> Spectra:
    blocks = read_jcamp(path)
    given = [Spectra([block.y], block.x, [block.title], unit=block.unit) for block in blocks]
    first = given[0]
    assert first.wavelength is not None
    rows = [spectrum.in_unit(first.unit).resampled(first.wavelength) for spectrum in given]
    return Spectra([row.values[0] for row in rows], first.wavelength, [row.names[0] for row in rows], unit=first.unit)


def _read_arrays(path: Path) -> Spectra:
    if path.suffix.lower() == ".npy":
        return Spectra(files.read_array(path))
    try:
        values = files.read_array(path, prefer=("spectra", "Y", "library", "Phi"))
    except ValueError as error:
        if "holds no array" not in str(error):
            raise
        raise ValueError("it holds no array; 'spectra' is expected, and 'wavelength' and 'names' if known") from error
    wavelength = None
    try:
        wavelength = files.read_array(path, "wavelength").ravel()
    except ValueError as error:
        if "no array" not in str(error):
            raise
    names = _names_in_npz(path) if path.suffix.lower() == ".npz" else files.read_mat_names(path)
    count = None if wavelength is None else wavelength.size
    if values.ndim == 2 and count is not None and values.shape[0] == count != values.shape[1]:
        values = values.T  # bands are rows, as in most libraries
    elif names is not None and values.ndim == 2 and values.shape[1] == len(names) != values.shape[0]:
        values = values.T
    return Spectra(values, wavelength, names)


def _names_in_npz(path: Path) -> list[str] | None:
    with zipfile.ZipFile(path) as archive:
        if "names.npy" not in archive.namelist():
            return None
        with archive.open("names.npy") as stream:
            _, _, dtype = files.check_npy_header(stream, archive.getinfo("names.npy").file_size)
        if dtype.kind not in "US":
            raise ValueError(f"its names are of dtype {dtype}, not text")
        with archive.open("names.npy") as stream:
            found = np.lib.format.read_array(stream, allow_pickle=False).ravel()
    return [name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in found.tolist()]
