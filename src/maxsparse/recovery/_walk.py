r"""The compiled walk between information sets, one signal at a time.

A is a set of n − 3 atoms, kept as n − 3 of the n rows of a tableau; the other three rows, Z, complete the basis. A step
swaps one atom of A for another, accepted as Metropolis would for :math:`P(A) \propto \prod_{i\in A} w_i`, at the
price of one pivot, and tests all pairs of atoms outside A.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.prepared import Problem
from maxsparse._core.sorting import argsort
from maxsparse.recovery._tableau import (
    build,
    equal_ratios,
    next_random,
    pair_ratios,
    pivot,
    random_below,
    random_unit,
    start_random,
)
from maxsparse.recovery.refit import refit, tolerance

OUTSIDE = 3  # rows that read a column modulo span(A): three make pairs comparable
RESTART = 100  # steps on one tableau: few enough for its rounding errors, many enough for its cost
SPARE = 3  # zeros that chance does not explain, before a refit is worth its time
SMALLEST_PIVOT = 1e-2
PROPOSALS = 200


class Walk(NamedTuple):
    """State and scratch of one walk."""

    T: NDArray[np.float64]  # (n, m + 1), tableau B⁻¹[Q z]
    basis: NDArray[np.int64]  # (n,), column of a row
    place: NDArray[np.int64]  # (m,), row of a column, or −1
    rows: NDArray[np.int64]  # (n,), the rows of A, then those of Z
    outside: NDArray[np.int64]  # (m − n + 3,), the columns outside A
    keys: NDArray[np.float64]  # (m,)
    order: NDArray[np.int64]  # (m,), the columns by their keys
    work: NDArray[np.int64]  # (m,)
    alpha: NDArray[np.float64]  # (m,), ratios
    bits: NDArray[np.int64]  # (m,), the same memory
    beta: NDArray[np.float64]  # (m,)
    table: NDArray[np.int64]  # hash table of columns
    pairs: NDArray[np.int64]  # (16, 2)
    v: NDArray[np.float64]  # (n,)
    support: NDArray[np.int64]  # (n + 2,)
    x: NDArray[np.float64]  # (n + 2,)
    state: NDArray[np.uint64]  # (1,), of the random numbers
    test: NDArray[np.int64]  # (1,), number of the current test


@kernel()
def _make_walk(n: int, m: int) -> Walk:
    size = 64
    while size < 16 * m:
        size *= 2
    alpha = np.empty(m)
    return Walk(
        np.empty((n, m + 1)),
        np.empty(n, np.int64),
        np.empty(m, np.int64),
        np.empty(n, np.int64),
        np.empty(m - n + OUTSIDE, np.int64),
        np.empty(m),
        np.empty(m, np.int64),
        np.empty(m, np.int64),
        alpha,
        alpha.view(np.int64),
        np.empty(m),
        np.zeros(size, np.int64),
        np.empty((16, 2), np.int64),
        np.empty(n),
        np.empty(n + 2, np.int64),
        np.empty(n + 2),
        np.empty(1, np.uint64),
        np.zeros(1, np.int64),
    )


@kernel()
def _begin(walk: Walk, Q: NDArray[Any], z: NDArray[Any], scores: NDArray[Any], perturb: bool) -> bool:
    """Start from the best scores, perturbed by Gumbel noise: a random set, atoms drawn in proportion to exp(score)."""
    n, m = Q.shape
    for j in range(m):
        walk.keys[j] = -scores[j]
        if perturb:
            walk.keys[j] += np.log(-np.log(random_unit(walk.state)))
    order = walk.order
    argsort(walk.keys, order, walk.work)
    if not build(Q, z, order, walk.T, walk.basis, walk.place):
        return False
    position, count = 0, 0
    for c in order:
        inside = walk.place[c] >= 0 and position < n - OUTSIDE
        if walk.place[c] >= 0:
            walk.rows[position] = walk.place[c]
            position += 1
        if not inside:
            walk.outside[count] = c
            count += 1
    return True


@kernel()
def _swap(walk: Walk, weights: NDArray[Any]) -> None:
    """Exchange one atom of A for one outside, if one of many proposals is accepted."""
    T, basis, rows = walk.T, walk.basis, walk.rows
    n, count = T.shape[0], walk.outside.shape[0]
    A = n - OUTSIDE
    for _ in range(PROPOSALS):
        position = random_below(walk.state, A)
        row = rows[position]
        leaving = basis[row]
        seat = random_below(walk.state, count)
        entering = walk.outside[seat]
        if weights[entering] < weights[leaving] * random_unit(walk.state):
            continue
        where = walk.place[entering]
        if where < 0:  # outside the basis: pivot on the best of the rows that A may lose
            where, best = row, abs(T[row, entering])
            for p in range(A, n):
                if abs(T[rows[p], entering]) > best:
                    where, best = rows[p], abs(T[rows[p], entering])
            if best < SMALLEST_PIVOT:
                continue
            pivot(T, where, entering)
            walk.place[basis[where]] = -1
            basis[where] = entering
            walk.place[entering] = where
        if where != row:
            for p in range(A, n):
                if rows[p] == where:
                    rows[p] = row
            rows[position] = where
        walk.outside[seat] = leaving
        return


@kernel()
def _test(walk: Walk, y: NDArray[Any], problem: Problem) -> int:
    """Look for two atoms that explain y with A; return the number of nonzeros of a confirmed answer, or −1."""
    T = walk.T
    n, m = T.shape[0], T.shape[1] - 1
    a, b, c = walk.rows[n - 3], walk.rows[n - 2], walk.rows[n - 1]
    if abs(T[b, m]) > abs(T[a, m]):
        a, b = b, a
    if abs(T[c, m]) > abs(T[a, m]):
        a, c = c, a
    count = 1
    if abs(T[a, m]) < 1e-10:  # A alone explains y
        walk.pairs[0, 0] = walk.pairs[0, 1] = walk.basis[a]
    else:
        walk.test[0] += 1
        pair_ratios(T, a, b, c, walk.alpha, walk.beta)
        count = equal_ratios(walk.bits, walk.beta, T[a], walk.outside, walk.table, walk.test[0], walk.pairs)
    for h in range(count):
        k = _explain(walk, walk.pairs[h, 0], walk.pairs[h, 1], problem.zero)
        if k <= n - SPARE:
            residual = refit(y, problem, walk.support, k, walk.x)
            if residual <= tolerance(y, problem, walk.support, k, walk.x):
                return k
    return -1


@kernel()
def _explain(walk: Walk, j: int, k: int, zero: float) -> int:
    """Solve z = Bv + aφ_j + cφ_k with v zero on the rows of Z; list the nonzeros and return their number.

    j = k stands for one atom alone.
    """
    T, basis, v, support = walk.T, walk.basis, walk.v, walk.support
    n, m = T.shape[0], T.shape[1] - 1
    a, c, best = 0.0, 0.0, 0.0
    for p in range(3):
        first, second = walk.rows[n - 3 + p], walk.rows[n - 3 + (p + 1) % 3]
        if j == k:
            if abs(T[first, j]) > best:
                best = abs(T[first, j])
                a = T[first, m] / T[first, j]
        else:
            det = T[first, j] * T[second, k] - T[second, j] * T[first, k]
            if abs(det) > best:
                best = abs(det)
                a = (T[first, m] * T[second, k] - T[second, m] * T[first, k]) / det
                c = (T[first, j] * T[second, m] - T[second, j] * T[first, m]) / det
    largest = max(abs(a), abs(c))
    for i in range(n):
        v[i] = T[i, m] - a * T[i, j] - c * T[i, k]
        largest = max(largest, abs(v[i]))
    floor, count = zero * largest, 0
    for i in range(n):
        if abs(v[i]) > floor and basis[i] != j and basis[i] != k:  # j and k may be atoms of Z
            support[count] = basis[i]
            count += 1
    if abs(a) > floor:
        support[count] = j
        count += 1
    if abs(c) > floor:
        support[count] = k
        count += 1
    return count


@kernel()
def _walk_one(
    walk: Walk,
    y: NDArray[Any],
    z: NDArray[Any],
    problem: Problem,
    scores: NDArray[Any],
    weights: NDArray[Any],
    sets: int,
    perturb: bool,
) -> tuple[int, int]:
    """Search for one signal; return the number of nonzeros of the answer (−1 for none) and of the sets tested."""
    tested = 0
    while tested < sets:
        if not _begin(walk, problem.Q, z, scores, perturb):
            return -1, sets
        perturb = True
        for _ in range(min(RESTART, sets - tested)):
            tested += 1
            k = _test(walk, y, problem)
            if k >= 0:
                return k, tested
            _swap(walk, weights)
    return -1, tested


@kernel()
def walk_rows(
    piece: int,
    pieces: int,
    Y: NDArray[Any],
    problem: Problem,
    scores: NDArray[Any],
    sets: int,
    seed: np.uint64,
    perturb: bool,
    X: NDArray[Any],
    found: NDArray[Any],
    spent: NDArray[Any],
) -> None:
    """Search for every row of Y; write the coefficients of those that are found and count the sets of all."""
    N, measurements = Y.shape
    n, m = problem.Q.shape
    walk = _make_walk(n, m)
    z, weights = np.empty(n), np.empty(m)
    for row in range(piece, N, pieces):
        y = Y[row]
        size = 0.0
        for i in range(n):
            z[i] = 0.0
            for l in range(measurements):
                z[i] += problem.W[i, l] * y[l]
            size += z[i] * z[i]
        for i in range(n):
            z[i] /= np.sqrt(size)  # so that zero tests need no scale
        for j in range(m):
            weights[j] = np.exp(scores[row, j])
        # The random numbers depend on the seed and on the signal, not on its place in a batch.
        start_random(walk.state, seed, y)
        next_random(walk.state)
        k, tested = _walk_one(walk, y, z, problem, scores[row], weights, sets, perturb)
        spent[row] += tested
        if k >= 0:
            found[row] = True
            for l in range(k):
                X[row, walk.support[l]] = walk.x[l]
