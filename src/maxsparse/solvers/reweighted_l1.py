"""Reweighted ℓ1: a few weighted basis pursuits, each warm-started from the last."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.registry import SOLVERS
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import check_integer, check_number
from maxsparse.result import Result
from maxsparse.solvers._contract import Batch, Options, Precondition, run
from maxsparse.solvers._simplex import Tableau, simplex_rows

__all__ = ["reweighted_l1"]


@SOLVERS.register(
    "reweighted_l1",
    summary="a sequence of weighted ℓ1 problems",
    label="reweighted ℓ1",
    can=[],
    good_for="amplitudes that differ much, and less sparse signals than ℓ1 recovers",
    order=33,
)
def reweighted_l1(
    Phi: ArrayLike,
    Y: ArrayLike,
    *,
    reweightings: int = 4,
    sparsity: int | None = None,
    tol: float = 1e-9,
    max_iter: int | None = None,
    precondition: Precondition = False,
    noise: float = 0.0,
    n_threads: int | None = None,
    progress: bool = False,
) -> Result:
    r"""Reweighted basis pursuit: small coefficients get larger weights in the next problem.

    .. math:: x^{(l+1)} = \arg\min_x \sum_i \frac{|x_i|}{|x_i^{(l)}| + \epsilon} \ \text{ s.t. } \ \Phi x = y

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary.
    Y : array-like of shape (N, n)
        Signals as rows.
    reweightings : int, default=4
        Number of weighted problems after the first, unweighted one.
    sparsity : int or None, default=None
        Keep that many of the largest coefficients and refit them by least squares.
    tol, max_iter, precondition, n_threads, progress
        As for :func:`l1`.
    noise : float, default=0.0
        Must be 0: the constraint is exact.

    Returns
    -------
    result : Result

    See Also
    --------
    sbl : Equivalent to a reweighted ℓ1 with weights that depend on all of x.

    Notes
    -----
    New weights change the costs but not the tableau, so each problem after the first takes a few pivots. ε is the
    n/(4 log(m/n))-th largest magnitude of x, at least a thousandth of the largest, as in [1]_.

    References
    ----------
    .. [1] E. Candès, M. Wakin, S. Boyd, "Enhancing sparsity by reweighted ℓ1 minimization", JFAA 14, 2008.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(30, 60, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 200, sparsity=10, rng=1)
    >>> plain, reweighted = ms.solvers.l1(Phi, Y), ms.solvers.reweighted_l1(Phi, Y)
    >>> ms.metrics.exact_recovery(X, reweighted.coef) > ms.metrics.exact_recovery(X, plain.coef)
    True
    """
    reweightings = check_integer(reweightings, "reweightings", low=0)
    tol = check_number(tol, "tol", low=0.0)
    limit = None if max_iter is None else check_integer(max_iter, "max_iter", low=1)
    if check_number(noise, "noise", low=0.0) > 0:
        raise ValueError("reweighted_l1 does not support noise > 0; use l1, sbl or ista")

    def solve_batch(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        N, n = batch.Y.shape
        spent, done = np.zeros(N, dtype=np.int64), np.zeros(N, dtype=bool)
        start = Tableau.of(batch.Phi)
        most = 50 * (n + 10) if limit is None else limit
        over_slices(simplex_rows, len(batch.Y), *start.problem(batch.Y), reweightings, tol, most, batch.X, spent, done)
        return spent, done & start.feasible(batch.Y, batch.atoms, batch.X)

    return run("reweighted_l1", Phi, Y, solve_batch, Options(precondition, 0.0, n_threads, progress), keep=sparsity)
