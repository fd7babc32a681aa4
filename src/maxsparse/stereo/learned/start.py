"""Where the network starts: the consensus fit, and the scale that makes readings comparable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from maxsparse._validation import FloatArray
from maxsparse.stereo.methods._fit import Fit
from maxsparse.stereo.methods.consensus import SHADOW_SHARE, consensus, lit_level

__all__ = ["Start", "first_guess"]

CERTAIN = 3.0  # log odds that an inlier of the consensus fit starts with


@dataclass(frozen=True)
class Start:
    """Tensors that the network starts from, float32.

    Attributes
    ----------
    values : tensor of shape (B, q)
        Readings.
    lights : tensor of shape (q, 3)
    normals : tensor of shape (B, 3)
        Consensus normals, scaled by the albedo.
    logits : tensor of shape (B, q)
        Log odds that a reading is an inlier.
    scale : tensor of shape (B, 1)
        A typical lit reading, positive.
    lit : tensor of shape (B, q)
        1 for readings above the shadow level, else 0.
    """

    values: Tensor
    lights: Tensor
    normals: Tensor
    logits: Tensor
    scale: Tensor
    lit: Tensor


def first_guess(readings: FloatArray, lights: FloatArray) -> tuple[Start, Fit]:
    """Fit by consensus and lay out what the network sees; readings (B, q), lights (q, 3)."""
    guess = consensus(readings, lights)
    level = lit_level(readings)
    lit = readings > level[:, None]
    mean = (readings * lit).sum(1) / np.maximum(lit.sum(1), 1)
    # A highlight lifts the mean; the upper quartile behind the shadow level does not feel it.
    scale = np.where(level > 0, np.minimum(mean, level / SHADOW_SHARE), mean)
    scale = np.where(scale > 0, scale, 1.0)
    scaled = guess.normals * guess.albedo[:, None]
    logits = np.where(guess.inliers, CERTAIN, -CERTAIN)
    return Start(
        torch.as_tensor(readings, dtype=torch.float32),
        torch.as_tensor(lights, dtype=torch.float32),
        *(torch.as_tensor(np.ascontiguousarray(a), dtype=torch.float32) for a in (scaled, logits, scale[:, None], lit)),
    ), guess
