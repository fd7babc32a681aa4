"""The bundled weights, read once per process, and weights from a trained model file."""

from __future__ import annotations

import os
from functools import cache
from importlib import resources

from maxsparse._core import modelfile
from maxsparse.learned_sbl.spec import Weights, check_weights

__all__ = ["bundled_later", "bundled_weights", "read_weights"]


def bundled_weights() -> Weights:
    """Return the bundled weights of the first pass, trained on many random dictionaries."""
    return _bundled("learned_sbl")


def bundled_later() -> tuple[Weights, ...]:
    """Return the bundled weights of the later passes, each trained on signals that all earlier ones miss."""
    return _bundled("second_pass"), _bundled("third_pass")


@cache
def _bundled(name: str) -> Weights:
    with resources.as_file(resources.files(__name__) / f"{name}.safetensors") as path:
        return read_weights(path)


def read_weights(path: str | os.PathLike[str]) -> Weights:
    """Read and check weights: a bundled file, or a model file that a training command wrote."""
    file = modelfile.read(path, "network")
    if file.header.get("network") != "learned_sbl":
        raise ValueError(f"{file.source!r} does not hold weights of learned SBL")
    return check_weights(modelfile.part(file.arrays, "weights"), file.source)
