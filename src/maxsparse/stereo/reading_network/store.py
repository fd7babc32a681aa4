"""The network's model file, for training and for compiled code."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maxsparse._core import modelfile
from maxsparse._core.extras import needs
from maxsparse._core.validation import check_integer
from maxsparse.stereo.reading_network.forward import weights_of

if TYPE_CHECKING:
    from maxsparse.stereo.reading_network.model import ReadingNetwork

__all__ = ["bundled_digest", "bundled_paths", "bundled_weights", "load_network", "read_once", "save_network"]

BUNDLED = ("weights_64.safetensors", "weights_48.safetensors")  # the first one is fine-tuned to rigs
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

    from maxsparse.stereo.reading_network.model import ReadingNetwork

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


def bundled_paths() -> list[Path]:
    """Return the files of the bundled networks, those to fine-tune first; empty in a package without weights."""
    folder = resources.files("maxsparse.stereo.reading_network")
    return [path for path in (Path(str(folder / name)) for name in BUNDLED) if path.is_file()]


def bundled_digest() -> str:
    """Return a hash of the bundled weights, the empty string if there are none."""
    contents = b"".join(path.read_bytes() for path in bundled_paths())
    return hashlib.sha256(contents).hexdigest() if contents else ""


@lru_cache(maxsize=1)
def bundled_weights() -> list[tuple[NDArray[np.float32], ...]]:
    """Return the weights of the bundled networks."""
    return [load_weights(path) for path in bundled_paths()]


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
    try:
        file = modelfile.read(path, "network")
        if file.header.get("network") != "reading":
            raise ValueError("it is not a network for photometric stereo")
        sizes = {name: check_integer(file.header["hyperparameters"][name], name, low=1, high=LARGEST) for name in SIZES}
    except (KeyError, TypeError, ValueError, FileNotFoundError) as error:
        raise ValueError(f"cannot read {os.fspath(path)!r}: {error}") from error
    return modelfile.part(file.arrays, "weights"), sizes
