"""Model files: safetensors for the numbers, checked JSON for the rest. Reading one never runs code from it.

The only reader and writer of safetensors. A file has one header, JSON under the key ``maxsparse``: ``format``, ``kind``
("network", "checkpoint" or "recoverer"), ``version``, the SHA-256 of the arrays, and fields of the kind. The formats of
earlier versions are read and translated to it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse import __version__
from maxsparse._core.atomic import atomic_write

__all__ = ["ModelFile", "kind_of", "parse_json", "part", "plain_number", "read", "write"]

FORMAT = 2
READ = (1, 2)  # 1: the SHA-256 was of the bytes only, without types and shapes
KINDS = ("network", "checkpoint", "recoverer")
# Before every file had that header: a recoverer, in two versions, and two kinds of bundled weights
OLD_RECOVERER, OLD_VERSIONS = "maxsparse.recoverer", (1, 2)
OLD_LEARNED_SBL = "learned_sbl"
OLD_READING = "maxsparse-reading-network-1"


@dataclass(frozen=True, eq=False)
class ModelFile:
    """Contents of a model file.

    Attributes
    ----------
    source : str
        Its path, for messages.
    header : dict
        Plain JSON; ``header["kind"]`` is one of `KINDS`.
    arrays : dict of ndarray
        Those of a network under ``weights/`` and ``arrays/``.
    """

    source: str
    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def write(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> None:
    """Write arrays with a JSON header that has a ``kind``; after an interrupted write the previous file is intact."""
    from safetensors.numpy import save

    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    whole = {**header, "format": FORMAT, "version": __version__, "sha256": _digest(plain, FORMAT)}
    content = save(plain, {"maxsparse": json.dumps(whole, allow_nan=False, default=plain_number)})
    with atomic_write(path) as stream:
        stream.write(content)


def read(path: str | os.PathLike[str], kind: str) -> ModelFile:
    """Read a file of that kind, in the current or an earlier format; any other file raises a clear ValueError."""
    source = Path(path)
    metadata, arrays = _open(source, with_arrays=True)
    header = _header(metadata, str(source))
    if header["kind"] != kind:
        raise ValueError(f"{str(source)!r} holds a {header['kind']}, not a {kind}")
    if "sha256" in header and header["sha256"] != _digest(arrays, header["format"]):
        raise ValueError(f"{str(source)!r} is damaged: the SHA-256 of its arrays does not match")
    if "maxsparse" not in metadata:  # weights only
        arrays = {f"weights/{name}": array for name, array in arrays.items()}
    return ModelFile(str(source), header, arrays)


def kind_of(path: str | os.PathLike[str]) -> str:
    """Return the kind of a model file, without reading its arrays."""
    source = Path(path)
    return str(_header(_open(source, with_arrays=False)[0], str(source))["kind"])


def part(arrays: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the arrays under ``name/`` without that prefix."""
    return {key.removeprefix(f"{name}/"): value for key, value in arrays.items() if key.startswith(f"{name}/")}


def _open(source: Path, *, with_arrays: bool) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    from safetensors import safe_open

    if not source.is_file():
        raise FileNotFoundError(f"{str(source)!r} is not a file")
    try:
        with safe_open(source, "numpy") as file:
            names = file.keys() if with_arrays else ()
            return file.metadata() or {}, {name: file.get_tensor(name) for name in names}
    except Exception as error:  # parsers raise anything for a damaged file
        raise ValueError(f"cannot read {str(source)!r}: it is damaged or not a safetensors file ({error})") from error


def _header(metadata: dict[str, str], source: str) -> dict[str, Any]:
    """Return the header in the current form, translated from an earlier one where needed."""
    if OLD_LEARNED_SBL in metadata:
        return {"kind": "network", "format": 1, "network": "learned_sbl"}
    if metadata.get("format") == OLD_READING:
        sizes = {name: int(text) for name, text in metadata.items() if name != "format" and text.isdecimal()}
        return {"kind": "network", "format": 1, "network": "reading", "hyperparameters": sizes}
    if "maxsparse" not in metadata:
        raise ValueError(f"cannot read {source!r}: it is a safetensors file not written by maxsparse")
    try:
        header = parse_json(metadata["maxsparse"])
        written = header["format"]
        if written == OLD_RECOVERER:
            if header["version"] not in OLD_VERSIONS:
                raise ValueError(f"version {header['version']!r} of a recoverer")
            return {**header, "kind": "recoverer", "format": FORMAT}  # its SHA-256 always had types and shapes
        kind = header["kind"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"cannot read {source!r}: its header is damaged ({error})") from error
    if isinstance(written, bool) or written not in READ:
        raise ValueError(f"cannot read {source!r}: format {written!r}, this version reads {READ}")
    if kind not in KINDS:
        raise ValueError(f"cannot read {source!r}: its header is damaged (kind {kind!r})")
    return dict(header)


def _digest(arrays: Mapping[str, NDArray[Any]], written: int) -> str:
    """Return the SHA-256 of named arrays: names, types, shapes and bytes, in the order of the names."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        if written == 1:
            array = array.reshape(-1).view(np.uint8)
        total.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def parse_json(text: Any) -> Any:
    """Parse untrusted JSON: NaN, infinities, excessive nesting and invalid JSON raise ValueError."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not a valid JSON number")

    try:
        return json.loads(text, parse_constant=refuse)
    except (RecursionError, TypeError) as error:
        raise ValueError(f"it is not valid JSON: {error}") from error


def plain_number(value: Any) -> Any:
    """Convert a numpy number for JSON; for ``json.dumps(…, default=…)``."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} objects such as {value!r} cannot be stored as JSON")
