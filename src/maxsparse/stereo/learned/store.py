"""The network's file: safetensors with its sizes as checked metadata, never pickle."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maxsparse.files import atomic_write
from maxsparse.stereo.learned.forward import weights_of

if TYPE_CHECKING:
    from maxsparse.stereo.learned.model import ReadingNetwork

__all__ = ["bundled_path", "bundled_weights", "load_network", "read_once", "save_network"]

FORMAT = "maxsparse-reading-network-1"
SIZES = ("rounds", "width", "state")


def save_network(network: ReadingNetwork, path: str | os.PathLike[str]) -> None:
    """Write the weights, whole or not at all.

    Parameters
    ----------
    network : ReadingNetwork
    path : str or path
    """
    from safetensors.torch import save

    metadata = {"format": FORMAT, **{name: str(network.sizes[name]) for name in SIZES}}
    tensors = {name: tensor.detach().contiguous() for name, tensor in network.state_dict().items()}
    with atomic_write(path) as stream:
        stream.write(save(tensors, metadata))


def load_network(path: str | os.PathLike[str]) -> ReadingNetwork:
    """Read a network written by :func:`save_network`, for training.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    network : ReadingNetwork
        In evaluation mode.
    """
    import torch

    from maxsparse.stereo.learned.model import ReadingNetwork

    arrays, sizes = _read(path)
    network = ReadingNetwork(**sizes)
    try:
        network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    except RuntimeError as error:
        raise ValueError(f"cannot read {os.fspath(path)!r}: {error}") from error
    return network.eval()


def load_weights(path: str | os.PathLike[str]) -> tuple[NDArray[np.float32], ...]:
    """Read the weights of a network as the compiled code wants them; torch is not needed."""
    arrays, sizes = _read(path)
    try:
        return weights_of(arrays, sizes["rounds"])
    except (KeyError, ValueError) as error:
        raise ValueError(f"cannot read {os.fspath(path)!r}: {error}") from error


def bundled_path() -> Path:
    """Return where the weights that come with the package are, or would be."""
    return Path(str(resources.files("maxsparse.stereo.learned") / "weights.safetensors"))


@lru_cache(maxsize=1)
def bundled_weights() -> tuple[NDArray[np.float32], ...] | None:
    """Return the weights that come with the package, None where they were left out."""
    return load_weights(bundled_path()) if bundled_path().is_file() else None


def read_once(path: str | os.PathLike[str]) -> tuple[NDArray[np.float32], ...]:
    """Read weights as :func:`load_weights` does, once per version of the file."""
    try:
        changed = Path(path).stat().st_mtime_ns
    except OSError as error:
        raise ValueError(f"cannot read the model {os.fspath(path)!r}: {error.strerror}") from error
    return _weights_at(os.fspath(path), changed)


@lru_cache(maxsize=4)
def _weights_at(path: str, changed: int) -> tuple[NDArray[np.float32], ...]:
    return load_weights(path)


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[np.float32]], dict[str, int]]:
    from safetensors import safe_open

    try:
        with safe_open(os.fspath(path), framework="np") as stream:
            metadata = stream.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ValueError(f"{os.fspath(path)!r} is no network of photometric stereo")
            sizes = {name: int(metadata[name]) for name in SIZES}
            if not all(1 <= size <= 1024 for size in sizes.values()):
                raise ValueError(f"{os.fspath(path)!r} claims the sizes {sizes}, which are not credible")
            return {name: stream.get_tensor(name) for name in stream.keys()}, sizes  # noqa: SIM118
    except Exception as error:  # whatever a damaged file makes a parser raise
        raise ValueError(f"cannot read {os.fspath(path)!r}: {error}") from error
