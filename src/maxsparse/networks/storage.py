"""Model files: safetensors for the numbers, checked JSON for the rest. Reading one never runs code from it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from maxsparse import __version__
from maxsparse.files import atomic_write, digest, parse_json
from maxsparse.networks.network import Network

__all__ = ["Header", "Model", "load", "read", "save", "write"]

FORMAT = 1
Header = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """What a model file holds.

    Attributes
    ----------
    network : Network
        In evaluation mode, on the CPU.
    arrays : dict of ndarray
        Arrays stored beside the weights; ``"Phi"`` for a network made for one dictionary.
    about : dict
        How it was trained: task, settings, validation history. Plain JSON.
    """

    network: Network
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)


def save(
    network: Network,
    path: str | os.PathLike[str],
    *,
    weights: Mapping[str, Tensor] | None = None,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write a network to a safetensors file, whole or not at all.

    Parameters
    ----------
    network : Network
        Its name, hyperparameters and weights are stored.
    path : str or path
        File to write.
    weights : mapping of str to Tensor, optional
        State to store instead of the network's own ``state_dict()``.
    arrays : mapping of str to ndarray, optional
        Arrays to keep beside the weights, such as ``Phi``.
    about : mapping, optional
        Plain JSON to keep with it.
    """
    tensors = {f"weights/{key}": value for key, value in (weights or network.state_dict()).items()}
    tensors |= {f"arrays/{key}": torch.from_numpy(np.ascontiguousarray(value)) for key, value in (arrays or {}).items()}
    header = {
        "kind": "network",
        "network": network.name,
        "hyperparameters": network.hyperparameters,
        "about": dict(about or {}),
    }
    write(path, tensors, header)


def load(path: str | os.PathLike[str]) -> Model:
    """Read a network from a file written by :func:`save`.

    Parameters
    ----------
    path : str or path
        File to read. It may come from anybody: nothing in it is executed, and shapes are checked before memory is
        taken.

    Returns
    -------
    model : Model
    """
    tensors, header = read(path, "network")
    network = rebuild(path, tensors, header)
    if not isinstance(header.get("about"), dict):
        raise ValueError(f"cannot read {str(path)!r}: its header is damaged (about)")
    return Model(network, {key: value.numpy() for key, value in part(tensors, "arrays").items()}, header["about"])


def rebuild(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], header: Header) -> Network:
    """Make the network that a file describes and give it the file's weights."""
    from maxsparse.networks import create

    try:
        with torch.device("meta"):  # no memory yet: a hostile file may claim any width
            network = create(header["network"], **header["hyperparameters"])
        network.load_state_dict(part(tensors, "weights"), strict=True, assign=True)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{str(path)!r} does not describe a network that this version can make: {error}") from error
    for key, value in network.state_dict().items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise ValueError(f"{str(path)!r} is damaged: {key} holds NaN or infinite numbers")
    return network.eval()


def part(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Return the tensors under ``name/`` without that prefix."""
    return {key.removeprefix(f"{name}/"): value for key, value in tensors.items() if key.startswith(f"{name}/")}


def plain_number(value: Any) -> Any:
    """Return a number of numpy's as one that JSON can hold; for ``json.dumps(…, default=…)``."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"JSON cannot hold {type(value).__name__} objects such as {value!r}")


def write(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write tensors with a JSON header; an interrupted write leaves the previous file whole."""
    plain = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    total = _digest(plain)
    text = json.dumps(
        {"format": FORMAT, "version": __version__, **header, "sha256": total}, allow_nan=False, default=plain_number
    )
    content = to_bytes(plain, metadata={"maxsparse": text})
    with atomic_write(path) as stream:
        stream.write(content)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Tensor], Header]:
    """Read tensors and header of a file of that kind; say what is wrong with any other file."""
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"{str(source)!r} is not a file")
    try:
        with safe_open(source, framework="pt") as stream:
            metadata = stream.metadata() or {}
            tensors = {key: stream.get_tensor(key) for key in stream.keys()}  # noqa: SIM118  # not a mapping
    except Exception as error:  # whatever a damaged file makes a parser raise
        raise ValueError(f"cannot read {str(source)!r}: it is damaged or not a safetensors file ({error})") from error
    if "maxsparse" not in metadata:
        raise ValueError(f"cannot read {str(source)!r}: a safetensors file, but not one that maxsparse wrote")
    try:
        header = parse_json(metadata["maxsparse"])
        written, found = header["format"], header["kind"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"cannot read {str(source)!r}: its header is damaged ({error})") from error
    if written != FORMAT:
        raise ValueError(f"cannot read {str(source)!r}: format {written!r}, this version reads format {FORMAT}")
    if found != kind:
        raise ValueError(f"{str(source)!r} holds a {found}, not a {kind}")
    if "sha256" in header and header["sha256"] != _digest(tensors):
        raise ValueError(f"{str(source)!r} is damaged: its arrays are not those that were written (SHA-256)")
    return tensors, header


def _digest(tensors: Mapping[str, Tensor]) -> str:
    # numpy does not know every type that a tensor may have, but all of them are bytes.
    return digest({key: value.reshape(-1).view(torch.uint8).numpy() for key, value in tensors.items()})
