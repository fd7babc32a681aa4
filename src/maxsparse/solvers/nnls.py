"""Non-negative least squares for many signals, with the coefficients' sum held at one where asked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import dot
from maxsparse._core.nonnegative import Goal, active_set
from maxsparse._core.registry import SOLVERS
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import check_flag, check_integer, check_number
from maxsparse.result import Result
from maxsparse.solvers._contract import Batch, Options, Precondition, run

__all__ = ["nnls"]


@SOLVERS.register(
    "nnls",
    summary="min ‖y − Φx‖₂ s.t. x ≥ 0, exactly; Σx = 1 where asked",
    label="NNLS",
    can=["noise", "positive"],
    good_for="mixtures: non-negative coefficients of few, not too similar atoms",
    order=34,
)
def nnls(
    Phi: ArrayLike,
    Y: ArrayLike,
    *,
    sparsity: int | None = None,
    sum_to_one: bool = False,
    tol: float = 0.0,
    max_iter: int | None = None,
    precondition: Precondition = False,
    noise: float | str = 0.0,
    positive: bool = True,
    n_threads: int | None = None,
    progress: bool = False,
) -> Result:
    r"""Non-negative least squares: the x ≥ 0 with the smallest residual.

    .. math:: \min_x \|y - \Phi x\|_2 \ \text{ s.t. } \ x \ge 0 \qquad\text{and, where asked,}\quad \sum_i x_i = 1

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary.
    Y : array-like of shape (N, n)
        Signals as rows.
    sparsity : int or None, default=None
        Keep that many of the largest coefficients and refit them by non-negative least squares.
    sum_to_one : bool, default=False
        Hold the sum of the coefficients at one, exactly: for abundances. Not with `sparsity`.
    tol : float, default=0.0
        Stop as soon as :math:`\|r\|_2 \le tol \cdot \|y\|_2`, before the optimum: fewer nonzeros.
    max_iter : int or None, default=None
        Most steps per signal; None allows 3 m.
    precondition : bool or (W, D), default=False
        True whitens the problem first, which changes the metric of the residual; see
        :func:`maxsparse.theory.precondition`.
    noise : float or "auto", default=0.0
        Standard deviation σ of the noise on every measurement: stop as soon as :math:`\|r\|_2 \le \sigma\sqrt n`.
        0 goes to the optimum.
    positive : bool, default=True
        Always True; for calls that pass it to every method.
    n_threads : int or None, default=None
        Number of threads; None uses all cores.
    progress : bool, default=False
        Show a progress bar on a terminal if it takes more than two seconds.

    Returns
    -------
    result : Result
        ``converged`` where the optimality conditions (or the stopping rule) hold. ``iterations`` counts steps.

    See Also
    --------
    omp : With ``positive=True``: the same steps, but atoms never leave.
    sbl : With ``positive=True``: far better where atoms are similar.

    Notes
    -----
    The active-set method of Lawson and Hanson [1]_ with a Cholesky factor that grows by one atom at a time. The last
    fit, and every fit on similar atoms, is corrected in the residual, so that the error follows the condition of the
    support, not its square. The multiplier of Σx = 1 is part of the same steps, which start from the best single atom.

    References
    ----------
    .. [1] C. Lawson, R. Hanson, "Solving least squares problems", Prentice-Hall, 1974, chapter 23.

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> Phi = np.abs(ms.dictionaries.gaussian(30, 20, rng=0))
    >>> shares = np.random.default_rng(1).dirichlet(np.ones(3), 100)
    >>> found = ms.solvers.nnls(Phi, shares @ Phi[:, :3].T, sum_to_one=True).coef
    >>> bool(np.allclose(found[:, :3], shares)), bool((found >= 0).all())
    (True, True)
    """
    tol = check_number(tol, "tol", low=0.0)
    limit = None if max_iter is None else check_integer(max_iter, "max_iter", low=1)
    if not check_flag(positive, "positive"):
        raise ValueError("positive=False is not possible here; use 'omp', 'l1' or 'sbl' for coefficients of any sign")
    if check_flag(sum_to_one, "sum_to_one") and sparsity is not None:
        raise ValueError("sum_to_one=True and sparsity exclude each other: the refit of the largest would not sum to 1")

    def solve_batch(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        N, m = len(batch.Y), batch.Phi.shape[1]
        weights = np.empty(0, dtype=batch.Y.dtype)
        if sum_to_one:
            weights = np.ones(m, dtype=batch.Y.dtype) if batch.form.D is None else batch.form.D.astype(batch.Y.dtype)
        spent, done = np.zeros(N, dtype=np.int64), np.zeros(N, dtype=bool)
        most = 3 * m if limit is None else limit
        # Rounding errors of a signal are those of y itself, which whitening multiplies.
        errors = 1.0 if batch.form.W is None else float(np.linalg.cond(batch.form.W))
        goal = Goal(batch.floor**2, errors, most)
        problem = (batch.Phi, batch.atoms, batch.form.gram, weights, batch.Y[:, 0], tol, goal)
        over_slices(_nnls_rows, N, *problem, batch.X[:, 0], spent, done)
        return spent, done

    return run(
        "nnls", Phi, Y, solve_batch, Options(precondition, noise, n_threads, progress, None, True), keep=sparsity
    )


@kernel()
def _nnls_rows(
    piece: int,
    pieces: int,
    Phi: NDArray[Any],
    atoms: NDArray[Any],
    G: NDArray[Any],
    weights: NDArray[Any],
    Y: NDArray[Any],
    tol: float,
    goal: Goal,
    X: NDArray[Any],
    spent: NDArray[Any],
    done: NDArray[Any],
) -> None:
    N, n = Y.shape
    m = Phi.shape[1]
    size = min(n, m)
    C, w, r = np.empty((size, size), dtype=Y.dtype), np.empty(m, dtype=Y.dtype), np.empty(n, dtype=Y.dtype)
    for row in range(piece, N, pieces):
        own = Goal(max(tol * tol * dot(Y[row], Y[row]), goal.residual2), goal.errors, goal.steps)
        spent[row], done[row] = active_set(Y[row], Phi, atoms, G, weights, own, C, w, X[row], r)
