"""Where the network starts: the consensus fit, and the scale that makes readings comparable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxsparse._core.validation import FloatArray
from maxsparse.stereo.fitting.consensus import SHADOW_SHARE, consensus, lit_level
from maxsparse.stereo.fitting.fit import Fit

__all__ = ["Start", "first_guess"]

CERTAIN = 3.0  # log odds that an inlier of the consensus fit starts with


@dataclass(frozen=True)
class Start:
    """Input of the network: float32 arrays, or tensors for training.

    Attributes
    ----------
    values : array of shape (B, q)
        Readings.
    lights : array of shape (q, 3)
    normals : array of shape (B, 3)
        Consensus normals, scaled by the albedo.
    logits : array of shape (B, q)
        Log odds that a reading is an inlier.
    scale : array of shape (B, 1)
        A typical lit reading, positive.
    lit : array of shape (B, q)
        1 for readings above the shadow level, else 0.
    """

    values: Any
    lights: Any
    normals: Any
    logits: Any
    scale: Any
    lit: Any

    def tensors(self) -> Start:
        """Return torch tensors that share the memory."""
        import torch

        return Start(**{name: torch.from_numpy(value) for name, value in vars(self).items()})


def first_guess(readings: FloatArray, lights: FloatArray) -> tuple[Start, Fit]:
    """Fit by consensus and return the network's input; readings (B, q), lights (q, 3)."""
    # A subtracted dark frame leaves shadows slightly below zero; the network was not trained on such readings.
    readings = np.maximum(readings, 0.0)
    guess = consensus(readings, lights)
    level = lit_level(readings)
    lit = readings > level[:, None]
    mean = (readings * lit).sum(1) / np.maximum(lit.sum(1), 1)
    # A highlight raises the mean, but not the upper quartile behind the shadow level.
    scale = np.where(level > 0, np.minimum(mean, level / SHADOW_SHARE), mean)
    scale = np.where(scale > 0, scale, 1.0)
    scaled = guess.normals * guess.albedo[:, None]
    logits = np.where(guess.inliers, CERTAIN, -CERTAIN)
    parts = (readings, lights, scaled, logits, scale[:, None], lit)
    return Start(*(np.ascontiguousarray(part, dtype=np.float32) for part in parts)), guess
