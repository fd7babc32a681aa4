"""The network of ``auto``, compiled: no torch, little memory, and for a pixel the same bits in every batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from maxsparse.stereo.learned._kernels import (
    F32,
    N_FEATURES,
    N_SUMMARY,
    affine_block,
    affine_rows,
    directions,
    features,
    frame,
    pool,
    unit,
    weighted_fit,
)
from maxsparse.stereo.learned.start import Start
from maxsparse.stereo.methods._kernels import FAST, SLICES

__all__ = ["Answer", "refine", "weights_of"]

N_OUT = 5  # normal, albedo, logarithm of the expected error
BLOCK = 8  # pixels that think together, so that the weights are read from memory once for all of them
LAYERS = ("look", "gather", "think", "context", "again", "weigh", "regather", "rethink", "correct")


@dataclass(frozen=True, eq=False)
class Answer:
    """What the network says of B pixels under q lights: normals (B, 3), albedo (B,), logits (B, q), log_error (B,)."""

    normals: NDArray[np.float32]
    albedo: NDArray[np.float32]
    logits: NDArray[np.float32]
    log_error: NDArray[np.float32]


def weights_of(tensors: Mapping[str, NDArray[np.float32]], rounds: int) -> tuple[NDArray[np.float32], ...]:
    """Stack the weights of all rounds: for every layer (R, in, out) and (R, out)."""
    stacked: list[NDArray[np.float32]] = []
    for layer in LAYERS:
        stacked.append(np.stack([tensors[f"rounds.{r}.{layer}.weight"].T for r in range(rounds)]))
        stacked.append(np.stack([tensors[f"rounds.{r}.{layer}.bias"] for r in range(rounds)]))
    # A row of 16 fills whole vector registers where one of 13 does not: the loops over it run twice as fast.
    for place in (10, 11):
        short = -stacked[place].shape[-1] % 16
        stacked[place] = np.pad(stacked[place], [(0, 0)] * (stacked[place].ndim - 1) + [(0, short)])
    return tuple(np.ascontiguousarray(array, dtype=np.float32) for array in stacked)


def refine(start: Start, weights: tuple[NDArray[np.float32], ...]) -> Answer:
    """Run the network; the same function as :class:`maxsparse.stereo.learned.model.ReadingNetwork`.

    Parameters
    ----------
    start : Start
        From :func:`first_guess`, as arrays.
    weights : tuple of ndarray
        From :func:`weights_of`.

    Returns
    -------
    answer : Answer
    """
    B = len(start.values)
    half = start.lights + np.array([0, 0, 1], dtype=np.float32)
    half /= np.maximum(np.linalg.norm(half, axis=1, keepdims=True), 1e-6)
    o = start.values / start.scale
    guess = start.normals / start.scale
    out = np.zeros((B, N_OUT), dtype=np.float32)
    logits = start.logits.copy()
    _refine_rows(o, start.lights, half, guess, start.lit, weights, logits, out)
    return Answer(out[:, :3], out[:, 3] * start.scale[:, 0], logits, out[:, 4])


@njit(cache=True, nogil=True, parallel=True)
def _refine_rows(
    o: NDArray[Any],
    L: NDArray[Any],
    half: NDArray[Any],
    guess: NDArray[Any],
    lit: NDArray[Any],
    weights: Any,
    logits: NDArray[Any],
    out: NDArray[Any],
) -> None:
    B, q = o.shape
    width, state, mind = weights[8].shape[1], weights[0].shape[1] - N_FEATURES, weights[4].shape[1]
    blocks = (B + BLOCK - 1) // BLOCK
    for piece in prange(min(blocks, SLICES)):
        x = np.empty((BLOCK, q, N_FEATURES + state), dtype=F32)
        h, again = np.empty((BLOCK, q, width), dtype=F32), np.empty((q, width), dtype=F32)
        weighed = np.empty((q, weights[10].shape[2]), dtype=F32)
        pooled = np.empty((BLOCK, 3 * width + N_SUMMARY + mind), dtype=F32)
        thought, minds = np.empty((BLOCK, mind), dtype=F32), np.empty((BLOCK, mind), dtype=F32)
        for block in range(piece, blocks, SLICES):
            low, high = block * BLOCK, min(block * BLOCK + BLOCK, B)
            scratch = (x, h, again, weighed, pooled, thought, minds)
            _refine_block(
                o[low:high], L, half, guess[low:high], lit[low:high], weights, scratch, logits[low:high], out[low:high]
            )


@njit(cache=True, nogil=True, fastmath=FAST)
def _refine_block(
    o: NDArray[Any],
    L: NDArray[Any],
    half: NDArray[Any],
    guess: NDArray[Any],
    lit: NDArray[Any],
    weights: Any,
    scratch: Any,
    logits: NDArray[Any],
    out: NDArray[Any],
) -> None:
    """Refine a few pixels; `out` gets the normal, the albedo and the logarithm of the expected error."""
    x, h, again, weighed, pooled, thought, minds = scratch
    (B, q), width, mind = o.shape, h.shape[2], minds.shape[1]
    state = x.shape[2] - N_FEATURES
    axes = np.empty((BLOCK, 3, 3), dtype=F32)
    summary, context = np.empty((BLOCK, N_SUMMARY), dtype=F32), np.empty((BLOCK, width), dtype=F32)
    correction = np.empty((BLOCK, 3), dtype=F32)
    scaled, seen = guess.copy(), np.empty((BLOCK, 3, 3), dtype=F32)
    for p in range(B):
        directions(o[p], half, guess[p], seen[p])
    x[:, :, N_FEATURES:] = 0.0
    minds[:] = 0.0
    for t in range(weights[0].shape[0]):
        for p in range(B):
            frame(scaled[p], axes[p])
            features(o[p], L, half, scaled[p], axes[p], seen[p], logits[p], lit[p], x[p], summary[p])
            affine_rows(x[p], weights[0][t], weights[1][t], h[p], F32(0.0))
            pool(h[p], lit[p], summary[p], minds[p], pooled[p], 2)
        affine_block(pooled, weights[2][t], weights[3][t], thought, B, 2 * width + N_SUMMARY + mind, F32(0.0))
        _think(thought, weights[4][t], weights[5][t], B, minds)
        affine_block(thought, weights[6][t], weights[7][t], context, B, mind, F32(-np.inf))
        for p in range(B):
            affine_rows(h[p], weights[8][t], context[p] + weights[9][t], again, F32(0.0))
            affine_rows(again, weights[10][t], weights[11][t], weighed, F32(-np.inf))
            for i in range(q):
                logits[p, i] += weighed[i, 0]
                for c in range(state):
                    x[p, i, N_FEATURES + c] = weighed[i, 1 + c]
            pool(again, lit[p], summary[p], minds[p], pooled[p], 3)
        affine_block(pooled, weights[12][t], weights[13][t], thought, B, 3 * width + N_SUMMARY + mind, F32(0.0))
        _think(thought, weights[14][t], weights[15][t], B, minds)
        affine_block(thought, weights[16][t], weights[17][t], correction, B, mind, F32(-np.inf))
        for p in range(B):
            _correct(o[p], L, logits[p], lit[p], axes[p], correction[p], scaled[p], out[p])


@njit(cache=True, nogil=True, fastmath=FAST)
def _think(thought: NDArray[Any], W: NDArray[Any], b: NDArray[Any], rows: int, minds: NDArray[Any]) -> None:
    """Add a layer's answer to the pixels' states; what is above zero of the new states is left in `thought`."""
    change = np.empty_like(thought)
    affine_block(thought, W, b, change, rows, thought.shape[1], F32(-np.inf))
    for p in range(rows):
        for j in range(minds.shape[1]):
            minds[p, j] += change[p, j]
            thought[p, j] = max(minds[p, j], F32(0.0))


@njit(cache=True, nogil=True, fastmath=FAST)
def _correct(
    o: NDArray[Any],
    L: NDArray[Any],
    logits: NDArray[Any],
    lit: NDArray[Any],
    axes: NDArray[Any],
    correction: NDArray[Any],
    scaled: NDArray[Any],
    out: NDArray[Any],
) -> None:
    """Fit with the weights of this round, and turn the normal by the correction."""
    out[3] = weighted_fit(o, L, logits, lit, scaled)
    for c in range(3):
        out[c] = scaled[c] / max(out[3], F32(1e-6)) + correction[0] * axes[1, c] + correction[1] * axes[2, c]
    unit(out[:3])
    for c in range(3):
        scaled[c] = out[c] * out[3]
    out[4] = correction[2] - F32(3.0)
