"""From scores to coefficients: one solve on the best-scored atoms, and which of them are zero.

If the support is among the n best scores, n equations determine its coefficients exactly and all others come out as
zero, so that decoding the top n succeeds far more often than guessing the top d, at the same scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.blocks import is_wide
from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import dot, least_squares
from maxsparse._core.prepared import Prepared, Whitened, WideWhitened
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray
from maxsparse.recovery.refit import refit, tolerance

__all__ = ["best_guess", "decode_exact", "fit_supports"]

DEPENDENT = 1e-5  # what is left of a unit column modulo the chosen ones, below which it is passed over
SPARE = 1.25  # atoms of a wide dictionary that are whitened for decoding, per equation: some are passed over


def decode_exact(
    problem: Whitened | WideWhitened, Y: NDArray[np.float64], scores: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Solve noiseless signals on their best-scored atoms.

    Parameters
    ----------
    problem : Whitened or WideWhitened
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
    rank, m = problem.shape
    X = np.zeros((len(Y), m))
    found = np.zeros(len(Y), dtype=bool)
    if isinstance(problem, Whitened):
        order = np.argsort(-scores, axis=1, kind="stable")
        over_slices(_decode_rows, len(Y), Y, problem, order, X, found)
        return X, found
    in_order = np.arange(min(m, int(SPARE * rank)))[None]
    for i in range(len(Y)):
        best = _best(scores[i], in_order.shape[1])
        part = np.zeros(in_order.shape)
        _decode_rows(0, 1, Y[i : i + 1], problem.of(best), in_order, part, found[i : i + 1])
        X[i, best] = part[0]
    return X, found


def _best(scores: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Return the atoms (count,) with the largest scores (m,), the best first."""
    return np.argsort(-scores, kind="stable")[:count]


def best_guess(problem: Whitened | WideWhitened, Y: NDArray[np.float64], scores: NDArray[Any]) -> NDArray[np.float64]:
    """Fit y on the n/2 best-scored atoms: a sparse approximate answer for unsolved signals.

    Returns
    -------
    X : ndarray of shape (N, m)
        Coefficients by least squares.
    """
    m, n = problem.shape[1], problem.W.shape[1]
    X = np.zeros((len(Y), m))
    if isinstance(problem, WideWhitened):
        for i in range(len(Y)):
            chosen = _best(scores[i], max(1, min(n, m) // 2))
            part = np.zeros((1, len(chosen)))
            _guess_rows(0, 1, Y[i : i + 1], problem.of(chosen), np.arange(len(chosen))[None], part)
            X[i, chosen] = part[0]
        return X
    best = np.argsort(-scores, axis=1, kind="stable")[:, : max(1, min(n, m) // 2)].copy()
    over_slices(_guess_rows, len(Y), Y, problem, best, X)
    return X


@kernel()
def _guess_rows(
    piece: int, pieces: int, Y: NDArray[Any], problem: Whitened, best: NDArray[Any], X: NDArray[Any]
) -> None:
    N, k = best.shape
    x, r, L = np.empty(k), np.empty(Y.shape[1]), np.empty((k, k))
    for row in range(piece, N, pieces):
        least_squares(Y[row], problem.atoms, best[row], k, L, x, r)
        for a in range(k):
            X[row, best[row, a]] = x[a]


def fit_supports(dictionary: FloatArray | Prepared, Y: FloatArray, support: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Fit every signal on its own support by least squares.

    Parameters
    ----------
    dictionary : ndarray of shape (m, n), or Prepared
        Φᵀ, or Φ prepared.
    Y : ndarray of shape (N, n)
    support : ndarray of shape (N, m), bool

    Returns
    -------
    X : ndarray of shape (N, m)
    """
    X = np.zeros(support.shape)
    if isinstance(dictionary, Prepared) and is_wide(dictionary):
        for i in range(len(Y)):
            chosen = np.flatnonzero(support[i])
            part, whole = np.zeros((1, len(chosen))), np.ones((1, len(chosen)), dtype=bool)
            _fit_rows(0, 1, Y[i : i + 1], dictionary.atoms(chosen), whole, part)
            X[i, chosen] = part[0]
        return X
    atoms = dictionary.plain.columns if isinstance(dictionary, Prepared) else dictionary
    over_slices(_fit_rows, len(Y), Y, atoms, support, X)
    return X


@kernel()
def _fit_rows(
    piece: int, pieces: int, Y: NDArray[Any], atoms: NDArray[Any], support: NDArray[Any], X: NDArray[Any]
) -> None:
    N, n = Y.shape
    m = atoms.shape[0]
    chosen, x, r = np.empty(m, np.int64), np.empty(m), np.empty(n)
    for row in range(piece, N, pieces):
        k = 0
        for j in range(m):
            if support[row, j]:
                chosen[k] = j
                k += 1
        if k > 0:
            least_squares(Y[row], atoms, chosen, k, np.empty((k, k)), x, r)
        for a in range(k):
            X[row, chosen[a]] = x[a]


@kernel()
def _decode_rows(
    piece: int,
    pieces: int,
    Y: NDArray[Any],
    problem: Whitened,
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
def _decode_one(y: NDArray[Any], problem: Whitened, order: NDArray[Any], support: NDArray[Any], x: NDArray[Any]) -> int:
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
    problem: Whitened,
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
