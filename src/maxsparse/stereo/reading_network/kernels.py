"""Compiled pieces of the network of ``auto``: features of a pixel, layers, weighted fit. All in float32."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import axpy_rows
from maxsparse.stereo.fitting.kernels import cofactors, moments

N_FEATURES = 12  # of a reading
N_SUMMARY = 3  # of a pixel in one round
F32 = np.float32


class Lights(NamedTuple):
    """The lights of a rig."""

    directions: NDArray[np.float32]  # (q, 3)
    half: NDArray[np.float32]  # (q, 3), halfway to the camera


class Pixels(NamedTuple):
    """B pixels, or one without the first axis: what the network is given, and its outputs."""

    readings: NDArray[np.float32]  # (B, q)
    lit: NDArray[np.float32]  # (B, q), 0 in shadow
    guess: NDArray[np.float32]  # (B, 3), normal times albedo
    logits: NDArray[np.float32]  # (B, q), changed in place
    out: NDArray[np.float32]  # (B, N_OUT)


@kernel(fast=True)
def features(
    pixel: Pixels,
    lights: Lights,
    scaled: NDArray[Any],
    axes: NDArray[Any],
    x: NDArray[Any],
    summary: NDArray[Any],
) -> None:
    """Write the features of every reading and of the pixel."""
    o, lit, logits = pixel.readings, pixel.lit, pixel.logits
    L, half = lights
    q = o.shape[0]
    total, misfit, bright = F32(0.0), F32(0.0), F32(0.0)
    for i in range(q):
        predicted = max(scaled[0] * L[i, 0] + scaled[1] * L[i, 1] + scaled[2] * L[i, 2], F32(0.0))
        weight = lit[i] / (F32(1.0) + np.exp(-logits[i]))
        total += weight
        misfit += weight * abs(o[i] - predicted)
        bright += lit[i]
        x[i, 0], x[i, 1] = min(o[i], F32(4.0)), np.log(o[i] + F32(0.02))
        x[i, 2], x[i, 3] = min(predicted, F32(4.0)), min(max(o[i] - predicted, F32(-2.0)), F32(2.0))
    spread = max(misfit / max(total, F32(1e-3)), F32(1e-4))
    for i in range(q):
        predicted = max(scaled[0] * L[i, 0] + scaled[1] * L[i, 1] + scaled[2] * L[i, 2], F32(0.0))
        x[i, 4] = np.tanh((o[i] - predicted) / (F32(3.0) * spread))
        for c in range(3):
            x[i, 5 + c] = axes[c, 0] * L[i, 0] + axes[c, 1] * L[i, 1] + axes[c, 2] * L[i, 2]
        x[i, 8] = axes[0, 0] * half[i, 0] + axes[0, 1] * half[i, 1] + axes[0, 2] * half[i, 2]
        x[i, 9], x[i, 10], x[i, 11] = axes[0, 2], lit[i], np.tanh(logits[i] / F32(4.0))
    summary[0], summary[1], summary[2] = bright / F32(q), np.log(spread) / F32(4.0), F32(q) / F32(50.0)


@kernel(fast=True)
def pool(h: NDArray[Any], lit: NDArray[Any], summary: NDArray[Any], pooled: NDArray[Any], parts: int) -> None:
    """Write mean, maximum and, for three parts, the mean over lit readings, then the summary."""
    q, width = h.shape
    bright = F32(0.0)
    for j in range(parts * width):
        pooled[j] = 0.0
    for j in range(width):
        pooled[width + j] = h[0, j]
    for i in range(q):
        bright += lit[i]
        for j in range(width):
            pooled[j] += h[i, j]
            pooled[width + j] = max(pooled[width + j], h[i, j])
        if parts == 3:
            for j in range(width):
                pooled[2 * width + j] += lit[i] * h[i, j]
    for j in range(width):
        pooled[j] /= F32(q)
        if parts == 3:
            pooled[2 * width + j] /= max(bright, F32(1.0))
    for c in range(N_SUMMARY):
        pooled[parts * width + c] = summary[c]


@kernel(fast=True)
def weighted_fit(
    o: NDArray[Any], L: NDArray[Any], logits: NDArray[Any], lit: NDArray[Any], weights: NDArray[Any], x: NDArray[Any]
) -> float:
    """Solve the weighted 3×3 system into x and return its length; `weights` is scratch."""
    for i in range(o.shape[0]):
        weights[i] = lit[i] / (F32(1.0) + np.exp(-logits[i])) + F32(1e-4)
    xx, xy, xz, yy, yz, zz, b0, b1, b2 = moments(o, L, weights)
    ridge = 1e-5 * (xx + yy + zz)
    xx, yy, zz = xx + ridge, yy + ridge, zz + ridge
    c00, c01, c02, c11, c12, c22, determinant = cofactors(xx, xy, xz, yy, yz, zz)
    determinant = max(determinant, 1e-12)
    x[0] = (c00 * b0 + c01 * b1 + c02 * b2) / determinant
    x[1] = (c01 * b0 + c11 * b1 + c12 * b2) / determinant
    x[2] = (c02 * b0 + c12 * b1 + c22 * b2) / determinant
    length: float = np.sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2])
    return length


@kernel(fast=True)
def frame(scaled: NDArray[Any], axes: NDArray[Any]) -> None:
    """Write n, the tangent that points to the camera, and n × that."""
    for c in range(3):
        axes[0, c] = scaled[c]
    unit(axes[0])
    along = axes[0, 2] + F32(1e-4) * axes[0, 1]
    axes[1, 0] = -along * axes[0, 0]
    axes[1, 1] = F32(1e-4) - along * axes[0, 1]
    axes[1, 2] = F32(1.0) - along * axes[0, 2]
    unit(axes[1])
    axes[2, 0] = axes[0, 1] * axes[1, 2] - axes[0, 2] * axes[1, 1]
    axes[2, 1] = axes[0, 2] * axes[1, 0] - axes[0, 0] * axes[1, 2]
    axes[2, 2] = axes[0, 0] * axes[1, 1] - axes[0, 1] * axes[1, 0]


@kernel(fast=True)
def affine_rows(X: NDArray[Any], W: NDArray[Any], b: NDArray[Any], out: NDArray[Any], floor: Any) -> None:
    """Set out = max(XW + b, floor), row by row and four rows of W at a time; no slices, which cost as much as a row."""
    rows, inner = X.shape
    width = W.shape[1]
    whole = inner - inner % 4
    for i in range(rows):
        for j in range(width):
            out[i, j] = b[j]
        for k in range(0, whole, 4):
            p, q, r, s = X[i, k], X[i, k + 1], X[i, k + 2], X[i, k + 3]
            for j in range(width):
                out[i, j] += (p * W[k, j] + q * W[k + 1, j]) + (r * W[k + 2, j] + s * W[k + 3, j])
        for k in range(whole, inner):
            p = X[i, k]
            for j in range(width):
                out[i, j] += p * W[k, j]
        for j in range(width):
            out[i, j] = max(out[i, j], floor)


@kernel(fast=True)
def affine(x: NDArray[Any], W: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None:
    """Set out = xW + b."""
    axpy_rows(x, W, 0, out.shape[0], out)
    for j in range(out.shape[0]):
        out[j] += b[j]


@kernel(fast=True)
def relu(x: NDArray[Any]) -> None:
    """Replace negative entries by zero, in place."""
    for j in range(x.shape[0]):
        x[j] = max(x[j], F32(0.0))


@kernel(fast=True)
def unit(x: NDArray[Any]) -> None:
    """Scale a vector of three to norm 1, in place."""
    size = max(np.sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]), F32(1e-6))
    for c in range(3):
        x[c] /= size
