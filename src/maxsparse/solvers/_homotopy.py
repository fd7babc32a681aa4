"""The exact path of lasso solutions, followed from λ = ‖Φᵀy‖_∞ down until the residual is small enough."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import axpy_rows, cholesky, cholesky_solve, copy_into, dot, residual_into


@kernel()
def homotopy_rows(
    piece: int,
    pieces: int,
    Phi: NDArray[Any],
    atoms: NDArray[Any],
    G: NDArray[Any],
    Y: NDArray[Any],
    goal: NDArray[Any],
    positive: bool,
    most: int,
    X: NDArray[Any],
    spent: NDArray[Any],
    done: NDArray[Any],
) -> None:
    """Solve min ‖x‖₁ s.t. ‖y − Φx‖₂ ≤ goal for every row, over x ≥ 0 where asked."""
    N, n = Y.shape
    m = G.shape[0]
    size = min(n, m)
    L, w, x, sign = np.empty((size, size)), np.empty(size), np.empty(size), np.empty(size)
    r, d = np.empty(n, dtype=Y.dtype), np.empty(n, dtype=Y.dtype)
    c, a = np.empty(m, dtype=Y.dtype), np.empty(m)
    active, blocked = np.empty(size, dtype=np.int64), np.zeros(m, dtype=np.bool_)
    for row in range(piece, N, pieces):
        count, spent[row], done[row] = _follow(
            Phi, atoms, G, Y[row], goal[row], positive, most, L, w, x, sign, r, d, c, a, active, blocked
        )
        for l in range(count):
            X[row, active[l]] = x[l]


@kernel(fast=True)
def _follow(
    Phi: NDArray[Any],
    atoms: NDArray[Any],
    G: NDArray[Any],
    y: NDArray[Any],
    goal: float,
    positive: bool,
    most: int,
    L: NDArray[Any],
    w: NDArray[Any],
    x: NDArray[Any],
    sign: NDArray[Any],
    r: NDArray[Any],
    d: NDArray[Any],
    c: NDArray[Any],
    a: NDArray[Any],
    active: NDArray[Any],
    blocked: NDArray[Any],
) -> tuple[int, int, bool]:
    """Follow the path of one signal; returns the number of active atoms, the steps and whether the goal was met."""
    m, size = Phi.shape[1], L.shape[0]
    if dot(y, y) <= goal * goal:
        return 0, 0, True
    blocked[:] = False
    copy_into(y, r)
    axpy_rows(r, Phi, 0, m, c)
    entering, count = 0, 0
    for j in range(1, m):
        if (c[j] > c[entering]) if positive else (abs(c[j]) > abs(c[entering])):
            entering = j
    lam = abs(c[entering])
    if positive and c[entering] <= 0.0:
        return 0, 0, False
    for step in range(most):
        if entering >= 0:
            active[count], x[count], sign[count] = entering, 0.0, 1.0 if c[entering] > 0.0 else -1.0
            blocked[entering] = True
            count += 1
        if not _direction(G, active, sign, count, L, w):
            return count, step, False
        _images(atoms, G, active, w, count, d, a)
        length, entering, leaving = _breakpoint(lam, c, a, blocked, x, w, count, positive)
        final = _reach(r, d, goal)
        stop = final <= length
        length = min(final, length)
        for l in range(count):
            x[l] += length * w[l]
        residual_into(y, atoms, active, x, count, r)
        if stop or lam - length <= 1e-14 * lam:
            return count, step + 1, stop
        lam -= length
        axpy_rows(r, Phi, 0, m, c)
        if leaving >= 0:
            blocked[active[leaving]] = False
            count = _take_out(leaving, active, x, sign, count)
        elif count == size:
            return count, step + 1, False
    return count, most, False


@kernel(fast=True)
def _direction(
    G: NDArray[Any], active: NDArray[Any], sign: NDArray[Any], count: int, L: NDArray[Any], w: NDArray[Any]
) -> bool:
    """Solve G_S w = s."""
    for l in range(count):
        for k in range(l + 1):
            L[l, k] = G[active[l], active[k]]
        w[l] = sign[l]
    if not cholesky(L, count):
        return False
    cholesky_solve(L, count, w)
    return True


@kernel(fast=True)
def _images(
    atoms: NDArray[Any],
    G: NDArray[Any],
    active: NDArray[Any],
    w: NDArray[Any],
    count: int,
    d: NDArray[Any],
    a: NDArray[Any],
) -> None:
    """Set d = Φw and a = Φᵀd, the speeds of the residual and of the correlations along the path."""
    n, m = d.shape[0], a.shape[0]
    for i in range(n):
        d[i] = 0.0
    for j in range(m):
        a[j] = 0.0
    for l in range(count):
        atom, g = atoms[active[l]], G[active[l]]
        for i in range(n):
            d[i] += w[l] * atom[i]
        for j in range(m):
            a[j] += w[l] * g[j]


@kernel(fast=True)
def _breakpoint(
    lam: float,
    c: NDArray[Any],
    a: NDArray[Any],
    blocked: NDArray[Any],
    x: NDArray[Any],
    w: NDArray[Any],
    count: int,
    positive: bool,
) -> tuple[float, int, int]:
    """Return how far the path is straight, and which atom enters or leaves there (−1 for none)."""
    length, entering, leaving = lam, -1, -1
    for j in range(c.shape[0]):
        if not blocked[j]:
            for s in (1.0, -1.0):
                gain = 1.0 - s * a[j]
                if gain > 1e-12 and (s > 0.0 or not positive) and (lam - s * c[j]) / gain < length:
                    length, entering = max((lam - s * c[j]) / gain, 0.0), j
    for l in range(count):
        if x[l] * w[l] < 0.0 and -x[l] / w[l] < length:
            length, entering, leaving = -x[l] / w[l], -1, l
    return length, entering, leaving


@kernel()
def _take_out(leaving: int, active: NDArray[Any], x: NDArray[Any], sign: NDArray[Any], count: int) -> int:
    """Remove one active atom; returns how many are left."""
    count -= 1
    for l in range(leaving, count):
        active[l], x[l], sign[l] = active[l + 1], x[l + 1], sign[l + 1]
    return count


@kernel(fast=True)
def _reach(r: NDArray[Any], d: NDArray[Any], goal: float) -> float:
    """Return the smallest t ≥ 0 with ‖r − t d‖ = goal, infinity if there is none."""
    dd, rd, rr = dot(d, d), dot(r, d), dot(r, r)
    inside = rd * rd - dd * (rr - goal * goal)
    if dd <= 0.0 or inside < 0.0:
        return np.inf
    return max((rr - goal * goal) / (rd + np.sqrt(inside)), 0.0) if rd > 0.0 else np.inf
