"""Group basis pursuit, min Σ_b ‖X_b‖ s.t. ‖Y − XΦᵀ‖ ≤ ε, for blocks, snapshots and complex numbers.

With ‖X_b‖ = min_γ (‖X_b‖²/γ_b + γ_b)/2, the form with a penalty is, up to a factor, the convex problem

    min_{γ ≥ 0} f(γ) = tr Yᴴ S⁻¹ Y + Σ_b γ_b,    S = ΦΓΦᴴ + λI,    X = ΓΦᴴ S⁻¹ Y,

of one variable per block, whatever the number of snapshots. Z = S⁻¹Y and U = ΦᴴZ give its gradient 1 − ‖U_b‖², its
Hessian, and a dual point: Z over the largest ‖U_b‖. The steps γ_b ← γ_b‖U_b‖ never increase f; after a few of them
projected Newton steps follow. λ → 0 is basis pursuit; else λ is moved until the residual is ε.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.joint import inner, size2, solve_triangles
from maxsparse._core.linalg import cholesky, cholesky_solve

__all__ = ["group_l1_rows"]

WARM = 25  # steps before the first Newton step
NEARLY_ZERO = 1e-9  # λ of basis pursuit, relative to the largest block's share of S
NEGLIGIBLE = 1e-8  # γ relative to the largest one that counts as zero
HALVINGS = 8
MET = 1e-6  # relative distance of the residual from ε


class Point(NamedTuple):
    """Where the method stands, and what follows from it."""

    gamma: NDArray[Any]  # (B,)
    u2: NDArray[Any]  # (B,), ‖U_b‖²
    S: NDArray[Any]  # (n, n), factor of S
    Z: NDArray[Any]  # (L, n)
    U: NDArray[Any]  # (L, m)


@kernel()
def group_l1_rows(
    piece: int,
    pieces: int,
    atoms: NDArray[Any],
    Y: NDArray[Any],
    start: NDArray[Any],
    epsilon: float,
    tol: float,
    most: int,
    X: NDArray[Any],
    spent: NDArray[Any],
    done: NDArray[Any],
) -> None:
    """Solve for every row of Y (N, L, n); done where the relative duality gap is at most `tol`."""
    N, L, n = Y.shape
    m, blocks = atoms.shape[0], start.shape[0] - 1
    cap = min(blocks, 4 * n + 16)
    here = Point(
        np.empty(blocks),
        np.empty(blocks),
        np.empty((n, n), Y.dtype),
        np.empty((L, n), Y.dtype),
        np.empty((L, m), Y.dtype),
    )
    y, P, H = np.empty((L, n), Y.dtype), np.empty((cap, L, n), Y.dtype), np.empty((cap, cap))
    trial, direction, free = np.empty(blocks), np.empty(cap), np.empty(cap, dtype=np.int64)
    for row in range(piece, N, pieces):
        size = np.sqrt(size2(Y[row]))
        if size <= epsilon:
            done[row] = True
            continue
        for l in range(L):
            for i in range(n):
                y[l, i] = Y[row, l, i] / size
        spent[row], done[row], lam = _minimise(
            atoms, y, start, epsilon / size, tol, most, here, trial, P, H, direction, free
        )
        _coefficients(atoms, y, start, lam, epsilon, here, size, X[row])


@kernel()
def _minimise(
    atoms: NDArray[Any],
    y: NDArray[Any],
    start: NDArray[Any],
    epsilon: float,
    tol: float,
    most: int,
    here: Point,
    trial: NDArray[Any],
    P: NDArray[Any],
    H: NDArray[Any],
    direction: NDArray[Any],
    free: NDArray[Any],
) -> tuple[int, bool, float]:
    """Solve for one signal of norm 1; returns the steps, whether the gap is small enough, and λ."""
    blocks, power = here.gamma.shape[0], 0.0
    for j in range(atoms.shape[0]):
        power += inner(atoms[j], atoms[j]).real / atoms.shape[1]
    for b in range(blocks):
        here.gamma[b] = 1.0
    lam = NEARLY_ZERO * power if epsilon == 0.0 else epsilon * np.sqrt(power / atoms.shape[0])
    low, high, before, rho_before = 0.0, np.inf, 0.0, 0.0
    for step in range(most):
        f, norm_z, correlation = _evaluate(atoms, y, start, here.gamma, lam, here)
        if not norm_z < np.inf:
            return step, False, lam
        rho, cost, largest_u = lam * norm_z, 0.0, 1.0
        for b in range(blocks):
            cost += here.gamma[b] * np.sqrt(here.u2[b])
            largest_u = max(largest_u, np.sqrt(here.u2[b]))
        bound = (correlation - epsilon * norm_z) / largest_u
        feasible = rho <= (1.0 + MET) * epsilon if epsilon > 0.0 else rho <= np.sqrt(NEARLY_ZERO)
        if feasible and cost - bound <= tol * cost:
            return step, True, lam
        if step < WARM:
            for b in range(blocks):
                here.gamma[b] *= np.sqrt(here.u2[b])
            if epsilon > 0.0:
                lam = epsilon / norm_z
            elif step == WARM - 1:
                lam = NEARLY_ZERO * power * here.gamma.max()
            continue
        if epsilon > 0.0:
            # The gap of the form with a penalty: once it is small, the residual tells which λ to take next.
            penalised = rho * rho / (2.0 * lam) + cost
            dual = correlation / largest_u - 0.5 * lam * (norm_z / largest_u) ** 2
            if (
                penalised - dual <= 0.1 * min(tol, abs(rho / epsilon - 1.0)) * penalised
                and abs(rho - epsilon) > MET * epsilon
            ):
                if rho > epsilon:
                    high = min(high, lam)
                else:
                    low = max(low, lam)
                power_of = 1.0
                if before > 0.0 and abs(np.log(rho / rho_before)) > 1e-12:
                    power_of = np.log(lam / before) / np.log(rho / rho_before)
                before, rho_before = lam, rho
                guess = lam * (epsilon / rho) ** min(max(power_of, 0.2), 5.0)
                if high < np.inf and not low < guess < high:
                    guess = 0.5 * (low + high)
                lam = guess
                continue
        if not _newton(atoms, y, start, lam, f, here, trial, P, H, direction, free):
            for b in range(blocks):
                here.gamma[b] *= np.sqrt(here.u2[b])
    return most, False, lam


@kernel(fast=True)
def _evaluate(
    atoms: NDArray[Any], y: NDArray[Any], start: NDArray[Any], gamma: NDArray[Any], lam: float, out: Point
) -> tuple[float, float, float]:
    """Set S, Z, U and u2 of a point; return f, ‖Z‖ and Re⟨Y, Z⟩, infinite where S is not definite."""
    n, S = y.shape[1], out.S
    for i in range(n):
        for k in range(i + 1):
            S[i, k] = 0
        S[i, i] = lam
    for b in range(gamma.shape[0]):
        if gamma[b] > 0.0:
            for j in range(start[b], start[b + 1]):
                for i in range(n):
                    a = gamma[b] * atoms[j, i]
                    for k in range(i + 1):
                        S[i, k] += a * np.conj(atoms[j, k])
    if not _factor(S):
        return np.inf, np.inf, np.inf
    f = correlation = norm2 = 0.0
    for b in range(gamma.shape[0]):
        f += gamma[b]
        out.u2[b] = 0.0
    for l in range(y.shape[0]):
        z = out.Z[l]
        for i in range(n):
            z[i] = y[l, i]
        solve_triangles(S, n, z)
        correlation += inner(y[l], z).real
        norm2 += inner(z, z).real
        for b in range(gamma.shape[0]):
            for j in range(start[b], start[b + 1]):
                value = inner(atoms[j], z)
                out.U[l, j] = value
                out.u2[b] += value.real * value.real + value.imag * value.imag
    return f + correlation, np.sqrt(norm2), correlation


@kernel(fast=True)
def _factor(S: NDArray[Any]) -> bool:
    """Factor S = CCᴴ in place, on the lower triangle; return False if S is not positive definite."""
    for i in range(S.shape[0]):
        for j in range(i + 1):
            total = S[i, j]
            for l in range(j):
                total -= S[i, l] * np.conj(S[j, l])
            if j < i:
                S[i, j] = total / S[j, j].real
            elif not total.real > 0.0:
                return False
            else:
                S[i, i] = np.sqrt(total.real)
    return True


@kernel()
def _newton(
    atoms: NDArray[Any],
    y: NDArray[Any],
    start: NDArray[Any],
    lam: float,
    f: float,
    here: Point,
    trial: NDArray[Any],
    P: NDArray[Any],
    H: NDArray[Any],
    direction: NDArray[Any],
    free: NDArray[Any],
) -> bool:
    """Take a projected Newton step on the blocks that are not held at zero; False if none of its lengths lowers f."""
    largest, count = here.gamma.max(), 0
    for b in range(here.gamma.shape[0]):
        if here.gamma[b] > NEGLIGIBLE * largest or here.u2[b] > 1.0:
            if count == free.shape[0]:
                return False
            free[count] = b
            count += 1
    _hessian(atoms, start, here, free, count, P, H)
    ridge = 0.0
    for a in range(count):
        ridge += 1e-13 * H[a, a]
    for a in range(count):
        H[a, a] += ridge
        direction[a] = here.u2[free[a]] - 1.0
    if not cholesky(H, count):
        return False
    cholesky_solve(H, count, direction)
    length = 1.0
    for _ in range(HALVINGS):
        for b in range(trial.shape[0]):
            trial[b] = 0.0
        for a in range(count):
            trial[free[a]] = max(here.gamma[free[a]] + length * direction[a], 0.0)
        if trial.max() > 0.0:
            fresh = _evaluate(atoms, y, start, trial, lam, here)[0]
            if fresh <= f:
                for b in range(trial.shape[0]):
                    here.gamma[b] = trial[b]
                return True
        length *= 0.5
    _evaluate(atoms, y, start, here.gamma, lam, here)
    return False


@kernel(fast=True)
def _hessian(
    atoms: NDArray[Any],
    start: NDArray[Any],
    here: Point,
    free: NDArray[Any],
    count: int,
    P: NDArray[Any],
    H: NDArray[Any],
) -> None:
    """Set H_ab = 2 Re⟨P_a, P_b⟩ with P_b = C⁻¹ Φ_b U_b, for every snapshot."""
    n = atoms.shape[1]
    for a in range(count):
        for l in range(here.Z.shape[0]):
            p = P[a, l]
            for i in range(n):
                p[i] = 0
            for j in range(start[free[a]], start[free[a] + 1]):
                for i in range(n):
                    p[i] += here.U[l, j] * atoms[j, i]
            for i in range(n):
                total = p[i]
                for k in range(i):
                    total -= here.S[i, k] * p[k]
                p[i] = total / here.S[i, i].real
        for b in range(a + 1):
            total_h = 0.0
            for l in range(here.Z.shape[0]):
                total_h += inner(P[a, l], P[b, l]).real
            H[a, b] = 2.0 * total_h


@kernel(fast=True)
def _coefficients(
    atoms: NDArray[Any],
    y: NDArray[Any],
    start: NDArray[Any],
    lam: float,
    epsilon: float,
    here: Point,
    size: float,
    X: NDArray[Any],
) -> None:
    """Write X = size·ΓU without negligible blocks; without noise, its small residual is fitted as well."""
    n, largest = y.shape[1], here.gamma.max()
    for b in range(here.gamma.shape[0]):
        if here.gamma[b] <= NEGLIGIBLE * largest:
            here.gamma[b] = 0.0
    _evaluate(atoms, y, start, here.gamma, lam, here)
    r = np.empty(n, dtype=y.dtype)
    for l in range(y.shape[0]):
        for b in range(here.gamma.shape[0]):
            for j in range(start[b], start[b + 1]):
                X[l, j] = here.gamma[b] * here.U[l, j]
        if epsilon == 0.0:
            for i in range(n):
                r[i] = lam * here.Z[l, i]
            solve_triangles(here.S, n, r)
            for b in range(here.gamma.shape[0]):
                for j in range(start[b], start[b + 1]):
                    if here.gamma[b] > 0.0:
                        X[l, j] += here.gamma[b] * inner(atoms[j], r)
        for j in range(X.shape[1]):
            X[l, j] *= size
