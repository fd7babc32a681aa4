"""Non-negative least squares, min ‖y − Φx‖² s.t. x ≥ 0, by the active-set method of Lawson and Hanson."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import DEPENDENT, axpy_rows, cholesky_solve, dot, residual_into

__all__ = ["active_set", "fit_nonnegative"]

OPTIMAL = 64.0  # roundings that the gradient of an atom outside the support may have
EPS_SINGLE, EPS_DOUBLE = float(np.finfo(np.float32).eps), float(np.finfo(np.float64).eps)
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
    norms, w = np.empty(count, dtype=y.dtype), np.empty(count, dtype=y.dtype)
    for c in range(count):
        for i in range(n):
            Phi[i, c] = rows[c, i] = atoms[columns[c], i]
        norms[c] = np.sqrt(dot(rows[c], rows[c]))
    active_set(y, Phi, rows, norms, np.empty(0, dtype=y.dtype), 0.0, ROUNDS * count + 1, C, w, x, r)
    return dot(r, r)


@kernel(fast=True)
def active_set(
    y: NDArray[Any],
    Phi: NDArray[Any],
    atoms: NDArray[Any],
    norms: NDArray[Any],
    weights: NDArray[Any],
    goal2: float,
    most: int,
    C: NDArray[Any],
    w: NDArray[Any],
    x: NDArray[Any],
    r: NDArray[Any],
) -> tuple[int, bool]:
    """Solve for one signal; r is its residual afterwards. Returns the steps and whether it is optimal.

    Parameters
    ----------
    norms : (m,), of the atoms.
    weights : (m,), the equality Σ weights·x = 1; empty for none.
    goal2 : stop as soon as ‖r‖² is no larger.
    C, w : scratch, (min(n, m), min(n, m)) and (m,).
    """
    m, size = Phi.shape[1], C.shape[0]
    passive, s, z = np.empty(size, dtype=np.int64), np.empty(size, dtype=y.dtype), np.empty(size, dtype=y.dtype)
    blocked = np.zeros(m, dtype=np.bool_)  # in the support, or of no use to the present one
    for j in range(m):
        x[j] = 0
    count, equality = 0, weights.shape[0] > 0
    if equality and m > 0:  # start from the best single atom
        passive[0] = _best_vertex(y, Phi, norms, weights, w)
        x[passive[0]] = 1.0 / weights[passive[0]]
        blocked[passive[0]] = True
        _extend(atoms, passive, 0, C)
        count = 1
    shift = _solve(y, atoms, weights, passive, count, C, s, z, r)
    r2 = residual_into(y, atoms, passive, s, count, r)
    tolerance = OPTIMAL * (EPS_SINGLE if y.itemsize == 4 else EPS_DOUBLE) * np.sqrt(dot(y, y))
    for step in range(most):
        if r2 <= goal2:
            return step, True
        axpy_rows(r, Phi, 0, m, w)
        entering, steepest = -1, 0.0
        for j in range(m):
            slope = w[j] + (shift * weights[j] if equality else 0.0)
            if not blocked[j] and slope > steepest and slope > tolerance * norms[j]:
                entering, steepest = j, slope
        if entering < 0 or count == size:
            return step, entering < 0
        passive[count] = entering
        blocked[entering] = True
        if not _extend(atoms, passive, count, C):
            continue  # depends on the support up to rounding
        shift = _solve(y, atoms, weights, passive, count + 1, C, s, z, r)
        if s[count] > 0.0:
            for j in range(m):
                blocked[j] = x[j] > 0.0
            blocked[entering] = True
            count, shift = _walk(y, atoms, weights, passive, count + 1, C, s, z, r, x, blocked, shift)
        else:  # by rounding: of no use here
            shift = _solve(y, atoms, weights, passive, count, C, s, z, r)
        r2 = residual_into(y, atoms, passive, s, count, r)
    return most, False


@kernel(fast=True)
def _best_vertex(
    y: NDArray[Any], Phi: NDArray[Any], norms: NDArray[Any], weights: NDArray[Any], w: NDArray[Any]
) -> int:
    """Return the atom that alone, with its coefficient 1/weight, leaves the smallest residual."""
    axpy_rows(y, Phi, 0, Phi.shape[1], w)
    best, least = 0, np.inf
    for j in range(Phi.shape[1]):
        change = (norms[j] / weights[j]) ** 2 - 2.0 * w[j] / weights[j]
        if change < least:
            best, least = j, change
    return best


@kernel(fast=True)
def _walk(
    y: NDArray[Any],
    atoms: NDArray[Any],
    weights: NDArray[Any],
    passive: NDArray[Any],
    count: int,
    C: NDArray[Any],
    s: NDArray[Any],
    z: NDArray[Any],
    r: NDArray[Any],
    x: NDArray[Any],
    blocked: NDArray[Any],
    shift: float,
) -> tuple[int, float]:
    """Walk from x to the fit s of the support; atoms that reach zero leave it, until s is positive. Then x = s."""
    while True:
        length = 2.0
        for l in range(count):
            if s[l] <= 0.0:
                length = min(length, _until_zero(x[passive[l]], s[l]))
        if length > 1.0:
            break
        kept, first = 0, count
        for l in range(count):
            j = passive[l]
            if s[l] <= 0.0 and _until_zero(x[j], s[l]) <= length:
                x[j] = 0
                blocked[j] = False
                first = min(first, l)
            else:
                x[j] += length * (s[l] - x[j])
                passive[kept] = j
                kept += 1
        count = kept
        for l in range(first, count):
            _extend(atoms, passive, l, C)
        shift = _solve(y, atoms, weights, passive, count, C, s, z, r)
    for l in range(count):
        x[passive[l]] = s[l]
    return count, shift


@kernel(fast=True)
def _until_zero(x: float, s: float) -> float:
    """Return the share of the way from x to s ≤ 0 at which zero is reached."""
    return x / (x - s) if x > 0.0 else 0.0


@kernel(fast=True)
def _extend(atoms: NDArray[Any], passive: NDArray[Any], count: int, C: NDArray[Any]) -> bool:
    """Add row `count` to the Cholesky factor of the support's Gram matrix; False if that atom depends on the others."""
    atom = atoms[passive[count]]
    rest = size = dot(atom, atom)
    for l in range(count):
        total = dot(atoms[passive[l]], atom)
        for k in range(l):
            total -= C[count, k] * C[l, k]
        C[count, l] = total / C[l, l]
        rest -= C[count, l] * C[count, l]
    if not rest > DEPENDENT * size:
        return False
    C[count, count] = np.sqrt(rest)
    return True


@kernel(fast=True)
def _solve(
    y: NDArray[Any],
    atoms: NDArray[Any],
    weights: NDArray[Any],
    passive: NDArray[Any],
    count: int,
    C: NDArray[Any],
    s: NDArray[Any],
    z: NDArray[Any],
    r: NDArray[Any],
) -> float:
    """Set s to the least squares fit on the support, refined once, with its equality; return −(its multiplier)."""
    for l in range(count):
        s[l] = 0
    shift = 0.0
    for _ in range(2):
        residual_into(y, atoms, passive, s, count, r)
        for l in range(count):
            z[l] = dot(atoms[passive[l]], r)
        cholesky_solve(C, count, z)
        for l in range(count):
            s[l] += z[l]
    if weights.shape[0] > 0:
        total, scale = 1.0, 0.0
        for l in range(count):
            z[l] = weights[passive[l]]
            total -= weights[passive[l]] * s[l]
        cholesky_solve(C, count, z)
        for l in range(count):
            scale += weights[passive[l]] * z[l]
        shift = total / scale
        for l in range(count):
            s[l] += shift * z[l]
    return shift
