"""Definition of learned SBL: its weights, their names and shapes, and the constants of every forward pass.

The network is implemented three times: in torch for training (``model``), compiled for inference (``kernels``), as an
ONNX graph for export (``onnx``). All use the constants defined here; tests compare them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["NAMES", "Weights", "as_arrays", "check_weights"]

ITERATIONS = 16
FEATURES = 4  # of an atom: log γ, log u², log q, γq
SCALE = 0.2  # scales logarithms for the perceptron's initial weights
TINY = 1e-8  # added to u² and q before their logarithm is taken
LOG_FLOOR = -16.0  # of log γ: below it an atom cannot become active again in float32
EARLIER = 8.0  # logits of an earlier pass are divided by this, and clipped at 1
HEAD_START = 16  # plain EM iterations before the learned ones
HEAD_LAMBDA = 1e-5  # their λ
MOST_LOG_LAMBDA = 40.0


class Weights(NamedTuple):
    """Weights of a network, each C-contiguous float32."""

    first: NDArray[np.float32]  # (hidden, features + state + heads)
    context: NDArray[np.float32]  # (hidden, features + state + 1)
    moment: NDArray[np.float32]  # (iterations, hidden)
    last: NDArray[np.float32]  # (2 + state + heads, hidden)
    last_bias: NDArray[np.float32]  # (2 + state + heads,)
    log_lambda: NDArray[np.float32]  # (iterations,)


# Names of the arrays in a file, in the order of the fields of Weights.
NAMES = ("first.weight", "context.weight", "moment", "last.weight", "last.bias", "log_lambda")


def check_weights(tensors: Mapping[str, NDArray[Any]], source: str) -> Weights:
    """Return named arrays as Weights, if their shapes fit together and every number is finite."""
    missing = [name for name in NAMES if name not in tensors]
    if missing:
        raise ValueError(f"{source!r} lacks the weights {', '.join(missing)}")
    weights = Weights(*(np.ascontiguousarray(tensors[name], dtype=np.float32) for name in NAMES))
    if weights.first.ndim != 2 or weights.moment.ndim != 2:
        raise ValueError(f"{source!r}: weights must be matrices")
    (hidden, inputs), seen, T = weights.first.shape, weights.context.shape[-1] - 1, weights.moment.shape[0]
    if not FEATURES < seen <= inputs:
        raise ValueError(f"{source!r}: {inputs} inputs per atom do not fit {seen} inputs averaged over atoms")
    outputs = inputs - FEATURES + 2
    shapes = ((hidden, inputs), (hidden, seen + 1), (T, hidden), (outputs, hidden), (outputs,), (T,))
    for name, array, shape in zip(NAMES, weights, shapes, strict=True):
        if array.shape != shape or 0 in shape:
            raise ValueError(f"{source!r}: {name} has shape {array.shape}, but the others need {shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{source!r}: {name} holds numbers that are not finite")
    if np.abs(weights.log_lambda).max() > MOST_LOG_LAMBDA:
        raise ValueError(f"{source!r}: log_lambda must be within ±{MOST_LOG_LAMBDA:g}")
    return weights


def as_arrays(weights: Weights) -> dict[str, NDArray[np.float32]]:
    """Return weights by their names in a file."""
    return dict(zip(NAMES, weights, strict=True))
