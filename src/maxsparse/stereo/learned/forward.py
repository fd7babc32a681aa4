"""The network of ``auto`` compiled for one pixel at a time: no torch, little memory, the same bits in every batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from maxsparse.solvers._kernels import axpy_rows
from maxsparse.stereo.learned.start import Start
from maxsparse.stereo.methods._kernels import FAST, SLICES

__all__ = ["Answer", "refine", "weights_of"]

N_FEATURES, N_SUMMARY, N_OUT = 12, 3, 4
F32 = np.float32
LAYERS = ("look", "context", "again", "weigh", "gather", "correct")


@dataclass(frozen=True, eq=False)
class Answer:
    """What the network says of B pixels under q lights: normals (B, 3), albedo (B,), logits (B, q), log_error (B,)."""

    normals: NDArray[np.float32]
    albedo: NDArray[np.float32]
    logits: NDArray[np.float32]
    log_error: NDArray[np.float32]


def weights_of(tensors: Mapping[str, NDArray[np.float32]], rounds: int) -> tuple[NDArray[np.float32], ...]:
    """Stack the weights of all rounds: for every layer (R, in, out) and (R, out), then the judge's two layers."""
    stacked: list[NDArray[np.float32]] = []
    for layer in LAYERS:
        stacked.append(np.stack([tensors[f"rounds.{r}.{layer}.weight"].T for r in range(rounds)]))
        stacked.append(np.stack([tensors[f"rounds.{r}.{layer}.bias"] for r in range(rounds)]))
    # A row of 16 fills whole vector registers where one of 13 does not: the loops over it run twice as fast.
    for place in (6, 7):
        short = -stacked[place].shape[-1] % 16
        stacked[place] = np.pad(stacked[place], [(0, 0)] * (stacked[place].ndim - 1) + [(0, short)])
    for layer in ("judge.0", "judge.2"):
        stacked += [tensors[f"{layer}.weight"].T, tensors[f"{layer}.bias"]]
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
    out = np.zeros((B, N_OUT + 1), dtype=np.float32)
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
    width, state = weights[4].shape[1], weights[0].shape[1] - N_FEATURES
    for piece in prange(min(B, SLICES)):
        x = np.empty((q, N_FEATURES + state), dtype=F32)
        h, again = np.empty((q, width), dtype=F32), np.empty((q, width), dtype=F32)
        weighed = np.empty((q, weights[6].shape[2]), dtype=F32)
        for row in range(piece, B, SLICES):
            scratch = (x, h, again, weighed)
            _refine_one(o[row], L, half, guess[row], lit[row], weights, scratch, logits[row], out[row])


@njit(cache=True, nogil=True, fastmath=FAST)
def _refine_one(
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
    """Refine one pixel; `out` gets the normal, the albedo and the logarithm of the expected error."""
    x, h, again, weighed = scratch
    q, width = h.shape
    state = x.shape[1] - N_FEATURES
    frame = np.empty((3, 3), dtype=F32)
    summary, first = np.empty(N_SUMMARY, dtype=F32), np.empty(N_SUMMARY, dtype=F32)
    pooled, context = np.empty(3 * width + N_SUMMARY, dtype=F32), np.empty(width, dtype=F32)
    gathered, correction = np.empty(width, dtype=F32), np.empty(3, dtype=F32)
    scaled = guess.copy()
    agreed = F32(0.0)
    for i in range(q):
        agreed += F32(logits[i] > 0.0)
        for c in range(state):
            x[i, N_FEATURES + c] = 0.0
    for r in range(weights[0].shape[0]):
        _frame(scaled, frame)
        _features(o, L, half, scaled, frame, logits, lit, x, summary)
        if r == 0:
            first[:] = summary
        _affine_rows(x, weights[0][r], weights[1][r], h, F32(0.0))
        _pool(h, lit, summary, pooled, 2)
        _affine(pooled[: 2 * width + N_SUMMARY], weights[2][r], weights[3][r], context)
        for j in range(width):
            context[j] += weights[5][r, j]
        _affine_rows(h, weights[4][r], context, again, F32(0.0))
        _affine_rows(again, weights[6][r], weights[7][r], weighed, F32(-np.inf))
        for i in range(q):
            logits[i] += weighed[i, 0]
            for c in range(state):
                x[i, N_FEATURES + c] = weighed[i, 1 + c]
        _pool(again, lit, summary, pooled, 3)
        _affine(pooled, weights[8][r], weights[9][r], gathered)
        _relu(gathered)
        _affine(gathered, weights[10][r], weights[11][r], correction)
        out[3] = _weighted_fit(o, L, logits, lit, scaled)
        for c in range(3):
            out[c] = scaled[c] / max(out[3], F32(1e-6)) + correction[0] * frame[1, c] + correction[1] * frame[2, c]
        _unit(out[:3])
        for c in range(3):
            scaled[c] = out[c] * out[3]
    out[4] = correction[2] - F32(3.0)
    _judge(guess, gathered, first, summary, agreed / F32(q), weights, out)


@njit(cache=True, nogil=True, fastmath=FAST)
def _judge(
    guess: NDArray[Any],
    gathered: NDArray[Any],
    first: NDArray[Any],
    last: NDArray[Any],
    agreed: Any,
    weights: Any,
    out: NDArray[Any],
) -> None:
    """Blend the refined normal in `out` with the first guess."""
    width = gathered.shape[0]
    n = guess.copy()
    _unit(n)
    apart = F32(0.0)
    for c in range(3):
        apart += (out[c] - n[c]) * (out[c] - n[c])
    verdict = np.empty(width + 2 * N_SUMMARY + 3, dtype=F32)
    verdict[:width] = gathered
    verdict[width : width + N_SUMMARY] = first
    verdict[width + N_SUMMARY : width + 2 * N_SUMMARY] = last
    verdict[width + 2 * N_SUMMARY] = np.log(np.sqrt(apart) + F32(1e-3))
    verdict[width + 2 * N_SUMMARY + 1] = agreed
    verdict[width + 2 * N_SUMMARY + 2] = out[4]
    hidden, decision = np.empty(width, dtype=F32), np.empty(1, dtype=F32)
    _affine(verdict, weights[12], weights[13], hidden)
    _relu(hidden)
    _affine(hidden, weights[14], weights[15], decision)
    share = F32(1.0) / (F32(1.0) + np.exp(-decision[0]))
    for c in range(3):
        out[c] = share * out[c] + (F32(1.0) - share) * n[c]
    _unit(out[:3])


@njit(cache=True, nogil=True, fastmath=FAST)
def _features(
    o: NDArray[Any],
    L: NDArray[Any],
    half: NDArray[Any],
    scaled: NDArray[Any],
    frame: NDArray[Any],
    logits: NDArray[Any],
    lit: NDArray[Any],
    x: NDArray[Any],
    summary: NDArray[Any],
) -> None:
    """Write what the network sees of every reading and of the pixel."""
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
            x[i, 5 + c] = frame[c, 0] * L[i, 0] + frame[c, 1] * L[i, 1] + frame[c, 2] * L[i, 2]
        x[i, 8] = frame[0, 0] * half[i, 0] + frame[0, 1] * half[i, 1] + frame[0, 2] * half[i, 2]
        x[i, 9], x[i, 10], x[i, 11] = frame[0, 2], lit[i], np.tanh(logits[i] / F32(4.0))
    summary[0], summary[1], summary[2] = bright / F32(q), np.log(spread) / F32(4.0), F32(q) / F32(50.0)


@njit(cache=True, nogil=True, fastmath=FAST)
def _pool(h: NDArray[Any], lit: NDArray[Any], summary: NDArray[Any], pooled: NDArray[Any], parts: int) -> None:
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


@njit(cache=True, nogil=True, fastmath=FAST)
def _weighted_fit(o: NDArray[Any], L: NDArray[Any], logits: NDArray[Any], lit: NDArray[Any], x: NDArray[Any]) -> float:
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
def _frame(scaled: NDArray[Any], frame: NDArray[Any]) -> None:
    """Write n, the tangent that points to the camera, and n × that."""
    for c in range(3):
        frame[0, c] = scaled[c]
    _unit(frame[0])
    along = frame[0, 2] + F32(1e-4) * frame[0, 1]
    frame[1, 0] = -along * frame[0, 0]
    frame[1, 1] = F32(1e-4) - along * frame[0, 1]
    frame[1, 2] = F32(1.0) - along * frame[0, 2]
    _unit(frame[1])
    frame[2, 0] = frame[0, 1] * frame[1, 2] - frame[0, 2] * frame[1, 1]
    frame[2, 1] = frame[0, 2] * frame[1, 0] - frame[0, 0] * frame[1, 2]
    frame[2, 2] = frame[0, 0] * frame[1, 1] - frame[0, 1] * frame[1, 0]


@njit(cache=True, nogil=True, fastmath=FAST)
def _affine_rows(X: NDArray[Any], W: NDArray[Any], b: NDArray[Any], out: NDArray[Any], floor: Any) -> None:
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


@njit(cache=True, nogil=True, fastmath=FAST)
def _affine(x: NDArray[Any], W: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None:
    axpy_rows(x, W, 0, out.shape[0], out)
    for j in range(out.shape[0]):
        out[j] += b[j]


@njit(cache=True, nogil=True, fastmath=FAST)
def _relu(x: NDArray[Any]) -> None:
    for j in range(x.shape[0]):
        x[j] = max(x[j], F32(0.0))


@njit(cache=True, nogil=True, fastmath=FAST)
def _unit(x: NDArray[Any]) -> None:
    size = max(np.sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]), F32(1e-6))
    for c in range(3):
        x[c] /= size
