"""Basis pursuit, solved exactly: a simplex method for min Σ c_i |x_i| s.t. Φx = y; its denoising and group forms."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.linalg import residual_norms
from maxsparse._core.registry import SOLVERS
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import check_integer, check_number
from maxsparse.result import Result
from maxsparse.solvers._contract import Batch, Options, Precondition, run
from maxsparse.solvers._group_l1 import group_l1_rows
from maxsparse.solvers._homotopy import homotopy_rows
from maxsparse.solvers._simplex import Tableau, simplex_rows

__all__ = ["l1"]

EXPLAINED = 1e-10  # residual, relative to ‖y‖, that is rounding
SMALLEST_GAP = 1e-6


@SOLVERS.register(
    "l1",
    summary="min ‖x‖₁ s.t. Φx = y, exactly; or ‖y − Φx‖ ≤ σ√n",
    label="ℓ1",
    can=["noise", "positive", "groups", "complex", "snapshots"],
    good_for="a convex method, solved exactly",
    order=32,
)
def l1(
    Phi: ArrayLike,
    Y: ArrayLike,
    *,
    sparsity: int | None = None,
    tol: float = 1e-9,
    max_iter: int | None = None,
    precondition: Precondition = False,
    noise: float | str = 0.0,
    positive: bool = False,
    groups: ArrayLike | None = None,
    n_threads: int | None = None,
    progress: bool = False,
) -> Result:
    r"""Basis pursuit: the feasible x of smallest ℓ1 norm, exact to rounding.

    .. math:: \min_x \|x\|_1 \ \text{ s.t. } \ \Phi x = y
              \qquad\text{or, with noise,}\qquad
              \min_x \|x\|_1 \ \text{ s.t. } \ \|y - \Phi x\|_2 \le \sigma\sqrt n

    For complex coefficients, groups and snapshots, the norm is the sum over atoms (groups) of the Euclidean norm of
    all their coefficients, ℓ2,1.

    Parameters
    ----------
    Phi : array-like of shape (n, m), real or complex
        Dictionary.
    Y : array-like of shape (N, n) or (N, L, n), real or complex
        Signals as rows; or L snapshots for each, which share one support.
    sparsity : int or None, default=None
        Keep that many of the largest coefficients (groups, where there are any) and refit them by least squares.
    tol : float, default=1e-9
        A basis is optimal when no correlation of the dual solution with an atom exceeds 1 + tol. For ℓ2,1 the duality
        gap, relative to the norm, at which to stop; at least 1e-6.
    max_iter : int or None, default=None
        Most pivots (or steps) per signal; None allows 50 (n + 10).
    precondition : bool or (W, D), default=False
        True whitens first. Whitening the rows does not change the problem, but scaling the atoms by D gives the
        weighted norm :math:`\sum_i |x_i| / D_i`, which is better on coherent dictionaries; see
        :func:`maxsparse.theory.precondition`.
    noise : float or "auto", default=0.0
        Standard deviation σ of the noise on every measurement; 0 is basis pursuit. Of complex noise, that of both
        parts together; L snapshots may leave a residual of :math:`\sigma\sqrt{nL}` together.
    positive : bool, default=False
        Only coefficients of at least zero; neither with groups nor with several snapshots.
    groups : array-like of shape (m,) or None, default=None
        Labels of the atoms; those of one label come and go together.
    n_threads : int or None, default=None
        Number of threads; None uses all cores.
    progress : bool, default=False
        Show a progress bar on a terminal if it takes more than two seconds.

    Returns
    -------
    result : Result
        ``converged`` where optimality was verified. ``iterations`` counts pivots or steps.

    See Also
    --------
    fista : First-order method for the penalised form.
    reweighted_l1 : A sequence of weighted problems, closer to ℓ0.

    Notes
    -----
    Any n independent atoms are a feasible basis, since signs are free, so no first phase is needed and all signals
    start from one shared tableau. An entering atom moves through as many sign changes as still lower the objective
    before one atom leaves, the long-step rule of [1]_. Sparse signals make every basis around the optimum degenerate;
    the measurements are perturbed by 1e-7 while pivoting, and the final basis is solved and verified on the true ones.
    The denoising form follows the exact path of lasso solutions [2]_ down to the noise level; with ``positive=True``
    the form without noise does so down to zero. The ℓ2,1 forms are solved by Newton's method on one variance per group
    [3]_, until the duality gap is small.

    References
    ----------
    .. [1] I. Barrodale, F. Roberts, "An improved algorithm for discrete ℓ1 linear approximation", SINUM 10(5), 1973.
    .. [2] M. Osborne, B. Presnell, B. Turlach, "A new approach to variable selection in least squares problems",
       IMA J. Numerical Analysis 20(3), 2000.
    .. [3] F. Bach, R. Jenatton, J. Mairal, G. Obozinski, "Optimization with sparsity-inducing penalties", Foundations
       and Trends in Machine Learning 4(1), 2012, section 5.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(30, 60, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 200, sparsity=3, rng=1)
    >>> ms.metrics.exact_recovery(X, ms.solvers.l1(Phi, Y).coef) > 0.95
    True
    """
    tol = check_number(tol, "tol", low=0.0)
    limit = None if max_iter is None else check_integer(max_iter, "max_iter", low=1)

    def solve_batch(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        N, n = len(batch.Y), batch.Y.shape[-1]
        spent, done = np.zeros(N, dtype=np.int64), np.zeros(N, dtype=bool)
        most = 50 * (n + 10) if limit is None else limit
        if len(batch.structure.asked) > 1 and batch.structure.positive:
            raise ValueError(
                "l1 cannot combine positive=True with groups or several snapshots; use 'omp', 'sbl' or 'exact'"
            )
        path = batch.structure.positive or (batch.structure.plain and batch.noise > 0)
        if path or not batch.structure.plain:
            # Always in double precision, like the simplex: knots of the path are closer than float32 can resolve.
            double = np.result_type(batch.Y, np.float64)
            Phi, atoms, Y = (part.astype(double, copy=False) for part in (batch.Phi, batch.atoms, batch.Y))
            X = np.zeros(batch.X.shape, dtype=double)
            if path:
                flat = Y.reshape(N, n)
                goal = np.full(N, batch.floor)
                if batch.structure.positive:
                    goal = np.maximum(goal, EXPLAINED * np.linalg.norm(flat, axis=1))
                problem = (Phi, atoms, atoms @ Phi, flat, goal, batch.structure.positive, most)
                over_slices(homotopy_rows, N, *problem, X.reshape(N, -1), spent, done)
                if batch.structure.positive:
                    np.maximum(X, 0.0, out=X)  # an atom that leaves the path may be below zero by rounding
                if batch.structure.positive and batch.noise == 0:  # the path may end at λ = 0 before it meets the goal
                    done |= residual_norms(flat, atoms, X.reshape(N, -1)) <= 100.0 * goal
            else:
                rule = (batch.structure.start, batch.floor, max(tol, SMALLEST_GAP), most)
                over_slices(group_l1_rows, N, atoms, Y, *rule, X, spent, done)
            batch.X[...] = X
            return spent, done
        start = Tableau.of(batch.Phi)
        over_slices(simplex_rows, len(batch.Y), *start.problem(batch.Y), 0, tol, most, batch.X, spent, done)
        return spent, done & start.feasible(batch.Y, batch.atoms, batch.X)

    options = Options(precondition, noise, n_threads, progress, None, positive, groups)
    return run("l1", Phi, Y, solve_batch, options, keep=sparsity)
