"""Enumeration of supports for signals with a structure: every set of k blocks, all snapshots, real or complex."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.joint import fit_blocks, inner, size2

__all__ = ["enumerate_blocks"]

DEPENDENT = 1e-12  # share of an atom's squared norm outside the span of others that is rounding


@kernel()
def enumerate_blocks(
    piece: int,
    pieces: int,
    atoms: NDArray[Any],
    Y: NDArray[Any],
    start: NDArray[Any],
    positive: bool | None,
    rows: NDArray[Any],
    k: int,
    goal: NDArray[Any],
    best: NDArray[Any],
    X: NDArray[Any],
) -> None:
    """Try all sets of k blocks for a slice of `rows`; best[row] becomes the smallest residual within goal[row].

    Depth first: Q holds orthonormal vectors of the blocks on the path, R[l] the residual after the first l of them. A
    non-negative fit is tried where the fit with free signs is good enough.
    """
    m, n = atoms.shape
    L, blocks = Y.shape[1], start.shape[0] - 1
    most = min(m, n)
    Q, R = np.empty((most, n), dtype=Y.dtype), np.empty((k + 1, L, n), dtype=Y.dtype)
    C, x, left = np.empty((m, m), dtype=Y.dtype), np.empty((L, m), dtype=Y.dtype), np.empty((L, n), dtype=Y.dtype)
    path, used = np.zeros(k, dtype=np.int64), np.zeros(k + 1, dtype=np.int64)
    columns = np.empty(m, dtype=np.int64)
    for place in range(piece, rows.shape[0], pieces):
        row = rows[place]
        for l in range(L):
            for i in range(n):
                R[0, l, i] = Y[row, l, i]
        slack = 1e-12 * size2(Y[row])
        depth, block = 0, 0
        while True:
            if block > blocks - (k - depth):
                if depth == 0:
                    break
                depth -= 1
                block = path[depth] + 1
                continue
            path[depth] = block
            used[depth + 1] = _add_block(atoms, start[block], start[block + 1], used[depth], Q, R[depth], R[depth + 1])
            if used[depth + 1] > used[depth]:
                if depth < k - 1:
                    depth += 1
                elif size2(R[k]) <= min(goal[row], best[row]) ** 2 + slack:
                    count = 0
                    for l in range(k):
                        for j in range(start[path[l]], start[path[l] + 1]):
                            columns[count] = j
                            count += 1
                    residual = np.sqrt(fit_blocks(Y[row], atoms, columns, count, positive, C, x, left))
                    if residual <= goal[row] and residual < best[row]:
                        best[row] = residual
                        X[row, :, :] = 0
                        for l in range(L):
                            for c in range(count):
                                X[row, l, columns[c]] = x[l, c]
            block += 1


@kernel(fast=True)
def _add_block(
    atoms: NDArray[Any], first: int, stop: int, count: int, Q: NDArray[Any], R: NDArray[Any], out: NDArray[Any]
) -> int:
    """Orthonormalise atoms first..stop against the first `count` rows of Q, take them off R; return the new count."""
    n = atoms.shape[1]
    for l in range(R.shape[0]):
        for i in range(n):
            out[l, i] = R[l, i]
    for j in range(first, stop):
        if count == Q.shape[0]:
            break
        q = Q[count]
        for i in range(n):
            q[i] = atoms[j, i]
        size = inner(q, q).real
        for _ in range(2):  # twice is enough
            for l in range(count):
                a = inner(Q[l], q)
                for i in range(n):
                    q[i] -= a * Q[l, i]
        rest = inner(q, q).real
        if rest <= DEPENDENT * size:
            continue
        scale = 1.0 / np.sqrt(rest)
        for i in range(n):
            q[i] *= scale
        for l in range(R.shape[0]):
            a = inner(q, out[l])
            for i in range(n):
                out[l, i] -= a * q[i]
        count += 1
    return count
