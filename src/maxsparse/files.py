"""Reading arrays from files that may be hostile, and writing files that are never half written."""

from __future__ import annotations

import os
import secrets
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

ARRAY_SUFFIXES = (".npy", ".npz", ".mat", ".csv")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path` and rename it to `path` only if the block succeeds.

    An error, Ctrl-C or a full disk in the middle leaves the previous file whole.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"folder {str(target.parent)!r} does not exist; make it first")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_array(path: str | os.PathLike[str], key: str | None = None) -> NDArray[Any]:
    """Read one numeric array from a .npy, .npz, .mat or .csv file.

    Parameters
    ----------
    path : path of the file; its ending tells the format.
    key : name of the array inside a .npz or .mat file; needed only if the file holds several.

    Returns
    -------
    array : ndarray

    Notes
    -----
    Pickled objects are refused. A header that claims more data than the file holds is refused before anything is
    allocated.
    """
    source = Path(path)
    suffix = source.suffix.lower()
    if suffix not in ARRAY_SUFFIXES:
        raise ValueError(
            f"cannot read {str(source)!r}: its ending is {suffix!r}, known are {', '.join(ARRAY_SUFFIXES)}"
        )
    if not source.is_file():
        raise FileNotFoundError(f"{str(source)!r} is not a file")
    if key is not None and suffix in (".npy", ".csv"):
        raise ValueError(f"key={key!r} makes no sense for {str(source)!r}: a {suffix} file holds one array")
    readers = {".npy": _read_npy, ".npz": _read_npz, ".mat": _read_mat, ".csv": _read_csv}
    try:
        array = readers[suffix](source, key)
    except MemoryError:
        raise
    except Exception as error:  # whatever a damaged file makes a parser raise
        raise ValueError(f"cannot read {str(source)!r}: {error}") from error
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise ValueError(f"{str(source)!r} holds dtype {array.dtype}, not numbers")
    return array


def _read_npy(path: Path, key: str | None) -> NDArray[Any]:
    with path.open("rb") as stream:
        _check_npy_header(stream, path.stat().st_size)
        stream.seek(0)
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _read_npz(path: Path, key: str | None) -> NDArray[Any]:
    with zipfile.ZipFile(path) as archive:
        members = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
        name = members[_pick(list(members), key)]
        with archive.open(name) as stream:
            _check_npy_header(stream, archive.getinfo(name).file_size)
        with archive.open(name) as stream:
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _read_mat(path: Path, key: str | None) -> NDArray[Any]:
    import scipy.io

    try:
        names = [name for name, _, _ in scipy.io.whosmat(path)]
        name = _pick(names, key)
        return np.asarray(scipy.io.loadmat(path, variable_names=[name])[name])
    except NotImplementedError as error:
        raise ValueError("MATLAB 7.3 files are not supported; save with -v7") from error


def _read_csv(path: Path, key: str | None) -> NDArray[Any]:
    return np.loadtxt(path, delimiter=",", ndmin=2, dtype=np.float64, comments="#")


def _check_npy_header(stream: IO[bytes], size: int) -> None:
    """Refuse an array whose header claims more bytes than the file of `size` bytes holds."""
    version = np.lib.format.read_magic(stream)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read_header is None:
        raise ValueError(f"format version {version} of .npy is not supported")
    shape, _, dtype = read_header(stream)
    count = 1
    for length in shape:  # Python integers: a hostile shape cannot overflow
        count *= int(length)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never loaded")
    if count * dtype.itemsize > size:
        raise ValueError(f"its header claims shape {shape} of {dtype}, more than the {size} bytes that are there")


def _pick(names: list[str], key: str | None) -> str:
    """Choose the array to read: `key`, or Phi, or the only one."""
    if key is not None:
        if key not in names:
            raise ValueError(f"it has no array {key!r}, only {', '.join(names) or 'none'}")
        return key
    if len(names) == 1:
        return names[0]
    if not names:
        raise ValueError("it holds no array")
    if "Phi" in names:
        return "Phi"
    raise ValueError(f"it holds several arrays ({', '.join(names)}); say which with key=")
