"""Open untrusted zarr arrays: only codecs that cannot run code, only sizes that the files can hold."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from maxsparse._core.extras import needs

__all__ = ["open_zarr"]

# Of zarr formats 2 and 3. Others are refused: numcodecs' "pickle", for example, runs code from the file.
CODECS = {
    *("bytes", "endian", "transpose", "sharding_indexed", "crc32c", "gzip", "blosc", "zstd"),
    *("zlib", "bz2", "lzma", "lz4", "shuffle", "delta", "fixedscaleoffset", "crc32", "adler32"),
}
CHUNK_LIMIT = 2**31  # bytes of one chunk in memory
SMALL = 2**30
RATIO = 10_000  # of claimed to stored bytes; signals never compress that well


def open_zarr(path: Path, key: str | None, prefer: tuple[str, ...]) -> Any:
    """Open one numeric array of a local zarr folder without reading its data.

    Parameters
    ----------
    path : folder of a zarr array, or of a group of arrays.
    key : name of the array in a group; needed only if there are several.
    prefer : names to try if there are several and `key` is None.

    Returns
    -------
    array : zarr.Array
    """
    with needs("reading zarr folders"):
        import zarr

    from maxsparse.files import pick

    folder = path
    metadata = _metadata(folder)
    if metadata is None or metadata.get("node_type", "array") == "group":
        names = sorted(child.name for child in path.iterdir() if child.is_dir() and _is_array(_metadata(child)))
        folder = path / pick(names, key, prefer)
        metadata = _metadata(folder)
    elif key is not None:
        raise ValueError(f"key={key!r} cannot be used: it holds one array")
    assert metadata is not None
    for codec in _codecs(metadata):
        if codec.removeprefix("numcodecs.") not in CODECS:
            raise ValueError(f"it uses the codec {codec!r}, which is not one of {', '.join(sorted(CODECS))}")
    array = zarr.open_array(folder, mode="r")
    _check_sizes(array, folder)
    return array


def _metadata(folder: Path) -> dict[str, Any] | None:
    for name in ("zarr.json", ".zarray"):
        if (folder / name).is_file():
            content = json.loads((folder / name).read_text(encoding="utf-8"))
            if not isinstance(content, dict):
                raise ValueError(f"{name} is damaged")
            return content
    return None


def _is_array(metadata: dict[str, Any] | None) -> bool:
    return metadata is not None and metadata.get("node_type", "array") == "array"


def _codecs(metadata: dict[str, Any]) -> list[str]:
    """List the names of all codecs, those inside shards included."""
    found: list[str] = []
    stages = [metadata.get("compressor"), *(metadata.get("filters") or []), *(metadata.get("codecs") or [])]
    for stage in stages:
        if stage is None:
            continue
        if not isinstance(stage, dict):
            raise ValueError("its list of codecs is damaged")
        found.append(str(stage.get("id", stage.get("name"))))
        inner = stage.get("configuration")
        if isinstance(inner, dict):
            found += _codecs({"codecs": [*(inner.get("codecs") or []), *(inner.get("index_codecs") or [])]})
    return found


def _check_sizes(array: Any, folder: Path) -> None:
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise ValueError(f"it holds dtype {array.dtype}, not numbers")
    piece = array.dtype.itemsize
    for length in array.shards or array.chunks:
        piece *= int(length)
    if piece > CHUNK_LIMIT:
        raise ValueError(f"one of its chunks claims {piece:,} bytes; write it with smaller chunks")
    claimed = array.dtype.itemsize
    for length in array.shape:
        claimed *= int(length)
    if claimed > SMALL:
        stored = sum(entry.stat().st_size for entry in _files(folder))
        if claimed > RATIO * stored:
            raise ValueError(
                f"its header claims shape {array.shape}, {claimed:,} bytes, but only {stored:,} are stored"
            )


def _files(folder: Path) -> Any:
    for root, _, names in os.walk(folder):
        for name in names:
            yield Path(root) / name
