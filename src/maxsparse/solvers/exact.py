"""The exact ℓ0 solution, by trying every support in order of size: for small problems, and as reference in tests."""

from __future__ import annotations

import warnings
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import copy_into, dot, least_squares, residual_into, times
from maxsparse._core.registry import SOLVERS
from maxsparse._core.structure import check_groups
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import check_dictionary, check_integer, check_number, shape_of
from maxsparse.result import Result
from maxsparse.solvers._block_exact import enumerate_blocks
from maxsparse.solvers._contract import Batch, Options, Precondition, run

__all__ = ["exact"]

BLOCK = 16  # signals that share one walk over the supports, and with it the orthogonalised atoms
ROUNDINGS = 64.0  # rounding errors of y and of Φ that the residual of the true support may have
SLACK = 1e-6  # relative error of the running residual; candidates are checked by least squares


@SOLVERS.register(
    "exact",
    summary="min ‖x‖₀ by trying every support",
    label="exact ℓ0",
    can=["noise", "positive", "groups", "complex", "snapshots"],
    good_for="a small problem, and a proof by enumeration",
    order=50,
)
def exact(
    Phi: ArrayLike,
    Y: ArrayLike,
    *,
    sparsity: int | None = None,
    tol: float = 1e-8,
    max_supports: float = 1e7,
    precondition: Precondition = False,
    noise: float | str = 0.0,
    positive: bool = False,
    groups: ArrayLike | None = None,
    n_threads: int | None = None,
    progress: bool = False,
) -> Result:
    r"""Smallest support that explains y, by enumeration.

    .. math:: \min_x \|x\|_0 \ \text{ s.t. } \ \|y - \Phi x\|_2 \le \max(tol\, \|y\|_2,\ \sigma\sqrt n)

    Of several smallest supports, the one with the smallest residual is returned.

    Parameters
    ----------
    Phi : array-like of shape (n, m), real or complex
        Dictionary.
    Y : array-like of shape (N, n) or (N, L, n), real or complex
        Signals as rows; or L snapshots for each, which share one support.
    sparsity : int or None, default=None
        Largest support to try, in groups where there are any; None tries sizes until every signal is explained, or as
        far as `max_supports` allows.
    tol : float, default=1e-8
        Residual, relative to ‖y‖₂, at which y counts as explained; in float32 at least 64 rounding errors.
    max_supports : float, default=1e7
        Largest number of supports to look at per signal. Where `sparsity` asks for more, this is an error; without
        `sparsity`, signals that would take more are left without an answer, with a warning.
    precondition : bool or (W, D), default=False
        Whitening changes only the metric of the residual; accepted for a uniform interface.
    noise : float or "auto", default=0.0
        Standard deviation σ of the noise on every measurement; of complex noise, that of both parts together.
    positive : bool, default=False
        Only coefficients of at least zero.
    groups : array-like of shape (m,) or None, default=None
        Labels of the atoms; those of one label come and go together.
    n_threads : int or None, default=None
        Number of threads; None uses all cores.
    progress : bool, default=False
        Show a progress bar on a terminal if it takes more than two seconds.

    Returns
    -------
    result : Result
        ``converged`` where a support was found; x is zero where none was. ``iterations`` is the size of the last
        supports tried.

    Notes
    -----
    Supports are walked depth first. At each node, the correlations of the residual with all later atoms, both
    orthogonal to the atoms chosen so far, show for every possible last atom whether it explains the residual, so the
    last level is free: :math:`\binom{m}{k-1}` nodes of O(km) for all supports of size k.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.decaying(8, 16, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 20, sparsity=3, rng=1)
    >>> result = ms.solvers.exact(Phi, Y)
    >>> ms.metrics.exact_recovery(X, result.coef)
    1.0
    """
    tol = check_number(tol, "tol", low=0.0)
    max_supports = check_number(max_supports, "max_supports", low=1.0)
    n, m = shape_of(Phi, "Phi")
    if min(n, m) == 0:
        check_dictionary(Phi)  # raises the error for an empty Phi
    labels = check_groups(groups, m)
    m = m if labels is None else int(labels.max()) + 1  # what a support is made of
    largest = min(n, m) if sparsity is None else check_integer(sparsity, "sparsity", low=0, high=min(n, m))
    if sparsity is not None and _count(largest, m) > max_supports:
        raise ValueError(_too_many(largest, m, max_supports))
    left: list[int] = []  # numbers of signals that would take too many supports

    def solve_batch(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        N, plain = len(batch.Y), batch.structure.plain
        closest = max(tol, ROUNDINGS * float(np.finfo(batch.Y.dtype).eps))  # no support explains y beyond its precision
        double = np.result_type(batch.Y, np.float64)
        Y64, atoms = batch.Y.astype(double), batch.atoms.astype(double)
        if plain:
            goal = np.maximum(closest * np.linalg.norm(batch.Y, axis=1), batch.floor)
            G, alpha = atoms @ atoms.T, times(Y64, np.ascontiguousarray(atoms.T))
        else:
            goal = np.maximum(closest * np.linalg.norm(batch.Y, axis=(1, 2)), batch.floor)
        X = np.zeros(batch.X.shape, dtype=double)
        best = np.linalg.norm(Y64.reshape(N, -1), axis=1)
        done = best <= goal
        spent = np.zeros(N, dtype=np.int64)
        for k in range(1, largest + 1):
            rows = np.flatnonzero(~done)
            if rows.size == 0:
                break
            if _count(k, m) > max_supports:
                left.append(rows.size)
                break
            best[rows] = np.inf
            if plain:
                over_slices(_enumerate_rows, -(-rows.size // BLOCK), atoms, G, Y64, alpha, rows, k, goal, best, X)
            else:
                problem = (atoms, Y64, batch.structure.start, batch.structure.positive or None)
                over_slices(enumerate_blocks, rows.size, *problem, rows, k, goal, best, X)
            spent[rows] = k
            done[rows] = best[rows] < np.inf
        batch.X[...] = X
        return spent, done

    result = run(
        "exact", Phi, Y, solve_batch, Options(precondition, noise, n_threads, progress, None, positive, groups)
    )
    if left:
        size = int(result.iterations.max()) + 1
        warnings.warn(
            f"{sum(left)} of {len(result)} signals are left without an answer: {_too_many(size, m, max_supports)}",
            RuntimeWarning,
            stacklevel=2,
        )
    return result


def _count(k: int, m: int) -> int:
    """Return the number of supports of up to k of m atoms."""
    return sum(comb(m, size) for size in range(k + 1))


def _too_many(k: int, m: int, most: float) -> str:
    return (
        f"exact would have to try {_count(k, m):.3g} supports of up to {k} of {m} atoms, more than "
        f"max_supports = {most:.3g}; lower sparsity, raise max_supports, or use another method"
    )


@kernel()
def _enumerate_rows(
    piece: int,
    pieces: int,
    atoms: NDArray[Any],
    G: NDArray[Any],
    Y: NDArray[Any],
    alpha0: NDArray[Any],
    rows: NDArray[Any],
    k: int,
    goal: NDArray[Any],
    best: NDArray[Any],
    X: NDArray[Any],
) -> None:
    """Try all supports of size k for a slice of `rows`; best[row] becomes the smallest residual within goal[row]."""
    m, n = atoms.shape
    for first in range(piece * BLOCK, rows.shape[0], pieces * BLOCK):
        members = rows[first : first + BLOCK]
        count = members.shape[0]
        W = np.empty((k, m))  # w_l = Φᵀq_l for the Gram–Schmidt vectors q_l of the path
        rest = np.empty((k, m))  # squared length of every atom orthogonal to the first l atoms of the path
        alpha = np.empty((k, BLOCK, m))  # Φᵀr, r the residual after the first l atoms of the path
        r2 = np.empty((k, BLOCK))
        path = np.zeros(k, dtype=np.int64)
        L, x, r = np.empty((k, k)), np.empty(k), np.empty(n)
        for j in range(m):
            rest[0, j] = G[j, j]
        for s in range(count):
            copy_into(alpha0[members[s]], alpha[0, s])
            r2[0, s] = dot(Y[members[s]], Y[members[s]])
        depth, start = 0, 0
        while True:
            if depth == k - 1:
                for s in range(count):
                    _test_last(
                        atoms,
                        Y,
                        members[s],
                        alpha[depth, s],
                        rest[depth],
                        r2[depth, s],
                        start,
                        k,
                        path,
                        goal,
                        best,
                        X,
                        L,
                        x,
                        r,
                    )
            elif start <= m - (k - depth):
                if _descend(G, start, depth, count, W, rest, alpha, r2):
                    path[depth] = start
                    depth += 1
                start += 1
                continue
            if depth == 0:
                break
            depth -= 1
            start = path[depth] + 1


@kernel(fast=True)
def _descend(
    G: NDArray[Any],
    atom: int,
    depth: int,
    count: int,
    W: NDArray[Any],
    rest: NDArray[Any],
    alpha: NDArray[Any],
    r2: NDArray[Any],
) -> bool:
    """Add `atom` to the path; False if it depends on the path up to rounding."""
    m = G.shape[0]
    if rest[depth, atom] <= 1e-12 * G[atom, atom]:
        return False
    scale = 1.0 / np.sqrt(rest[depth, atom])
    w = W[depth]
    for j in range(atom + 1, m):
        w[j] = G[atom, j]
    for l in range(depth):
        factor = W[l, atom]
        for j in range(atom + 1, m):
            w[j] -= factor * W[l, j]
    for j in range(atom + 1, m):
        w[j] *= scale
        rest[depth + 1, j] = rest[depth, j] - w[j] * w[j]
    for s in range(count):
        c = alpha[depth, s, atom] * scale
        r2[depth + 1, s] = r2[depth, s] - c * c
        for j in range(atom + 1, m):
            alpha[depth + 1, s, j] = alpha[depth, s, j] - c * w[j]
    return True


@kernel(fast=True)
def _test_last(
    atoms: NDArray[Any],
    Y: NDArray[Any],
    row: int,
    alpha: NDArray[Any],
    rest: NDArray[Any],
    r2: float,
    start: int,
    k: int,
    path: NDArray[Any],
    goal: NDArray[Any],
    best: NDArray[Any],
    X: NDArray[Any],
    L: NDArray[Any],
    x: NDArray[Any],
    r: NDArray[Any],
) -> None:
    """Try every last atom: with it the residual would be r² − α²/rest. Promising ones are fitted by least squares."""
    m = alpha.shape[0]
    size2 = dot(Y[row], Y[row])
    bound = min(goal[row], best[row]) ** 2 + SLACK * size2 * SLACK
    for j in range(start, m):
        if (r2 - bound) * rest[j] <= alpha[j] * alpha[j] + 1e-12 * size2 * rest[j] and rest[j] > 0.0:
            path[k - 1] = j
            least_squares(Y[row], atoms, path, k, L, x, r)
            residual = np.sqrt(residual_into(Y[row], atoms, path, x, k, r))
            if residual <= goal[row] and residual < best[row]:
                best[row] = residual
                X[row, :] = 0.0
                for l in range(k):
                    X[row, path[l]] = x[l]
