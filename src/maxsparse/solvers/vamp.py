"""Vector approximate message passing, with a Bernoulli-gaussian prior that is learned, and one SVD of Φ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.blocks import is_wide, left_singular
from maxsparse._core.compiled import kernel
from maxsparse._core.forms import Form, well_conditioned
from maxsparse._core.linalg import COLUMN_TILE, four_rows
from maxsparse._core.registry import SOLVERS
from maxsparse._core.threads import over_slices, threads_in_use
from maxsparse._core.validation import FloatArray, check_integer, check_number
from maxsparse.result import Result
from maxsparse.solvers._contract import Batch, Callback, Options, Precondition, Rows, run
from maxsparse.solvers._vamp_steps import (
    Signals,
    State,
    first_state,
    judge,
    linear_estimate,
    prior_estimate,
    scaled_signals,
    send_message,
)
from maxsparse.solvers._wide_vamp import WideFactors, wide_vamp_rows

__all__ = ["vamp"]

GROUP = 4  # signals in step with each other, that share products with the singular vectors
LARGE_GROUP, MANY_SIGNALS = 16, 64  # that share one reading of the singular vectors, where there are many signals
CACHED = 2**18  # entries of the singular vectors that are read from a cache


@SOLVERS.register(
    "vamp",
    summary="posterior mean under a Bernoulli-gaussian prior, by message passing",
    label="VAMP",
    can=["noise", "callback"],
    good_for="large random Φ with noise; not small or coherent Φ, see `converged`",
    order=45,
)
def vamp(
    Phi: ArrayLike,
    Y: ArrayLike,
    *,
    sparsity: int | None = None,
    max_iter: int = 200,
    tol: float = 1e-4,
    damping: float = 0.9,
    precondition: Precondition = False,
    noise: float | str | None = "auto",
    n_threads: int | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> Result:
    r"""Vector approximate message passing (VAMP) with a Bernoulli-gaussian prior that is learned for every signal.

    .. math:: x_j \sim (1-\rho)\,\delta_0 + \rho\, N(0, v), \qquad y \mid x \sim N(\Phi x, \sigma^2 I)

    On large random dictionaries it comes close to the smallest mean squared error that any method can reach. On small
    or coherent ones it may not converge (see ``converged``): use :func:`sbl` there.

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary.
    Y : array-like of shape (N, n)
        Signals as rows; prior and noise level are learned separately for each.
    sparsity : int or None, default=None
        Keep that many of the largest coefficients and refit them by least squares.
    max_iter : int, default=200
        Most iterations per signal.
    tol : float, default=1e-4
        Stop when the two estimates of x differ by at most tol times the length of x.
    damping : float, default=0.9
        Weight of the new message in every step, at most 1. Smaller values converge more slowly but more often.
    precondition : bool or (W, D), default=False
        True whitens the problem first, see :func:`maxsparse.theory.precondition`; the coefficients are those of Φ.
    noise : float, "auto" or None, default="auto"
        Standard deviation σ of the noise on every measurement; 0 for none. ``"auto"`` and None learn it by expectation
        maximisation.
    n_threads : int or None, default=None
        Number of threads; None uses all cores.
    progress : bool, default=False
        Show a progress bar on a terminal if it takes more than two seconds.
    callback : callable or None, default=None
        ``callback(t, X)`` is called with the coefficients after every iteration; a true return value stops.

    Returns
    -------
    result : Result
        ``coef`` is the posterior mean. ``scores`` are the log odds that an atom is in the support; its probability is
        ``1 / (1 + exp(-scores))``. Where ``converged`` is False, it is the iterate whose two estimates agree best.

    See Also
    --------
    sbl : Slower, and the better choice for small and for coherent dictionaries.

    Notes
    -----
    VAMP [1]_ alternates between two estimates of x. The first is the posterior mean of the prior given
    :math:`r_1 = x + N(0, 1/\gamma_1)`. The second is the linear estimate from y given
    :math:`r_2 = x + N(0, 1/\gamma_2)`; one singular value decomposition of Φ serves all signals. Each sends the other
    its estimate without the part that came from the other. Messages are damped as :math:`\gamma` and
    :math:`\gamma r`, which does not move fixed points. ρ, v and σ² are learned by expectation maximisation [2]_; σ²
    starts at the mean square of the signal and is halved in every step, so that the first steps do not commit to wrong
    atoms.

    References
    ----------
    .. [1] S. Rangan, P. Schniter, A. Fletcher, "Vector approximate message passing", IEEE Trans. Information Theory
       65(10), 2019.
    .. [2] A. Fletcher, M. Sahraee-Ardakan, S. Rangan, P. Schniter, "Rigorous dynamics and consistent estimation in
       arbitrarily conditioned linear systems", NeurIPS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(100, 200, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 20, sparsity=15, noise=0.01, rng=1)
    >>> result = ms.solvers.vamp(Phi, Y)
    >>> bool(np.sum((result.coef - X) ** 2) < 0.01 * np.sum(X**2))
    True
    """
    max_iter = check_integer(max_iter, "max_iter", low=1)
    tol = check_number(tol, "tol", low=0.0)
    damping = check_number(damping, "damping", low=0.01, high=1.0)
    learn = noise is None or isinstance(noise, str)
    if isinstance(noise, str) and noise != "auto":
        raise ValueError(f'noise must be a number or "auto", got {noise!r}')
    odds_of: list[tuple[Rows, FloatArray]] = []

    def solve_batch(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        factors = _factors_of(batch.form)
        signals = scaled_signals(batch.Y.astype(np.float64), factors, batch.noise, learn)
        state = first_state(signals, factors)
        odds = np.zeros(batch.X.shape)
        spent, done = np.zeros(len(batch.Y), dtype=np.int64), signals.scale == 0.0

        def advance(start: int, stop: int) -> None:
            most = LARGE_GROUP if len(spent) >= MANY_SIGNALS or factors.m * len(factors.s) > CACHED else GROUP
            size = min(most, GROUP * max(1, len(spent) // (GROUP * threads_in_use())))
            arguments = (factors, signals, state, stop - start, tol, damping, learn, batch.X, odds, spent, done)
            rows = wide_vamp_rows if isinstance(factors, WideFactors) else _vamp_rows
            over_slices(rows, -(-len(spent) // size), size, *arguments)

        batch.drive(advance, max_iter, done)
        odds_of.append((batch.rows, odds))
        return spent, done & ~state.given_up

    level = 0.0 if learn or noise is None or isinstance(noise, str) else noise
    options = Options(precondition, level, n_threads, progress, callback)
    result = run("vamp", Phi, Y, solve_batch, options, keep=sparsity)
    scores = np.zeros_like(result.coef)
    for rows, odds in odds_of:
        scores[rows] = odds
    return replace(result, explicit_scores=scores)


class _Factors(NamedTuple):
    """Φ = U diag(s) Vᵀ; the columns of V and Vᵀ are stored in tiles, so that a product reads memory sequentially."""

    U: FloatArray  # (n, r)
    s: FloatArray  # (r,)
    V: FloatArray  # (tiles, m, COLUMN_TILE), zeros behind the last column
    Vt: FloatArray  # (tiles, r, COLUMN_TILE)
    n: int
    m: int


# Of a form of Φ, for as long as that is in use: a factorisation takes as long as some signals.
_kept: WeakKeyDictionary[Form, _Factors | WideFactors] = WeakKeyDictionary()


def _factors_of(form: Form) -> _Factors | WideFactors:
    if form not in _kept:
        _kept[form] = _wide_factors(form) or _factors(*form.svd)
    return _kept[form]


def _wide_factors(form: Form) -> WideFactors | None:
    """Return Φ with its left singular vectors, if there are many atoms and the right ones follow from these."""
    if form.W is not None or not is_wide(form.Q) or form.Q.dtype != np.float64:
        return None
    U, s = left_singular(form.Q, full=False)
    return WideFactors(np.ascontiguousarray(U), s, form.Q, *form.shape) if well_conditioned(s) else None


def _factors(U: FloatArray, s: FloatArray, Vt: FloatArray) -> _Factors:
    return _Factors(np.ascontiguousarray(U), s, _tiles(Vt.T), _tiles(Vt), U.shape[0], Vt.shape[1])


def _tiles(matrix: FloatArray) -> FloatArray:
    """Return the columns in groups of COLUMN_TILE, (groups, rows, COLUMN_TILE), with zeros behind the last one."""
    rows, columns = matrix.shape
    tiles = np.zeros((-(-columns // COLUMN_TILE), rows, COLUMN_TILE))
    for number, tile in enumerate(tiles):
        some = matrix[:, number * COLUMN_TILE : (number + 1) * COLUMN_TILE]
        tile[:, : some.shape[1]] = some
    return tiles


@kernel()
def _vamp_rows(
    piece: int,
    pieces: int,
    size: int,
    factors: _Factors,
    signals: Signals,
    state: State,
    iterations: int,
    tol: float,
    damping: float,
    learn: bool,
    X: NDArray[Any],
    odds: NDArray[Any],
    spent: NDArray[Any],
    done: NDArray[Any],
) -> None:
    N, m = X.shape
    x1, r2, x2, fresh = np.zeros((size, m)), np.zeros((size, m)), np.zeros((size, m)), np.zeros((size, m))
    z, sums = np.zeros((size, factors.s.shape[0])), np.empty((GROUP, COLUMN_TILE))
    e2 = np.zeros(size)
    for first in range(piece * size, N, pieces * size):
        count = min(size, N - first)
        for _ in range(iterations):
            if done[first : first + count].all():
                break
            for l in range(count):
                if not done[first + l]:
                    prior_estimate(state, first + l, factors, damping, x1[l], r2[l], fresh[l])
            _product(r2, done[first : first + count], factors.V, sums, z)
            for l in range(count):
                if not done[first + l]:
                    e2[l] = linear_estimate(state, first + l, factors, signals, learn, z[l])
            _product(z, done[first : first + count], factors.Vt, sums, x2)
            for l in range(count):
                row = first + l
                if done[row]:
                    continue
                gap = send_message(state, row, damping, e2[l], x1[l], r2[l], x2[l])
                spent[row] += 1
                if judge(state, row, gap, tol, signals.noise2[row], done):
                    for j in range(m):
                        X[row, j] = signals.scale[row] * x1[l, j]
                        odds[row, j] = fresh[l, j]


@kernel()
def _product(A: NDArray[Any], done: NDArray[Any], tiles: NDArray[Any], sums: NDArray[Any], out: NDArray[Any]) -> None:
    """Set out = A @ matrix for the rows that are not done, in fours, and a matrix in tiles."""
    columns = out.shape[1]
    for t in range(tiles.shape[0]):
        start = t * COLUMN_TILE
        for row in range(0, len(done), GROUP):
            if done[row : row + GROUP].all():
                continue
            four_rows(A[row : row + GROUP], tiles[t], sums)
            for l in range(GROUP):
                for j in range(min(COLUMN_TILE, columns - start)):
                    out[row + l, start + j] = sums[l, j]
