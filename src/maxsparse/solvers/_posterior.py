"""Compiled steps of sparse Bayesian learning for one signal: the posterior, the updates of γ and λ, pruning.

Active atoms are stored contiguously in B (n, m), the first `count` columns of which are in use; γ, x and q follow them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import cholesky, largest_magnitude, residual_into


@kernel()
def scaled(y: NDArray[Any], out: NDArray[Any]) -> float:
    """Set out = y / scale with the scale that gives it unit mean square, and return the scale; 0 for y = 0."""
    n = y.shape[0]
    size = largest_magnitude(y)
    if size == 0.0:
        return 0.0
    mean2 = 0.0  # after division by the largest entry, so that tiny and huge signals neither under- nor overflow
    for i in range(n):
        mean2 += (y[i] / size) ** 2 / n
    scale: float = size * np.sqrt(mean2)
    for i in range(n):
        out[i] = y[i] / scale
    return scale


@kernel()
def pack(Phi: NDArray[Any], gamma: NDArray[Any], B: NDArray[Any], g: NDArray[Any], active: NDArray[Any]) -> int:
    """Copy the atoms with γ > 0 side by side to B; return how many there are."""
    count = 0
    for j in range(Phi.shape[1]):
        if gamma[j] > 0.0:
            active[count] = j
            g[count] = gamma[j]
            for i in range(Phi.shape[0]):
                B[i, count] = Phi[i, j]
            count += 1
    return count


@kernel()
def drop(B: NDArray[Any], g: NDArray[Any], active: NDArray[Any], count: int, prune: float, x: NDArray[Any]) -> int:
    """Remove atoms whose γ is below prune times the largest one; return how many are left."""
    largest = 0.0
    for l in range(count):
        largest = max(largest, g[l])
    kept = 0
    for l in range(count):
        if g[l] > prune * largest:
            if kept < l:
                active[kept] = active[l]
                g[kept] = g[l]
                for i in range(B.shape[0]):
                    B[i, kept] = B[i, l]
            kept += 1
        else:
            x[active[l]] = 0.0
    return kept


@kernel(fast=True)
def posterior(
    B: NDArray[Any],
    g: NDArray[Any],
    y: NDArray[Any],
    lam: float,
    count: int,
    S: NDArray[Any],
    W: NDArray[Any],
    x: NDArray[Any],
    q: NDArray[Any],
) -> bool:
    """Set x = γ∘Φᵀ S⁻¹ y and q_i = φ_iᵀ S⁻¹ φ_i from S = LLᵀ and W = L⁻¹Φ; return False if S is not definite."""
    n = B.shape[0]
    for i in range(n):
        for j in range(count):
            W[i, j] = g[j] * B[i, j]
    for i in range(n):
        weighted_row(W[i], B, count, i, S[i])
        S[i, i] += lam
    if not cholesky(S, n):
        return False
    v = np.empty(n, dtype=y.dtype)
    for j in range(count):
        x[j] = 0.0
        q[j] = 0.0
    for i in range(n):
        total = y[i]
        for l in range(i):
            total -= S[i, l] * v[l]
        v[i] = total / S[i, i]
        substitute_row(S[i], B[i], W, count, i)
        a = v[i]
        for j in range(count):
            x[j] += a * W[i, j]
            q[j] += W[i, j] * W[i, j]
    for j in range(count):
        x[j] *= g[j]
    return True


@kernel(fast=True)
def weighted_row(weighted: NDArray[Any], B: NDArray[Any], count: int, i: int, out: NDArray[Any]) -> None:
    """Set out[k] = weighted·B[k] for k ≤ i, four rows of B at a time."""
    whole = (i + 1) - (i + 1) % 4
    for k in range(0, whole, 4):
        a = b = c = d = weighted[0] * 0
        for j in range(count):
            value = weighted[j]
            a += value * B[k, j]
            b += value * B[k + 1, j]
            c += value * B[k + 2, j]
            d += value * B[k + 3, j]
        out[k], out[k + 1], out[k + 2], out[k + 3] = a, b, c, d
    for k in range(whole, i + 1):
        a = weighted[0] * 0
        for j in range(count):
            a += weighted[j] * B[k, j]
        out[k] = a


@kernel(fast=True)
def substitute_row(l_row: NDArray[Any], b: NDArray[Any], W: NDArray[Any], count: int, i: int) -> None:
    """Set W[i] = (b − Σ_{l<i} L_il W[l]) / L_ii, four rows of W at a time."""
    w = W[i]
    for j in range(count):
        w[j] = b[j]
    whole = i - i % 4
    for l in range(0, whole, 4):
        a, c, d, e = l_row[l], l_row[l + 1], l_row[l + 2], l_row[l + 3]
        for j in range(count):
            w[j] -= (a * W[l, j] + c * W[l + 1, j]) + (d * W[l + 2, j] + e * W[l + 3, j])
    for l in range(whole, i):
        a = l_row[l]
        for j in range(count):
            w[j] -= a * W[l, j]
    scale = 1 / l_row[i]
    for j in range(count):
        w[j] *= scale


@kernel(fast=True)
def update_gamma(g: NDArray[Any], x: NDArray[Any], q: NDArray[Any], count: int, update: int) -> float:
    """Replace γ by the rule of that number and return the largest change relative to the largest γ."""
    moved, largest = 0.0, 0.0
    for j in range(count):
        if update == 0:
            fresh = x[j] * x[j] + max(g[j] - g[j] * g[j] * q[j], 0.0)
        elif update == 1:
            fresh = abs(x[j]) / np.sqrt(q[j])
        else:
            fresh = x[j] * x[j] / (g[j] * q[j])
        moved = max(moved, abs(fresh - g[j]))
        largest = max(largest, fresh)
        g[j] = fresh
    return moved / largest if largest > 0.0 else 0.0


@kernel(fast=True)
def learned_noise(
    y: NDArray[Any],
    atoms: NDArray[Any],
    active: NDArray[Any],
    x: NDArray[Any],
    g: NDArray[Any],
    q: NDArray[Any],
    count: int,
    lam: float,
    r: NDArray[Any],
) -> float:
    """Return the EM estimate λ = (‖y − Φx‖² + λ Σ γ_i q_i) / n, the expected squared residual under the posterior."""
    used = 0.0
    for l in range(count):
        used += g[l] * q[l]
    estimate: float = (residual_into(y, atoms, active, x, count, r) + lam * used) / y.shape[0]
    return estimate
