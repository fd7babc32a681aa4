"""Checkpoints: everything to resume a run bitwise identically, in one safetensors file with a JSON header."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maxsparse._core.modelfile import part
from maxsparse.networks.network import Network
from maxsparse.networks.storage import Header, read, write

__all__ = ["checkpoint_path", "read_checkpoint", "restore_generators", "restore_optimiser", "write_checkpoint"]


def checkpoint_path(output: str | os.PathLike[str]) -> Path:
    """Return the path of the checkpoint of a run that writes the model `output`."""
    path = Path(output)
    return path.with_name(f"{path.name.removesuffix('.safetensors')}.checkpoint.safetensors")


def write_checkpoint(
    path: str | os.PathLike[str],
    network: Network,
    optimiser: torch.optim.Optimizer,
    *,
    tensors: Mapping[str, Tensor],
    run: Mapping[str, Any],
) -> None:
    """Write the state of a run atomically.

    Parameters
    ----------
    path : str or path
        File to write.
    network : Network
        The weights in training.
    optimiser : torch.optim.Optimizer
        Its tensors and plain settings are stored separately.
    tensors : mapping of str to Tensor
        Other state of the run, by name.
    run : mapping
        Plain JSON: task, settings, budget, position, history.
    """
    state = optimiser.state_dict()
    stored = {**tensors, **{f"weights/{key}": value for key, value in network.state_dict().items()}}
    plain: dict[str, dict[str, Any]] = {}
    for index, values in state["state"].items():
        for key, value in values.items():
            if isinstance(value, Tensor):
                stored[f"optimiser/{index}/{key}"] = value
            else:
                plain.setdefault(str(index), {})[key] = value
    stored["generator/cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        stored["generator/cuda"] = torch.cuda.get_rng_state()
    header = {
        "kind": "checkpoint",
        "network": network.name,
        "hyperparameters": network.hyperparameters,
        "optimiser": {"param_groups": state["param_groups"], "state": plain},
        "run": dict(run),
    }
    write(path, stored, header)


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], Header]:
    """Read a file of :func:`write_checkpoint`; any other file raises a ValueError with the reason."""
    tensors, header = read(path, "checkpoint")
    missing = {"network", "hyperparameters", "optimiser", "run"} - header.keys()
    if missing or not isinstance(header["run"], dict):
        raise ValueError(f"cannot read {str(path)!r}: its header lacks {', '.join(sorted(missing)) or 'a run'}")
    return tensors, header


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor], header: Header) -> None:
    """Restore the state of the optimiser from a checkpoint."""
    stored = header["optimiser"]
    state: dict[int, dict[str, Any]] = {int(index): dict(values) for index, values in stored["state"].items()}
    for name, value in part(tensors, "optimiser").items():
        index, _, key = name.partition("/")
        state.setdefault(int(index), {})[key] = value
    optimiser.load_state_dict({"state": state, "param_groups": stored["param_groups"]})


def restore_generators(tensors: Mapping[str, Tensor]) -> None:
    """Restore torch's random generators from a checkpoint."""
    generators = part(tensors, "generator")
    torch.set_rng_state(generators["cpu"])
    if "cuda" in generators and torch.cuda.is_available():
        torch.cuda.set_rng_state(generators["cuda"])
