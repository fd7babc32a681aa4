r"""Guided search, compiled: a random walk over sets of n − 3 atoms that tests all pairs of further atoms at each step.

The set A takes n − 3 of the n rows of a tableau; the other three rows, Z, complete the basis. A step swaps one atom of
A for another, with Metropolis' acceptance rule for :math:`P(A) \propto \prod_{i\in A} w_i`, at the cost of one pivot.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.prepared import Whitened
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

OUTSIDE = 3  # rows of Z: with three, a pair of columns takes one comparison
RESTART = 200  # steps per tableau: more would accumulate rounding errors, fewer would cost time
SPARE = 3  # zeros beyond chance that an answer must have before it is refitted
SMALLEST_PIVOT = 1e-2
LINE = 8  # numbers in a line of the cache: rows that begin with one are swept in two thirds of the time
PROPOSALS = 200


class Walk(NamedTuple):
    """State and scratch memory of the search for one signal."""

    T: NDArray[np.float64]  # (n, m + 1), tableau B⁻¹[Q z], and zeros up to a multiple of LINE columns
    basis: NDArray[np.int64]  # (n,), the column of each row
    place: NDArray[np.int64]  # (m,), the row of each column, or −1
    rows: NDArray[np.int64]  # (n,), the rows of A, then those of Z
    outside: NDArray[np.int64]  # (m − n + 3,), the columns outside A
    keys: NDArray[np.float64]  # (m,)
    order: NDArray[np.int64]  # (m,), the columns by their keys
    work: NDArray[np.int64]  # (m,)
    alpha: NDArray[np.float64]  # (m,), ratios
    bits: NDArray[np.int64]  # (m,), alpha's memory, as integers
    beta: NDArray[np.float64]  # (m,)
    table: NDArray[np.int64]  # hash table of columns
    pairs: NDArray[np.int64]  # (16, 2)
    v: NDArray[np.float64]  # (n,)
    support: NDArray[np.int64]  # (n + 2,)
    x: NDArray[np.float64]  # (n + 2,)
    state: NDArray[np.uint64]  # (1,), of the random number generator
    test: NDArray[np.int64]  # (1,), number of the current test


@kernel()
def _make_walk(n: int, m: int) -> Walk:
    size = 64
    while size < 16 * m:
        size *= 2
    alpha = np.empty(m)
    width = (m // LINE + 1) * LINE
    room = np.zeros(n * width + LINE)
    start = (-room.ctypes.data // 8) % LINE
    return Walk(
        room[start : start + n * width].reshape(n, width),
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
    """Build a tableau from the highest scores; with Gumbel noise, atoms are drawn in proportion to exp(score)."""
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
    """Swap one atom of A for one outside; do nothing if none of many proposals is accepted."""
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
        if where < 0:  # not in the basis: use the largest pivot among the rows that may change
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
def _test(walk: Walk, y: NDArray[Any], problem: Whitened) -> int:
    """Test whether A and two more atoms explain y; return the number of nonzeros of a confirmed answer, or −1."""
    T = walk.T
    n, m = T.shape[0], walk.alpha.shape[0]
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
    """Solve z = Bv + aφ_j + cφ_k with v zero on the rows of Z; store the support and return its size.

    j = k means a single atom.
    """
    T, basis, v, support = walk.T, walk.basis, walk.v, walk.support
    n, m = T.shape[0], walk.alpha.shape[0]
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
    problem: Whitened,
    scores: NDArray[Any],
    weights: NDArray[Any],
    sets: int,
    perturb: bool,
) -> tuple[int, int]:
    """Search for one signal; return the number of nonzeros of the answer (−1 for none) and of sets tested."""
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
    problem: Whitened,
    scores: NDArray[Any],
    sets: int,
    seed: np.uint64,
    perturb: bool,
    X: NDArray[Any],
    found: NDArray[Any],
    spent: NDArray[Any],
) -> None:
    """Search for every row of Y; write the coefficients of the answers found, and the number of sets tested."""
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
            z[i] /= np.sqrt(size)  # unit length: tests for zero need no scale
        for j in range(m):
            weights[j] = np.exp(scores[row, j])
        # Seeded by the signal too, so that an answer does not depend on the signal's place in a batch.
        start_random(walk.state, seed, y)
        next_random(walk.state)
        k, tested = _walk_one(walk, y, z, problem, scores[row], weights, sets, perturb)
        spent[row] += tested
        if k >= 0:
            found[row] = True
            for l in range(k):
                X[row, walk.support[l]] = walk.x[l]
