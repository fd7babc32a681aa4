"""Read arrays from untrusted files."""

from __future__ import annotations

import math
import os
import zipfile
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

ARRAY_SUFFIXES = (".npy", ".npz", ".mat", ".csv", ".parquet", ".zarr")
MAT_NUMBERS = {"double", "single", "logical", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
# A compressed file may unpack to this many times its size, or to SMALL bytes: arrays of mostly zeros pass, zip bombs
# do not.
UNPACKED_RATIO = 200
SMALL = 64 * 2**20
MOST_FOR_NAMES = 2**30  # bytes that the parser of texts may take
MEMORY_LIMIT = 2**33  # bytes of an array read into memory


def read_array(
    path: str | os.PathLike[str], key: str | None = None, *, prefer: tuple[str, ...] = ("Phi",)
) -> NDArray[Any]:
    """Read one numeric array from a .npy, .npz, .mat, .csv or .parquet file or a .zarr folder.

    Parameters
    ----------
    path : path of the file; the suffix sets the format.
    key : name of the array inside a .npz, .mat or .zarr, or of the column of a .parquet file; needed only if there
        are several.
    prefer : names to try, in this order, in a .npz, .mat or .zarr with several arrays if `key` is None.

    Returns
    -------
    array : ndarray

    Notes
    -----
    Pickled objects are refused. A header that claims more data than the file holds is refused before memory is
    allocated; so is a compressed array of more than 64 MB and 200 times the size of its file.
    """
    source = Path(path)
    suffix = source.suffix.lower()
    if suffix not in ARRAY_SUFFIXES:
        raise ValueError(
            f"cannot read {str(source)!r}: unknown suffix {suffix!r}; use one of {', '.join(ARRAY_SUFFIXES)}"
        )
    if not (source.is_dir() if suffix == ".zarr" else source.is_file()):
        raise FileNotFoundError(f"{str(source)!r} is not a {'folder' if suffix == '.zarr' else 'file'}")
    if key is not None and suffix in (".npy", ".csv"):
        raise ValueError(f"key={key!r} cannot be used with {str(source)!r}: a {suffix} file holds one array")
    readers = {
        ".npy": _read_npy,
        ".npz": _read_npz,
        ".mat": _read_mat,
        ".csv": _read_csv,
        ".parquet": _read_parquet,
        ".zarr": _read_zarr,
    }
    try:
        array = readers[suffix](source, key, prefer)
    except ImportError:
        raise
    except MemoryError as error:
        raise ValueError(
            f"cannot read {str(source)!r}: there is not enough memory for the size that it claims"
        ) from error
    except Exception as error:  # parsers raise anything for a damaged file
        raise ValueError(f"cannot read {str(source)!r}: {' '.join(str(error).split())}") from error
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise ValueError(f"{str(source)!r} holds dtype {array.dtype}, not numbers")
    return array


def _read_npy(path: Path, key: str | None, prefer: tuple[str, ...]) -> NDArray[Any]:
    with path.open("rb") as stream:
        check_npy_header(stream, path.stat().st_size)
        stream.seek(0)
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _read_npz(path: Path, key: str | None, prefer: tuple[str, ...]) -> NDArray[Any]:
    with zipfile.ZipFile(path) as archive:
        members = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
        name = members[pick(list(members), key, prefer)]
        size = archive.getinfo(name).file_size
        _check_unpacked(size, path)
        with archive.open(name) as stream:
            shape, _, dtype = check_npy_header(stream, size)
            _check_memory(shape, dtype)
        with archive.open(name) as stream:
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _read_mat(path: Path, key: str | None, prefer: tuple[str, ...]) -> NDArray[Any]:
    import scipy.io  # noqa: F401  # before the fork: once, not in every child

    from maxsparse.files._guard import in_child

    return in_child(lambda: _parse_mat(path, key, prefer))  # SciPy's parser can crash on a damaged file


def _parse_mat(path: Path, key: str | None, prefer: tuple[str, ...]) -> NDArray[Any]:
    import scipy.io

    # From memory: with a wrong length, read() of a file would allocate all of it.
    raw = path.read_bytes()
    if not any(raw[:20]):
        raise ValueError("it begins with zeros")  # SciPy 1.13 reads an empty array
    content = BytesIO(raw)
    try:
        found = {name: (shape, kind) for name, shape, kind in scipy.io.whosmat(content)}  # type: ignore[arg-type]
        name = pick(list(found), key, prefer)
        shape, kind = found[name]
        if kind not in MAT_NUMBERS:  # the parser is not safe for cells, structs and objects
            raise ValueError(f"its array {name!r} is of class {kind!r}, not numbers")
        _check_unpacked(8 * math.prod(map(int, shape)), path)
        content.seek(0)
        return np.asarray(scipy.io.loadmat(content, variable_names=[name])[name])  # type: ignore[arg-type]
    except NotImplementedError as error:
        raise ValueError("MATLAB 7.3 files are not supported; save with -v7") from error


def read_mat_names(path: str | os.PathLike[str], key: str = "names") -> list[str] | None:
    """Read texts from a .mat file: a cell array of texts, or the rows of a text array; None if there is no `key`.

    Parameters
    ----------
    path : path of the file
    key : name of the array

    Returns
    -------
    names : list of str, or None
    """
    import scipy.io  # noqa: F401  # before the fork

    from maxsparse.files._guard import in_child

    found = in_child(lambda: _parse_mat_names(Path(path), key), most=MOST_FOR_NAMES)
    return None if found.dtype.kind != "U" else [str(name).strip() for name in found.tolist()]


def _parse_mat_names(path: Path, key: str) -> NDArray[Any]:
    import scipy.io

    content = BytesIO(path.read_bytes())
    kinds = {name: kind for name, _, kind in scipy.io.whosmat(content)}  # type: ignore[arg-type]
    if key not in kinds:
        return np.empty(0)
    if kinds[key] not in ("char", "cell"):
        raise ValueError(f"its array {key!r} is of class {kinds[key]!r}, not text")
    content.seek(0)
    found = np.asarray(scipy.io.loadmat(content, variable_names=[key])[key]).ravel()  # type: ignore[arg-type]
    texts = [np.asarray(cell).ravel() for cell in found]
    if not all(text.dtype.kind == "U" and text.size <= 1 for text in texts):
        raise ValueError(f"its array {key!r} holds something else than texts")
    return np.array(["".join(text) for text in texts], dtype=np.str_)


def _read_csv(path: Path, key: str | None, prefer: tuple[str, ...]) -> NDArray[Any]:
    return np.loadtxt(path, delimiter=",", ndmin=2, dtype=np.float64, comments="#")


def _read_parquet(path: Path, key: str | None, prefer: tuple[str, ...]) -> NDArray[Any]:
    from maxsparse.files.parquet import ParquetTable

    table = ParquetTable(path, key)
    _check_memory(table.shape, table.dtype)
    return table.rows(0, table.shape[0])


def _read_zarr(path: Path, key: str | None, prefer: tuple[str, ...]) -> NDArray[Any]:
    from maxsparse.files.zarr import open_zarr

    array = open_zarr(path, key, prefer)
    _check_memory(array.shape, array.dtype)
    return np.asarray(array[...])


def _check_memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse arrays that are too large for memory, even if small on disk."""
    count = math.prod(int(length) for length in shape)
    if count * dtype.itemsize > MEMORY_LIMIT:
        raise ValueError(f"shape {shape} of {dtype} is more than {MEMORY_LIMIT:,} bytes, too large to read at once")


def _check_unpacked(size: int, path: Path) -> None:
    """Refuse to unpack `size` bytes from a file that is far too small for them."""
    packed = path.stat().st_size
    if size > max(SMALL, UNPACKED_RATIO * packed):
        raise ValueError(
            f"it would unpack from {packed:,} to {size:,} bytes; if you trust the file, unpack it and read the .npy"
        )


def check_npy_header(stream: IO[bytes], size: int | None) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of a .npy stream; refuse one that claims more bytes than the `size` bytes of its file.

    Returns
    -------
    shape : tuple of int
    fortran_order : bool
    dtype : numpy.dtype
    """
    version = np.lib.format.read_magic(stream)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read_header is None:
        raise ValueError(f"format version {version} of .npy is not supported")
    shape, fortran_order, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never loaded")
    if min(shape, default=0) < 0:
        raise ValueError(f"its header claims shape {shape}")
    # Python integers: a hostile shape cannot overflow
    if size is not None and math.prod(int(length) for length in shape) * dtype.itemsize > size:
        raise ValueError(f"its header claims shape {shape} of {dtype}, more than the {size} bytes of the file")
    return shape, fortran_order, dtype


def pick(names: list[str], key: str | None, prefer: tuple[str, ...]) -> str:
    """Choose the array to read: `key`, or the only one, or the first of `prefer` that exists."""
    if key is not None:
        if key not in names:
            raise ValueError(f"it has no array {key!r}, only {', '.join(names) or 'none'}")
        return key
    if len(names) == 1:
        return names[0]
    if not names:
        raise ValueError("it holds no array")
    for name in prefer:
        if name in names:
            return name
    raise ValueError(
        f"it holds several arrays ({', '.join(names)}); select one with key= (--key, or --phi-key for a dictionary)"
    )
