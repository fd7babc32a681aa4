"""Orthogonal matching pursuit for signals with a structure: block by block, all snapshots at once, real or complex.

The Gram–Schmidt form of :mod:`maxsparse.solvers.omp`: w_l = Φᴴq_l for the orthonormalised atoms q_l of the support, and
Φᴴr loses (q_lᴴr) w_l per atom, for every snapshot. Non-negative fits are not
orthogonal, so there residual and correlations are computed anew after every block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.joint import inner, residual_of, size2, solve_triangles
from maxsparse._core.linalg import axpy_rows, times
from maxsparse._core.nonnegative import fit_nonnegative
from maxsparse._core.threads import over_slices
from maxsparse.solvers._contract import Batch

__all__ = ["block_omp"]


def block_omp(
    batch: Batch, limits: NDArray[np.int64], tol: float, spent: NDArray[np.int64], done: NDArray[np.bool_]
) -> None:
    """Add at most `limits` (N,) blocks to every signal of a batch, from zero; writes X, spent and done."""
    N, L, n = batch.Y.shape
    problem = (batch.Y, batch.atoms, batch.structure.start, limits, tol, batch.floor)
    if batch.structure.positive:
        over_slices(_positive_rows, N, batch.Phi, *problem, batch.X, spent, done)
        return
    alpha = times(batch.Y.reshape(N * L, n), np.ascontiguousarray(batch.Phi.conj())).reshape(N, L, -1)
    over_slices(_free_rows, N, batch.form.gram, alpha, *problem, batch.X, spent, done)


@kernel()
def _free_rows(
    piece: int,
    pieces: int,
    G: NDArray[Any],
    alpha: NDArray[Any],
    Y: NDArray[Any],
    atoms: NDArray[Any],
    start: NDArray[Any],
    limits: NDArray[Any],
    tol: float,
    floor: float,
    X: NDArray[Any],
    spent: NDArray[Any],
    done: NDArray[Any],
) -> None:
    N, L, n = Y.shape
    m = G.shape[0]
    most = min(n, m)
    W, C = np.empty((most, m), dtype=Y.dtype), np.empty((most, most), dtype=Y.dtype)
    c, x = np.empty((L, most), dtype=Y.dtype), np.empty((L, most), dtype=Y.dtype)
    R, columns = np.empty((L, n), dtype=Y.dtype), np.empty(most, dtype=np.int64)
    used = np.empty(start.shape[0] - 1, dtype=np.bool_)
    for row in range(piece, N, pieces):
        count, spent[row], done[row] = _free(
            Y[row], atoms, G, alpha[row], start, limits[row], tol, floor, W, C, c, x, R, columns, used
        )
        X[row, :, :] = 0
        for l in range(L):
            for i in range(count):
                X[row, l, columns[i]] = x[l, i]


@kernel(fast=True)
def _free(
    Y: NDArray[Any],
    atoms: NDArray[Any],
    G: NDArray[Any],
    alpha: NDArray[Any],
    start: NDArray[Any],
    limit: int,
    tol: float,
    floor: float,
    W: NDArray[Any],
    C: NDArray[Any],
    c: NDArray[Any],
    x: NDArray[Any],
    R: NDArray[Any],
    columns: NDArray[Any],
    used: NDArray[Any],
) -> tuple[int, int, bool]:
    """Solve for one signal; alpha is Φᴴy on entry and Φᴴr afterwards. Returns numbers of atoms and blocks, success."""
    whole = size2(Y)
    goal2 = max(tol * tol * whole, floor * floor)
    r2, count, blocks, weakest, exact = whole, 0, 0, 1.0, False
    used[:] = False
    while r2 > goal2 and blocks < limit:
        b = _best_block(alpha, start, used, False)
        if b < 0:
            break
        used[b] = True
        before = count
        for j in range(start[b], start[b + 1]):
            rest = G[j, j].real
            for l in range(count):
                rest -= W[l, j].real * W[l, j].real + W[l, j].imag * W[l, j].imag
            if count == C.shape[0] or rest <= 1e-12 * G[j, j].real:
                continue  # depends on the chosen atoms up to rounding
            weakest = min(weakest, rest / G[j, j].real)
            columns[count] = j
            r2 -= _add_atom(G[j], j, count, np.sqrt(rest), W, C, c, alpha)
            count += 1
        blocks += count > before
        # Differences of squares are accurate enough if they are large and the atoms not too similar.
        exact = count > before and (r2 <= max(goal2, 1e-8 * whole) or weakest < 1e-3)
        if exact:
            _back_substitute(C, c, count, x)
            r2 = _refine(Y, atoms, columns, C, count, x, R)
    if not exact:
        _back_substitute(C, c, count, x)
    return count, blocks, r2 <= goal2


@kernel(fast=True)
def _best_block(alpha: NDArray[Any], start: NDArray[Any], used: NDArray[Any], positive: bool) -> int:
    """Return the unused block most correlated with all snapshots, −1 if there is none."""
    best, most = -1, 0.0
    for b in range(used.shape[0]):
        if not used[b]:
            total = 0.0
            for l in range(alpha.shape[0]):
                for j in range(start[b], start[b + 1]):
                    value = alpha[l, j]
                    if not positive or value.real > 0.0:
                        total += value.real * value.real + value.imag * value.imag
            if total > most:
                best, most = b, total
    return best


@kernel(fast=True)
def _add_atom(
    g: NDArray[Any],
    j: int,
    count: int,
    length: float,
    W: NDArray[Any],
    C: NDArray[Any],
    c: NDArray[Any],
    alpha: NDArray[Any],
) -> float:
    """Orthonormalise atom j, g its row of G, and take its part off alpha; return the squared size of that part."""
    w = W[count]
    for i in range(g.shape[0]):
        w[i] = np.conj(g[i])
    for l in range(count):
        C[count, l] = W[l, j]
        a = np.conj(W[l, j])
        for i in range(g.shape[0]):
            w[i] -= a * W[l, i]
    C[count, count] = length
    scale = 1.0 / length
    for i in range(g.shape[0]):
        w[i] *= scale
    part = 0.0
    for l in range(alpha.shape[0]):
        a = alpha[l, j] * scale
        c[l, count] = a
        part += a.real * a.real + a.imag * a.imag
        for i in range(g.shape[0]):
            alpha[l, i] -= a * w[i]
    return part


@kernel(fast=True)
def _back_substitute(C: NDArray[Any], c: NDArray[Any], count: int, x: NDArray[Any]) -> None:
    """Solve Cᴴx = c for every snapshot."""
    for l in range(c.shape[0]):
        for i in range(count - 1, -1, -1):
            total = c[l, i]
            for k in range(i + 1, count):
                total -= np.conj(C[k, i]) * x[l, k]
            x[l, i] = total / C[i, i].real


@kernel(fast=True)
def _refine(
    Y: NDArray[Any],
    atoms: NDArray[Any],
    columns: NDArray[Any],
    C: NDArray[Any],
    count: int,
    x: NDArray[Any],
    R: NDArray[Any],
) -> float:
    """Correct x once by the residual and return ‖Y − Φ_S x‖²."""
    residual_of(Y, atoms, columns, count, x, R)
    step = np.empty(count, dtype=Y.dtype)
    for l in range(Y.shape[0]):
        for i in range(count):
            step[i] = inner(atoms[columns[i]], R[l])
        solve_triangles(C, count, step)
        for i in range(count):
            x[l, i] += step[i]
    return residual_of(Y, atoms, columns, count, x, R)


@kernel()
def _positive_rows(
    piece: int,
    pieces: int,
    Phi: NDArray[Any],
    Y: NDArray[Any],
    atoms: NDArray[Any],
    start: NDArray[Any],
    limits: NDArray[Any],
    tol: float,
    floor: float,
    X: NDArray[Any],
    spent: NDArray[Any],
    done: NDArray[Any],
) -> None:
    N, L, n = Y.shape
    m = Phi.shape[1]
    most = min(n, m)
    C, x = np.empty((most, most), dtype=Y.dtype), np.empty((L, most), dtype=Y.dtype)
    alpha, R = np.empty((L, m), dtype=Y.dtype), np.empty((L, n), dtype=Y.dtype)
    columns, used = np.empty(most, dtype=np.int64), np.empty(start.shape[0] - 1, dtype=np.bool_)
    for row in range(piece, N, pieces):
        whole = size2(Y[row])
        goal2 = max(tol * tol * whole, floor * floor)
        count, blocks = 0, 0
        used[:] = False
        r2 = residual_of(Y[row], atoms, columns, 0, x, R)
        while r2 > goal2 and blocks < limits[row]:
            for l in range(L):
                axpy_rows(R[l], Phi, 0, m, alpha[l])
            b = _best_block(alpha, start, used, True)
            if b < 0:
                break
            used[b] = True
            if count + start[b + 1] - start[b] > most:
                continue  # more atoms than measurements
            for j in range(start[b], start[b + 1]):
                columns[count] = j
                count += 1
            blocks += 1
            r2 = 0.0
            for l in range(L):
                r2 += fit_nonnegative(Y[row, l], atoms, columns, count, C, x[l], R[l])
        X[row, :, :] = 0
        for l in range(L):
            for i in range(count):
                X[row, l, columns[i]] = x[l, i]
        spent[row], done[row] = blocks, r2 <= goal2
