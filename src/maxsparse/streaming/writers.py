"""Write finished chunks to one output file, chunk by chunk: memory use does not grow with the output."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.extras import needs
from maxsparse.recovery.certificate import ARGUMENTS
from maxsparse.streaming.chunk import Chunk
from maxsparse.streaming.parts import Parts

__all__ = ["FORMATS", "WRITERS", "check_format"]

MATLAB_LIMIT = 2**31  # bytes of one variable
MADE_BY = {"maxsparse": "recovered signals"}


def write_npz(parts: Parts, path: Path, shape: tuple[int, int]) -> None:
    """Write a sparse matrix that ``scipy.sparse.load_npz`` reads, and the columns."""
    first = parts.first
    total = sum(int(chunk.counts.sum()) for chunk in parts)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        _member(archive, "indices", (total,), np.dtype(np.int32), (chunk.indices for chunk in parts))
        _member(archive, "indptr", (shape[0] + 1,), np.dtype(np.int64), _row_ends(parts))
        _member(archive, "format", (), np.dtype("S3"), iter([np.array(b"csr")]))
        _member(archive, "shape", (2,), np.dtype(np.int64), iter([np.array(shape)]))
        _member(archive, "data", (total,), first.values.dtype, (chunk.values for chunk in parts))
        _member(archive, "_is_array", (), np.dtype(bool), iter([np.array(True)]))
        for name, column in first.columns.items():
            _member(archive, name, (shape[0],), column.dtype, (chunk.columns[name] for chunk in parts))


def _row_ends(parts: Parts) -> Iterator[NDArray[np.int64]]:
    yield np.zeros(1, dtype=np.int64)
    end = 0
    for chunk in parts:
        ends = end + np.cumsum(chunk.counts, dtype=np.int64)
        end = int(ends[-1]) if len(ends) else end
        yield ends


def _member(
    archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], pieces: Iterator[NDArray[Any]]
) -> None:
    """Write one array of a .npz file from its pieces."""
    # Given a name only, zipfile stores the date 1980: equal answers give identical files.
    with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
        stream.write(_npy_header(shape, dtype))
        for piece in pieces:
            stream.write(np.ascontiguousarray(piece, dtype=dtype).tobytes())


def _npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    header = io.BytesIO()
    description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, description)
    return header.getvalue()


def write_npy(parts: Parts, path: Path, shape: tuple[int, int]) -> None:
    """Write the coefficients as one dense array (N, m)."""
    with path.open("wb") as stream:
        stream.write(_npy_header(shape, parts.first.values.dtype))
        for chunk in parts:
            stream.write(chunk.dense(shape[1]).data)


def write_csv(parts: Parts, path: Path, shape: tuple[int, int]) -> None:
    """Write the coefficients as text, one signal per line, every number at full precision."""
    digits = "%.9g" if parts.first.values.dtype == np.float32 else "%.17g"
    with path.open("w", encoding="ascii") as stream:
        for chunk in parts:
            np.savetxt(stream, chunk.dense(shape[1]), fmt=digits, delimiter=",")


def write_mat(parts: Parts, path: Path, shape: tuple[int, int]) -> None:
    """Write a sparse matrix X and the columns for MATLAB; the whole file is in memory."""
    import scipy.io
    import scipy.sparse

    chunks = list(parts)
    indices = np.concatenate([chunk.indices for chunk in chunks])
    if 16 * len(indices) > MATLAB_LIMIT or 8 * shape[0] > MATLAB_LIMIT:
        raise ValueError("the answers are too large for a MATLAB file; write .npz, .parquet or .zarr")
    values = np.concatenate([chunk.values for chunk in chunks]).astype(np.float64)
    ends = np.concatenate([[0], np.cumsum(np.concatenate([chunk.counts for chunk in chunks]))])
    variables: dict[str, Any] = {"X": scipy.sparse.csr_array((values, indices, ends), shape=shape).tocsc()}
    for name in chunks[0].columns:
        variables[name] = np.concatenate([chunk.columns[name] for chunk in chunks])[:, None]
    content: Any = io.BytesIO()
    scipy.io.savemat(content, variables, do_compression=True)
    content.seek(0)
    content.write(b"MATLAB 5.0 MAT-file, written by maxsparse".ljust(116))  # instead of the current time
    path.write_bytes(content.getvalue())


def write_parquet(parts: Parts, path: Path, shape: tuple[int, int]) -> None:
    """Write a table: per signal the lists `indices` and `values`, and the columns; a row group per chunk."""
    with needs("writing parquet"):
        import pyarrow as pa
        import pyarrow.parquet as parquet

    def table(chunk: Chunk) -> Any:
        ends = np.concatenate([[0], np.cumsum(chunk.counts, dtype=np.int64)]).astype(np.int32)
        arrays = {
            "indices": pa.ListArray.from_arrays(ends, chunk.indices),
            "values": pa.ListArray.from_arrays(ends, chunk.values),
        }
        for name, column in chunk.columns.items():
            arrays[name] = pa.array(np.array(ARGUMENTS)[column] if name == "argument" else column)
        return pa.table(arrays).replace_schema_metadata({**MADE_BY, "atoms": str(shape[1])})

    with parquet.ParquetWriter(path, table(parts.first).schema, compression="zstd") as writer:
        for chunk in parts:
            writer.write_table(table(chunk), row_group_size=max(1, len(chunk)))


def write_zarr(parts: Parts, path: Path, shape: tuple[int, int]) -> None:
    """Write a zarr group: `coef` (N, m) and one array per column, chunked like the run; zeros are compressed."""
    with needs("writing zarr folders"):
        import zarr
    first = parts.first
    rows = max(1, len(first))
    group = zarr.create_group(path, attributes=MADE_BY)
    coef = group.create_array("coef", shape=shape, chunks=(rows, shape[1]), dtype=first.values.dtype)
    columns = {
        name: group.create_array(name, shape=shape[:1], chunks=(rows,), dtype=column.dtype)
        for name, column in first.columns.items()
    }
    start = 0
    for chunk in parts:
        stop = start + len(chunk)
        if start < stop:
            coef[start:stop] = chunk.dense(shape[1])
            for name, column in columns.items():
                column[start:stop] = chunk.columns[name]
        start = stop


Writer = Callable[[Parts, Path, tuple[int, int]], None]
WRITERS: dict[str, Writer] = {
    "npz": write_npz,
    "parquet": write_parquet,
    "zarr": write_zarr,
    "npy": write_npy,
    "mat": write_mat,
    "csv": write_csv,
}
FORMATS = tuple(WRITERS)


def check_format(output: Path) -> str:
    """Return the format for the suffix of an output; refuse to replace a folder that is not an output."""
    ending = output.suffix.lower().removeprefix(".")
    if ending not in WRITERS:
        known = ", ".join(f".{name}" for name in FORMATS)
        raise ValueError(f"cannot write {str(output)!r}: unknown suffix {output.suffix!r}; use one of {known}")
    if output.is_dir():
        marks = output / "zarr.json"
        if ending != "zarr" or not marks.is_file() or MADE_BY["maxsparse"] not in marks.read_text(encoding="utf-8"):
            raise ValueError(f"{str(output)!r} is a folder that maxsparse did not write; choose another name")
    return ending
