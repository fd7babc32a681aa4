"""The network's file: the common model format, or the older one of the bundled weights; no pickle."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.extras import needs
from maxsparse._core.validation import check_integer
from maxsparse.files import parse_json
from maxsparse.stereo.learned.forward import weights_of

if TYPE_CHECKING:
    from maxsparse.stereo.learned.model import ReadingNetwork

__all__ = ["bundled_path", "bundled_weights", "load_network", "read_once", "save_network"]

FORMAT = "maxsparse-reading-network-1"
SIZES = ("rounds", "width", "state")
LARGEST = 1024  # of each of them


def save_network(network: ReadingNetwork, path: str | os.PathLike[str]) -> None:
    """Write the weights atomically.

    Parameters
    ----------
    network : ReadingNetwork
    path : str or path
    """
    from maxsparse.networks import save

    save(network, path)


def load_network(path: str | os.PathLike[str]) -> ReadingNetwork:
    """Read a network written by :func:`save_network` or by a training run, to continue training.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    network : ReadingNetwork
        In evaluation mode.
    """
    with needs("training"):
        import torch

    from maxsparse.stereo.learned.model import ReadingNetwork

    arrays, sizes = _read(path)
    try:
        network = ReadingNetwork(**sizes)
        network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"cannot read {os.fspath(path)!r}: {error}") from error
    return network.eval()


def load_weights(path: str | os.PathLike[str]) -> tuple[NDArray[np.float32], ...]:
    """Read the weights in the form for compiled code; torch is not needed."""
    arrays, sizes = _read(path)
    try:
        return weights_of(arrays, **sizes)
    except (KeyError, ValueError) as error:
        raise ValueError(f"cannot read {os.fspath(path)!r}: {error}") from error


def bundled_path() -> Path:
    """Return the path of the bundled weights, whether the file exists or not."""
    return Path(str(resources.files("maxsparse.stereo.learned") / "weights.safetensors"))


@lru_cache(maxsize=1)
def bundled_weights() -> tuple[NDArray[np.float32], ...] | None:
    """Return the bundled weights, None if the file is missing."""
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
            if (found := _sizes(metadata)) is None:
                raise ValueError(f"{os.fspath(path)!r} is not a network for photometric stereo")
            sizes = {name: check_integer(int(found[name]), name, low=1, high=LARGEST) for name in SIZES}
            names = [name for name in stream.keys() if not name.startswith("arrays/")]  # noqa: SIM118
            return {name.removeprefix("weights/"): stream.get_tensor(name) for name in names}, sizes
    except Exception as error:  # parsers raise anything for a damaged file
        raise ValueError(f"cannot read {os.fspath(path)!r}: {error}") from error


def _sizes(metadata: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return the sizes: from the metadata in the bundled and older files, else from the model header."""
    if metadata.get("format") == FORMAT:
        return metadata
    header = parse_json(metadata.get("maxsparse", "null"))
    if isinstance(header, dict) and (header.get("kind"), header.get("network")) == ("network", "reading"):
        return dict(header["hyperparameters"])
    return None
