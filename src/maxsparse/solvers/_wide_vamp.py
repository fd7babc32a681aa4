r"""Message passing for dictionaries of many atoms, without the right singular vectors, which take as much memory as Φ.

With :math:`\Phi = USV^\top`, products with V are made of products with Φ: :math:`V^\top r = S^{-1}U^\top \Phi r` and
:math:`Vz = \Phi^\top U S^{-1} z`. Signals go in fours, each by the same operations in any batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import dot
from maxsparse._core.validation import FloatArray
from maxsparse.solvers._vamp_steps import Signals, State, judge, linear_estimate, prior_estimate, send_message

__all__ = ["WideFactors", "wide_vamp_rows"]

GROUP = 4  # signals that share one reading of Φ
SHORT, LONG = 256, 512  # atoms at a time in ΦA and ΦᵀA: what belongs to four signals stays in the cache


class WideFactors(NamedTuple):
    """Φ, and what is needed of Φ = U diag(s) Vᵀ."""

    U: FloatArray  # (n, n)
    s: FloatArray  # (n,), far from zero
    Phi: FloatArray  # (n, m)
    n: int
    m: int


@kernel()
def wide_vamp_rows(
    piece: int,
    pieces: int,
    size: int,
    factors: WideFactors,
    signals: Signals,
    state: State,
    iterations: int,
    tol: float,
    damping: float,
    learn: bool,
    X: NDArray[Any],
    odds: NDArray[Any],
    spent: NDArray[Any],
    done: NDArray[Any],
) -> None:
    N, m = X.shape
    n = factors.n
    x1, r2, x2, fresh = np.zeros((size, m)), np.zeros((size, m)), np.zeros((size, m)), np.zeros((size, m))
    images, z, e2 = np.zeros((size, n)), np.zeros((size, n)), np.zeros(size)
    live = np.empty(size, np.int64)
    for first in range(piece * size, N, pieces * size):
        for _ in range(iterations):
            count = 0  # signals that are done leave their place in a four to others
            for row in range(first, min(N, first + size)):
                if not done[row]:
                    live[count] = row
                    count += 1
            if count == 0:
                break
            for l in range(count):
                prior_estimate(state, live[l], factors, damping, x1[l], r2[l], fresh[l])
            _image(r2, count, factors.Phi, images)
            for l in range(count):
                _to_singular(factors, images[l], z[l])
                e2[l] = linear_estimate(state, live[l], factors, signals, learn, z[l])
                _from_singular(factors, z[l], images[l])
            _adjoint(images, count, factors.Phi, x2)
            for l in range(count):
                row = live[l]
                gap = send_message(state, row, damping, e2[l], x1[l], r2[l], x2[l])
                spent[row] += 1
                if judge(state, row, gap, tol, signals.noise2[row], done):
                    for j in range(m):
                        X[row, j] = signals.scale[row] * x1[l, j]
                        odds[row, j] = fresh[l, j]


@kernel(fast=True)
def _to_singular(factors: WideFactors, image: NDArray[Any], z: NDArray[Any]) -> None:
    """Set z = S⁻¹Uᵀ image."""
    n = image.shape[0]
    for k in range(n):
        z[k] = 0.0
    for i in range(n):
        value, row = image[i], factors.U[i]
        for k in range(n):
            z[k] += value * row[k]
    for k in range(n):
        z[k] /= factors.s[k]


@kernel(fast=True)
def _from_singular(factors: WideFactors, z: NDArray[Any], image: NDArray[Any]) -> None:
    """Set image = US⁻¹z; z is changed."""
    for k in range(z.shape[0]):
        z[k] /= factors.s[k]
    for i in range(z.shape[0]):
        image[i] = dot(factors.U[i], z)


@kernel()
def _image(A: NDArray[Any], count: int, Phi: NDArray[Any], out: NDArray[Any]) -> None:
    """Set out = AΦᵀ for the first fours of rows of A (size, m), `count` rows at least."""
    n, m = Phi.shape
    sums = np.empty(2 * GROUP)
    for row in range(0, count, GROUP):
        for l in range(GROUP):
            for i in range(n):
                out[row + l, i] = 0.0
    for start in range(0, m, SHORT):
        stop = min(m, start + SHORT)
        for row in range(0, count, GROUP):
            # Vectors, not slices of a matrix: the compiler must know that they are contiguous.
            a, b, c, d = A[row, start:stop], A[row + 1, start:stop], A[row + 2, start:stop], A[row + 3, start:stop]
            for i in range(0, n, 2):
                other = min(i + 1, n - 1)
                _eight_products(a, b, c, d, Phi[i, start:stop], Phi[other, start:stop], sums)
                for l in range(GROUP):
                    out[row + l, i] += sums[l]
                    if other > i:
                        out[row + l, other] += sums[GROUP + l]


@kernel(fast=True)
def _eight_products(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    d: NDArray[Any],
    p: NDArray[Any],
    q: NDArray[Any],
    out: NDArray[Any],
) -> None:
    """Set out to the products of a, b, c, d with p, then with q: one load serves several."""
    a0, b0, c0, d0 = 0.0, 0.0, 0.0, 0.0
    a1, b1, c1, d1 = 0.0, 0.0, 0.0, 0.0
    for j in range(p.shape[0]):
        u, v = p[j], q[j]
        a0 += a[j] * u
        b0 += b[j] * u
        c0 += c[j] * u
        d0 += d[j] * u
        a1 += a[j] * v
        b1 += b[j] * v
        c1 += c[j] * v
        d1 += d[j] * v
    out[0], out[1], out[2], out[3] = a0, b0, c0, d0
    out[4], out[5], out[6], out[7] = a1, b1, c1, d1


@kernel()
def _adjoint(A: NDArray[Any], count: int, Phi: NDArray[Any], out: NDArray[Any]) -> None:
    """Set out = AΦ for the first fours of rows of A (size, n), `count` rows at least."""
    n, m = Phi.shape
    for start in range(0, m, LONG):
        stop = min(m, start + LONG)
        for row in range(0, count, GROUP):
            weights = A[row : row + GROUP]
            a, b = out[row, start:stop], out[row + 1, start:stop]
            c, d = out[row + 2, start:stop], out[row + 3, start:stop]
            for j in range(stop - start):
                a[j] = b[j] = c[j] = d[j] = 0.0
            whole = n - n % 4
            for i in range(0, whole, 4):
                p, q, r, s = Phi[i, start:stop], Phi[i + 1, start:stop], Phi[i + 2, start:stop], Phi[i + 3, start:stop]
                _add_four(weights, i, p, q, r, s, a, b, c, d)
            for i in range(whole, n):
                p = Phi[i, start:stop]
                for j in range(stop - start):
                    a[j] += weights[0, i] * p[j]
                    b[j] += weights[1, i] * p[j]
                    c[j] += weights[2, i] * p[j]
                    d[j] += weights[3, i] * p[j]


@kernel(fast=True, apart=True, alone=True)
def _add_four(
    weights: NDArray[Any],
    i: int,
    p: NDArray[Any],
    q: NDArray[Any],
    r: NDArray[Any],
    s: NDArray[Any],
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    d: NDArray[Any],
) -> None:
    """Add p, q, r, s with the weights i to i + 3 of every signal to a, b, c, d."""
    a0, a1, a2, a3 = weights[0, i], weights[0, i + 1], weights[0, i + 2], weights[0, i + 3]
    b0, b1, b2, b3 = weights[1, i], weights[1, i + 1], weights[1, i + 2], weights[1, i + 3]
    c0, c1, c2, c3 = weights[2, i], weights[2, i + 1], weights[2, i + 2], weights[2, i + 3]
    d0, d1, d2, d3 = weights[3, i], weights[3, i + 1], weights[3, i + 2], weights[3, i + 3]
    for j in range(p.shape[0]):
        e, f, g, h = p[j], q[j], r[j], s[j]
        a[j] += a0 * e + a1 * f + a2 * g + a3 * h
        b[j] += b0 * e + b1 * f + b2 * g + b3 * h
        c[j] += c0 * e + c1 * f + c2 * g + c3 * h
        d[j] += d0 * e + d1 * f + d2 * g + d3 * h
