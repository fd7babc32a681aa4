"""Signals read a few rows at a time: from memory-mapped files, zarr, parquet or a pipe."""

from __future__ import annotations

import hashlib
import io
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import check_array, check_matrix
from maxsparse.files import check_npy_header, read_array

__all__ = ["Source", "open_source"]

SAMPLES, SAMPLE_BYTES = 64, 2**16  # hashed to identify a file
PIPE_LIMIT = 2**33  # bytes of text read from a pipe


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn any error of a reader into a ValueError, except for missing libraries."""
    try:
        yield
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(f"cannot read {name}: {error}") from error


class Source(ABC):
    """Signals (N, n) that can be read by rows.

    Attributes
    ----------
    name : str
        For messages.
    shape : (int, int)
    identity : dict or None
        Plain JSON that changes when the signals change; None if they cannot be read twice.
    """

    name: str
    shape: tuple[int, int]
    identity: dict[str, Any] | None

    @abstractmethod
    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows start to stop as they are stored, (stop − start, n)."""

    def check(self, shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> None:
        """Check that this is a numeric matrix, and store name and shape."""
        if len(shape) == 3 or np.issubdtype(dtype, np.complexfloating):
            kind = "complex" if len(shape) != 3 else f"of shape {tuple(shape)}"
            raise ValueError(
                f"{name} is {kind}; real signals (N, n) are read a chunk at a time, snapshots and complex data in "
                "memory: maxsparse solve, or ms.solve in Python"
            )
        # Check an array without rows of the same dtype, to raise the same errors as for any array.
        check_matrix(np.zeros((0, *shape[1:]) if len(shape) > 1 else shape[:1], dtype=dtype), name)
        self.name, self.shape = name, (int(shape[0]), int(shape[1]))


class ArraySource(Source):
    """An array in memory."""

    def __init__(self, array: NDArray[Any], name: str, identity: dict[str, Any] | None) -> None:
        self.check(array.shape, array.dtype, name)
        self._array = array
        self.identity = identity

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows start to stop."""
        return self._array[start:stop]


class NpySource(Source):
    """A .npy file of any size, of which only the current rows are in memory."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        with _readable(repr(str(path))), path.open("rb") as stream:
            shape, _, dtype = check_npy_header(stream, path.stat().st_size)
        self.check(shape, dtype, name)
        self.identity = file_identity(path)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows start to stop."""
        # Mapped again every time: pages of a lasting mapping would count as memory of this process.
        return np.array(np.lib.format.open_memmap(self._path, mode="r")[start:stop])


class ZarrSource(Source):
    """An array in a zarr folder."""

    def __init__(self, path: Path, key: str | None, name: str) -> None:
        from maxsparse.files.zarr import open_zarr

        with _readable(repr(str(path))):
            self._array = open_zarr(path, key, ("Y",))
        self.check(self._array.shape, self._array.dtype, name)
        self.identity = folder_identity(path)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows start to stop."""
        return np.asarray(self._array[start:stop])


class ParquetSource(Source):
    """A parquet file, read by row groups."""

    def __init__(self, path: Path, key: str | None, name: str) -> None:
        from maxsparse.files.parquet import ParquetTable

        with _readable(repr(str(path))):
            self._table = ParquetTable(path, key)
        self.check(self._table.shape, self._table.dtype, name)
        self.identity = file_identity(path)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows start to stop."""
        return self._table.rows(start, stop)


class PipeSource(Source):
    """A .npy stream that can be read only once, from start to end."""

    identity = None

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._position = stream, 0
        with _readable(name):
            shape, fortran_order, self._dtype = check_npy_header(stream, None)
        self.check(shape, self._dtype, name)
        if fortran_order and min(self.shape) > 1:
            raise ValueError(f"{name} is in Fortran order, which a pipe cannot deliver by rows; save it in C order")

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows start to stop, which must be the next ones."""
        if start != self._position:
            raise ValueError(f"{self.name} can be read only once, from start to end")
        n = self.shape[1]
        size = (stop - start) * n * self._dtype.itemsize
        content = self._stream.read(size)
        if len(content) != size:
            raise ValueError(f"{self.name} ended before row {stop} of the {self.shape[0]} rows that its header claims")
        self._position = stop
        return np.frombuffer(content, dtype=self._dtype).reshape(stop - start, n)


def open_source(signals: str | os.PathLike[str] | ArrayLike, *, key: str | None = None) -> Source:
    """Open signals for reading by rows.

    Parameters
    ----------
    signals : path, "-" or array-like of shape (N, n)
        .npy, .zarr and .parquet are read a few rows at a time, .npz, .mat and .csv as a whole. ``"-"`` is standard
        input: a .npy stream, or comma-separated text.
    key : str or None, default=None
        Name of the array inside a .npz, .mat or .zarr, or of the column of a .parquet file.

    Returns
    -------
    source : Source

    Examples
    --------
    >>> import numpy as np
    >>> open_source(np.ones((5, 3))).rows(1, 3).shape
    (2, 3)
    """
    if isinstance(signals, np.memmap) and signals.filename is not None:
        return ArraySource(signals, "Y", file_identity(Path(signals.filename)) | {"shape": list(signals.shape)})
    if not isinstance(signals, str | os.PathLike):
        array = check_array(signals, "Y", dimensions=(2, 3))
        return ArraySource(array, "Y", {"sha256": _digest(np.ascontiguousarray(array).data)})
    if os.fspath(signals) == "-":
        return _standard_input(key)
    path = Path(signals)
    name = f"Y in {str(path)!r}"
    if path.suffix == ".npy" and path.is_file() and key is None:
        return NpySource(path, name)
    if path.suffix == ".zarr" and path.is_dir():
        return ZarrSource(path, key, name)
    if path.suffix == ".parquet" and path.is_file():
        return ParquetSource(path, key, name)
    return ArraySource(read_array(path, key, prefer=("Y",)), name, None if not path.exists() else file_identity(path))


def file_identity(path: Path) -> dict[str, Any]:
    """Describe a file to detect changes: size, modification time, and a hash of samples of it."""
    status = path.stat()
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        # Start, end and evenly spaced samples: hashing a whole terabyte would take an hour.
        for position in np.linspace(0, max(0, status.st_size - SAMPLE_BYTES), SAMPLES).astype(np.int64).tolist():
            stream.seek(position)
            digest.update(stream.read(SAMPLE_BYTES))
    return {"size": status.st_size, "modified": status.st_mtime_ns, "sha256 of samples": digest.hexdigest()}


def folder_identity(path: Path) -> dict[str, Any]:
    """Describe a folder by the names, sizes and times of all files in it."""
    digest, size = hashlib.sha256(), 0
    for root, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            file = Path(root) / name
            status = file.stat()
            size += status.st_size
            digest.update(f"{file.relative_to(path)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return {"size": size, "sha256 of names, sizes and times": digest.hexdigest()}


def _digest(content: Any) -> str:
    return hashlib.sha256(content).hexdigest()


def _standard_input(key: str | None) -> Source:
    name = "Y on standard input"
    if key is not None:
        raise ValueError(f"key={key!r} cannot be used with standard input, which holds one array")
    piped: Any = sys.stdin.buffer
    stream = io.BufferedReader(piped, 2**20)  # can peek, unlike some standard inputs
    if stream.peek(6).startswith(b"\x93NUMPY"):
        return PipeSource(stream, name)
    content = stream.read(PIPE_LIMIT)
    if not content.strip():
        raise ValueError(f"{name} is empty; pipe a .npy file or comma-separated text into it")
    try:
        array = np.loadtxt(io.StringIO(content.decode()), delimiter=",", ndmin=2, dtype=np.float64, comments="#")
    except ValueError as error:
        raise ValueError(f"cannot read {name} as .npy or comma-separated text: {error}") from error
    return ArraySource(array, name, None)
