"""From scores to coefficients: one solve on the best-scored atoms, and which of them are zero.

If the support is among the n best scores, n equations determine its coefficients exactly and all others come out as
zero, so that decoding the top n succeeds far more often than guessing the top d, at the same scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import dot, least_squares, residual_into, times
from maxsparse._core.prepared import Problem
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray
from maxsparse.recovery.refit import refit, tolerance

__all__ = ["best_guess", "decode_exact", "decode_noisy", "stable_under_noise"]

MASS = 0.95  # share of the total probability of the kept atoms, with noise
SHARPEN = 1.5  # power of the probabilities: many atoms of one percent each are less than one atom of their sum
DEPENDENT = 1e-5  # what is left of a unit column modulo the chosen ones, below which it is skipped


def decode_exact(
    problem: Problem, Y: NDArray[np.float64], scores: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Solve noiseless signals on their best-scored atoms.

    Parameters
    ----------
    problem : Problem
        From :meth:`maxsparse._core.prepared.Prepared.problem`.
    Y : ndarray of shape (N, n), float64
        Signals as rows.
    scores : ndarray of shape (N, m)
        Larger for atoms more likely to be in the support.

    Returns
    -------
    X : ndarray of shape (N, m)
        Coefficients where decoding succeeded, else zeros.
    found : ndarray of shape (N,), bool
        True where fewer than n − 1 atoms explain y to rounding.
    """
    X = np.zeros((len(Y), problem.Q.shape[1]))
    found = np.zeros(len(Y), dtype=bool)
    order = np.argsort(-scores, axis=1, kind="stable")
    over_slices(_decode_rows, len(Y), Y, problem, order, X, found)
    return X, found


def best_guess(problem: Problem, Y: NDArray[np.float64], scores: NDArray[Any]) -> NDArray[np.float64]:
    """Fit y on the n/2 best-scored atoms: a sparse approximate answer for unsolved signals.

    Returns
    -------
    X : ndarray of shape (N, m)
        Coefficients by least squares.
    """
    m, n = problem.atoms.shape
    X = np.zeros((len(Y), m))
    best = np.argsort(-scores, axis=1, kind="stable")[:, : max(1, min(n, m) // 2)].copy()
    over_slices(_guess_rows, len(Y), Y, problem, best, X)
    return X


@kernel()
def _guess_rows(
    piece: int, pieces: int, Y: NDArray[Any], problem: Problem, best: NDArray[Any], X: NDArray[Any]
) -> None:
    N, k = best.shape
    x, r, L = np.empty(k), np.empty(Y.shape[1]), np.empty((k, k))
    for row in range(piece, N, pieces):
        least_squares(Y[row], problem.atoms, best[row], k, L, x, r)
        for a in range(k):
            X[row, best[row, a]] = x[a]


def decode_noisy(Phi: FloatArray, Y: NDArray[np.float64], logits: NDArray[Any], noise: float) -> NDArray[np.float64]:
    r"""Estimate the coefficients of noisy signals: the posterior mean on the most probable atoms.

    .. math:: \hat x = \Gamma\Phi^\top(\Phi\Gamma\Phi^\top + \sigma^2 I)^{-1} y, \quad \gamma_i = \sigma_x^2 p_i^{1.5}

    where p are the probabilities of the logits, :math:`\sigma_x^2` the power per nonzero that fits the signal's, and
    γ = 0 outside the smallest set of atoms that holds 95 % of :math:`\sum p^{1.5}`.

    Parameters
    ----------
    Phi : ndarray of shape (n, m)
    Y : ndarray of shape (N, n)
    logits : ndarray of shape (N, m)
    noise : float
        Standard deviation σ of the noise on every measurement.

    Returns
    -------
    X : ndarray of shape (N, m)
        Sparse where the scores are confident; more atoms where they are not.
    """
    n = Phi.shape[0]
    p = 1.0 / (1.0 + np.exp(-np.asarray(logits, dtype=np.float64)))
    belief = p**SHARPEN
    order = np.argsort(-belief, axis=1, kind="stable")
    before = np.cumsum(np.take_along_axis(belief, order, axis=1), axis=1)
    before -= np.take_along_axis(belief, order, axis=1)  # held by the atoms ahead of each
    kept = np.zeros(p.shape, dtype=bool)
    np.put_along_axis(kept, order, before < MASS * belief.sum(axis=1, keepdims=True), axis=1)
    power = np.sum(Y**2, axis=1)
    nonzeros = np.maximum((p * np.sum(Phi**2, axis=0)).sum(axis=1), np.sum(Phi**2, axis=0).min())
    signal = np.maximum(power - n * noise**2, 0.1 * power) / nonzeros
    gamma = np.where(kept, belief, 0.0) * signal[:, None]
    ridge = np.maximum(noise**2, np.finfo(np.float64).eps * power)  # below the rounding error S would be singular
    S = np.matmul(Phi * gamma[:, None, :], Phi.T) + ridge[:, None, None] * np.eye(n)
    return np.asarray(gamma * times(np.linalg.solve(S, Y[:, :, None])[:, :, 0].copy(), Phi))


def stable_under_noise(
    problem: Problem, Y: NDArray[np.float64], X: NDArray[np.float64], noise: float
) -> NDArray[np.bool_]:
    r"""Return which supports explain their signal up to the noise, and would not without any one of their atoms.

    The least-squares residual on the support is at most :math:`\sigma\sqrt{n + 3\sqrt{2n}}`, three standard deviations
    above what noise alone leaves, and exceeds it when any atom is removed. This is a consistency check, not a proof.

    Returns
    -------
    stable : ndarray of shape (N,), bool
    """
    stable = np.zeros(len(Y), dtype=bool)
    n = Y.shape[1]
    over_slices(_stable_rows, len(Y), Y, problem, X, noise * np.sqrt(n + 3.0 * np.sqrt(2.0 * n)), stable)
    return stable


@kernel()
def _stable_rows(
    piece: int, pieces: int, Y: NDArray[Any], problem: Problem, X: NDArray[Any], bound: float, stable: NDArray[Any]
) -> None:
    N, n = Y.shape
    rank, m = problem.Q.shape
    support, part = np.empty(rank, np.int64), np.empty(rank, np.int64)
    x, r, L = np.empty(rank), np.empty(n), np.empty((rank, rank))
    for row in range(piece, N, pieces):
        k = 0
        for j in range(m):
            if X[row, j] != 0.0:
                if k < rank:
                    support[k] = j
                k += 1
        if k >= rank or least_residual(Y[row], problem, support, k, L, x, r) > bound:
            continue
        needed = 0
        for left_out in range(k):
            count = 0
            for a in range(k):
                if a != left_out:
                    part[count] = support[a]
                    count += 1
            if least_residual(Y[row], problem, part, count, L, x, r) > bound:
                needed += 1
        stable[row] = needed == k


@kernel()
def least_residual(
    y: NDArray[Any], problem: Problem, support: NDArray[Any], k: int, L: NDArray[Any], x: NDArray[Any], r: NDArray[Any]
) -> float:
    """Return the smallest ‖y − Φ_S x‖₂ in the caller's norm."""
    if k == 0:
        size: float = np.sqrt(dot(y, y))
        return size
    least_squares(y, problem.atoms, support, k, L, x, r)
    norm: float = np.sqrt(residual_into(y, problem.atoms, support, x, k, r))
    return norm


@kernel()
def _decode_rows(
    piece: int,
    pieces: int,
    Y: NDArray[Any],
    problem: Problem,
    order: NDArray[Any],
    X: NDArray[Any],
    found: NDArray[Any],
) -> None:
    N = len(Y)
    rank = problem.Q.shape[0]
    support, x = np.empty(rank, np.int64), np.empty(rank)
    for row in range(piece, N, pieces):
        k = _decode_one(Y[row], problem, order[row], support, x)
        if k >= 0:
            found[row] = True
            for a in range(k):
                X[row, support[a]] = x[a]


@kernel()
def _decode_one(y: NDArray[Any], problem: Problem, order: NDArray[Any], support: NDArray[Any], x: NDArray[Any]) -> int:
    """Add atoms in the order of their scores until they explain y; return the number of nonzeros, or −1."""
    rank = problem.Q.shape[0]
    E, R = np.empty((rank, rank)), np.empty((rank, rank))  # rows of E: orthonormal vectors; R: upper triangle
    chosen, coefficients = np.empty(rank, np.int64), np.empty(rank)
    rest, v = np.empty(rank), np.empty(rank)
    for i in range(rank):
        rest[i] = dot(problem.W[i], y)
    size = np.sqrt(dot(rest, rest))
    if size == 0.0:
        return 0
    k = 0
    for c in order:
        if k == rank or np.sqrt(dot(rest, rest)) <= problem.zero * size:
            break
        for i in range(rank):
            v[i] = problem.columns[c, i]
        for l in range(k):
            R[l, k] = 0.0
        for _ in range(2):  # twice is enough: Gram–Schmidt to full precision
            for l in range(k):
                share = dot(E[l], v)
                R[l, k] += share
                for i in range(rank):
                    v[i] -= share * E[l, i]
        length = np.sqrt(dot(v, v))
        if length < DEPENDENT:
            continue
        R[k, k] = length
        for i in range(rank):
            E[k, i] = v[i] / length
        coefficients[k] = dot(E[k], rest)
        for i in range(rank):
            rest[i] -= coefficients[k] * E[k, i]
        chosen[k] = c
        k += 1
    return _prune_and_refit(y, problem, chosen, R, coefficients, k, support, x)


@kernel()
def _prune_and_refit(
    y: NDArray[Any],
    problem: Problem,
    chosen: NDArray[Any],
    R: NDArray[Any],
    b: NDArray[Any],
    k: int,
    support: NDArray[Any],
    x: NDArray[Any],
) -> int:
    """Solve R x = b, drop zeros, refit the rest in float64 and check its residual."""
    largest = 0.0
    for a in range(k - 1, -1, -1):
        for l in range(a + 1, k):
            b[a] -= R[a, l] * b[l]
        b[a] /= R[a, a]
        largest = max(largest, abs(b[a]))
    count = 0
    for a in range(k):
        if abs(b[a]) > problem.zero * largest:
            support[count] = chosen[a]
            count += 1
    if count > problem.Q.shape[0] - 2:
        return -1
    if refit(y, problem, support, count, x) > tolerance(y, problem, support, count, x):
        return -1
    return count
