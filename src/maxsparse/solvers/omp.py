"""Orthogonal matching pursuit, in the batch form that needs only the Gram matrix; without it for large dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import (
    cholesky_solve,
    copy_into,
    dot,
    first_largest,
    magnitude_bits,
    residual_into,
    times,
)
from maxsparse._core.registry import SOLVERS
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import check_number
from maxsparse.result import Result
from maxsparse.solvers._block_omp import block_omp
from maxsparse.solvers._contract import Batch, Callback, Options, Precondition, check_sparsities, run
from maxsparse.solvers._large_omp import LARGE, large_omp
from maxsparse.solvers._omp_products import omp_by_products

__all__ = ["omp"]

BLOCK = 4096  # signals whose Φᵀy is kept at a time: new memory costs more than the sums written to it


@SOLVERS.register(
    "omp",
    summary="greedy, one atom at a time",
    label="OMP",
    can=["noise", "positive", "groups", "callback", "complex", "snapshots", "operators", "devices"],
    good_for="speed, on an incoherent Φ and very sparse signals",
    order=10,
)
def omp(
    Phi: ArrayLike,
    Y: ArrayLike,
    *,
    sparsity: int | ArrayLike | None = None,
    tol: float = 1e-6,
    precondition: Precondition = False,
    noise: float | str = 0.0,
    positive: bool = False,
    groups: ArrayLike | None = None,
    n_threads: int | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> Result:
    r"""Orthogonal matching pursuit: add the atom most correlated with the residual, refit, repeat.

    .. math:: i_t = \arg\max_i |\phi_i^\top r^{(t)}|, \qquad
              r^{(t+1)} = y - \Phi_S x_S, \quad x_S = \arg\min \|y - \Phi_S x_S\|_2

    Parameters
    ----------
    Phi : array-like of shape (n, m), or LinearOperator, real or complex
        Dictionary. Atoms are not normalised; scale them to norm 1 unless other norms are intended.
    Y : array-like of shape (N, n) or (N, L, n), real or complex
        Signals as rows; or L snapshots for each, which share one support (simultaneous OMP [2]_).
    sparsity : int, array-like of shape (N,) or None, default=None
        Number of atoms (of groups, where there are any), at most min(n, m), one for all signals or one for each.
        None: stop by the residual only.
    tol : float, default=1e-6
        Stop when :math:`\|r\|_2 \le tol \cdot \|y\|_2`, or at the noise level if that is larger.
    precondition : bool or (W, D), default=False
        True whitens the problem first, see :func:`maxsparse.theory.precondition`; the coefficients are those of Φ.
    noise : float or "auto", default=0.0
        Standard deviation of the noise on every measurement: stop when :math:`\|r\|_2 \le noise \sqrt n`, with
        several snapshots :math:`noise \sqrt{nL}`. Of complex noise, that of real and imaginary part together.
    positive : bool, default=False
        Only coefficients of at least zero: the atom with the largest positive correlation, a non-negative fit.
    groups : array-like of shape (m,) or None, default=None
        Labels of the atoms; those of one label are added together, by the norm of their correlations (block OMP [3]_).
    n_threads : int or None, default=None
        Number of threads; None uses all cores.
    progress : bool, default=False
        Show a progress bar on a terminal if it takes more than two seconds.
    callback : callable or None, default=None
        ``callback(t, X)`` is called with the coefficients after every iteration; a true return value stops.

    Returns
    -------
    result : Result
        ``converged`` where the requested sparsity or residual was reached.

    See Also
    --------
    subspace_pursuit : Greedy too, but can remove atoms.

    Notes
    -----
    Batch-OMP [1]_ in an orthogonalised form: with :math:`q_l` the Gram–Schmidt vectors of the chosen atoms,
    :math:`w_l = \Phi^\top q_l` follows from a row of the Gram matrix and the earlier w, and
    :math:`\Phi^\top r` loses :math:`(q_l^\top y) w_l` per step. Where the residual is small or atoms are
    similar, the coefficients are refined in the residual.

    References
    ----------
    .. [1] R. Rubinstein, M. Zibulevsky, M. Elad, "Efficient implementation of the K-SVD algorithm using batch
       orthogonal matching pursuit", Technion CS-2008-08, 2008.
    .. [2] J. Tropp, A. Gilbert, M. Strauss, "Algorithms for simultaneous sparse approximation, part I", Signal
       Processing 86(3), 2006.
    .. [3] Y. Eldar, P. Kuppinger, H. Bölcskei, "Block-sparse signals: uncertainty relations and efficient recovery",
       IEEE Trans. Signal Processing 58(6), 2010.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(30, 60, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 200, sparsity=3, rng=1)
    >>> ms.metrics.exact_recovery(X, ms.solvers.omp(Phi, Y, sparsity=3).coef) > 0.9
    True
    """
    tol = check_number(tol, "tol", low=0.0)
    sparsities = check_sparsities(sparsity, Phi, Y, groups=groups, optional=True)

    def solve_batch(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        limits = sparsities[batch.rows]
        most = min(batch.shape[0], int(limits.max(initial=0)))
        spent, done = batch.counters()
        exact = sparsity is not None

        # The path of OMP does not depend on where it ends, so a run with callback is a sequence of longer and longer
        # runs.
        def advance(start: int, stop: int) -> None:
            atoms = np.minimum(limits, stop)
            if batch.by_products:
                most_atoms = batch.Phi.array(atoms)
                batch.X[:], spent[:], done[:] = omp_by_products(batch.Phi, batch.Y, most_atoms, tol, batch.floor)
                done[:] |= exact & (spent >= batch.Phi.array(np.minimum(limits, most)))
                return
            if not batch.structure.plain:
                block_omp(batch, atoms, tol, spent, done)
            elif batch.shape[1] > LARGE:
                large_omp(batch, atoms, tol, spent, done)
            else:
                with_gram(batch, atoms)
            done[:] |= exact & (spent >= np.minimum(limits, most))

        def with_gram(batch: Batch, atoms: NDArray[np.int64]) -> None:
            magnitude = magnitude_bits(batch.Y.dtype)
            for first in range(0, len(batch.Y), BLOCK):
                rows = slice(first, first + BLOCK)
                Y, X = batch.Y[rows], batch.X[rows]
                alpha = times(Y, batch.Phi)
                over_slices(
                    _omp_rows,
                    len(Y),
                    Y,
                    batch.atoms,
                    batch.form.gram,
                    alpha,
                    atoms[rows],
                    tol,
                    batch.floor,
                    most,
                    magnitude,
                    X,
                    spent[rows],
                    done[rows],
                )

        batch.drive(advance, most, done)
        return spent, done

    options = Options(precondition, noise, n_threads, progress, callback, positive, groups)
    return run("omp", Phi, Y, solve_batch, options, blas=False)


@kernel()
def _omp_rows(
    piece: int,
    pieces: int,
    Y: NDArray[Any],
    atoms: NDArray[Any],
    G: NDArray[Any],
    alpha0: NDArray[Any],
    limits: NDArray[Any],
    tol: float,
    floor: float,
    most: int,
    magnitude: NDArray[Any],
    X: NDArray[Any],
    spent: NDArray[Any],
    done: NDArray[Any],
) -> None:
    N, n = Y.shape
    m = G.shape[0]
    W = np.empty((most, _unaligned(m)), dtype=Y.dtype)
    L = np.empty((most, most), dtype=Y.dtype)
    c, x, r = np.empty(most, dtype=Y.dtype), np.empty(most, dtype=Y.dtype), np.empty(n, dtype=Y.dtype)
    alpha = np.empty(m, dtype=Y.dtype)
    chosen, refused = np.empty(most, dtype=np.int64), np.empty(m, dtype=np.int64)
    for row in range(piece, N, pieces):
        copy_into(alpha0[row], alpha)
        count, met = _omp_one(
            Y[row], atoms, G, alpha, magnitude, min(limits[row], most), tol, floor, W, L, c, x, r, chosen, refused
        )
        X[row, :] = 0.0
        for l in range(count):
            X[row, chosen[l]] = x[l]
        spent[row], done[row] = count, met


@kernel(fast=True)
def _omp_one(
    y: NDArray[Any],
    atoms: NDArray[Any],
    G: NDArray[Any],
    alpha: NDArray[Any],
    magnitude: NDArray[Any],
    limit: int,
    tol: float,
    floor: float,
    W: NDArray[Any],
    L: NDArray[Any],
    c: NDArray[Any],
    x: NDArray[Any],
    r: NDArray[Any],
    chosen: NDArray[Any],
    refused: NDArray[Any],
) -> tuple[int, bool]:
    """Solve for one signal; alpha is Φᵀy on entry and Φᵀr afterwards. Returns the number of atoms and success."""
    size2 = dot(y, y)
    goal2 = max(tol * tol * size2, floor * floor)
    r2, count, refusals, weakest, exact = size2, 0, 0, 1.0, False
    while r2 > goal2 and count < limit:
        i = first_largest(alpha, magnitude)
        if alpha[i] == 0.0:
            break
        rest = G[i, i]
        for l in range(count):
            L[count, l] = W[l, i]
            rest -= W[l, i] * W[l, i]
        if rest <= 1e-12 * G[i, i]:  # depends on the chosen atoms up to rounding
            alpha[i] = 0.0
            refused[refusals] = i
            refusals += 1
            continue
        weakest = min(weakest, rest / G[i, i])
        L[count, count] = np.sqrt(rest)
        c[count] = alpha[i] / L[count, count]
        chosen[count] = i
        _next_direction(G[i], L[count], W, count, c[count], alpha)
        for l in range(count + 1):  # chosen atoms are not candidates again
            alpha[chosen[l]] = 0.0
        for l in range(refusals):
            alpha[refused[l]] = 0.0
        r2 -= c[count] * c[count]
        count += 1
        # Differences of squares are accurate enough if they are large and the atoms not too similar.
        exact = r2 <= max(goal2, 1e-8 * size2) or weakest < 1e-3
        if exact:
            _back_substitute(L, c, count, x)
            r2 = _refine(y, atoms, chosen, L, count, x, r)
    if not exact:
        _back_substitute(L, c, count, x)
    return count, r2 <= goal2


@kernel()
def _unaligned(m: int) -> int:
    """Return a row length of at least m, not a multiple of a page: such rows would compete for the same cache lines."""
    return m + 8 + (-m) % 8


@kernel(fast=True)
def _next_direction(
    g: NDArray[Any], l_row: NDArray[Any], W: NDArray[Any], count: int, c: float, alpha: NDArray[Any]
) -> None:
    """Set w = (g − Σ_l L_l w_l) / L_count as row `count` of W, and take c·w off alpha.

    Four rows of W at a time, so that w is loaded and stored a quarter as often.
    """
    m = g.shape[0]
    w = W[count]
    for j in range(m):
        w[j] = g[j]
    whole = count - count % 4
    for l in range(0, whole, 4):
        a, b, d, e = l_row[l], l_row[l + 1], l_row[l + 2], l_row[l + 3]
        for j in range(m):
            w[j] = w[j] - a * W[l, j] - b * W[l + 1, j] - d * W[l + 2, j] - e * W[l + 3, j]
    for l in range(whole, count):
        a = l_row[l]
        for j in range(m):
            w[j] -= a * W[l, j]
    scale = 1.0 / l_row[count]
    for j in range(m):
        w[j] *= scale
        alpha[j] -= c * w[j]


@kernel(fast=True)
def _back_substitute(L: NDArray[Any], c: NDArray[Any], count: int, x: NDArray[Any]) -> None:
    """Solve Lᵀx = c."""
    for i in range(count - 1, -1, -1):
        total = c[i]
        for l in range(i + 1, count):
            total -= L[l, i] * x[l]
        x[i] = total / L[i, i]


@kernel(fast=True)
def _refine(
    y: NDArray[Any],
    atoms: NDArray[Any],
    chosen: NDArray[Any],
    L: NDArray[Any],
    count: int,
    x: NDArray[Any],
    r: NDArray[Any],
) -> float:
    """Correct x once by the residual and return ‖y − Φ_S x‖²."""
    residual_into(y, atoms, chosen, x, count, r)
    step = np.empty(count, dtype=y.dtype)
    for l in range(count):
        step[l] = dot(atoms[chosen[l]], r)
    cholesky_solve(L, count, step)
    for l in range(count):
        x[l] += step[l]
    return residual_into(y, atoms, chosen, x, count, r)
