"""Distances of y from spans of atoms.

All projections are by Householder reflections or by modified Gram–Schmidt with y as the last column. Both are backward
stable (Higham 2002, §19): a computed distance is that of atoms perturbed by a few rounding errors each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel

DEPENDENT2 = 1e-28  # a unit atom with less than this squared length left is rounding error, not a direction
OVERHEAD = 250.0  # fixed cost of visiting a node, in multiply-adds


class LastGroups(NamedTuple):
    """Scratch memory for the distances of y from every one of G groups of s atoms."""

    B: NDArray[np.float64]  # (s, n, G), the groups under Gram–Schmidt
    R: NDArray[np.float64]  # (n, G), y modulo each of them
    c: NDArray[np.float64]  # (G,), inner products
    inverse: NDArray[np.float64]  # (G,), 1/‖a‖², or ‖a‖² for groups of one atom
    r2: NDArray[np.float64]  # (G,), the squared distances


@kernel()
def distance2(atoms: NDArray[Any], y: NDArray[Any]) -> float:
    """Return the squared distance of y from the span of the rows of `atoms`."""
    n = len(y)
    r = y.copy()
    q = eliminate(atoms.copy(), len(atoms), 0, r, np.empty((n, n)), np.empty(n))
    return length2(r, q)


@kernel()
def enter_cost(d: float, s: float, later: float) -> float:
    """Return the multiply-adds of eliminating a group of s atoms in d dimensions from the `later` groups."""
    return OVERHEAD + 2.0 * s * max(d - 0.5 * s, 1.0) * (later + 0.5) * s


@kernel()
def last_cost(d: float, s: float, later: float) -> float:
    """Return the multiply-adds of trying each of `later` groups as the last one."""
    return OVERHEAD + later * d * (2.0 if s == 1 else s * s + 3.0 * s)


@kernel(fast=True)
def length2(r: NDArray[Any], q: int) -> float:
    total = 0.0
    for i in range(q, r.shape[0]):
        total += r[i] * r[i]
    return total


@kernel(fast=True)
def eliminate(V: NDArray[Any], count: int, q: int, r: NDArray[Any], U: NDArray[Any], beta: NDArray[Any]) -> int:
    """Reflect the first `count` rows of V, one after the other, onto coordinates q, q + 1, …, and r with them.

    Return the first coordinate outside their span. Of V, only what later rows need is kept.
    """
    n = r.shape[0]
    for a in range(count):
        if q == n:
            break
        size2 = 0.0
        for i in range(q, n):
            size2 += V[a, i] * V[a, i]
        if size2 <= DEPENDENT2:
            continue
        size = np.sqrt(size2)
        alpha = -size if V[a, q] > 0.0 else size
        factor = 1.0 / (size2 - alpha * V[a, q])
        for i in range(q, n):
            U[q, i] = V[a, i]
        U[q, q] -= alpha
        beta[q] = factor
        for c in range(a + 1, count):
            share = 0.0
            for i in range(q, n):
                share += U[q, i] * V[c, i]
            share *= factor
            for i in range(q + 1, n):
                V[c, i] -= share * U[q, i]
        share = 0.0
        for i in range(q, n):
            share += U[q, i] * r[i]
        share *= factor
        for i in range(q + 1, n):
            r[i] -= share * U[q, i]
        q += 1
    return q


@kernel(fast=True)
def reflect(
    U: NDArray[Any],
    beta: NDArray[Any],
    first: int,
    last: int,
    source: NDArray[Any],
    target: NDArray[Any],
    start: int,
    w: NDArray[Any],
) -> None:
    """Set target to source after reflections first … last − 1, in columns from `start` and rows from `last`."""
    n, width = source.shape
    if first == last:
        for i in range(first, n):
            for c in range(start, width):
                target[i, c] = source[i, c]
    for p in range(first, last):
        u = U[p]
        head = u[p] * beta[p]
        for c in range(start, width):
            w[c] = head * source[p, c]
        for i in range(p + 1, n):
            value, row = u[i] * beta[p], source[i]
            for c in range(start, width):
                w[c] += value * row[c]
        for i in range(p + 1, n):
            value, row, out = u[i], source[i], target[i]
            for c in range(start, width):
                out[c] = row[c] - value * w[c]
        source = target


@kernel(fast=True)
def distances_to_atoms(A: NDArray[Any], r: NDArray[Any], q: int, first: int, last: LastGroups) -> None:
    """Set r2[g] = ‖r modulo column g of A‖², rows from q: ‖r‖² − (aᵀr)²/‖a‖²."""
    n, G = A.shape
    c, lengths, r2, total = last.c, last.inverse, last.r2, 0.0
    for g in range(first, G):
        c[g] = 0.0
        lengths[g] = 0.0
    for i in range(q, n):
        value, row = r[i], A[i]
        total += value * value
        for g in range(first, G):
            c[g] += value * row[g]
            lengths[g] += row[g] * row[g]
    for g in range(first, G):
        r2[g] = total - (c[g] * c[g] / lengths[g] if lengths[g] > DEPENDENT2 else 0.0)


@kernel(fast=True)
def distances_to_groups(A: NDArray[Any], r: NDArray[Any], q: int, first: int, last: LastGroups) -> None:
    """Set r2[g] = ‖r modulo the s columns of group g‖², by modified Gram–Schmidt side by side in all groups."""
    B, R, c, inverse, r2 = last.B, last.R, last.c, last.inverse, last.r2
    s, n, G = B.shape
    for i in range(q, n):
        for a in range(s):
            for g in range(first, G):
                B[a, i, g] = A[i, g * s + a]
        for g in range(first, G):
            R[i, g] = r[i]
    for a in range(s):
        for g in range(first, G):
            inverse[g] = 0.0
            c[g] = 0.0
        for i in range(q, n):
            row, rest = B[a, i], R[i]
            for g in range(first, G):
                inverse[g] += row[g] * row[g]
                c[g] += row[g] * rest[g]
        for g in range(first, G):
            inverse[g] = 1.0 / inverse[g] if inverse[g] > DEPENDENT2 else 0.0
            c[g] *= inverse[g]
        for i in range(q, n):
            row, rest = B[a, i], R[i]
            for g in range(first, G):
                rest[g] -= c[g] * row[g]
        for b in range(a + 1, s):
            for g in range(first, G):
                c[g] = 0.0
            for i in range(q, n):
                row, other = B[a, i], B[b, i]
                for g in range(first, G):
                    c[g] += row[g] * other[g]
            for g in range(first, G):
                c[g] *= inverse[g]
            for i in range(q, n):
                row, other = B[a, i], B[b, i]
                for g in range(first, G):
                    other[g] -= c[g] * row[g]
    for g in range(first, G):
        r2[g] = 0.0
    for i in range(q, n):
        for g in range(first, G):
            r2[g] += R[i, g] * R[i, g]
