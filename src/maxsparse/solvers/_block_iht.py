"""Iterative hard thresholding for signals with a structure: the k blocks with the largest norm over all snapshots."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.joint import size2
from maxsparse._core.linalg import axpy_rows, top_k

__all__ = ["block_iht_rows"]


@kernel()
def block_iht_rows(
    piece: int,
    pieces: int,
    filters: NDArray[Any],
    atoms: NDArray[Any],
    Y: NDArray[Any],
    start: NDArray[Any],
    limits: NDArray[Any],
    mu: float,
    stable: tuple[float, float],
    iterations: int,
    tol: float,
    floor: float,
    X: NDArray[Any],
    spent: NDArray[Any],
    done: NDArray[Any],
) -> None:
    """Run iterations of every signal; `filters` is conj(Φ), μ = 0 the adaptive rule with these two constants."""
    N, L, n = Y.shape
    m, blocks = atoms.shape[0], start.shape[0] - 1
    gradient, trial = np.empty((L, m), dtype=Y.dtype), np.empty((L, m), dtype=Y.dtype)
    delta, R = np.empty((L, m), dtype=Y.dtype), np.empty((L, n), dtype=Y.dtype)
    magnitude, work, chosen = np.empty(blocks), np.empty(blocks), np.empty(blocks, dtype=np.int64)
    zero = np.zeros((L, n), dtype=Y.dtype)
    for row in range(piece, N, pieces):
        y, x = Y[row], X[row]
        goal = max(tol * np.sqrt(size2(y)), floor)
        done[row] = done[row] or np.sqrt(_minus_image(y, atoms, x, R)) <= goal
        for _ in range(iterations):
            if done[row]:
                break
            for l in range(L):
                axpy_rows(R[l], filters, 0, m, gradient[l])
            step = mu
            if mu == 0.0:
                step = _exact_step(atoms, start, x, gradient, limits[row], delta, zero, R, magnitude, work, chosen)
            while True:
                same = _threshold(x, gradient, step, start, limits[row], trial, delta, magnitude, work, chosen)
                moved2 = size2(delta)
                if mu != 0.0 or same:  # on an unchanged support the exact step is safe
                    break
                if step * _minus_image(zero, atoms, delta, R) <= stable[0] * moved2:
                    break
                step /= stable[1] * stable[0]
            for l in range(L):
                for j in range(m):
                    x[l, j] = trial[l, j]
            spent[row] += 1
            residual = np.sqrt(_minus_image(y, atoms, x, R))
            if not residual < np.inf:
                break  # the step is too large for Φ and x diverged: not converged
            done[row] = residual <= goal or np.sqrt(moved2) <= tol * np.sqrt(size2(x))


@kernel(fast=True)
def _minus_image(y: NDArray[Any], atoms: NDArray[Any], x: NDArray[Any], out: NDArray[Any]) -> float:
    """Set out = y − Φx for all snapshots and return its squared norm; the cost follows the nonzeros of x."""
    for l in range(y.shape[0]):
        for i in range(y.shape[1]):
            out[l, i] = y[l, i]
        for j in range(x.shape[1]):
            if x[l, j] != 0:
                for i in range(y.shape[1]):
                    out[l, i] -= x[l, j] * atoms[j, i]
    return size2(out)


@kernel(fast=True)
def _largest_blocks(
    Z: NDArray[Any], start: NDArray[Any], k: int, magnitude: NDArray[Any], work: NDArray[Any], chosen: NDArray[Any]
) -> int:
    """Write the k blocks with the largest norm to `chosen`; return how many there are."""
    for b in range(magnitude.shape[0]):
        total = 0.0
        for l in range(Z.shape[0]):
            for j in range(start[b], start[b + 1]):
                total += Z[l, j].real * Z[l, j].real + Z[l, j].imag * Z[l, j].imag
        magnitude[b] = total
    return top_k(magnitude, k, work, chosen)


@kernel(fast=True)
def _threshold(
    x: NDArray[Any],
    gradient: NDArray[Any],
    step: float,
    start: NDArray[Any],
    k: int,
    trial: NDArray[Any],
    delta: NDArray[Any],
    magnitude: NDArray[Any],
    work: NDArray[Any],
    chosen: NDArray[Any],
) -> bool:
    """Set trial = H_k[x + step·gradient] and delta = trial − x; return whether all chosen blocks were in use before."""
    L, m = x.shape
    for l in range(L):
        for j in range(m):
            delta[l, j] = x[l, j] + step * gradient[l, j]
            trial[l, j] = 0
    same = True
    for c in range(_largest_blocks(delta, start, k, magnitude, work, chosen)):
        used = False
        for l in range(L):
            for j in range(start[chosen[c]], start[chosen[c] + 1]):
                trial[l, j] = delta[l, j]
                used = used or x[l, j] != 0
        same = same and used
    for l in range(L):
        for j in range(m):
            delta[l, j] = trial[l, j] - x[l, j]
    return same


@kernel(fast=True)
def _exact_step(
    atoms: NDArray[Any],
    start: NDArray[Any],
    x: NDArray[Any],
    gradient: NDArray[Any],
    k: int,
    restricted: NDArray[Any],
    zero: NDArray[Any],
    image: NDArray[Any],
    magnitude: NDArray[Any],
    work: NDArray[Any],
    chosen: NDArray[Any],
) -> float:
    """Return μ = ‖g_S‖²/‖Φ_S g_S‖² on the present support S (at x = 0: the k largest blocks of g)."""
    L, m = x.shape
    for l in range(L):
        for j in range(m):
            restricted[l, j] = 0
    source = x if size2(x) > 0.0 else gradient
    for c in range(_largest_blocks(source, start, k, magnitude, work, chosen)):
        if magnitude[chosen[c]] > 0.0:
            for l in range(L):
                for j in range(start[chosen[c]], start[chosen[c] + 1]):
                    restricted[l, j] = gradient[l, j]
    image2 = _minus_image(zero, atoms, restricted, image)
    return size2(restricted) / image2 if image2 > 0.0 else 1.0
