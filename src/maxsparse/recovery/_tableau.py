r"""Tableaux of information sets, and the tests for all pairs of columns outside a set.

Let A be n − 3 columns of Φ and let three more, Z, complete them to a basis B. In the tableau B⁻¹[Φ y] the three rows
of Z hold every column modulo span(A). So y lies in span(A ∪ {j, k}) if and only if the 3-vectors of y, j and k are
linearly dependent: after the direction of y is eliminated, j and k have equal ratios. Hashing finds equal ratios among
m numbers, so one pass tests all m²/2 pairs, as in Stern's algorithm for error-correcting codes. A ratio 0/0 is NaN on
purpose: it is equal to nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
KEY_SHIFT = np.int64(30)  # drop the last 30 bits of a ratio: equal keys mean equal to about 2e-7
COLUMN_BITS = np.int64(24)
COLUMN_MASK = (np.int64(1) << COLUMN_BITS) - np.int64(1)


@kernel()
def next_random(state: NDArray[Any]) -> np.uint64:
    """Advance xorshift64* and return 64 random bits; `state` is a uint64 array of length 1, not zero."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    mixed: np.uint64 = x * np.uint64(0x2545F4914F6CDD1D)
    return mixed


@kernel()
def start_random(state: NDArray[Any], seed: np.uint64, y: NDArray[Any]) -> None:
    """Seed the random numbers of one signal from the seed and the bits of y."""
    bits = y.view(np.uint64)
    x = seed + GOLDEN
    for i in range(y.shape[0]):
        x ^= bits[i]
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    state[0] = x | np.uint64(1)


@kernel()
def random_below(state: NDArray[Any], bound: int) -> int:
    """Return a random integer in 0..bound-1, for bounds far below 2³²."""
    return int(((next_random(state) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@kernel()
def random_unit(state: NDArray[Any]) -> float:
    """Return a random number in (0, 1)."""
    return (np.float64(next_random(state) >> np.uint64(11)) + 0.5) * (1.0 / 9007199254740992.0)


@kernel(fast=True, nan=True)
def pivot(T: NDArray[Any], p: int, c: int) -> None:
    """Make column c the p-th unit vector by row operations."""
    n, M = T.shape
    top = T[p]
    scale = 1.0 / top[c]
    for j in range(M):
        top[j] *= scale
    top[c] = 1.0
    waiting = -1
    for i in range(n):
        if i == p:
            continue
        if waiting < 0:
            waiting = i
        else:
            _clear(T[waiting], T[i], top, c)
            waiting = -1
    if waiting >= 0:
        row = T[waiting]
        factor = row[c]
        for j in range(M):
            row[j] -= factor * top[j]
        row[c] = 0.0


@kernel(fast=True, nan=True)
def _clear(row: NDArray[Any], other: NDArray[Any], top: NDArray[Any], c: int) -> None:
    """Eliminate column c from two rows at once: `top` is loaded once for both, and the loop vectorises."""
    f, g = row[c], other[c]
    for j in range(top.shape[0]):
        row[j] -= f * top[j]
        other[j] -= g * top[j]
    row[c] = 0.0
    other[c] = 0.0


@kernel()
def build(
    Q: NDArray[Any], z: NDArray[Any], order: NDArray[Any], T: NDArray[Any], basis: NDArray[Any], place: NDArray[Any]
) -> bool:
    """Fill the tableau with [Q z] and make a basis of the first columns in `order` that are independent enough.

    basis[row] is the column of a row, place[column] its row or −1. Return False if there is no basis.
    """
    n, m = Q.shape
    for i in range(n):
        for j in range(m):
            T[i, j] = Q[i, j]
        T[i, m] = z[i]
        basis[i] = -1
    for j in range(m):
        place[j] = -1
    found = 0
    for c in order:
        if found == n:
            break
        row, best = -1, 1e-4  # smallest pivot in a unit column; smaller ones lose digits
        for i in range(n):
            if basis[i] < 0 and abs(T[i, c]) > best:
                row, best = i, abs(T[i, c])
        if row >= 0:
            basis[row] = c
            place[c] = row
            pivot(T, row, c)
            found += 1
    full: bool = found == n
    return full


@kernel(fast=True, nan=True)
def pair_ratios(T: NDArray[Any], r: int, s: int, t: int, alpha: NDArray[Any], beta: NDArray[Any]) -> None:
    """Write the ratios of all columns modulo span(A) and y to `alpha`: rows s and t, y eliminated by row r."""
    m = alpha.shape[0]
    f, g = T[s, m] / T[r, m], T[t, m] / T[r, m]
    top, left, right = T[r], T[s], T[t]
    for j in range(m):
        beta[j] = right[j] - g * top[j]
        alpha[j] = (left[j] - f * top[j]) / beta[j]


@kernel()
def equal_ratios(
    keys: NDArray[Any],
    beta: NDArray[Any],
    top: NDArray[Any],
    columns: NDArray[Any],
    table: NDArray[Any],
    test: int,
    pairs: NDArray[Any],
) -> int:
    """Find columns with equal keys by hashing; write them to `pairs` and return how many.

    `keys` are the bits of the ratios α/β of `columns`, the columns outside A. A column with β = 0 and a nonzero in the
    row `top` may explain y alone: it is returned as a pair with itself. A slot of the table holds the number of the
    test that wrote it, and the column. A later column overwrites it: the table is much larger than m, so few pairs are
    missed, and no branch is hard to predict.
    """
    mask = table.shape[0] - 1
    count = 0
    for j in columns:
        if abs(beta[j]) < 1e-10:
            if abs(top[j]) > 1e-6 and count < pairs.shape[0]:
                pairs[count, 0] = pairs[count, 1] = j
                count += 1
            continue
        key = keys[j] >> KEY_SHIFT
        slot = np.int64((np.uint64(key) * GOLDEN) >> np.uint64(40)) & mask
        entry = table[slot]
        table[slot] = test << COLUMN_BITS | j
        if entry >> COLUMN_BITS == test:
            other = entry & COLUMN_MASK
            if keys[other] >> KEY_SHIFT == key and count < pairs.shape[0]:
                pairs[count, 0], pairs[count, 1] = other, j
                count += 1
    return count
