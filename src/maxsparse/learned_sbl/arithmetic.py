"""The arithmetic of learned SBL in float32: logarithm, exponential, one SBL step, the small network of an atom.

Arrays are (channel, atom), so that every loop runs over neighbouring atoms and vectorises.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse.learned_sbl.spec import LOG_FLOOR, Weights

f32 = np.float32


@kernel(fast=True)
def log(values: NDArray[Any], bits: NDArray[Any], out: NDArray[Any]) -> None:
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


@kernel(fast=True)
def exp(values: NDArray[Any], out: NDArray[Any], bits: NDArray[Any]) -> None:
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


@kernel(fast=True, apart=True)
def _add_products(weights: NDArray[Any], rows: NDArray[Any], out: NDArray[Any]) -> None:
    """Add weights @ rows to `out`, two rows of `out` and four of `rows` at a time to save loads and stores."""
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


@kernel(fast=True, apart=True)
def sbl_step(
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


@kernel(fast=True, apart=True)
def attention(
    gamma: NDArray[Any], q: NDArray[Any], V: NDArray[Any], values: NDArray[Any], work: NDArray[Any], mixed: NDArray[Any]
) -> None:
    """Set mixed_i = Σ_j γ_j (φ_iᵀ S⁻¹ φ_j)² values_j / q_i for every head (heads, m); `values` is multiplied by γ.

    φ_iᵀ S⁻¹ φ_j is a sum over the rows of V = L⁻¹Φ, its square one over pairs of rows; each pair is used while it is in
    the cache.
    """
    n, m = V.shape[0], q.shape[0]
    heads = values.shape[0]
    for k in range(heads):
        for j in range(m):
            values[k, j] *= gamma[j]
            mixed[k, j] = f32(0.0)
    for r in range(n):
        for l in range(r + 1):
            left, right = V[r], V[l]
            for j in range(m):
                work[j] = left[j] * right[j]
            for k in range(heads):
                row, sums = values[k], mixed[k]
                total = f32(0.0)
                for j in range(m):
                    total += work[j] * row[j]
                if l < r:
                    total += total
                for j in range(m):
                    sums[j] += total * work[j]
    for k in range(heads):
        for j in range(m):
            mixed[k, j] /= q[j]


@kernel(fast=True, apart=True)
def perceptron(
    weights: Weights,
    moment: int,
    level: Any,
    inputs: NDArray[Any],
    context: NDArray[Any],
    hidden: NDArray[Any],
    out: NDArray[Any],
) -> None:
    """Set out (2 + state + heads, m) from inputs (features + state + heads, m)."""
    seen, m = context.shape[0] - 1, inputs.shape[1]
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


@kernel(fast=True)
def normalise(log_gamma: NDArray[Any], log_total: float, gamma: NDArray[Any], bits: NDArray[Any]) -> None:
    """Shift log γ so that Σγ = exp(log_total), keep it above the floor, and set γ."""
    m = log_gamma.shape[0]
    highest = log_gamma[0]
    for j in range(m):
        highest = max(highest, log_gamma[j])
    for j in range(m):
        log_gamma[j] = max(log_gamma[j] - highest, f32(-80.0))
    exp(log_gamma, gamma, bits)
    total = f32(0.0)
    for j in range(m):
        total += gamma[j]
    shift = f32(log_total) - np.log(total)
    for j in range(m):
        log_gamma[j] = max(log_gamma[j] + shift, f32(LOG_FLOOR))
    exp(log_gamma, gamma, bits)
