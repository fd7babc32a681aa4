"""The network's file: the model file of every network here, read without torch where only its numbers are needed."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxsparse.stereo.learned.forward import weights_of

if TYPE_CHECKING:
    from maxsparse.stereo.learned.model import ReadingNetwork

__all__ = ["bundled_path", "bundled_weights", "load_network", "load_weights", "save_network"]

SIZES = ("rounds", "width", "state", "mind")


def save_network(network: ReadingNetwork, path: str | os.PathLike[str], *, about: dict[str, Any] | None = None) -> None:
    """Write the weights, whole or not at all.

    Parameters
    ----------
    network : ReadingNetwork
    path : str or path
    about : dict or None, default=None
        Plain JSON to keep with it; training leaves its seed, settings and history here.
    """
    from maxsparse.networks import save

    save(network, path, about=about)


def load_network(path: str | os.PathLike[str]) -> ReadingNetwork:
    """Read a network written by :func:`save_network` or by training.

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


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[np.float32]], dict[str, int]]:
    from safetensors import SafetensorError, safe_open

    name = os.fspath(path)
    try:
        with safe_open(name, framework="np") as stream:
            header = json.loads((stream.metadata() or {}).get("maxsparse", "{}"))
            if header.get("network") != "reading":
                raise ValueError(f"{name!r} is no network of photometric stereo")
            sizes = {size: int(header["hyperparameters"][size]) for size in SIZES}
            if not all(1 <= size <= 1024 for size in sizes.values()):
                raise ValueError(f"{name!r} claims the sizes {sizes}, which are not credible")
            keys = [key for key in stream.keys() if key.startswith("weights/")]  # noqa: SIM118  # not a mapping
            return {key.removeprefix("weights/"): stream.get_tensor(key) for key in keys}, sizes
    except (SafetensorError, json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"cannot read {name!r}: {error}") from error
