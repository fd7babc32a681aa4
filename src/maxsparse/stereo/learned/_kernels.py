"""Compiled pieces of the network of ``auto``: what it sees of a pixel, its layers, its weighted fit. All in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from maxsparse.stereo.methods._kernels import FAST

N_FEATURES = 13  # of a reading
N_SUMMARY = 9  # of a pixel in one round
F32 = np.float32


@njit(cache=True, nogil=True, fastmath=FAST)
def features(
    o: NDArray[Any],
    L: NDArray[Any],
    half: NDArray[Any],
    scaled: NDArray[Any],
    axes: NDArray[Any],
    seen: NDArray[Any],
    logits: NDArray[Any],
    lit: NDArray[Any],
    x: NDArray[Any],
    summary: NDArray[Any],
) -> None:
    """Write what the network sees of every reading and of the pixel, which has the directions `seen`."""
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
        x[i, 12] = x[i, 1] - np.log(predicted + F32(0.02))
    spread = max(misfit / max(total, F32(1e-3)), F32(1e-4))
    for i in range(q):
        predicted = max(scaled[0] * L[i, 0] + scaled[1] * L[i, 1] + scaled[2] * L[i, 2], F32(0.0))
        x[i, 4] = np.tanh((o[i] - predicted) / (F32(3.0) * spread))
        for c in range(3):
            x[i, 5 + c] = axes[c, 0] * L[i, 0] + axes[c, 1] * L[i, 1] + axes[c, 2] * L[i, 2]
        x[i, 8] = axes[0, 0] * half[i, 0] + axes[0, 1] * half[i, 1] + axes[0, 2] * half[i, 2]
        x[i, 9], x[i, 10], x[i, 11] = axes[0, 2], lit[i], np.tanh(logits[i] / F32(4.0))
    summary[0], summary[1], summary[2] = bright / F32(q), np.log(spread) / F32(4.0), np.log(F32(q)) / F32(4.0)
    for d in range(3):
        for c in range(2):
            along = axes[1 + c, 0] * seen[d, 0] + axes[1 + c, 1] * seen[d, 1] + axes[1 + c, 2] * seen[d, 2]
            summary[3 + 2 * d + c] = along


@njit(cache=True, nogil=True, fastmath=FAST)
def directions(o: NDArray[Any], half: NDArray[Any], guess: NDArray[Any], seen: NDArray[Any]) -> None:
    """Write the first normal, and where readings grow and peak as means of half vectors, into `seen` (3, 3)."""
    q = o.shape[0]
    mean, size, total = F32(0.0), F32(0.0), F32(0.0)
    for i in range(q):
        mean += o[i] / F32(q)
    for c in range(3):
        seen[0, c], seen[1, c], seen[2, c] = guess[c], F32(0.0), F32(0.0)
    unit(seen[0])
    for i in range(q):
        above, high = o[i] - mean, min(o[i], F32(4.0)) ** 4
        size += abs(above)
        total += high
        for c in range(3):
            seen[1, c] += above * half[i, c]
            seen[2, c] += high * half[i, c]
    for c in range(3):
        seen[1, c] /= max(size, F32(1e-6))
        seen[2, c] /= max(total, F32(1e-6))


@njit(cache=True, nogil=True, fastmath=FAST)
def pool(
    h: NDArray[Any], lit: NDArray[Any], summary: NDArray[Any], mind: NDArray[Any], pooled: NDArray[Any], parts: int
) -> None:
    """Write mean, maximum and, for three parts, the mean over lit readings, then the summary and the pixel's state."""
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
    for j in range(mind.shape[0]):
        pooled[parts * width + N_SUMMARY + j] = mind[j]


@njit(cache=True, nogil=True, fastmath=FAST)
def weighted_fit(o: NDArray[Any], L: NDArray[Any], logits: NDArray[Any], lit: NDArray[Any], x: NDArray[Any]) -> float:
    """Solve the weighted 3×3 system into x and return its length."""
    xx = xy = xz = yy = yz = zz = b0 = b1 = b2 = 0.0
    for i in range(o.shape[0]):
        w = lit[i] / (F32(1.0) + np.exp(-logits[i])) + F32(1e-4)
        l0, l1, l2 = L[i, 0], L[i, 1], L[i, 2]
        xx += w * l0 * l0
        xy += w * l0 * l1
        xz += w * l0 * l2
        yy += w * l1 * l1
        yz += w * l1 * l2
        zz += w * l2 * l2
        b0 += w * o[i] * l0
        b1 += w * o[i] * l1
        b2 += w * o[i] * l2
    ridge = 1e-5 * (xx + yy + zz)
    xx, yy, zz = xx + ridge, yy + ridge, zz + ridge
    c00, c01, c02 = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    c11, c12, c22 = xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
    determinant = max(xx * c00 + xy * c01 + xz * c02, 1e-12)
    x[0] = (c00 * b0 + c01 * b1 + c02 * b2) / determinant
    x[1] = (c01 * b0 + c11 * b1 + c12 * b2) / determinant
    x[2] = (c02 * b0 + c12 * b1 + c22 * b2) / determinant
    return np.sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2])


@njit(cache=True, nogil=True, fastmath=FAST)
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


@njit(cache=True, nogil=True, fastmath=FAST)
def affine_rows(X: NDArray[Any], W: NDArray[Any], b: NDArray[Any], out: NDArray[Any], floor: Any) -> None:
    """Set out = max(XW + b, floor), two rows of X and four of W at a time; no slices, which cost as much as a row.

    A row's sums do not depend on how many rows come with it as long as their number is the same: q readings.
    """
    rows, inner = X.shape
    width = W.shape[1]
    whole = inner - inner % 4
    for i in range(0, rows - rows % 2, 2):
        for j in range(width):
            out[i, j] = b[j]
            out[i + 1, j] = b[j]
        for k in range(0, whole, 4):
            p, q, r, s = X[i, k], X[i, k + 1], X[i, k + 2], X[i, k + 3]
            t, u, v, w = X[i + 1, k], X[i + 1, k + 1], X[i + 1, k + 2], X[i + 1, k + 3]
            for j in range(width):
                out[i, j] += (p * W[k, j] + q * W[k + 1, j]) + (r * W[k + 2, j] + s * W[k + 3, j])
                out[i + 1, j] += (t * W[k, j] + u * W[k + 1, j]) + (v * W[k + 2, j] + w * W[k + 3, j])
        for k in range(whole, inner):
            p, t = X[i, k], X[i + 1, k]
            for j in range(width):
                out[i, j] += p * W[k, j]
                out[i + 1, j] += t * W[k, j]
        for j in range(width):
            out[i, j] = max(out[i, j], floor)
            out[i + 1, j] = max(out[i + 1, j], floor)
    if rows % 2:
        affine_block(X[rows - 1 :], W, b, out[rows - 1 :], 1, inner, floor)


@njit(cache=True, nogil=True, fastmath=FAST)
def affine_block(
    X: NDArray[Any], W: NDArray[Any], b: NDArray[Any], out: NDArray[Any], rows: int, inner: int, floor: Any
) -> None:
    """Set out = max(XW + b, floor) for the first rows and columns of X, so that W is read once for all rows."""
    width = W.shape[1]
    whole = inner - inner % 4
    for i in range(rows):
        for j in range(width):
            out[i, j] = b[j]
    for k in range(0, whole, 4):
        for i in range(rows):
            p, q, r, s = X[i, k], X[i, k + 1], X[i, k + 2], X[i, k + 3]
            for j in range(width):
                out[i, j] += (p * W[k, j] + q * W[k + 1, j]) + (r * W[k + 2, j] + s * W[k + 3, j])
    for k in range(whole, inner):
        for i in range(rows):
            p = X[i, k]
            for j in range(width):
                out[i, j] += p * W[k, j]
    for i in range(rows):
        for j in range(width):
            out[i, j] = max(out[i, j], floor)


@njit(cache=True, nogil=True, fastmath=FAST)
def unit(x: NDArray[Any]) -> None:
    size = max(np.sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]), F32(1e-6))
    for c in range(3):
        x[c] /= size
