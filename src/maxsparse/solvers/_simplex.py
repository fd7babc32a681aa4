"""The simplex method for min Σ c_i |x_i| s.t. Φx = y, on a dense tableau, one signal after the other.

A basis is n atoms; the basic solution x_B = B⁻¹y may have any signs s, so every basis is feasible. With the tableau
T = B⁻¹Φ and z = (c_B s)ᵀ T, the basis is optimal when |z_j| ≤ c_j for all j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import copy_into, dot, largest_magnitude, residual_norms, times
from maxsparse._core.sorting import sort
from maxsparse._core.validation import FloatArray

PERTURBATION = 1e-7  # of b = B⁻¹y, relative to its largest entry, against degenerate pivots
ROUNDS = 4  # of pivoting and verifying; the second is needed only when the perturbation changed a sign
SMALLEST_PIVOT = 1e-9
REFINEMENTS = 3  # the first is the solution itself
OPTIMALITY = 1e-9  # slack of the dual constraints due to rounding


@dataclass(frozen=True)
class Tableau:
    """B⁻¹Φ for one well-conditioned basis B, from which all signals start; always float64."""

    basis: NDArray[np.int64]  # (r,) atoms of B
    inverse: NDArray[np.float64]  # (r, n) maps y to the basic solution
    body: NDArray[np.float64]  # (r, m) B⁻¹Φ

    @classmethod
    def of(cls, Phi: FloatArray) -> Tableau:
        """Choose the basis by QR with column pivoting; r is the rank of Φ."""
        Q, R, order = scipy.linalg.qr(Phi.astype(np.float64), mode="economic", pivoting=True)
        diagonal = np.abs(np.diag(R))
        r = int(np.count_nonzero(diagonal > max(Phi.shape) * np.finfo(Phi.dtype).eps * diagonal[0]))
        inverse = scipy.linalg.solve_triangular(R[:r, :r], Q[:, :r].T)
        body = np.empty((r, Phi.shape[1]))
        body[:, order] = scipy.linalg.solve_triangular(R[:r, :r], R[:r])
        return cls(order[:r].astype(np.int64), np.ascontiguousarray(inverse), body)

    def problem(self, Y: FloatArray) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        """Return the basic solutions of all signals (N, r), the basis and the body."""
        return times(Y.astype(np.float64), np.ascontiguousarray(self.inverse.T)), self.basis, self.body

    def feasible(self, Y: FloatArray, atoms: FloatArray, X: FloatArray) -> NDArray[np.bool_]:
        """Return for which signals Φx = y holds; if Φ lacks full rank, it cannot hold for every y."""
        if self.basis.size == Y.shape[1]:
            return np.ones(len(Y), dtype=bool)
        tolerance = np.sqrt(np.finfo(Y.dtype).eps)
        return np.asarray(residual_norms(Y, atoms, X) <= tolerance * np.linalg.norm(Y, axis=1))


class State(NamedTuple):
    """The current basis of one signal, and scratch memory."""

    T: NDArray[np.float64]  # (r, m), B⁻¹Φ
    basis: NDArray[np.int64]  # (r,)
    x: NDArray[np.float64]  # (r,), the basic solution
    b: NDArray[np.float64]  # (r,), the same, perturbed
    sign: NDArray[np.float64]  # (r,)
    costs: NDArray[np.float64]  # (m,)
    z: NDArray[np.float64]  # (m,), (c_B s)ᵀ T
    column: NDArray[np.float64]  # (r,), of the entering atom
    reach: NDArray[np.float64]  # (r,), step at which a basic atom changes its sign
    work: NDArray[np.float64]  # (m,)
    M: NDArray[np.float64]  # (r, r), the basis in terms of the first one
    inverse: NDArray[np.float64]  # (r, r)


@kernel()
def simplex_rows(
    piece: int,
    pieces: int,
    b0: NDArray[Any],
    basis0: NDArray[Any],
    T0: NDArray[Any],
    reweightings: int,
    tol: float,
    most: int,
    X: NDArray[Any],
    spent: NDArray[Any],
    done: NDArray[Any],
) -> None:
    """Solve for every row of b0 with unit costs, then `reweightings` times with costs 1/(|x| + ε)."""
    N, r = b0.shape
    m = T0.shape[1]
    x, b, sign, column, reach = np.empty(r), np.empty(r), np.empty(r), np.empty(r), np.empty(r)
    costs, z, work, T = np.empty(m), np.empty(m), np.empty(m), np.empty((r, m))
    M, inverse, basis = np.empty((r, r)), np.empty((r, r)), np.empty(r, dtype=np.int64)
    state = State(T, basis, x, b, sign, costs, z, column, reach, work, M, inverse)
    for row in range(piece, N, pieces):
        scale = largest_magnitude(b0[row])
        if scale == 0.0:
            done[row] = True
            continue
        for i in range(r):
            x[i] = b0[row, i] / scale
            copy_into(T0[i], T[i])
        copy_into(basis0, basis)
        costs[:] = 1.0
        for round_ in range(reweightings + 1):
            if round_ > 0:
                _reweight(x, basis, m, costs)
            pivots, done[row] = _optimise(state, T0, basis0, b0[row], scale, tol, most)
            spent[row] += pivots
        for i in range(r):
            X[row, basis[i]] = x[i] * scale


@kernel()
def _optimise(
    state: State, T0: NDArray[Any], basis0: NDArray[Any], b0: NDArray[Any], scale: float, tol: float, most: int
) -> tuple[int, bool]:
    """Pivot from the current basis to an optimal one and solve it.

    Returns the number of pivots and whether optimality was verified.
    """
    x, b, sign = state.x, state.b, state.sign
    r = x.shape[0]
    pivots, optimal = 0, False
    for attempt in range(ROUNDS):
        size = largest_magnitude(x) * PERTURBATION
        for i in range(r):
            sign[i] = 1.0 if x[i] >= 0.0 else -1.0
            # Distinct shifts away from zero; the second attempt has none, in case they caused the failure.
            b[i] = x[i] + (sign[i] * size * (1.0 + (i * 0.6180339887498949) % 1.0) if attempt != 1 else 0.0)
        _price(state.T, state.basis, state.costs, sign, state.z)
        pivots += _pivot_to_optimum(state, tol, most - pivots)
        optimal = _solve_basis(state, T0, basis0, b0, scale, tol)
        if optimal or pivots >= most:
            break
        _refactor(T0, state.basis, x, state.T, state.column, state.work)
    return pivots, optimal


@kernel(fast=True)
def _price(T: NDArray[Any], basis: NDArray[Any], costs: NDArray[Any], sign: NDArray[Any], z: NDArray[Any]) -> None:
    """Set z = (c_B s)ᵀ T."""
    for j in range(z.shape[0]):
        z[j] = 0.0
    for i in range(basis.shape[0]):
        subtract(z, -costs[basis[i]] * sign[i], T[i])


@kernel(fast=True)
def _pivot_to_optimum(state: State, tol: float, most: int) -> int:
    """Pivot until no |z_j| exceeds c_j; returns the number of pivots."""
    T, basis, b, sign, column, reach = state.T, state.basis, state.b, state.sign, state.column, state.reach
    costs, z, work = state.costs, state.z, state.work
    r, m = T.shape
    for count in range(most):
        worst = 0.0
        for j in range(m):
            worst = max(worst, abs(z[j]) - costs[j])
        if worst <= tol:
            return count
        entering = 0
        while abs(z[entering]) - costs[entering] < worst:
            entering += 1
        # The entering atom moves by direction·step, the basic ones by −direction·column·step.
        direction = 1.0 if z[entering] > 0.0 else -1.0
        for i in range(r):
            column[i] = T[i, entering]
            shrinks = direction * sign[i] * column[i] > SMALLEST_PIVOT
            reach[i] = abs(b[i] / column[i]) if shrinks else np.inf
        leaving = _leave(state, costs[entering] - abs(z[entering]))
        if leaving < 0:
            return count
        step = direction * reach[leaving]
        for i in range(r):
            b[i] -= column[i] * step
        weight = z[entering] - direction * costs[entering]
        pivot(T, leaving, column, work)
        subtract(z, weight, work)
        basis[leaving], b[leaving], sign[leaving] = entering, step, direction
    return most


@kernel(fast=True)
def _leave(state: State, slope: float) -> int:
    """Move through sign changes of basic atoms, nearest first, while the objective falls; return the leaving atom."""
    reach, sign = state.reach, state.sign
    while True:
        leaving = 0
        for i in range(reach.shape[0]):
            if reach[i] < reach[leaving]:
                leaving = i
        if reach[leaving] == np.inf:
            return -1
        weight = 2.0 * state.costs[state.basis[leaving]] * sign[leaving]
        slope += abs(weight * state.column[leaving])
        if slope >= 0.0:
            return leaving
        subtract(state.z, weight, state.T[leaving])
        sign[leaving] = -sign[leaving]
        reach[leaving] = np.inf


@kernel(fast=True)
def pivot(T: NDArray[Any], row: int, column: NDArray[Any], work: NDArray[Any]) -> None:
    """Eliminate `column`, a copy of one of T's, to the unit vector of `row`; `work` is the new pivot row afterwards."""
    scale = 1.0 / column[row]
    for j in range(T.shape[1]):
        work[j] = T[row, j] * scale
    column[row] = 0.0
    for i in range(T.shape[0]):
        subtract(T[i], column[i], work)
    for j in range(T.shape[1]):
        T[row, j] = work[j]


@kernel(fast=True)
def subtract(target: NDArray[Any], factor: float, source: NDArray[Any]) -> None:
    """Subtract factor·source from `target`."""
    for j in range(target.shape[0]):
        target[j] -= factor * source[j]


@kernel()
def _refactor(
    T0: NDArray[Any],
    basis: NDArray[Any],
    x: NDArray[Any],
    T: NDArray[Any],
    column: NDArray[Any],
    work: NDArray[Any],
) -> None:
    """Recompute T = B⁻¹Φ for the atoms in `basis`; they and x are put in the order of the pivots' rows."""
    r = basis.shape[0]
    atoms, values = basis.copy(), x.copy()
    free = np.ones(r, dtype=np.bool_)
    for i in range(r):
        copy_into(T0[i], T[i])
    for l in range(r):
        atom = atoms[l]
        row, largest = 0, -1.0
        for i in range(r):
            if free[i] and abs(T[i, atom]) > largest:
                row, largest = i, abs(T[i, atom])
        for i in range(r):
            column[i] = T[i, atom]
        pivot(T, row, column, work)
        free[row] = False
        basis[row], x[row] = atom, values[l]


@kernel(fast=True)
def _solve_basis(
    state: State, T0: NDArray[Any], basis0: NDArray[Any], b0: NDArray[Any], scale: float, tol: float
) -> bool:
    """Solve for the basic solution without perturbation and verify that it is optimal.

    The basis is M = T0[:, basis], and its inverse is in the tableau, at the first basis; refinement corrects the
    rounding errors of the pivots. Optimal means: with ν from Mᵀν = c_B s, |φ_jᵀν| ≤ c_j for all j, and
    s_i is the sign of x_i wherever x_i is not zero.
    """
    r, m = T0.shape
    T, M, inverse, dual, x, z = state.T, state.M, state.inverse, state.column, state.x, state.z
    basis, costs, sign = state.basis, state.costs, state.sign
    for i in range(r):
        for l in range(r):
            M[i, l] = T0[i, basis[l]]
            inverse[i, l] = T[i, basis0[l]]
        x[i] = 0.0
        dual[i] = 0.0
    for _ in range(REFINEMENTS):
        for i in range(r):
            z[i] = b0[i] / scale - dot(M[i], x)
        for i in range(r):
            x[i] += dot(inverse[i], z[:r])
        for i in range(r):
            z[i] = costs[basis[i]] * sign[i]
        for i in range(r):
            subtract(z[:r], dual[i], M[i])
        for i in range(r):
            subtract(dual, -z[i], inverse[i])
    largest = largest_magnitude(x)
    agree = True
    for i in range(r):
        if abs(x[i]) <= 1e-13 * largest:
            x[i] = 0.0
        agree = agree and x[i] * sign[i] >= -1e-10 * largest
    for j in range(m):
        z[j] = 0.0
    for i in range(r):
        subtract(z, -dual[i], T0[i])
    worst = 0.0
    for j in range(m):
        worst = max(worst, abs(z[j]) - costs[j])
    return agree and worst <= OPTIMALITY + tol


@kernel()
def _reweight(x: NDArray[Any], basis: NDArray[Any], m: int, costs: NDArray[Any]) -> None:
    """Set c_j = ε / (|x_j| + ε), which is 1 at x_j = 0, with ε by the rule of Candès, Wakin and Boyd."""
    r = basis.shape[0]
    magnitude = np.empty(r)
    for i in range(r):
        magnitude[i] = -abs(x[i])
    sort(magnitude)  # the largest first
    place = int(r / (4.0 * np.log(m / r))) if m > r else r - 1
    epsilon = max(-magnitude[min(place, r - 1)], -1e-3 * magnitude[0])
    costs[:] = 1.0
    for i in range(r):
        costs[basis[i]] = epsilon / (abs(x[i]) + epsilon)
