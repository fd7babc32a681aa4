"""The network of ``auto`` compiled, one pixel at a time: no torch, little memory, bitwise identical in every batch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.threads import over_slices
from maxsparse.stereo.reading_network.kernels import (
    F32,
    N_FEATURES,
    N_SUMMARY,
    Lights,
    Pixels,
    affine,
    affine_rows,
    features,
    frame,
    pool,
    relu,
    unit,
    weighted_fit,
)
from maxsparse.stereo.reading_network.start import Start

__all__ = ["Answer", "average", "refine", "weights_of"]

N_OUT = 5  # normal, albedo, logarithm of the expected error


@dataclass(frozen=True, eq=False)
class Answer:
    """Output of the network for B pixels under q lights: normals (B, 3), albedo (B,), logits (B, q), log_error (B,)."""

    normals: NDArray[np.float32]
    albedo: NDArray[np.float32]
    logits: NDArray[np.float32]
    log_error: NDArray[np.float32]


def weights_of(
    tensors: Mapping[str, NDArray[np.float32]], rounds: int, width: int, state: int
) -> tuple[NDArray[np.float32], ...]:
    """Stack the weights of all rounds: for every layer (R, in, out) and (R, out).

    Tensors of other sizes or with NaN are refused: compiled code does not check array bounds.
    """
    sizes = {
        "look": (width, N_FEATURES + state),
        "context": (width, 2 * width + N_SUMMARY),
        "again": (width, width),
        "weigh": (1 + state, width),
        "gather": (width, 3 * width + N_SUMMARY),
        "correct": (3, width),
    }
    for r, (layer, size) in itertools.product(range(rounds), sizes.items()):
        for name, wanted in ((f"rounds.{r}.{layer}.weight", size), (f"rounds.{r}.{layer}.bias", size[:1])):
            if tensors[name].shape != wanted:
                raise ValueError(f"{name} has shape {tensors[name].shape}, not {wanted}")
            if not np.isfinite(tensors[name]).all():
                raise ValueError(f"{name} has NaN or infinite numbers")
    stacked: list[NDArray[np.float32]] = []
    for layer in sizes:
        stacked.append(np.stack([tensors[f"rounds.{r}.{layer}.weight"].T for r in range(rounds)]))
        stacked.append(np.stack([tensors[f"rounds.{r}.{layer}.bias"] for r in range(rounds)]))
    # A row of 16 fills the vector registers and one of 13 does not: loops over it run twice as fast.
    for place in (6, 7):
        short = -stacked[place].shape[-1] % 16
        stacked[place] = np.pad(stacked[place], [(0, 0)] * (stacked[place].ndim - 1) + [(0, short)])
    return tuple(np.ascontiguousarray(array, dtype=np.float32) for array in stacked)


def refine(start: Start, weights: tuple[NDArray[np.float32], ...]) -> Answer:
    """Run the network; the same function as :class:`maxsparse.stereo.reading_network.model.ReadingNetwork`.

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
    readings, guess = start.values / start.scale, start.normals / start.scale
    out = np.zeros((B, N_OUT), dtype=np.float32)
    pixels = Pixels(readings, start.lit, guess, start.logits.copy(), out)
    over_slices(_refine_rows, B, pixels, Lights(start.lights, half), weights)
    return Answer(out[:, :3], out[:, 3] * start.scale[:, 0], pixels.logits, out[:, 4])


def average(answers: Sequence[Answer]) -> Answer:
    """Average the answers of networks for the same pixels, by the inverse squares of the errors that each expects."""
    if len(answers) == 1:
        return answers[0]
    precision = np.stack([np.exp(-2.0 * answer.log_error) for answer in answers])
    share = precision / precision.sum(axis=0)  # (K, B)
    normals = (share[:, :, None] * np.stack([answer.normals for answer in answers])).sum(axis=0)
    return Answer(
        normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), np.float32(1e-6)),
        (share * np.stack([answer.albedo for answer in answers])).sum(axis=0),
        np.stack([answer.logits for answer in answers]).mean(axis=0),
        np.stack([answer.log_error for answer in answers]).mean(axis=0),
    )


@kernel()
def _refine_rows(piece: int, pieces: int, pixels: Pixels, lights: Lights, weights: Any) -> None:
    B, q = pixels.readings.shape
    width, state = weights[4].shape[1], weights[0].shape[1] - N_FEATURES
    x = np.empty((q, N_FEATURES + state), dtype=F32)
    h, again = np.empty((q, width), dtype=F32), np.empty((q, width), dtype=F32)
    weighed, trust = np.empty((q, weights[6].shape[2]), dtype=F32), np.empty(q, dtype=F32)
    for row in range(piece, B, pieces):
        scratch = (x, h, again, weighed, trust)
        o, lit, guess, logits, out = pixels
        pixel = Pixels(o[row], lit[row], guess[row], logits[row], out[row])
        _refine_one(pixel, lights, weights, scratch)


@kernel(fast=True)
def _refine_one(pixel: Pixels, lights: Lights, weights: Any, scratch: Any) -> None:
    """Refine one pixel; `out` gets the normal, the albedo and the logarithm of the expected error."""
    o, lit, guess, logits, out = pixel
    x, h, again, weighed, trust = scratch
    q, width = h.shape
    state = x.shape[1] - N_FEATURES
    axes = np.empty((3, 3), dtype=F32)
    summary = np.empty(N_SUMMARY, dtype=F32)
    pooled, context = np.empty(3 * width + N_SUMMARY, dtype=F32), np.empty(width, dtype=F32)
    gathered, correction = np.empty(width, dtype=F32), np.empty(3, dtype=F32)
    scaled = guess.copy()
    for i in range(q):
        for c in range(state):
            x[i, N_FEATURES + c] = 0.0
    for r in range(weights[0].shape[0]):
        frame(scaled, axes)
        features(pixel, lights, scaled, axes, x, summary)
        affine_rows(x, weights[0][r], weights[1][r], h, F32(0.0))
        pool(h, lit, summary, pooled, 2)
        affine(pooled[: 2 * width + N_SUMMARY], weights[2][r], weights[3][r], context)
        for j in range(width):
            context[j] += weights[5][r, j]
        affine_rows(h, weights[4][r], context, again, F32(0.0))
        affine_rows(again, weights[6][r], weights[7][r], weighed, F32(-np.inf))
        for i in range(q):
            logits[i] += weighed[i, 0]
            for c in range(state):
                x[i, N_FEATURES + c] = weighed[i, 1 + c]
        pool(again, lit, summary, pooled, 3)
        affine(pooled, weights[8][r], weights[9][r], gathered)
        relu(gathered)
        affine(gathered, weights[10][r], weights[11][r], correction)
        out[3] = weighted_fit(o, lights.directions, logits, lit, trust, scaled)
        for c in range(3):
            out[c] = scaled[c] / max(out[3], F32(1e-6)) + correction[0] * axes[1, c] + correction[1] * axes[2, c]
        unit(out[:3])
        for c in range(3):
            scaled[c] = out[c] * out[3]
    out[4] = correction[2] - F32(3.0)
