"""Compiled walks over all subsets of k atoms: extreme eigenvalues of Gram blocks, and dependent columns.

Both walk the tree of ascending index tuples and extend a factorisation by one row per step, so that a subset costs
O(k²) instead of O(k³).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import copy_into
from maxsparse._core.threads import over_slices


@kernel()
def _append(
    G: NDArray[Any], S: NDArray[Any], depth: int, atom: int, shift: float, sign: float, L: NDArray[Any]
) -> bool:
    """Extend the Cholesky factor of sign·(shift·I − G_S) by one atom; False if it is not positive definite.

    The diagonal of L holds reciprocals.
    """
    pivot = sign * (shift - G[atom, atom])
    for q in range(depth):
        total = -sign * G[atom, S[q]]
        for l in range(q):
            total -= L[depth, l] * L[q, l]
        total *= L[q, q]
        L[depth, q] = total
        pivot -= total * total
    if not pivot > 0.0:
        return False
    L[depth, depth] = 1.0 / np.sqrt(pivot)
    return True


@kernel()
def _push(
    G: NDArray[Any],
    S: NDArray[Any],
    depth: int,
    bound: float,
    sign: float,
    slack: float,
    L: NDArray[Any],
    best: NDArray[Any],
) -> float:
    """Take S[depth] into the subset and return the bound that now holds: λ_max (sign 1) or λ_min (sign −1).

    By interlacing, a subset that violates the bound violates it for every larger one, so the bound may change at any
    depth.
    """
    if _append(G, S, depth, S[depth], bound + sign * slack, sign, L):
        return bound
    count = depth + 1
    block = np.empty((count, count))
    for i in range(count):
        for j in range(count):
            block[i, j] = G[S[i], S[j]]
    values = np.linalg.eigvalsh(block)
    bound = max(bound, values[-1]) if sign > 0 else min(bound, values[0])
    for i in range(best.shape[0]):
        best[i] = S[i] if i < count else -1
    for i in range(count):  # repeat the whole path with the new shift; it now succeeds
        _append(G, S, i, S[i], bound + sign * slack, sign, L)
    return bound


class Extremes(NamedTuple):
    """Extreme eigenvalues over the subsets of every prefix."""

    highs: NDArray[np.float64]  # (P,), largest λ_max
    lows: NDArray[np.float64]  # (P,), smallest λ_min
    high_supports: NDArray[np.int64]  # (P, k), filled with −1 from the end; valid where highs changed
    low_supports: NDArray[np.int64]  # (P, k), likewise


def extreme_eigenvalues(
    G: NDArray[Any], k: int, prefixes: NDArray[Any], high: float, low: float, slack: float
) -> Extremes:
    """Largest λ_max and smallest λ_min over all k-subsets that begin with one of `prefixes`, if beyond high and low.

    Parameters
    ----------
    G : (m, m), symmetric.
    prefixes : (P, p) ascending index tuples, p ≤ k.
    high, low : known extremes; low ≤ −inf skips λ_min.
    slack : smaller differences are ignored; it must be well above rounding errors.

    Returns
    -------
    extremes : high and low for prefixes that have nothing beyond them.
    """
    P = len(prefixes)
    extremes = Extremes(np.full(P, high), np.full(P, low), np.full((P, k), -1), np.full((P, k), -1))
    over_slices(_extremes_of, P, G, prefixes, slack, extremes)
    return extremes


@kernel()
def _extremes_of(
    piece: int, pieces: int, G: NDArray[Any], prefixes: NDArray[Any], slack: float, extremes: Extremes
) -> None:
    """Visit all subsets that begin with a prefix of this slice; write its extremes and the subsets that have them."""
    highs, lows, high_supports, low_supports = extremes
    P, p = prefixes.shape
    m, k = G.shape[0], high_supports.shape[1]
    S = np.empty(k, dtype=np.int64)
    L_high, L_low = np.zeros((k, k)), np.zeros((k, k))
    for number in range(piece, P, pieces):
        want_low = lows[number] > -np.inf
        depth, start = 0, 0
        while depth >= 0:
            atom = start
            if depth < p:  # the prefix is fixed; stop on the way back
                atom = prefixes[number, depth] if start <= prefixes[number, depth] else m
            if atom > m - (k - depth):
                depth -= 1
                if depth >= 0:
                    start = S[depth] + 1
                continue
            S[depth] = atom
            highs[number] = _push(G, S, depth, highs[number], 1.0, slack, L_high, high_supports[number])
            if want_low:
                lows[number] = _push(G, S, depth, lows[number], -1.0, slack, L_low, low_supports[number])
            start = atom + 1
            if depth < k - 1:
                depth += 1


def find_dependent(atoms: NDArray[Any], size: int, tol: float) -> NDArray[Any]:
    """Find `size` linearly dependent rows of `atoms` whose smaller subsets are independent; −1s if there are none.

    Rows have norm 1. The last row of a dependent set is within `tol` of the span of the others.
    """
    m = len(atoms)
    found = np.full((m, size), -1)
    over_slices(_dependent_from, m, atoms, size, tol, found)
    rows = np.flatnonzero(found[:, 0] >= 0)
    return np.asarray(found[rows[0]]) if rows.size else np.full(size, -1)


@kernel()
def _dependent_from(piece: int, pieces: int, atoms: NDArray[Any], size: int, tol: float, found: NDArray[Any]) -> None:
    """Set found[first] to a dependent set whose lowest row is `first`, for the first rows in this slice."""
    m, n = atoms.shape
    Q = np.empty((size, n))
    S = np.empty(size, dtype=np.int64)
    for first in range(piece, m, pieces):
        S[0] = first
        Q[0] = atoms[first]
        depth, start, done = 1, first + 1, size < 2
        while depth >= 1 and not done:
            if start > m - (size - depth):
                depth -= 1
                start = S[depth] + 1 if depth >= 1 else m
                continue
            S[depth] = start
            rest = _orthogonalise(atoms[start], Q, depth)
            if depth == size - 1:
                if rest <= tol:
                    found[first] = S
                    done = True
                start += 1
            else:
                start += 1
                if rest > tol:  # a smaller dependent set would have been found before
                    depth += 1


@kernel()
def _orthogonalise(a: NDArray[Any], Q: NDArray[Any], depth: int) -> float:
    """Set Q[depth] to the unit part of `a` outside the span of the rows before; return that part's norm."""
    q = Q[depth]
    copy_into(a, q)
    for _ in range(2):  # twice is enough (Kahan, Parlett)
        for l in range(depth):
            overlap = 0.0
            for i in range(q.shape[0]):
                overlap += q[i] * Q[l, i]
            for i in range(q.shape[0]):
                q[i] -= overlap * Q[l, i]
    total = 0.0
    for i in range(q.shape[0]):
        total += q[i] * q[i]
    rest: float = np.sqrt(total)
    if rest > 0.0:
        for i in range(q.shape[0]):
            q[i] /= rest
    return rest
