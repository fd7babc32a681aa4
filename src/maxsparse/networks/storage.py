"""Networks in model files: their weights as tensors, their name and hyperparameters in the header."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maxsparse._core import modelfile
from maxsparse._core.modelfile import part
from maxsparse.networks.network import Network

__all__ = ["Header", "Model", "load", "read", "save", "write"]

Header = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """Contents of a model file.

    Attributes
    ----------
    network : Network
        In evaluation mode, on the CPU.
    arrays : dict of ndarray
        Arrays stored with the weights; ``"Phi"`` for a network for one dictionary.
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
    half: bool = False,
) -> None:
    """Write a network to a safetensors file atomically.

    Parameters
    ----------
    network : Network
        Its name, hyperparameters and weights are stored.
    path : str or path
        File to write.
    weights : mapping of str to Tensor, optional
        State to store instead of the network's own ``state_dict()``.
    arrays : mapping of str to ndarray, optional
        Arrays to store with the weights, such as ``Phi``.
    about : mapping, optional
        Plain JSON to store with it.
    half : bool, default=False
        Store float32 matrices as float16; :func:`load` makes them float32 again. Half the size, weights rounded to 11
        bits.
    """
    state = weights or network.state_dict()
    if half:
        state = {k: v.half() if v.dtype == torch.float32 and v.ndim >= 2 else v for k, v in state.items()}
    tensors = {f"weights/{key}": value for key, value in state.items()}
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
        File to read. It may be untrusted: nothing in it is executed, and shapes are checked before memory is allocated.

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
    """Create the network that a file describes, with the file's weights."""
    from maxsparse.networks import create

    try:
        with torch.device("meta"):  # no memory yet: a hostile file may claim any width
            network = create(header["network"], **header["hyperparameters"])
        types = {key: value.dtype for key, value in network.state_dict().items()}
        weights = {
            key: value.to(types[key]) if value.dtype == torch.float16 and key in types else value
            for key, value in part(tensors, "weights").items()
        }
        network.load_state_dict(weights, strict=True, assign=True)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{str(path)!r} does not describe a network of this version: {reason}") from error
    for key, value in network.state_dict().items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise ValueError(f"{str(path)!r} is damaged: {key} holds NaN or infinite numbers")
    return network.eval()


def write(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], header: Header) -> None:
    """Write tensors with a JSON header that has a ``kind``; after an interrupted write the previous file is intact."""
    modelfile.write(path, {key: value.detach().cpu().numpy() for key, value in tensors.items()}, header)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Tensor], Header]:
    """Read tensors and header of a file of that kind; any other file raises a clear ValueError."""
    file = modelfile.read(path, kind)
    try:
        return {key: torch.from_numpy(array) for key, array in file.arrays.items()}, file.header
    except TypeError as error:  # a number type that torch does not support
        raise ValueError(f"cannot read {file.source!r}: {' '.join(str(error).split())}") from error
