"""Sparse Bayesian learning for signals with a structure: one γ per block of atoms, shared by all snapshots.

Real and imaginary parts are separate arrays, part 0 and part 1, so that loops over atoms vectorise; a real problem has
part 0 only. Active atoms stand side by side in B (parts, n, m), the first `count` columns of which are in use; block a
of the active ones is columns begin[a] to begin[a + 1].
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.threads import over_slices
from maxsparse.solvers._block_posterior import posterior
from maxsparse.solvers._contract import Batch

__all__ = ["Settings", "State", "block_sbl"]


class Settings(NamedTuple):
    """What all signals of a batch share."""

    update: int  # 0 EM, 1 convex, 2 MacKay
    learn: bool  # whether λ is learned
    noise2: float  # noise's variance, 0 for the schedule
    first: float  # λ of the schedule, for signals of unit mean square
    last: float
    smallest: float  # λ while finishing
    tol: float
    prune: float
    start_learning: float
    decay: float
    finish_iterations: int
    finish_prune: float
    positive: bool
    snapshots: int


class State(NamedTuple):
    """What is kept of every signal between iterations."""

    gamma: NDArray[Any]  # (N, B)
    lam: NDArray[np.float64]  # (N,), 0 until the first iteration sets it
    finishing: NDArray[np.int64]
    spent: NDArray[np.int64]
    done: NDArray[np.bool_]


def block_sbl(batch: Batch, settings: Settings, state: State, iterations: int) -> None:
    """Run iterations of every signal that is not done; writes the coefficients to X of the batch."""
    start = batch.structure.start
    X = np.empty((len(batch.Y), 2 if batch.structure.complex else 1, *batch.X.shape[1:]), dtype=batch.X.real.dtype)
    X[:, 0] = batch.X.real
    if batch.structure.complex:
        X[:, 1] = batch.X.imag
    Phi, Y = _parts(batch.Phi, 0), _parts(batch.Y, 1)
    over_slices(_rows, len(Y), Phi, Y, start, settings, iterations, state, X)
    batch.X[...] = X[:, 0]
    if batch.structure.complex:
        batch.X.imag[...] = X[:, 1]


def _parts(array: Any, axis: int) -> NDArray[Any]:
    """Return real and, if there are any, imaginary parts along a new axis."""
    return np.stack([array.real, array.imag] if np.iscomplexobj(array) else [array], axis=axis)


@kernel()
def _rows(
    piece: int,
    pieces: int,
    Phi: NDArray[Any],
    Y: NDArray[Any],
    start: NDArray[Any],
    s: Settings,
    iterations: int,
    state: State,
    X: NDArray[Any],
) -> None:
    N, parts, L, n = Y.shape
    m, blocks = Phi.shape[2], start.shape[0] - 1
    B, W = np.empty((parts, n, m), dtype=Y.dtype), np.empty((parts, n, m), dtype=Y.dtype)
    S, V = np.empty((parts, n, n), dtype=Y.dtype), np.empty((parts, L, n), dtype=Y.dtype)
    y, x = np.empty((parts, L, n), dtype=Y.dtype), np.empty((parts, L, m), dtype=Y.dtype)
    g, q = np.empty(m, dtype=Y.dtype), np.empty(m, dtype=Y.dtype)
    ids, begin = np.empty(blocks, dtype=np.int64), np.empty(blocks + 1, dtype=np.int64)
    for row in range(piece, N, pieces):
        if state.done[row]:
            continue
        scale = _scaled(Y[row], s.snapshots, y)
        if scale == 0.0:
            state.done[row] = True
            continue
        level = s.noise2 / scale / scale
        if state.lam[row] == 0.0:
            state.lam[row] = s.start_learning if s.learn else level if level > 0.0 else s.first
        active = _pack(Phi, start, state.gamma[row], B, g, ids, begin)
        for _ in range(iterations):
            if not posterior(B, g, y, state.lam[row], begin[active], S, W, V, x, q):
                break  # λ is too small for this precision: keep the last x
            _write(x, ids, begin, active, start, scale, s.positive, X[row])
            settled, finish = True, state.finishing[row] > 0
            if s.learn:
                fresh = max(_learned_noise(B, y, x, g, q, begin[active], state.lam[row], s.snapshots), s.last)
                settled = abs(fresh - state.lam[row]) <= s.tol * state.lam[row]
                state.lam[row] = fresh
            elif level == 0.0:
                settled = state.lam[row] <= s.last
                state.lam[row] = max(state.lam[row] * (0.1 if finish else s.decay), s.smallest if finish else s.last)
            rule = 2 if finish else s.update
            moved = _update(x, g, q, begin, active, rule, s.positive, s.snapshots)
            state.spent[row] += 1
            active = _drop(B, g, ids, begin, active, start, s.finish_prune if finish else s.prune, X[row])
            settled = settled and moved <= s.tol
            if s.update == 0 and (settled or finish):  # as in `sbl`: MacKay's update ends what EM has found
                state.finishing[row] += 1
                settled = state.finishing[row] > s.finish_iterations
            if settled:
                state.done[row] = True
                break
        state.gamma[row, :] = 0.0
        for a in range(active):
            state.gamma[row, ids[a]] = g[begin[a]]


@kernel()
def _scaled(Y: NDArray[Any], snapshots: int, out: NDArray[Any]) -> float:
    """Set out = Y / scale with the scale that gives it unit mean square, and return the scale; 0 for Y = 0."""
    parts, L, n = Y.shape
    size = 0.0
    for p in range(parts):
        for l in range(L):
            for i in range(n):
                size = max(size, abs(Y[p, l, i]))
    if size == 0.0:
        return 0.0
    mean2 = 0.0  # after division by the largest entry, so that tiny and huge signals neither under- nor overflow
    for p in range(parts):
        for l in range(L):
            for i in range(n):
                mean2 += (Y[p, l, i] / size) ** 2 / (n * snapshots)
    scale: float = size * np.sqrt(mean2)
    for p in range(parts):
        for l in range(L):
            for i in range(n):
                out[p, l, i] = Y[p, l, i] / scale
    return scale


@kernel()
def _pack(
    Phi: NDArray[Any],
    start: NDArray[Any],
    gamma: NDArray[Any],
    B: NDArray[Any],
    g: NDArray[Any],
    ids: NDArray[Any],
    begin: NDArray[Any],
) -> int:
    """Copy the atoms of blocks with γ > 0 side by side to B; return how many blocks there are."""
    active, count = 0, 0
    begin[0] = 0
    for b in range(start.shape[0] - 1):
        if gamma[b] > 0.0:
            ids[active] = b
            for j in range(start[b], start[b + 1]):
                g[count] = gamma[b]
                for p in range(Phi.shape[0]):
                    for i in range(Phi.shape[1]):
                        B[p, i, count] = Phi[p, i, j]
                count += 1
            active += 1
            begin[active] = count
    return active


@kernel()
def _write(
    x: NDArray[Any],
    ids: NDArray[Any],
    begin: NDArray[Any],
    active: int,
    start: NDArray[Any],
    scale: float,
    positive: bool,
    X: NDArray[Any],
) -> None:
    """Write the coefficients of the active blocks to X (parts, L, m)."""
    for p in range(x.shape[0]):
        for l in range(x.shape[1]):
            for a in range(active):
                first = start[ids[a]]
                for j in range(begin[a], begin[a + 1]):
                    value = x[p, l, j] * scale
                    X[p, l, first + j - begin[a]] = max(value, 0.0) if positive else value


@kernel(fast=True)
def _update(
    x: NDArray[Any],
    g: NDArray[Any],
    q: NDArray[Any],
    begin: NDArray[Any],
    active: int,
    rule: int,
    positive: bool,
    snapshots: int,
) -> float:
    """Replace γ of every block by the rule of that number; return the largest change relative to the largest γ."""
    moved, largest = 0.0, 0.0
    for a in range(active):
        first, stop = begin[a], begin[a + 1]
        old, power, sharpness = g[first], 0.0, 0.0
        for j in range(first, stop):
            variance = max(old - old * old * q[j], 0.0)
            sharpness += q[j]
            for p in range(x.shape[0]):
                for l in range(x.shape[1]):
                    value = x[p, l, j]
                    if not positive:
                        power += value * value
                    elif rule == 0:
                        power += second_moment(value, variance) - variance
                    else:
                        power += max(value, 0.0) ** 2
        power /= (stop - first) * snapshots
        sharpness /= stop - first
        if rule == 0:
            fresh = max(power + max(old - old * old * sharpness, 0.0), 0.0)
        elif rule == 1:
            fresh = np.sqrt(power / sharpness)
        else:
            fresh = power / (old * sharpness)
        moved = max(moved, abs(fresh - old))
        largest = max(largest, fresh)
        for j in range(first, stop):
            g[j] = fresh
    return moved / largest if largest > 0.0 else 0.0


@kernel()
def second_moment(mean: float, variance: float) -> float:
    """Return E[x² | x ≥ 0] of a normal x, by the inverse Mills ratio h(a) = φ(a)/Φ(a), a = mean/deviation."""
    if variance <= 0.0 or (mean * mean > 1e4 * variance and mean > 0.0):
        return max(mean, 0.0) ** 2 + variance
    a = mean / math.sqrt(variance)
    if a < -10.0:  # 1 + a² + a·h would be a difference of large numbers: its asymptotic series
        return variance * (2.0 - 10.0 / (a * a)) / (a * a)
    h = math.sqrt(2.0 / math.pi) * math.exp(-0.5 * a * a) / math.erfc(-a / math.sqrt(2.0))
    return variance * (1.0 + a * a + a * h)


@kernel()
def _drop(
    B: NDArray[Any],
    g: NDArray[Any],
    ids: NDArray[Any],
    begin: NDArray[Any],
    active: int,
    start: NDArray[Any],
    prune: float,
    X: NDArray[Any],
) -> int:
    """Remove blocks whose γ is below prune times the largest one; return how many are left."""
    largest = 0.0
    for a in range(active):
        largest = max(largest, g[begin[a]])
    kept, count, first = 0, 0, 0
    for a in range(active):
        stop = begin[a + 1]
        if g[first] > prune * largest:
            if count < first:
                for j in range(stop - first):
                    g[count + j] = g[first + j]
                    for p in range(B.shape[0]):
                        for i in range(B.shape[1]):
                            B[p, i, count + j] = B[p, i, first + j]
            ids[kept] = ids[a]
            kept += 1
            count += stop - first
            begin[kept] = count
        else:
            for j in range(start[ids[a]], start[ids[a] + 1]):
                for p in range(X.shape[0]):
                    for l in range(X.shape[1]):
                        X[p, l, j] = 0.0
        first = stop
    return kept


@kernel(fast=True)
def _learned_noise(
    B: NDArray[Any],
    y: NDArray[Any],
    x: NDArray[Any],
    g: NDArray[Any],
    q: NDArray[Any],
    count: int,
    lam: float,
    snapshots: int,
) -> float:
    """Return the EM estimate λ = (mean ‖y − Φx‖² + λ Σ γ_i q_i) / n over snapshots."""
    parts, n, _ = B.shape
    used, left = 0.0, 0.0
    for j in range(count):
        used += g[j] * q[j]
    for l in range(y.shape[1]):
        for i in range(n):
            for p in range(parts):
                total = y[p, l, i]
                for j in range(count):
                    total -= B[0, i, j] * x[p, l, j]
                if parts == 2:
                    for j in range(count):
                        total += B[1, i, j] * x[1, l, j] if p == 0 else -B[1, i, j] * x[0, l, j]
                left += total * total
    estimate: float = (left / snapshots + lam * used) / n
    return estimate
