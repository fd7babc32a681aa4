"""The network's file: safetensors with its sizes as checked metadata, never pickle."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from maxsparse.files import atomic_write
from maxsparse.stereo.learned.model import ReadingNetwork

__all__ = ["bundled_network", "load_network", "save_network"]

FORMAT = "maxsparse-reading-network-1"
BUNDLED = "weights.safetensors"
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
    """Read a network written by :func:`save_network`.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    network : ReadingNetwork
        In evaluation mode.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(os.fspath(path), framework="pt") as stream:
            metadata = stream.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ValueError(f"{os.fspath(path)!r} is no network of photometric stereo")
            sizes = {name: int(metadata[name]) for name in SIZES}
            if not all(1 <= size <= 1024 for size in sizes.values()):
                raise ValueError(f"{os.fspath(path)!r} claims the sizes {sizes}, which are not credible")
            network = ReadingNetwork(**sizes)
            network.load_state_dict({name: stream.get_tensor(name) for name in stream.keys()})  # noqa: SIM118
    except (SafetensorError, KeyError, RuntimeError) as error:
        raise ValueError(f"cannot read {os.fspath(path)!r}: {error}") from error
    return network.eval()


def bundled_network() -> ReadingNetwork | None:
    """Return the network that comes with the package, None where it was left out."""
    path = Path(str(resources.files("maxsparse.stereo.learned") / BUNDLED))
    return load_network(path) if path.is_file() else None
