"""Non-negative least squares, min ‖y − Φx‖² s.t. x ≥ 0, by the active-set method of Lawson and Hanson."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import DEPENDENT, axpy_rows, cholesky_solve, dot, residual_into

__all__ = ["Goal", "active_set", "fit_nonnegative"]

OPTIMAL = 64.0  # rounding errors in the gradient of an atom outside the support that do not make it enter
EPS_SINGLE, EPS_DOUBLE = float(np.finfo(np.float32).eps), float(np.finfo(np.float64).eps)
SIMILAR = 1e-4  # share of an atom outside the span of others below which every fit is corrected
ROUNDS = 3  # as Lawson and Hanson: at most so many steps per atom


@kernel()
def fit_nonnegative(
    y: NDArray[Any],
    atoms: NDArray[Any],
    columns: NDArray[Any],
    count: int,
    C: NDArray[Any],
    x: NDArray[Any],
    r: NDArray[Any],
) -> float:
    """Fit y on the first `count` columns, x (count,) ≥ 0; return ‖r‖². Scratch: C (min(n, m), min(n, m))."""
    n = y.shape[0]
    Phi, rows = np.empty((n, count), dtype=y.dtype), np.empty((count, n), dtype=y.dtype)
    G, w = np.empty((count, count), dtype=y.dtype), np.empty(count, dtype=y.dtype)
    for c in range(count):
        for i in range(n):
            Phi[i, c] = rows[c, i] = atoms[columns[c], i]
        for d in range(c + 1):
            G[c, d] = G[d, c] = dot(rows[c], rows[d])
    goal = Goal(0.0, 1.0, ROUNDS * count + 1)
    active_set(y, Phi, rows, G, np.empty(0, dtype=y.dtype), goal, C, w, x, r)
    return dot(r, r)


class Goal(NamedTuple):
    """When to stop."""

    residual2: float  # as soon as ‖r‖² is no larger
    errors: float  # rounding errors of y, in units of those of numbers as large as y: whitening makes them larger
    steps: int  # most steps


class Support(NamedTuple):
    """The atoms in use and the factor of their Gram matrix."""

    passive: NDArray[Any]  # (size,), their numbers
    C: NDArray[Any]  # (size, size), lower triangular: the Gram matrix is CCᵀ
    b: NDArray[Any]  # (m,), Φᵀy
    h: NDArray[Any]  # (size,), C⁻¹b of the support
    s: NDArray[Any]  # (size,), the fit
    z: NDArray[Any]  # (size,), scratch
    weakest: NDArray[Any]  # (size,), least share of an atom outside the span of those before it, so far


@kernel()
def _no_atoms(C: NDArray[Any], m: int) -> Support:
    """Return the empty support, with room for as many atoms as C has rows."""
    size = C.shape[0]
    vectors = np.empty((4, size), dtype=C.dtype)
    b = np.empty(m, dtype=C.dtype)
    return Support(np.empty(size, dtype=np.int64), C, b, vectors[0], vectors[1], vectors[2], vectors[3])


@kernel(fast=True)
def active_set(
    y: NDArray[Any],
    Phi: NDArray[Any],
    atoms: NDArray[Any],
    G: NDArray[Any],
    weights: NDArray[Any],
    goal: Goal,
    C: NDArray[Any],
    w: NDArray[Any],
    x: NDArray[Any],
    r: NDArray[Any],
) -> tuple[int, bool]:
    """Solve for one signal; r is its residual afterwards. Returns the steps and whether it is optimal.

    Parameters
    ----------
    G : (m, m), inner products of the atoms.
    weights : (m,), the equality Σ weights·x = 1; empty for none.
    C, w : scratch, (min(n, m), min(n, m)) and (m,).
    """
    m, size = Phi.shape[1], C.shape[0]
    u = _no_atoms(C, m)
    blocked = np.zeros(m, dtype=np.bool_)  # in the support, or of no use to the present one
    axpy_rows(y, Phi, 0, m, u.b)
    for j in range(m):
        x[j] = 0
    whole = dot(y, y)
    count, shift, equality = 0, 0.0, weights.shape[0] > 0
    if equality and m > 0:
        u.passive[0] = _best_vertex(u.b, G, weights)
        x[u.passive[0]] = 1.0 / weights[u.passive[0]]
        blocked[u.passive[0]] = True
        _extend(G, u, 0)
        count, shift = 1, _solve(y, atoms, weights, u, 1, False, r)
    tolerance = OPTIMAL * goal.errors * (EPS_SINGLE if y.itemsize == 4 else EPS_DOUBLE) * np.sqrt(whole)
    entering, accurate = _steepest(u, G, weights, shift, count, blocked, tolerance, w), False
    for step in range(goal.steps):
        # Gradient and residual follow from inner products until they would end the search; then from the data.
        if not accurate and (entering < 0 or count == size or _left(u, count, whole) <= goal.residual2 + 1e-8 * whole):
            shift, left2 = _refit(y, atoms, weights, u, count, x, r)
            accurate = True
            if left2 <= goal.residual2:
                return step, True
            axpy_rows(r, Phi, 0, m, w)
            entering = _largest(w, G, weights, shift, blocked, tolerance)
        if entering < 0 or count == size:
            return step, entering < 0
        u.passive[count] = entering
        blocked[entering] = True
        useful = _extend(G, u, count)  # False where it depends on the support up to rounding
        if useful:
            fresh = _solve(y, atoms, weights, u, count + 1, False, r)
            useful = u.s[count] > 0.0  # else by rounding
            if useful:
                for j in range(m):
                    blocked[j] = x[j] > 0.0
                blocked[entering] = True
                count, shift = _walk(y, atoms, G, weights, u, count + 1, r, x, blocked, fresh)
                accurate = False
            else:
                shift = _solve(y, atoms, weights, u, count, False, r)
        entering = _steepest(u, G, weights, shift, count, blocked, tolerance, w)
        if accurate:  # nothing has changed: the data's gradient has the next one
            axpy_rows(r, Phi, 0, m, w)
            entering = _largest(w, G, weights, shift, blocked, tolerance)
    _refit(y, atoms, weights, u, count, x, r)
    return goal.steps, False


@kernel(fast=True)
def _refit(
    y: NDArray[Any],
    atoms: NDArray[Any],
    weights: NDArray[Any],
    u: Support,
    count: int,
    x: NDArray[Any],
    r: NDArray[Any],
) -> tuple[float, float]:
    """Fit the support from the data, set x and the residual r; return the shift of the equality and ‖r‖²."""
    shift = _solve(y, atoms, weights, u, count, True, r)
    for l in range(count):
        u.s[l] = x[u.passive[l]] = max(u.s[l], 0.0)
    return shift, residual_into(y, atoms, u.passive, u.s, count, r)


@kernel(fast=True)
def _left(u: Support, count: int, whole: float) -> float:
    """Return ‖r‖² of the fit without an equality, by differences."""
    left = whole
    for l in range(count):
        left -= u.h[l] * u.h[l]
    return left


@kernel(fast=True)
def _steepest(
    u: Support,
    G: NDArray[Any],
    weights: NDArray[Any],
    shift: float,
    count: int,
    blocked: NDArray[Any],
    tolerance: float,
    w: NDArray[Any],
) -> int:
    """Set w = Φᵀy − G_S s, four atoms of the support at a time, and return the atom that should enter, or −1."""
    m = w.shape[0]
    for j in range(m):
        w[j] = u.b[j]
    whole = count - count % 4
    for l in range(0, whole, 4):
        p, q, r, t = G[u.passive[l]], G[u.passive[l + 1]], G[u.passive[l + 2]], G[u.passive[l + 3]]
        a, b, c, d = u.s[l], u.s[l + 1], u.s[l + 2], u.s[l + 3]
        for j in range(m):
            w[j] -= (a * p[j] + b * q[j]) + (c * r[j] + d * t[j])
    for l in range(whole, count):
        p, a = G[u.passive[l]], u.s[l]
        for j in range(m):
            w[j] -= a * p[j]
    return _largest(w, G, weights, shift, blocked, tolerance)


@kernel(fast=True)
def _largest(
    w: NDArray[Any], G: NDArray[Any], weights: NDArray[Any], shift: float, blocked: NDArray[Any], tolerance: float
) -> int:
    """Return the atom outside the support with the largest slope above the tolerance, −1 for none."""
    entering, steepest, equality = -1, 0.0, weights.shape[0] > 0
    for j in range(w.shape[0]):
        slope = w[j] + (shift * weights[j] if equality else 0.0)
        if slope > steepest and not blocked[j] and slope > tolerance * np.sqrt(G[j, j]):
            entering, steepest = j, slope
    return entering


@kernel(fast=True)
def _best_vertex(b: NDArray[Any], G: NDArray[Any], weights: NDArray[Any]) -> int:
    """Return the atom that alone, with its coefficient 1/weight, leaves the smallest residual."""
    best, least = 0, np.inf
    for j in range(b.shape[0]):
        change = G[j, j] / weights[j] ** 2 - 2.0 * b[j] / weights[j]
        if change < least:
            best, least = j, change
    return best


@kernel(fast=True)
def _walk(
    y: NDArray[Any],
    atoms: NDArray[Any],
    G: NDArray[Any],
    weights: NDArray[Any],
    u: Support,
    count: int,
    r: NDArray[Any],
    x: NDArray[Any],
    blocked: NDArray[Any],
    shift: float,
) -> tuple[int, float]:
    """Walk from x to the fit s of the support; atoms that reach zero leave it, until s is positive. Then x = s."""
    while True:
        length = 2.0
        for l in range(count):
            if u.s[l] <= 0.0:
                length = min(length, _until_zero(x[u.passive[l]], u.s[l]))
        if length > 1.0:
            break
        kept, first = 0, count
        for l in range(count):
            j = u.passive[l]
            if u.s[l] <= 0.0 and _until_zero(x[j], u.s[l]) <= length:
                x[j] = 0
                blocked[j] = False
                first = min(first, l)
            else:
                x[j] += length * (u.s[l] - x[j])
                u.passive[kept] = j
                kept += 1
        count = kept
        for l in range(first, count):
            _extend(G, u, l)
        shift = _solve(y, atoms, weights, u, count, False, r)
    for l in range(count):
        x[u.passive[l]] = u.s[l]
    return count, shift


@kernel(fast=True)
def _until_zero(x: float, s: float) -> float:
    """Return the share of the way from x to s ≤ 0 at which zero is reached."""
    return x / (x - s) if x > 0.0 else 0.0


@kernel(fast=True)
def _extend(G: NDArray[Any], u: Support, count: int) -> bool:
    """Add the atom at place `count` to the factor of the support; False if it depends on the others."""
    C, g = u.C, G[u.passive[count]]
    rest = size = g[u.passive[count]]
    total = u.b[u.passive[count]]
    for l in range(count):
        value = g[u.passive[l]]
        for k in range(l):
            value -= C[count, k] * C[l, k]
        value /= C[l, l]
        C[count, l] = value
        rest -= value * value
        total -= value * u.h[l]
    if not rest > DEPENDENT * size:
        return False
    C[count, count] = np.sqrt(rest)
    u.h[count] = total / C[count, count]
    u.weakest[count] = min(rest / size, u.weakest[count - 1] if count > 0 else 1.0)
    return True


@kernel(fast=True)
def _solve(
    y: NDArray[Any],
    atoms: NDArray[Any],
    weights: NDArray[Any],
    u: Support,
    count: int,
    refine: bool,
    r: NDArray[Any],
) -> float:
    """Set s to the least squares fit on the support, with its equality; return −(the equality's multiplier).

    The fit is corrected by the residual where that is asked for, and where atoms are similar.
    """
    for i in range(count - 1, -1, -1):
        total = u.h[i]
        for l in range(i + 1, count):
            total -= u.C[l, i] * u.s[l]
        u.s[i] = total / u.C[i, i]
    if count > 0 and (refine or u.weakest[count - 1] < SIMILAR):
        residual_into(y, atoms, u.passive, u.s, count, r)
        for l in range(count):
            u.z[l] = dot(atoms[u.passive[l]], r)
        cholesky_solve(u.C, count, u.z)
        for l in range(count):
            u.s[l] += u.z[l]
    if weights.shape[0] == 0:
        return 0.0
    left, scale = 1.0, 0.0
    for l in range(count):
        u.z[l] = weights[u.passive[l]]
        left -= weights[u.passive[l]] * u.s[l]
    cholesky_solve(u.C, count, u.z)
    for l in range(count):
        scale += weights[u.passive[l]] * u.z[l]
    shift = left / scale
    for l in range(count):
        u.s[l] += shift * u.z[l]
    return shift
