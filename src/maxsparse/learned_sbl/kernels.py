"""Learned SBL compiled for inference: float32, one signal at a time, with data that fit into the first-level caches.

The network itself is :class:`maxsparse.learned_sbl.model.LearnedSBL`; a test compares the two.

The arithmetic is in :mod:`maxsparse.learned_sbl.arithmetic`. A signal's scores are bitwise identical in
every batch and for every number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.prepared import Single
from maxsparse.learned_sbl.arithmetic import attention, exp, f32, log, normalise, perceptron, sbl_step
from maxsparse.learned_sbl.spec import EARLIER, FEATURES, HEAD_LAMBDA, HEAD_START, LOG_FLOOR, SCALE, TINY, Weights


class Signals(NamedTuple):
    """Signals prepared for the network."""

    Z: NDArray[np.float32]  # (N, r), whitened
    noise: NDArray[np.float32]  # (N,), standard deviation of the noise before whitening
    earlier: NDArray[np.float32]  # (N, m), logits of an earlier pass; (N, 0) if there was none


class Scratch(NamedTuple):
    """Working memory of one thread."""

    packed: NDArray[np.float32]  # (n(n + 1)/2,), S
    L: NDArray[np.float32]  # (n, n)
    V: NDArray[np.float32]  # (n, m + 1)
    z: NDArray[np.float32]  # (n,), signal of mean square 1
    c: NDArray[np.float32]  # (n,), variances of the noise
    u: NDArray[np.float32]  # (m,)
    q: NDArray[np.float32]  # (m,)
    log_gamma: NDArray[np.float32]  # (m,)
    gamma: NDArray[np.float32]  # (m,)
    gamma_bits: NDArray[np.int32]  # (m,), the same memory
    work: NDArray[np.float32]  # (m,)
    work_bits: NDArray[np.int32]  # (m,), the same memory
    inputs: NDArray[np.float32]  # (features + state + heads, m)
    context: NDArray[np.float32]  # (features + state + 1,)
    hidden: NDArray[np.float32]  # (hidden, m)
    out: NDArray[np.float32]  # (2 + state + heads, m)
    values: NDArray[np.float32]  # (heads, m)


@kernel()
def _make_scratch(n: int, m: int, weights: Weights) -> Scratch:
    inputs, seen = weights.first.shape[1], weights.context.shape[1] - 1
    gamma, work = np.empty(m, f32), np.empty(m, f32)
    return Scratch(
        np.empty(n * (n + 1) // 2, f32),
        np.empty((n, n), f32),
        np.empty((n, m + 1), f32),
        np.empty(n, f32),
        np.empty(n, f32),
        np.empty(m, f32),
        np.empty(m, f32),
        np.empty(m, f32),
        gamma,
        gamma.view(np.int32),
        work,
        work.view(np.int32),
        np.empty((inputs, m), f32),
        np.empty(seen + 1, f32),
        np.empty((weights.moment.shape[1], m), f32),
        np.empty((weights.last.shape[0], m), f32),
        np.empty((inputs - seen, m), f32),
    )


@kernel()
def _statistics(s: Scratch, ridge: Any, Q: NDArray[Any], outer: NDArray[Any]) -> None:
    """Set u and q for the current γ and the noise plus `ridge`."""
    n = s.c.shape[0]
    for i in range(n):
        s.c[i] += ridge
    sbl_step(s.gamma, s.z, s.c, Q, outer, s.packed, s.L, s.V, s.u, s.q)
    for i in range(n):
        s.c[i] -= ridge


@kernel()
def _head_start(s: Scratch, Q: NDArray[Any], outer: NDArray[Any]) -> None:
    """Set log γ by plain EM iterations from γ = 1."""
    m = Q.shape[1]
    s.log_gamma[:] = f32(0.0)
    for _ in range(HEAD_START):
        exp(s.log_gamma, s.gamma, s.gamma_bits)
        _statistics(s, f32(HEAD_LAMBDA), Q, outer)
        for j in range(m):
            s.work[j] = max(f32(1.0) + s.gamma[j] * (s.u[j] * s.u[j] - s.q[j]), f32(1e-4))
        log(s.work, s.work_bits, s.q)
        for j in range(m):
            s.log_gamma[j] = max(s.log_gamma[j] + s.q[j], f32(LOG_FLOOR))


@kernel()
def _iterate(s: Scratch, weights: Weights, moment: int, level: Any, Q: NDArray[Any], outer: NDArray[Any]) -> None:
    """Run one learned iteration from a normalised γ: update log γ and the state; logits are in out[1]."""
    m, state, heads = Q.shape[1], s.context.shape[0] - 1 - FEATURES, s.values.shape[0]
    inputs, out = s.inputs, s.out
    _statistics(s, np.exp(weights.log_lambda[moment]), Q, outer)
    for j in range(m):
        inputs[0, j] = s.log_gamma[j] * f32(SCALE)
        inputs[3, j] = s.gamma[j] * s.q[j]
        s.work[j] = s.u[j] * s.u[j] + f32(TINY)
    log(s.work, s.work_bits, inputs[1])
    for j in range(m):
        s.work[j] = s.q[j] + f32(TINY)
    log(s.work, s.work_bits, inputs[2])
    for j in range(m):
        s.log_gamma[j] += f32(0.5) * (inputs[1, j] - inputs[2, j])
        inputs[1, j] *= f32(SCALE)
        inputs[2, j] *= f32(SCALE)
    if heads > 0:
        attention(s.gamma, s.q, s.V, s.values, s.work, inputs[FEATURES + state :])
    perceptron(weights, moment, level, inputs, s.context, s.hidden, out)
    for j in range(m):
        s.log_gamma[j] += out[0, j]
    for r in range(state):
        for j in range(m):
            h = inputs[FEATURES + r, j] + out[2 + r, j]
            inputs[FEATURES + r, j] = h / np.sqrt(f32(1.0) + h * h)
    for k in range(heads):
        for j in range(m):
            a = out[2 + state + k, j]
            s.values[k, j] = a / np.sqrt(f32(1.0) + a * a)


@kernel()
def _settled(logits: NDArray[Any], confident: float, most: int) -> bool:
    """Return whether every atom is clearly in or out, and at most `most` of them in."""
    inside = 0
    for j in range(logits.shape[0]):
        if abs(logits[j]) < confident:
            return False
        inside += logits[j] > 0
    return inside <= most


@kernel()
def _score_one(
    s: Scratch,
    weights: Weights,
    table: Single,
    z: NDArray[Any],
    noise: float,
    earlier: NDArray[Any],
    iterations: int,
    confident: float,
) -> None:
    """Run the network on one whitened signal; the logits are in out[1]."""
    n, T = z.shape[0], weights.moment.shape[0]
    power: float = 0.0
    for i in range(n):
        power += float(z[i]) ** 2
    power = power / n + 1e-60
    share = 0.0
    for i in range(n):
        s.z[i] = z[i] / np.sqrt(power)
        s.c[i] = noise * noise / power * table.variance[i]
        share += s.c[i] / n
    level = f32(np.log(share + 1e-6) * SCALE)
    log_total = np.log(n * max(1.0 - share, 0.05))
    _head_start(s, table.Q, table.outer)
    s.inputs[:] = f32(0.0)
    s.values[:] = f32(0.0)
    remembered = s.inputs[s.context.shape[0] - 2]
    for j in range(earlier.shape[0]):
        remembered[j] = min(max(earlier[j] / f32(EARLIER), f32(-1.0)), f32(1.0))
    for t in range(iterations):
        normalise(s.log_gamma, log_total, s.gamma, s.gamma_bits)
        _iterate(s, weights, min(t, T - 1), level, table.Q, table.outer)
        if t >= T // 4 and _settled(s.out[1], confident, n - 2):
            break


@kernel()
def score_rows(
    piece: int,
    pieces: int,
    weights: Weights,
    table: Single,
    signals: Signals,
    iterations: int,
    confident: float,
    logits: NDArray[Any],
) -> None:
    """Run the network on every signal; write the last logits (N, m).

    A signal is finished as soon as no logit is closer to zero than `confident`; with infinity, after all iterations.
    """
    N, n = signals.Z.shape
    m = table.Q.shape[1]
    s = _make_scratch(n, m, weights)
    for row in range(piece, N, pieces):
        _score_one(s, weights, table, signals.Z[row], signals.noise[row], signals.earlier[row], iterations, confident)
        for j in range(m):
            logits[row, j] = s.out[1, j]
