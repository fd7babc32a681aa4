"""Read spectra and libraries: CSV and TSV, JCAMP-DX, ENVI, .npz, .npy and .mat."""

from __future__ import annotations

import csv
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from maxsparse import files
from maxsparse._core.extras import needs
from maxsparse.fields.spectra.jcamp import read_jcamp
from maxsparse.fields.spectra.table import Spectra

__all__ = ["open_cube", "read_spectra"]

TEXT, JCAMP, ARRAYS = (".csv", ".tsv", ".txt"), (".jdx", ".dx", ".jcm", ".jcamp"), (".npz", ".npy", ".mat")
LARGEST_TEXT = 500_000_000  # bytes


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
            ENVI spectral library (needs the package ``spectral``).
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
    readers |= {".hdr": _read_envi, ".sli": _read_envi}
    if suffix not in readers:
        raise ValueError(f"cannot read {str(source)!r}: unknown suffix {suffix!r}; use one of {', '.join(readers)}")
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
        Read from disk where it is indexed.
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
        cube = np.load(source, mmap_mode="r", allow_pickle=False)
        wavelength = None
    else:
        image = _open_envi(source)
        if not hasattr(image, "open_memmap"):
            raise ValueError(f"{str(source)!r} is a spectral library, not an image")
        cube = image.open_memmap(interleave="bip")
        if cube is None:
            raise ValueError(f"cannot read {str(source)!r}: its data file is missing or of another size")
        centers = getattr(image.bands, "centers", None)
        wavelength = None if not centers else np.asarray(centers, dtype=float)
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
    separator = max(",;\t", key=lines[0].count) if any(mark in lines[0] for mark in ",;\t") else None
    rows = [line.split() for line in lines] if separator is None else list(csv.reader(lines, delimiter=separator))
    rows = [[cell.strip() for cell in row] for row in rows]
    header, body = rows[0], rows[1:]
    for number, row in enumerate(body, start=2):
        if len(row) != len(header):
            raise ValueError(f"row {number} has {len(row)} cells, the header {len(header)}")
    if len(header) < 2:
        raise ValueError("its rows have one cell; cells are separated by commas, semicolons, tabs or spaces")
    if all(_is_number(cell) for cell in header[1:]):
        return Spectra(_numbers(body, 1), [float(cell) for cell in header[1:]], [row[0] for row in body])
    table = _numbers(body, 0)
    return Spectra(table[:, 1:].T, table[:, 0], header[1:])


def _numbers(rows: list[list[str]], first: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return cells from column `first` on as numbers; empty cells are NaN."""
    values = np.empty((len(rows), len(rows[0]) - first))
    for i, row in enumerate(rows):
        for j, cell in enumerate(row[first:]):
            try:
                values[i, j] = float(cell) if cell else np.nan
            except ValueError as error:
                raise ValueError(f"row {i + 2}, cell {j + first + 1} is {cell[:20]!r}, not a number") from error
    return values


def _is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def _read_jcamp(path: Path) -> Spectra:
    blocks = read_jcamp(path)
    _, axis, _ = blocks[0]
    first = Spectra([blocks[0][2]], axis, [blocks[0][0]])
    assert first.wavelength is not None
    rows = [Spectra([y], x, [title]).resampled(first.wavelength) for title, x, y in blocks]
    return Spectra([row.values[0] for row in rows], first.wavelength, [row.names[0] for row in rows])


def _read_arrays(path: Path) -> Spectra:
    if path.suffix.lower() == ".npy":
        return Spectra(files.read_array(path))
    values = files.read_array(path, prefer=("spectra", "Y", "library", "Phi"))
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


def _read_envi(path: Path) -> Spectra:
    library = _open_envi(path if path.suffix.lower() == ".hdr" else path.with_suffix(".hdr"))
    if not hasattr(library, "spectra"):
        raise ValueError("it is an image, not a spectral library; unmix it as a cube")
    centers = getattr(library.bands, "centers", None)
    return Spectra(np.asarray(library.spectra), centers or None, library.names)


def _open_envi(path: Path) -> Any:
    with needs("reading ENVI files"):
        from spectral.io import envi
    try:
        return envi.open(str(path))
    except Exception as error:
        raise ValueError(f"cannot read {str(path)!r} as an ENVI file: {error or type(error).__name__}") from error
