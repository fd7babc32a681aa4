"""One noise level for many signals: the σ under which all of them together are most probable."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.unit_atoms import UnitAtoms, unit_atoms
from maxsparse._core.validation import FloatArray
from maxsparse.recovery.law import wide_law

if TYPE_CHECKING:
    from maxsparse._core.prepared import Prepared
    from maxsparse.recovery.answers import Recovery

__all__ = ["evidence_by_level", "pooled_level", "pooled_over"]

STEP = 0.05  # in log σ
SUPPORTS = 8  # of every signal, at most
DOUBT = 5.0  # nats that a signal can lose at most: the search may have missed its support
SLABS = np.geomspace(0.2, 5.0, 5)  # factors of the mean square of the coefficients


def evidence_by_level(
    Phi: FloatArray | UnitAtoms, Y: FloatArray, supports: NDArray[np.bool_], sigma: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return log p(y | σ), summed over the supports that are listed and averaged over slabs.

    Parameters
    ----------
    Phi : ndarray of shape (n, m), or UnitAtoms
        Atoms of norm 1.
    Y : ndarray of shape (N, n)
    supports : ndarray of shape (N, C, m), bool
        Of every signal; the empty one always counts.
    sigma : ndarray of shape (S,)

    Returns
    -------
    evidence : ndarray of shape (N, S)
    """
    atoms = unit_atoms(Phi)
    n, m = atoms.shape
    prior = wide_law(1.0, min(n, m)).prior(m)
    curves = np.empty((len(Y), len(sigma)))
    for i, y in enumerate(Y):
        power = float(y @ y)
        listed = {tuple(np.flatnonzero(support)) for support in supports[i]} | {()}
        terms = [
            _of_support(atoms.some(np.array(S, dtype=np.intp)), y, power, sigma) + prior[len(S)]
            for S in listed
            if len(S) <= min(n, m)
        ]
        curves[i] = np.logaddexp.reduce(terms, axis=0)
    return curves


def _of_support(A: FloatArray, y: FloatArray, power: float, sigma: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log p(y | S, σ), (S,), averaged over slabs, from the singular values of Φ_S."""
    n, k = A.shape
    variance = sigma[:, None, None] ** 2
    U, sizes, _ = np.linalg.svd(A, full_matrices=False)
    inside = (U.T @ y) ** 2
    outside = max(float(np.sum((y - U @ (U.T @ y)) ** 2)), 0.0)
    if k == 0:
        return np.asarray(-0.5 * (n * np.log(2 * math.pi * sigma**2) + power / sigma**2))
    square = max(float(np.mean(inside / np.maximum(sizes, 1e-8 * sizes[0]) ** 2)), 1e-300)
    total = variance + square * SLABS[:, None] * sizes**2  # (S, slabs, k)
    fit = (inside / total + np.log(total)).sum(axis=2) + (outside / variance + (n - k) * np.log(variance))[:, :, 0]
    values = -0.5 * (fit + n * math.log(2 * math.pi))
    return np.asarray(np.logaddexp.reduce(values, axis=1) - math.log(len(SLABS)))


def pooled_level(
    Phi: FloatArray | UnitAtoms, Y: FloatArray, supports: NDArray[np.bool_], levels: NDArray[np.float64]
) -> float:
    """Return the σ that makes all signals together most probable.

    Parameters
    ----------
    Phi, Y, supports
        As in :func:`evidence_by_level`.
    levels : ndarray of shape (N,)
        What every signal suggests.

    Returns
    -------
    sigma : float
        Found on a grid of 5 % steps between the smallest and the largest level, and a parabola through its best points.
    """
    low, high = math.log(levels.min()) - 1.0, math.log(levels.max()) + 1.0
    grid = np.arange(low, high + STEP, STEP)
    curves = evidence_by_level(Phi, Y, supports, np.exp(grid))
    total = np.logaddexp(curves, curves.max(axis=1, keepdims=True) - DOUBT).sum(axis=0)
    best = int(np.clip(np.argmax(total), 1, len(grid) - 2))
    before, here, after = total[best - 1 : best + 2]
    bend = before - 2 * here + after
    shift = 0.5 * (before - after) / bend if bend < 0 else 0.0
    return float(math.exp(grid[best] + STEP * np.clip(shift, -1, 1)))


def pooled_over(prepared: Prepared, Y: FloatArray, result: Recovery) -> float:
    """Return the σ that makes the noisy signals among Y (N, n) together most probable, from their answers."""
    noisy = np.flatnonzero(result.noise > 0)
    supports = np.zeros((len(noisy), SUPPORTS, prepared.shape[1]), dtype=bool)
    for place, i in enumerate(noisy):
        for c, (support, _) in enumerate(result.alternatives(int(i))[:SUPPORTS]):
            supports[place, c, support] = True
    return pooled_level(prepared.unit, Y[noisy], supports, result.noise[noisy])
