"""Posterior of sparse Bayesian learning for several snapshots, real or complex, with the arithmetic that it needs.

Real and imaginary parts are separate arrays, part 0 and part 1: loops over atoms vectorise, which they would not for
complex numbers. A real problem has part 0 only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import axpy_rows, cholesky
from maxsparse.solvers._posterior import substitute_row, weighted_row

__all__ = ["posterior"]


@kernel(fast=True)
def posterior(
    B: NDArray[Any],
    g: NDArray[Any],
    y: NDArray[Any],
    lam: float,
    count: int,
    S: NDArray[Any],
    W: NDArray[Any],
    V: NDArray[Any],
    x: NDArray[Any],
    q: NDArray[Any],
) -> bool:
    """Set x = Γ Φᴴ S⁻¹ y for all snapshots and q_i = φ_iᴴ S⁻¹ φ_i from S = TTᴴ and W = T⁻¹Φ; False if S is singular."""
    parts, n, _ = B.shape
    L = y.shape[1]
    for p in range(parts):
        for i in range(n):
            for j in range(count):
                W[p, i, j] = g[j] * B[p, i, j]
    for i in range(n):
        if parts == 1:
            weighted_row(W[0, i], B[0], count, i, S[0, i])
        else:
            _weighted_row_complex(W[0, i], W[1, i], B[0], B[1], count, i, S[0, i], S[1, i])
            S[1, i, i] = 0.0
        S[0, i, i] += lam
    if not (cholesky(S[0], n) if parts == 1 else _cholesky_complex(S[0], S[1], n)):
        return False
    for j in range(count):
        q[j] = 0.0
    for i in range(n):
        if parts == 1:
            substitute_row(S[0, i], B[0, i], W[0], count, i)
        else:
            _substitute_row_complex(S[0, i], S[1, i], B[0, i], B[1, i], W[0], W[1], count, i)
        for p in range(parts):
            for j in range(count):
                q[j] += W[p, i, j] * W[p, i, j]
    for l in range(L):
        if parts == 1:
            _forward(S[0], y[0, l], V[0, l])
            axpy_rows(V[0, l], W[0], 0, count, x[0, l])
        else:
            _forward_complex(S[0], S[1], y[0, l], y[1, l], V[0, l], V[1, l])
            _correlate(V[0, l], V[1, l], W[0], W[1], count, x[0, l], x[1, l])
        for p in range(parts):
            for j in range(count):
                x[p, l, j] *= g[j]
    return True


@kernel(fast=True)
def _weighted_row_complex(
    a: NDArray[Any],
    b: NDArray[Any],
    R: NDArray[Any],
    I: NDArray[Any],
    count: int,
    i: int,
    real: NDArray[Any],
    imaginary: NDArray[Any],
) -> None:
    """Set real + i·imaginary of row i of S: its entry k ≤ i is Σ_j (a + ib)_j conj(R + iI)_kj, two k at a time."""
    whole = (i + 1) - (i + 1) % 2
    for k in range(0, whole, 2):
        r = s = t = u = a[0] * 0
        for j in range(count):
            r += a[j] * R[k, j] + b[j] * I[k, j]
            s += b[j] * R[k, j] - a[j] * I[k, j]
            t += a[j] * R[k + 1, j] + b[j] * I[k + 1, j]
            u += b[j] * R[k + 1, j] - a[j] * I[k + 1, j]
        real[k], imaginary[k], real[k + 1], imaginary[k + 1] = r, s, t, u
    for k in range(whole, i + 1):
        r = s = a[0] * 0
        for j in range(count):
            r += a[j] * R[k, j] + b[j] * I[k, j]
            s += b[j] * R[k, j] - a[j] * I[k, j]
        real[k], imaginary[k] = r, s


@kernel(fast=True)
def _substitute_row_complex(
    lr: NDArray[Any],
    li: NDArray[Any],
    br: NDArray[Any],
    bi: NDArray[Any],
    R: NDArray[Any],
    I: NDArray[Any],
    count: int,
    i: int,
) -> None:
    """Set row i of W = R + iI to (b − Σ_{l<i} T_il W_l) / T_ii, two rows of W at a time."""
    wr, wi = R[i], I[i]
    for j in range(count):
        wr[j] = br[j]
        wi[j] = bi[j]
    whole = i - i % 2
    for l in range(0, whole, 2):
        a, b, c, d = lr[l], li[l], lr[l + 1], li[l + 1]
        for j in range(count):
            wr[j] -= (a * R[l, j] - b * I[l, j]) + (c * R[l + 1, j] - d * I[l + 1, j])
            wi[j] -= (a * I[l, j] + b * R[l, j]) + (c * I[l + 1, j] + d * R[l + 1, j])
    for l in range(whole, i):
        a, b = lr[l], li[l]
        for j in range(count):
            wr[j] -= a * R[l, j] - b * I[l, j]
            wi[j] -= a * I[l, j] + b * R[l, j]
    scale = 1 / lr[i]
    for j in range(count):
        wr[j] *= scale
        wi[j] *= scale


@kernel(fast=True)
def _cholesky_complex(R: NDArray[Any], I: NDArray[Any], size: int) -> bool:
    """Factor R + iI = TTᴴ in place, on the lower triangle; return False if it is not positive definite."""
    for i in range(size):
        for j in range(i):
            real, imaginary = R[i, j], I[i, j]
            for l in range(j):
                real -= R[i, l] * R[j, l] + I[i, l] * I[j, l]
                imaginary -= I[i, l] * R[j, l] - R[i, l] * I[j, l]
            R[i, j] = real / R[j, j]
            I[i, j] = imaginary / R[j, j]
        total = R[i, i]
        for l in range(i):
            total -= R[i, l] * R[i, l] + I[i, l] * I[i, l]
        if not total > 0.0:
            return False
        R[i, i] = np.sqrt(total)
        I[i, i] = 0.0
    return True


@kernel(fast=True)
def _forward(T: NDArray[Any], y: NDArray[Any], v: NDArray[Any]) -> None:
    """Set v = T⁻¹y."""
    for i in range(y.shape[0]):
        total = y[i]
        for l in range(i):
            total -= T[i, l] * v[l]
        v[i] = total / T[i, i]


@kernel(fast=True)
def _forward_complex(
    R: NDArray[Any],
    I: NDArray[Any],
    yr: NDArray[Any],
    yi: NDArray[Any],
    vr: NDArray[Any],
    vi: NDArray[Any],
) -> None:
    """Set v = T⁻¹y for T = R + iI."""
    for i in range(yr.shape[0]):
        real, imaginary = yr[i], yi[i]
        for l in range(i):
            real -= R[i, l] * vr[l] - I[i, l] * vi[l]
            imaginary -= R[i, l] * vi[l] + I[i, l] * vr[l]
        vr[i], vi[i] = real / R[i, i], imaginary / R[i, i]


@kernel(fast=True)
def _correlate(
    vr: NDArray[Any],
    vi: NDArray[Any],
    R: NDArray[Any],
    I: NDArray[Any],
    count: int,
    xr: NDArray[Any],
    xi: NDArray[Any],
) -> None:
    """Set x = Wᴴv for W = R + iI, two rows at a time."""
    n = vr.shape[0]
    for j in range(count):
        xr[j] = 0.0
        xi[j] = 0.0
    whole = n - n % 2
    for i in range(0, whole, 2):
        a, b, c, d = vr[i], vi[i], vr[i + 1], vi[i + 1]
        for j in range(count):
            xr[j] += (a * R[i, j] + b * I[i, j]) + (c * R[i + 1, j] + d * I[i + 1, j])
            xi[j] += (b * R[i, j] - a * I[i, j]) + (d * R[i + 1, j] - c * I[i + 1, j])
    for i in range(whole, n):
        a, b = vr[i], vi[i]
        for j in range(count):
            xr[j] += a * R[i, j] + b * I[i, j]
            xi[j] += b * R[i, j] - a * I[i, j]
