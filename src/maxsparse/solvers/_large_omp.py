"""Orthogonal matching pursuit for dictionaries whose Gram matrix would not fit: orthonormal bases and Φᵀr in blocks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import copy_into, dot, times
from maxsparse._core.threads import over_slices
from maxsparse.solvers._contract import Batch

__all__ = ["LARGE", "large_omp"]

LARGE = 5000  # atoms; the Gram matrix of more takes over 200 MB
MOST_ROWS = 64  # signals in step with each other: one reading of Φ serves all
DEPENDENT = 1e-12  # share of an atom's energy outside the span of others, below which it is rounding


class State(NamedTuple):
    """Where the signals of a block stand, for up to K atoms each."""

    R: NDArray[Any]  # (B, n), residuals
    Q: NDArray[Any]  # (B, K, n), orthonormal bases of the chosen atoms
    T: NDArray[Any]  # (B, K, K), atom j is Σ_l T[j, l] q_l: lower triangular
    c: NDArray[Any]  # (B, K), qᵀy
    chosen: NDArray[np.int64]  # (B, K)
    found: NDArray[np.int64]  # (B,), number of atoms chosen
    stuck: NDArray[np.bool_]  # (B,), no atom is left that could explain more


def large_omp(
    batch: Batch, limits: NDArray[np.int64], tol: float, spent: NDArray[np.int64], done: NDArray[np.bool_]
) -> None:
    """Run OMP up to `limits` (N,) atoms; write X, the numbers of atoms and which residuals are small enough."""
    (n, m), N = batch.Phi.shape, len(batch.Y)
    K = max(1, min(n, int(limits.max(initial=0))))
    size = int(np.clip(n * m // max(1, m + K * (n + K)), 1, MOST_ROWS))  # blocks take no more memory than Φ
    for first in range(0, N, size):
        rows = slice(first, first + size)
        Y = batch.Y[rows]
        B, dtype = len(Y), Y.dtype
        bases, triangles = np.empty((B, K, n), dtype), np.zeros((B, K, K), dtype)
        state = State(
            Y.copy(), bases, triangles, np.zeros((B, K), dtype), np.zeros((B, K), np.int64), np.zeros(B, np.int64),
            np.zeros(B, bool),
        )  # fmt: skip
        size2 = (Y**2).sum(axis=1)
        goal2 = np.maximum(tol * tol * size2, batch.floor**2)
        while True:
            small = (state.R**2).sum(axis=1) <= goal2
            active = np.flatnonzero(~small & ~state.stuck & (state.found < np.minimum(limits[rows], K)))
            if not active.size:
                break
            alpha = times(np.ascontiguousarray(state.R[active]), batch.Phi)
            over_slices(_grow_rows, len(active), batch.Phi, alpha, active, state)
        over_slices(_solve_rows, B, state, batch.X[rows])
        spent[rows], done[rows] = state.found, small


@kernel()
def _grow_rows(
    piece: int, pieces: int, Phi: NDArray[Any], alpha: NDArray[Any], active: NDArray[Any], state: State
) -> None:
    """Add to every active signal the atom with the largest |φᵀr| that is independent of those chosen."""
    atom, rest = np.empty(len(Phi), dtype=Phi.dtype), np.empty(len(Phi), dtype=Phi.dtype)
    for position in range(piece, len(active), pieces):
        i = active[position]
        count, Q, T = state.found[i], state.Q[i], state.T[i]
        for l in range(count):
            alpha[position, state.chosen[i, l]] = 0.0
        while True:
            j = _largest(alpha[position])
            if alpha[position, j] == 0.0:
                state.stuck[i] = True
                break
            for t in range(len(Phi)):
                atom[t] = Phi[t, j]
            copy_into(atom, rest)
            for l in range(count):
                T[count, l] = 0.0
            for _ in range(2):  # twice, so that the basis is orthonormal to rounding
                for l in range(count):
                    share = dot(Q[l], rest)
                    T[count, l] += share
                    _take_off(rest, Q[l], share)
            left = dot(rest, rest)
            if left > DEPENDENT * dot(atom, atom):
                T[count, count] = np.sqrt(left)
                for t in range(len(Phi)):
                    Q[count, t] = rest[t] / T[count, count]
                state.c[i, count] = dot(Q[count], state.R[i])
                _take_off(state.R[i], Q[count], state.c[i, count])
                state.chosen[i, count] = j
                state.found[i] += 1
                break
            alpha[position, j] = 0.0


@kernel()
def _solve_rows(piece: int, pieces: int, state: State, X: NDArray[Any]) -> None:
    """Set X to the coefficients: Σ_j x_j T[j, l] = c_l for every l."""
    x = np.empty(state.c.shape[1], dtype=state.c.dtype)
    for i in range(piece, len(X), pieces):
        X[i, :] = 0.0
        T, count = state.T[i], state.found[i]
        for l in range(count - 1, -1, -1):
            total = state.c[i, l]
            for j in range(l + 1, count):
                total -= T[j, l] * x[j]
            x[l] = total / T[l, l]
            X[i, state.chosen[i, l]] = x[l]


@kernel(fast=True)
def _take_off(r: NDArray[Any], q: NDArray[Any], share: float) -> None:
    """Set r = r − share·q."""
    for t in range(r.shape[0]):
        r[t] -= share * q[t]


@kernel(fast=True)
def _largest(alpha: NDArray[Any]) -> int:
    """Index of the largest magnitude, the lowest among equals."""
    best, place = abs(alpha[0]), 0
    for j in range(1, alpha.shape[0]):
        if abs(alpha[j]) > best:
            best, place = abs(alpha[j]), j
    return place
