r"""Evidence of supports made of blocks of atoms, for several snapshots: add, remove or exchange one block.

The same sweep as in :mod:`maxsparse.recovery._sweep`, with a block of columns in place of an atom and R rows of data
in place of one. Outside the support, :math:`T_b = I/\delta + \Phi_b^\top C^{-1}\Phi_b` and :math:`U_b = Y
C^{-1}\Phi_b` are kept of every block; inside, U holds the posterior means, and the swept rows the posterior
covariance. Adding block b changes the evidence by

.. math:: \tfrac12 \operatorname{tr}(U_b T_b^{-1} U_b^\top) - \tfrac L2 \log\det(\delta T_b),

for L snapshots, which R ≤ L rows may stand for. A slab with the mean μ > 0 adds μ/δ to every :math:`\Phi^\top y /
\sigma^2`, and takes :math:`\mu^2 / 2\delta` off the evidence per coefficient.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel

__all__ = [
    "BlockSweep",
    "Blocks",
    "Level",
    "add_block",
    "clear",
    "flip_gains",
    "make_sweep",
    "remove_block",
    "swap_gains",
]


class Blocks(NamedTuple):
    """A real dictionary of columns of norm 1, the columns of every block side by side."""

    atoms: NDArray[np.float64]  # (M, n)
    G: NDArray[np.float64]  # (M, M), their inner products; (0, 0) where these are computed when needed
    inner: NDArray[np.float64]  # (M, w), inner products of a column with those of its own block
    start: NDArray[np.int64]  # (B + 1,), block b is columns start[b] to start[b + 1]


class Level(NamedTuple):
    """Noise and slab."""

    variance: float  # σ²
    slab: float  # δ
    mean: float  # μ, 0 unless coefficients are non-negative
    cost: float  # of a coefficient, in units of −½ log evidence: μ²/δ, and 2 log P(x ≥ 0) where the slab ends at zero
    snapshots: float  # L


class BlockSweep(NamedTuple):
    """The swept rows of the current support, and scratch."""

    H: NDArray[np.float64]  # (most + 1, M); a row per column inside: regression of every column on it, −Σ inside
    T: NDArray[np.float64]  # (M, w), outside: a row of T_b per column
    U: NDArray[np.float64]  # (R, M)
    columns: NDArray[np.int64]  # (most + 1,), inside, in the order of H; the first `inside`
    place: NDArray[np.int64]  # (M,), position of a column in `columns`, or −1
    inside: NDArray[np.int64]  # (1,), how many
    support: NDArray[np.int64]  # (most + 1,), blocks; the first `size`
    at: NDArray[np.int64]  # (B,), position of a block in `support`, or −1
    size: NDArray[np.int64]  # (1,)
    gains: NDArray[np.float64]  # (B,), scratch from here on
    T2: NDArray[np.float64]  # (M, w)
    U2: NDArray[np.float64]  # (R, M)
    gram: NDArray[np.float64]  # (M,)
    rows: NDArray[np.float64]  # (w, M)
    small: NDArray[np.float64]  # (w, w)
    line: NDArray[np.float64]  # (w,)


@kernel()
def make_sweep(blocks: Blocks, R: int, most: int) -> BlockSweep:
    """Return the state for supports of at most `most` columns, and R rows of data."""
    M, w = blocks.inner.shape
    B = blocks.start.shape[0] - 1
    return BlockSweep(
        np.empty((most + 1, M)),
        np.empty((M, w)),
        np.empty((R, M)),
        np.empty(most + 1, np.int64),
        np.full(M, -1, np.int64),
        np.zeros(1, np.int64),
        np.empty(most + 1, np.int64),
        np.full(B, -1, np.int64),
        np.zeros(1, np.int64),
        np.empty(B),
        np.empty((M, w)),
        np.empty((R, M)),
        np.empty(M),
        np.empty((w, M)),
        np.empty((w, w)),
        np.empty(w),
    )


@kernel(fast=True)
def clear(s: BlockSweep, blocks: Blocks, b: NDArray[Any], level: Level) -> None:
    """Start from the empty support; b = YΦ, (R, M)."""
    for a in range(s.inside[0]):
        s.place[s.columns[a]] = -1
    for a in range(s.size[0]):
        s.at[s.support[a]] = -1
    s.inside[0] = s.size[0] = 0
    scale, ridge, shift = 1.0 / level.variance, 1.0 / level.slab, level.mean / level.slab
    for c in range(s.T.shape[0]):
        for i in range(s.T.shape[1]):
            s.T[c, i] = blocks.inner[c, i] * scale
    for k in range(blocks.start.shape[0] - 1):
        for c in range(blocks.start[k], blocks.start[k + 1]):
            s.T[c, c - blocks.start[k]] += ridge
    for r in range(b.shape[0]):
        for c in range(b.shape[1]):
            s.U[r, c] = b[r, c] * scale + shift


@kernel(fast=True)
def _gram_row(blocks: Blocks, j: int, out: NDArray[Any]) -> None:
    if blocks.G.shape[0] > 0:
        row = blocks.G[j]
        for c in range(out.shape[0]):
            out[c] = row[c]
        return
    atom = blocks.atoms[j]
    for c in range(out.shape[0]):
        other, total = blocks.atoms[c], 0.0
        for i in range(atom.shape[0]):
            total += atom[i] * other[i]
        out[c] = total


@kernel(fast=True)
def _shift_T(T: NDArray[Any], row: NDArray[Any], start: NDArray[Any], factor: float) -> None:
    """Add factor · row_b row_bᵀ to T_b of every block."""
    if T.shape[1] == 1:
        for c in range(T.shape[0]):
            T[c, 0] += factor * row[c] * row[c]
        return
    for k in range(start.shape[0] - 1):
        first = start[k]
        for c in range(first, start[k + 1]):
            f = factor * row[c]
            for i in range(start[k + 1] - first):
                T[c, i] += f * row[first + i]


@kernel(fast=True)
def _add_column(s: BlockSweep, blocks: Blocks, j: int, first: int, level: Level) -> float:
    """Add column j of the block that begins at `first`; return the change of the evidence."""
    M, k, R = s.place.shape[0], s.inside[0], s.U.shape[0]
    new = s.H[k]
    _gram_row(blocks, j, s.gram)
    scale = 1.0 / level.variance
    for c in range(M):
        new[c] = s.gram[c] * scale
    for a in range(k):
        row, f = s.H[a], s.gram[s.columns[a]] * scale
        for c in range(M):
            new[c] -= f * row[c]
    pivot = s.T[j, j - first]
    inverse = 1.0 / pivot
    for a in range(k):
        new[s.columns[a]] = s.H[a, j]
    for a in range(k):
        row, f = s.H[a], s.H[a, j] * inverse
        for c in range(M):
            row[c] -= f * new[c]
        row[j] = f
        for r in range(R):
            s.U[r, s.columns[a]] -= f * s.U[r, j]
    for a in range(k):
        new[s.columns[a]] = 0.0  # U of columns inside follows another rule
    new[j] = 0.0
    fit = 0.0
    for r in range(R):
        row, u = s.U[r], s.U[r, j]
        mean = u * inverse
        fit += u * mean
        for c in range(M):
            row[c] -= new[c] * mean
        row[j] = mean
    _shift_T(s.T, new, blocks.start, -inverse)
    for c in range(M):
        new[c] *= inverse
    for a in range(k):
        new[s.columns[a]] = s.H[a, j]
    new[j] = -inverse
    s.columns[k], s.place[j], s.inside[0] = j, k, k + 1
    gain: float = 0.5 * (fit - level.snapshots * (math.log(level.slab * pivot) + level.cost))
    return gain


@kernel(fast=True)
def _remove_column(s: BlockSweep, blocks: Blocks, j: int, first: int, stop: int, level: Level) -> float:
    """Remove column j of the block first..stop; return the change of the evidence."""
    M, p, last, R = s.place.shape[0], s.place[j], s.inside[0] - 1, s.U.shape[0]
    old = s.H[p]
    variance = -old[j]
    inverse = 1.0 / variance
    for a in range(last + 1):
        if a != p:
            row, f = s.H[a], s.H[a, j] * inverse
            for c in range(M):
                row[c] += f * old[c]
            row[j] = f
            for r in range(R):
                s.U[r, s.columns[a]] += f * s.U[r, j]
    for a in range(last + 1):
        old[s.columns[a]] = 0.0
    fit = 0.0
    for r in range(R):
        row, mean = s.U[r], s.U[r, j]
        u = mean * inverse
        fit += u * mean
        for c in range(M):
            row[c] += old[c] * u
        row[j] = u
    _shift_T(s.T, old, blocks.start, inverse)
    for c in range(first, stop):
        s.T[j, c - first] = s.T[c, j - first] = old[c] * inverse
    s.T[j, j - first] = inverse
    if p != last:
        row = s.H[last]
        for c in range(M):
            old[c] = row[c]
        s.columns[p] = s.columns[last]
        s.place[s.columns[p]] = p
    s.place[j], s.inside[0] = -1, last
    gain: float = 0.5 * (level.snapshots * (math.log(level.slab * inverse) + level.cost) - fit)
    return gain


@kernel()
def add_block(s: BlockSweep, blocks: Blocks, b: int, level: Level) -> float:
    """Add block b to the support; return the change of the evidence."""
    gain, first = 0.0, blocks.start[b]
    for j in range(first, blocks.start[b + 1]):
        gain += _add_column(s, blocks, j, first, level)
    s.at[b] = s.size[0]
    s.support[s.size[0]] = b
    s.size[0] += 1
    return gain


@kernel()
def remove_block(s: BlockSweep, blocks: Blocks, b: int, level: Level) -> float:
    """Remove block b from the support; return the change of the evidence."""
    gain, first, stop = 0.0, blocks.start[b], blocks.start[b + 1]
    for j in range(first, stop):
        gain += _remove_column(s, blocks, j, first, stop, level)
    p, last = s.at[b], s.size[0] - 1
    s.support[p] = s.support[last]
    s.at[s.support[p]] = p
    s.at[b], s.size[0] = -1, last
    return gain


@kernel()
def _factor(C: NDArray[Any], size: int) -> float:
    """Replace the lower triangle of C by its Cholesky factor; return log det C."""
    total = 0.0
    for i in range(size):
        for k in range(i + 1):
            value = C[i, k]
            for l in range(k):
                value -= C[i, l] * C[k, l]
            C[i, k] = math.sqrt(max(value, 1e-300)) if k == i else value / C[k, k]
        total += 2.0 * math.log(C[i, i])
    return total


@kernel(fast=True)
def _entering(s: BlockSweep, start: NDArray[Any], T: NDArray[Any], U: NDArray[Any], level: Level) -> None:
    """Set gains to the change of the evidence by adding every block, given T and U."""
    R, B, w = U.shape[0], s.gains.shape[0], T.shape[1]
    own = level.snapshots * (math.log(level.slab) + level.cost)
    if w == 1:
        for c in range(B):
            s.gains[c] = 0.0
        for r in range(R):
            row = U[r]
            for c in range(B):
                s.gains[c] += row[c] * row[c]
        for c in range(B):
            s.gains[c] = 0.5 * (s.gains[c] / T[c, 0] - own - level.snapshots * math.log(T[c, 0]))
        return
    C, x = s.small, s.line
    for b in range(B):
        first, size = start[b], start[b + 1] - start[b]
        for i in range(size):
            for k in range(i + 1):
                C[i, k] = T[first + i, k]
        value = -level.snapshots * _factor(C, size) - size * own
        for r in range(R):
            for i in range(size):
                total = U[r, first + i]
                for l in range(i):
                    total -= C[i, l] * x[l]
                x[i] = total / C[i, i]
                value += x[i] * x[i]
        s.gains[b] = 0.5 * value


@kernel(fast=True)
def _leaving(s: BlockSweep, blocks: Blocks, b: int, level: Level) -> tuple[float, int]:
    """Return the gain of removing block b; leave L⁻¹ times its swept rows in `rows`, for Σ_bb = LLᵀ, in `small`."""
    first, size = blocks.start[b], blocks.start[b + 1] - blocks.start[b]
    C, x = s.small, s.line
    for i in range(size):
        for k in range(i + 1):
            C[i, k] = -s.H[s.place[first + i], first + k]
    gain = level.snapshots * (size * (math.log(level.slab) + level.cost) - _factor(C, size))
    for r in range(s.U.shape[0]):
        for i in range(size):
            total = s.U[r, first + i]
            for l in range(i):
                total -= C[i, l] * x[l]
            x[i] = total / C[i, i]
            gain -= x[i] * x[i]
    return 0.5 * gain, size


@kernel()
def flip_gains(s: BlockSweep, blocks: Blocks, prior: NDArray[Any], level: Level) -> None:
    """Set gains to the change of the log posterior by adding or removing every block; −∞ beyond the largest size."""
    k, room = s.size[0], s.H.shape[0] - 1 - s.inside[0]
    _entering(s, blocks.start, s.T, s.U, level)
    more = prior[k + 1] - prior[k] if k + 1 < prior.shape[0] else -np.inf
    for b in range(s.gains.shape[0]):
        s.gains[b] += more if blocks.start[b + 1] - blocks.start[b] <= room else -np.inf
    for a in range(k):
        gain, _ = _leaving(s, blocks, s.support[a], level)
        s.gains[s.support[a]] = gain + prior[k - 1] - prior[k]


@kernel(fast=True)
def swap_gains(s: BlockSweep, blocks: Blocks, a: int, level: Level) -> None:
    """Set gains to the change by exchanging the a-th block of the support for every other; −∞ inside."""
    M, w, R = s.T.shape[0], s.T.shape[1], s.U.shape[0]
    i = s.support[a]
    loss, size = _leaving(s, blocks, i, level)
    for l in range(size):
        row, own = s.rows[l], s.H[s.place[blocks.start[i] + l]]
        for c in range(M):
            row[c] = own[c]
        for e in range(l):
            f, other = s.small[l, e], s.rows[e]
            for c in range(M):
                row[c] -= f * other[c]
        f = 1.0 / s.small[l, l]
        for c in range(M):
            row[c] *= f
    for c in range(M):
        for e in range(w):
            s.T2[c, e] = s.T[c, e]
    for l in range(size):
        _shift_T(s.T2, s.rows[l], blocks.start, 1.0)
    for r in range(R):
        row, own = s.U2[r], s.U[r]
        for c in range(M):
            row[c] = own[c]
        for l in range(size):
            total = own[blocks.start[i] + l]
            for e in range(l):
                total -= s.small[l, e] * s.line[e]
            s.line[l] = total / s.small[l, l]
            f, other = s.line[l], s.rows[l]
            for c in range(M):
                row[c] += f * other[c]
    # Columns inside hold −Σ and means in these rows; their entries of T2 may be anything, but must not stop Cholesky.
    for e in range(s.inside[0]):
        c = s.columns[e]
        for l in range(w):
            s.T2[c, l] = 0.0
    for e in range(s.size[0]):
        b = s.support[e]
        for c in range(blocks.start[b], blocks.start[b + 1]):
            s.T2[c, c - blocks.start[b]] = 1.0
    _entering(s, blocks.start, s.T2, s.U2, level)
    room = s.H.shape[0] - 1 - s.inside[0] + size
    for b in range(s.gains.shape[0]):
        s.gains[b] += loss if blocks.start[b + 1] - blocks.start[b] <= room else -np.inf
    for e in range(s.size[0]):
        s.gains[s.support[e]] = -np.inf
