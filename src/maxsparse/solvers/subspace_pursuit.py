"""Subspace pursuit: greedy like OMP, but a whole support at a time, and atoms can be removed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import axpy_rows, dot, least_squares, residual_into, residual_of, top_k
from maxsparse._core.registry import SOLVERS
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray, check_integer, check_number
from maxsparse.result import Result
from maxsparse.solvers._contract import Batch, Callback, Options, Precondition, check_sparsities, run

__all__ = ["subspace_pursuit"]


@SOLVERS.register(
    "subspace_pursuit",
    summary="greedy, a whole support at a time",
    label="subspace pursuit",
    needs=["sparsity"],
    can=["noise", "callback"],
    good_for="less sparse signals than OMP recovers",
    order=11,
)
def subspace_pursuit(
    Phi: ArrayLike,
    Y: ArrayLike,
    *,
    sparsity: int | ArrayLike,
    max_iter: int = 50,
    tol: float = 1e-8,
    precondition: Precondition = False,
    noise: float | str = 0.0,
    n_threads: int | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> Result:
    r"""Subspace pursuit: add the k atoms most correlated with the residual, refit, keep the k largest, refit.

    .. math:: \tilde S = S^{(t)} \cup \mathrm{top}_k |\Phi^\top r^{(t)}|, \qquad
              S^{(t+1)} = \mathrm{top}_k |\Phi_{\tilde S}^\dagger y|

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary.
    Y : array-like of shape (N, n)
        Signals as rows.
    sparsity : int or array-like of shape (N,)
        Number k of nonzeros, one for all signals or one for each. The merged support may hold up to 2k atoms, of which
        at most n are fitted.
    max_iter : int, default=50
        Most iterations per signal.
    tol : float, default=1e-8
        Stop when the residual is below tol·‖y‖₂, or at the noise level; otherwise when it no longer falls.
    precondition, noise, n_threads, progress, callback
        As for :func:`maxsparse.solvers.iht`.

    Returns
    -------
    result : Result
        ``converged`` where the residual met the tolerance or stopped falling.

    See Also
    --------
    omp : One atom at a time, never removed.

    References
    ----------
    .. [1] W. Dai, O. Milenkovic, "Subspace pursuit for compressive sensing signal reconstruction",
       IEEE Trans. Information Theory 55(5), 2009.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(40, 80, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 100, sparsity=6, rng=1)
    >>> ms.metrics.exact_recovery(X, ms.solvers.subspace_pursuit(Phi, Y, sparsity=6).coef) > 0.9
    True
    """
    max_iter = check_integer(max_iter, "max_iter", low=1)
    tol = check_number(tol, "tol", low=0.0)
    sparsities = check_sparsities(sparsity, Phi, Y)

    def solve_batch(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        N, n = batch.Y.shape
        limits, floor = sparsities[batch.rows], batch.noise * np.sqrt(n)
        spent, done = np.zeros(N, dtype=np.int64), np.zeros(N, dtype=bool)

        problem = _Problem(batch.Phi, batch.atoms, batch.Y, tol, floor)

        def advance(start: int, stop: int) -> None:
            over_slices(_pursuit_rows, len(batch.Y), problem, limits, stop - start, batch.X, spent, done)

        batch.drive(advance, max_iter, done)
        return spent, done

    options = Options(precondition, noise, n_threads, progress, callback)
    return run("subspace_pursuit", Phi, Y, solve_batch, options)


class _Problem(NamedTuple):
    Phi: FloatArray  # (n, m)
    atoms: FloatArray  # (m, n), Φᵀ
    Y: FloatArray  # (N, n)
    tol: float  # residual to reach, relative to y
    floor: float  # residual that noise explains


class _Scratch(NamedTuple):
    magnitude: FloatArray  # (m,)
    work: FloatArray  # (m,)
    merged: NDArray[np.int64]  # (m,), the last support and the new atoms
    chosen: NDArray[np.int64]  # (m,)


@kernel()
def _pursuit_rows(
    piece: int,
    pieces: int,
    problem: _Problem,
    limits: NDArray[Any],
    iterations: int,
    X: NDArray[Any],
    spent: NDArray[Any],
    done: NDArray[Any],
) -> None:
    Phi, atoms, Y, tol, floor = problem
    N, n = Y.shape
    m = Phi.shape[1]
    L = np.empty((n, n), dtype=Y.dtype)
    r, x = np.empty(n, dtype=Y.dtype), np.empty(n, dtype=Y.dtype)
    magnitude, work = np.empty(m, dtype=Y.dtype), np.empty(m, dtype=Y.dtype)
    merged, chosen = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.int64)
    scratch = _Scratch(magnitude, work, merged, chosen)
    for row in range(piece, N, pieces):
        goal = max(tol * np.sqrt(dot(Y[row], Y[row])), floor)
        residual = residual_of(Y[row], atoms, X[row], r)
        done[row] = done[row] or residual <= goal
        for _ in range(iterations):
            if done[row]:
                break
            count = _merge(Phi, X[row], limits[row], min(n, m), r, scratch)
            least_squares(Y[row], atoms, merged, count, L, x, r)
            for l in range(count):
                magnitude[l] = abs(x[l])
            kept = top_k(magnitude[:count], limits[row], work, chosen)
            for l in range(kept):
                chosen[l] = merged[chosen[l]]
            least_squares(Y[row], atoms, chosen, kept, L, x, r)
            spent[row] += 1
            fresh = np.sqrt(residual_into(Y[row], atoms, chosen, x, kept, r))
            if fresh >= residual:  # no improvement: return the previous support
                done[row] = True
                break
            residual = fresh
            X[row, :] = 0.0
            for l in range(kept):
                X[row, chosen[l]] = x[l]
            done[row] = residual <= goal


@kernel()
def _merge(Phi: NDArray[Any], x: NDArray[Any], k: int, most: int, r: NDArray[Any], scratch: _Scratch) -> int:
    """Write the support of x and the k atoms with the largest |Φᵀr| to `merged`, at most `most` of them."""
    magnitude, work, merged, chosen = scratch
    m = x.shape[0]
    axpy_rows(r, Phi, 0, m, magnitude)
    count = 0
    for j in range(m):
        if x[j] != 0.0:
            merged[count] = j
            count += 1
            magnitude[j] = 0.0
        else:
            magnitude[j] = abs(magnitude[j])
    for l in range(top_k(magnitude, min(k, most - count), work, chosen)):
        if x[chosen[l]] == 0.0:
            merged[count] = chosen[l]
            count += 1
    return count
