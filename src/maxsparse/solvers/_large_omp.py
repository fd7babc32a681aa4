"""Orthogonal matching pursuit for dictionaries whose Gram matrix would not fit: orthonormal bases and Φᵀr by BLAS.

Sums of BLAS depend on the number of rows in their last bits. So they only propose: atoms whose correlation is within
their rounding error of the largest one are compared again by sums in a fixed order, and everything else is computed so.
An answer does not depend on its batch. A whitened dictionary WΦD is not formed: (WΦD)ᵀr is DΦᵀ(Wᵀr), and the few atoms
that are chosen are whitened one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import copy_into, dot, first_largest, magnitude_bits, times
from maxsparse._core.prepared import WideForm
from maxsparse._core.threads import over_slices
from maxsparse.solvers._contract import Batch

__all__ = ["LARGE", "large_omp"]

LARGE = 5000  # atoms; the Gram matrix of more takes over 200 MB
MOST_ROWS = 64  # signals in step with each other: one reading of Φ serves all
DEPENDENT = 1e-12  # share of an atom's energy outside the span of others, below which it is rounding
ROUNDING = 4.0  # of a sum of n products, in units of n·eps times both norms: of two such sums, with a margin
COLUMNS = 2048  # of Φ per product: what every thread writes stays in its cache


class Atoms(NamedTuple):
    """A dictionary WΦD, or Φ where W and D are empty."""

    Phi: NDArray[Any]  # (n, m)
    W: NDArray[Any]  # (r, n) or (0, 0)
    D: NDArray[Any]  # (m,) or (0,)


class State(NamedTuple):
    """Where the signals of a block stand, for up to K atoms each."""

    R: NDArray[Any]  # (B, r), residuals
    Q: NDArray[Any]  # (B, K, r), orthonormal bases of the chosen atoms
    T: NDArray[Any]  # (B, K, K), atom j is Σ_l T[j, l] q_l: lower triangular
    c: NDArray[Any]  # (B, K), qᵀy
    chosen: NDArray[np.int64]  # (B, K)
    found: NDArray[np.int64]  # (B,), number of atoms chosen
    stuck: NDArray[np.bool_]  # (B,), no atom is left that could explain more


def large_omp(
    batch: Batch, limits: NDArray[np.int64], tol: float, spent: NDArray[np.int64], done: NDArray[np.bool_]
) -> None:
    """Run OMP up to `limits` (N,) atoms; write X, the numbers of atoms and which residuals are small enough."""
    (n, m), N = batch.shape, len(batch.Y)
    atoms = _atoms_of(batch)
    K = max(1, min(n, int(limits.max(initial=0))))
    error = ROUNDING * len(atoms.Phi) * float(np.finfo(batch.Y.dtype).eps) * _longest(atoms)
    magnitude = magnitude_bits(batch.Y.dtype)
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
            V = np.ascontiguousarray(state.R[active])
            if atoms.W.size:
                V = times(V, atoms.W)  # Wᵀr, each row by the same operations in any batch
            alpha = np.empty((len(active), m), dtype)
            over_slices(_correlate, -(-m // COLUMNS), V, atoms, alpha)
            over_slices(_grow_rows, len(active), atoms, V, alpha, magnitude, active, error, state)
        over_slices(_solve_rows, B, state, batch.X[rows])
        spent[rows], done[rows] = state.found, small


def _atoms_of(batch: Batch) -> Atoms:
    """Return the dictionary of a batch; one that is whitened, and wide, by its factors."""
    form = batch.form
    if isinstance(form, WideForm) and form.D is not None:
        return Atoms(form.Phi, np.ascontiguousarray(form.W), form.D)
    return Atoms(batch.Phi, np.empty((0, 0), batch.Y.dtype), np.empty(0, batch.Y.dtype))


def _longest(atoms: Atoms) -> float:
    """Return a bound on the norms of the atoms of ΦD, without a copy of Φ."""
    squares = np.zeros(atoms.Phi.shape[1])
    for row in atoms.Phi:
        squares += row * row
    norms = np.sqrt(squares)
    return float((norms * np.abs(atoms.D) if atoms.D.size else norms).max())


def _correlate(piece: int, pieces: int, V: NDArray[Any], atoms: Atoms, alpha: NDArray[Any]) -> None:
    """Set alpha = VΦD for the blocks of columns in this slice of the blocks."""
    for start in range(piece * COLUMNS, alpha.shape[1], pieces * COLUMNS):
        columns = slice(start, start + COLUMNS)
        np.matmul(V, atoms.Phi[:, columns], out=alpha[:, columns])
        if atoms.D.size:
            alpha[:, columns] *= atoms.D[columns]


@kernel()
def _grow_rows(
    piece: int,
    pieces: int,
    atoms: Atoms,
    V: NDArray[Any],
    alpha: NDArray[Any],
    magnitude: NDArray[Any],
    active: NDArray[Any],
    error: float,
    state: State,
) -> None:
    """Add to every active signal the atom with the largest |φᵀv| that is independent of those chosen."""
    r = state.R.shape[1]
    own, atom, rest = np.empty(len(atoms.Phi), V.dtype), np.empty(r, V.dtype), np.empty(r, V.dtype)
    for position in range(piece, len(active), pieces):
        i = active[position]
        count, Q, T = state.found[i], state.Q[i], state.T[i]
        for l in range(count):
            alpha[position, state.chosen[i, l]] = 0.0
        within = error * np.sqrt(dot(V[position], V[position]))
        while True:
            j = _largest(alpha[position], magnitude, atoms, V[position], within, own)
            if alpha[position, j] == 0.0:
                state.stuck[i] = True
                break
            _whitened(atoms, j, own, atom)
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
                for t in range(r):
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


@kernel()
def _largest(
    alpha: NDArray[Any], magnitude: NDArray[Any], atoms: Atoms, v: NDArray[Any], within: float, own: NDArray[Any]
) -> int:
    """Index of the largest |φᵀv|, the lowest among equals; `alpha` knows it up to `within`, and 0 excludes an atom."""
    least = abs(alpha[first_largest(alpha, magnitude)]) - within
    first, place, best = -1, -1, -1.0
    for j in range(alpha.shape[0]):
        if abs(alpha[j]) >= least and alpha[j] != 0.0:
            if first < 0:
                first = j
                continue
            if place < 0:  # there are several: look at the first one as well
                place, best = first, _correlation(atoms, first, v, own)
            value = _correlation(atoms, j, v, own)
            if value > best:
                place, best = j, value
    return max(first, 0) if place < 0 else place


@kernel()
def _correlation(atoms: Atoms, j: int, v: NDArray[Any], own: NDArray[Any]) -> Any:
    """Return |d φᵀv| of atom j, summed in a fixed order."""
    _look_up(atoms.Phi, j, own)
    product = abs(dot(own, v))
    return product * abs(atoms.D[j]) if atoms.D.shape[0] > 0 else product


@kernel()
def _look_up(Phi: NDArray[Any], j: int, atom: NDArray[Any]) -> None:
    """Set atom = φ_j."""
    for t in range(Phi.shape[0]):
        atom[t] = Phi[t, j]


@kernel()
def _whitened(atoms: Atoms, j: int, own: NDArray[Any], atom: NDArray[Any]) -> None:
    """Set atom = dWφ_j; own = φ_j."""
    _look_up(atoms.Phi, j, own)
    if atoms.D.shape[0] == 0:
        copy_into(own, atom)
        return
    for i in range(atom.shape[0]):
        atom[i] = dot(atoms.W[i], own) * atoms.D[j]
