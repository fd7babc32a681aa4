"""Learned SBL compiled for inference: float32, one signal at a time, what it touches in the first-level caches.

The network itself is :class:`maxsparse.networks.learned_sbl.LearnedSBL`; a test holds the two together.

Arrays are (channel, atom) here, so that every loop runs over neighbouring atoms and vectorises. A signal's scores have
the same bits whatever the batch it is in and however many threads run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from maxsparse.solvers._kernels import FAST, SLICES

FEATURES = 4
# As in the network:
LOG_FLOOR, SCALE, TINY = -16.0, 0.2, 1e-8
HEAD_START, HEAD_LAMBDA = 16, 1e-5
f32 = np.float32


class Weights(NamedTuple):
    """Weights of a :class:`LearnedSBL`, each C-contiguous float32."""

    first: NDArray[np.float32]  # (hidden, features + state)
    context: NDArray[np.float32]  # (hidden, features + state + 1)
    moment: NDArray[np.float32]  # (iterations, hidden)
    last: NDArray[np.float32]  # (2 + state, hidden)
    last_bias: NDArray[np.float32]  # (2 + state,)
    log_lambda: NDArray[np.float32]  # (iterations,)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _log(values: NDArray[Any], bits: NDArray[Any], out: NDArray[Any]) -> None:
    """Set out = log(values) for positive normal numbers; `bits` is the int32 view of `values`. Cephes' polynomial."""
    for j in range(values.shape[0]):
        # Shifting by the bits of √½ leaves a mantissa in [√½, √2).
        shifted = bits[j] - np.int32(0x3F3504F3)
        exponent = shifted >> np.int32(23)
        bits[j] = (shifted & np.int32(0x007FFFFF)) + np.int32(0x3F3504F3)
        out[j] = f32(exponent)
    for j in range(values.shape[0]):
        f = values[j] - f32(1.0)
        z = f * f
        p = f32(7.0376836292e-2)
        p = p * f + f32(-1.1514610310e-1)
        p = p * f + f32(1.1676998740e-1)
        p = p * f + f32(-1.2420140846e-1)
        p = p * f + f32(1.4249322787e-1)
        p = p * f + f32(-1.6668057665e-1)
        p = p * f + f32(2.0000714765e-1)
        p = p * f + f32(-2.4999993993e-1)
        p = p * f + f32(3.3333331174e-1)
        out[j] = out[j] * f32(0.69314718056) + (f + (p * f * z - f32(0.5) * z))


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _exp(values: NDArray[Any], out: NDArray[Any], bits: NDArray[Any]) -> None:
    """Set out = exp(values) for values in [-80, 80]; `bits` is the int32 view of `out`."""
    for j in range(values.shape[0]):
        whole = np.floor(values[j] * f32(1.44269504) + f32(0.5))
        x = values[j] - whole * f32(0.693359375) + whole * f32(2.12194440e-4)
        p = f32(1.9875691500e-4)
        p = p * x + f32(1.3981999507e-3)
        p = p * x + f32(8.3334519073e-3)
        p = p * x + f32(4.1665795894e-2)
        p = p * x + f32(1.6666665459e-1)
        p = p * x + f32(5.0000001201e-1)
        out[j] = p * x * x + x + f32(1.0)
        bits[j] += np.int32(whole) << np.int32(23)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _add_products(weights: NDArray[Any], rows: NDArray[Any], out: NDArray[Any]) -> None:
    """Add weights @ rows to `out`, two rows of `out` and four of `rows` at a time to spare loads and stores."""
    outputs, inputs = weights.shape
    m = rows.shape[1]
    for o in range(0, outputs - 1, 2):
        left, right = out[o], out[o + 1]
        a, b = weights[o], weights[o + 1]
        for i in range(0, inputs - 3, 4):
            a0, a1, a2, a3 = a[i], a[i + 1], a[i + 2], a[i + 3]
            b0, b1, b2, b3 = b[i], b[i + 1], b[i + 2], b[i + 3]
            r0, r1, r2, r3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
            for j in range(m):
                left[j] += (a0 * r0[j] + a1 * r1[j]) + (a2 * r2[j] + a3 * r3[j])
                right[j] += (b0 * r0[j] + b1 * r1[j]) + (b2 * r2[j] + b3 * r3[j])
        for i in range(inputs - inputs % 4, inputs):
            for j in range(m):
                left[j] += a[i] * rows[i, j]
                right[j] += b[i] * rows[i, j]
    if outputs % 2:
        o = outputs - 1
        for i in range(inputs):
            w = weights[o, i]
            for j in range(m):
                out[o, j] += w * rows[i, j]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _sbl_step(
    gamma: NDArray[Any],
    z: NDArray[Any],
    c: NDArray[Any],
    Q: NDArray[Any],
    outer: NDArray[Any],
    packed: NDArray[Any],
    L: NDArray[Any],
    V: NDArray[Any],
    u: NDArray[Any],
    q: NDArray[Any],
) -> None:
    """Set u = Φᵀ S⁻¹ z and q = diag(Φᵀ S⁻¹ Φ) for S = Φ diag(γ) Φᵀ + diag(c).

    V = L⁻¹Φ is built row by row; then q sums its squares and u its rows times L⁻¹z.
    """
    n, m = Q.shape
    size = packed.shape[0]
    for e in range(size):
        packed[e] = f32(0.0)
    whole = m - m % 4
    for j in range(0, whole, 4):
        g0, g1, g2, g3 = gamma[j], gamma[j + 1], gamma[j + 2], gamma[j + 3]
        o0, o1, o2, o3 = outer[j], outer[j + 1], outer[j + 2], outer[j + 3]
        for e in range(size):
            packed[e] += (g0 * o0[e] + g1 * o1[e]) + (g2 * o2[e] + g3 * o3[e])
    for j in range(whole, m):
        for e in range(size):
            packed[e] += gamma[j] * outer[j, e]
    for j in range(m):
        u[j] = f32(0.0)
        q[j] = f32(0.0)
    start = 0
    for i in range(n):
        for k in range(i):
            total = packed[start + k]
            for l in range(k):
                total -= L[i, l] * L[k, l]
            L[i, k] = total * L[k, k]  # the diagonal holds the inverse
        total = packed[start + i] + c[i]
        for l in range(i):
            total -= L[i, l] * L[i, l]
        inverse = f32(1.0) / np.sqrt(max(total, f32(1e-12)))
        L[i, i] = inverse
        start += i + 1
        row = V[i]
        for j in range(m):
            row[j] = Q[i, j]
        value = z[i]
        full = i - i % 4
        for l in range(0, full, 4):
            l0, l1, l2, l3 = L[i, l], L[i, l + 1], L[i, l + 2], L[i, l + 3]
            v0, v1, v2, v3 = V[l], V[l + 1], V[l + 2], V[l + 3]
            for j in range(m):
                row[j] -= (l0 * v0[j] + l1 * v1[j]) + (l2 * v2[j] + l3 * v3[j])
        for l in range(full, i):
            l0 = L[i, l]
            for j in range(m):
                row[j] -= l0 * V[l, j]
        for l in range(i):
            value -= L[i, l] * V[l, m]
        V[i, m] = value * inverse
        value = V[i, m]
        for j in range(m):
            row[j] *= inverse
            q[j] += row[j] * row[j]
            u[j] += row[j] * value


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _perceptron(
    weights: Weights,
    moment: int,
    level: Any,
    inputs: NDArray[Any],
    context: NDArray[Any],
    hidden: NDArray[Any],
    out: NDArray[Any],
) -> None:
    """Set out (2 + state, m) from inputs (features + state, m)."""
    seen, m = inputs.shape
    width = hidden.shape[0]
    for i in range(seen):
        total = f32(0.0)
        for j in range(m):
            total += inputs[i, j]
        context[i] = total / f32(m)
    context[seen] = level
    for o in range(width):
        bias = weights.moment[moment, o]
        for i in range(seen + 1):
            bias += weights.context[o, i] * context[i]
        for j in range(m):
            hidden[o, j] = bias
    _add_products(weights.first, inputs, hidden)
    for o in range(width):
        row = hidden[o]
        for j in range(m):
            row[j] = row[j] * min(max(row[j] + f32(3.0), f32(0.0)), f32(6.0)) * f32(1.0 / 6.0)
    for o in range(out.shape[0]):
        bias = weights.last_bias[o]
        for j in range(m):
            out[o, j] = bias
    _add_products(weights.last, hidden, out)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _normalise(log_gamma: NDArray[Any], log_total: float, gamma: NDArray[Any], bits: NDArray[Any]) -> None:
    """Shift log γ so that Σγ = exp(log_total), keep it above the floor, and set γ."""
    m = log_gamma.shape[0]
    highest = log_gamma[0]
    for j in range(m):
        highest = max(highest, log_gamma[j])
    for j in range(m):
        log_gamma[j] = max(log_gamma[j] - highest, f32(-80.0))
    _exp(log_gamma, gamma, bits)
    total = f32(0.0)
    for j in range(m):
        total += gamma[j]
    shift = f32(log_total) - np.log(total)
    for j in range(m):
        log_gamma[j] = max(log_gamma[j] + shift, f32(LOG_FLOOR))
    _exp(log_gamma, gamma, bits)


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
    inputs: NDArray[np.float32]  # (features + state, m)
    context: NDArray[np.float32]  # (features + state + 1,)
    hidden: NDArray[np.float32]  # (hidden, m)
    out: NDArray[np.float32]  # (2 + state, m)


@njit(cache=True, nogil=True)
def _make_scratch(n: int, m: int, seen: int, width: int, outputs: int) -> Scratch:
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
        np.empty((seen, m), f32),
        np.empty(seen + 1, f32),
        np.empty((width, m), f32),
        np.empty((outputs, m), f32),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _statistics(s: Scratch, ridge: Any, Q: NDArray[Any], outer: NDArray[Any]) -> None:
    """Set u and q for the current γ and the noise plus `ridge`."""
    n = s.c.shape[0]
    for i in range(n):
        s.c[i] += ridge
    _sbl_step(s.gamma, s.z, s.c, Q, outer, s.packed, s.L, s.V, s.u, s.q)
    for i in range(n):
        s.c[i] -= ridge


@njit(cache=True, nogil=True, error_model="numpy")
def _head_start(s: Scratch, Q: NDArray[Any], outer: NDArray[Any]) -> None:
    """Set log γ by plain EM iterations from γ = 1."""
    m = Q.shape[1]
    s.log_gamma[:] = f32(0.0)
    for _ in range(HEAD_START):
        _exp(s.log_gamma, s.gamma, s.gamma_bits)
        _statistics(s, f32(HEAD_LAMBDA), Q, outer)
        for j in range(m):
            s.work[j] = max(f32(1.0) + s.gamma[j] * (s.u[j] * s.u[j] - s.q[j]), f32(1e-4))
        _log(s.work, s.work_bits, s.q)
        for j in range(m):
            s.log_gamma[j] = max(s.log_gamma[j] + s.q[j], f32(LOG_FLOOR))


@njit(cache=True, nogil=True, error_model="numpy")
def _iterate(s: Scratch, weights: Weights, moment: int, level: Any, Q: NDArray[Any], outer: NDArray[Any]) -> None:
    """Do one learned iteration from a normalised γ: a step of log γ and of the state, and the logits in out[1]."""
    m, state = Q.shape[1], s.inputs.shape[0] - FEATURES
    inputs, out = s.inputs, s.out
    _statistics(s, np.exp(weights.log_lambda[moment]), Q, outer)
    for j in range(m):
        inputs[0, j] = s.log_gamma[j] * f32(SCALE)
        inputs[3, j] = s.gamma[j] * s.q[j]
        s.work[j] = s.u[j] * s.u[j] + f32(TINY)
    _log(s.work, s.work_bits, inputs[1])
    for j in range(m):
        s.work[j] = s.q[j] + f32(TINY)
    _log(s.work, s.work_bits, inputs[2])
    for j in range(m):
        s.log_gamma[j] += f32(0.5) * (inputs[1, j] - inputs[2, j])
        inputs[1, j] *= f32(SCALE)
        inputs[2, j] *= f32(SCALE)
    _perceptron(weights, moment, level, inputs, s.context, s.hidden, out)
    for j in range(m):
        s.log_gamma[j] += out[0, j]
    for r in range(state):
        for j in range(m):
            h = inputs[FEATURES + r, j] + out[2 + r, j]
            inputs[FEATURES + r, j] = h / np.sqrt(f32(1.0) + h * h)


@njit(cache=True, nogil=True, error_model="numpy")
def _settled(logits: NDArray[Any], confident: float, most: int) -> bool:
    """Say whether every atom is clearly in or out, and no more than `most` of them in."""
    inside = 0
    for j in range(logits.shape[0]):
        if abs(logits[j]) < confident:
            return False
        inside += logits[j] > 0
    return inside <= most


@njit(cache=True, nogil=True, error_model="numpy")
def _score_one(
    s: Scratch,
    weights: Weights,
    Q: NDArray[Any],
    outer: NDArray[Any],
    variance: NDArray[Any],
    z: NDArray[Any],
    noise: float,
    iterations: int,
    confident: float,
) -> float:
    """Run the network on one whitened signal; leave logits in out[1] and γ in units of the mean square it returns."""
    n, T = z.shape[0], weights.moment.shape[0]
    power = 0.0
    for i in range(n):
        power += float(z[i]) ** 2
    power = power / n + 1e-60
    share = 0.0
    for i in range(n):
        s.z[i] = z[i] / np.sqrt(power)
        s.c[i] = noise * noise / power * variance[i]
        share += s.c[i] / n
    level = f32(np.log(share + 1e-6) * SCALE)
    log_total = np.log(n * max(1.0 - share, 0.05))
    _head_start(s, Q, outer)
    s.inputs[:] = f32(0.0)
    for t in range(iterations):
        _normalise(s.log_gamma, log_total, s.gamma, s.gamma_bits)
        _iterate(s, weights, min(t, T - 1), level, Q, outer)
        if t >= T // 4 and _settled(s.out[1], confident, n - 2):
            break
    return power


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def score_rows(
    weights: Weights,
    Q: NDArray[Any],
    outer: NDArray[Any],
    variance: NDArray[Any],
    Z: NDArray[Any],
    noise: NDArray[Any],
    iterations: int,
    confident: float,
    logits: NDArray[Any],
    gammas: NDArray[Any],
) -> None:
    """Run the network on every row of Z (whitened signals); write the last logits and the last γ, in units of z².

    A signal is done as soon as no logit is nearer to zero than `confident`; with infinity, after all iterations.
    """
    N, n = Z.shape
    m = Q.shape[1]
    seen, width, outputs = weights.first.shape[1], weights.moment.shape[1], weights.last.shape[0]
    for piece in prange(min(N, SLICES)):
        s = _make_scratch(n, m, seen, width, outputs)
        for row in range(piece, N, SLICES):
            power = _score_one(s, weights, Q, outer, variance, Z[row], noise[row], iterations, confident)
            for j in range(m):
                logits[row, j] = s.out[1, j]
                gammas[row, j] = s.gamma[j] * f32(power)
