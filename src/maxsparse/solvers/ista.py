"""ISTA and FISTA: iterative soft thresholding for the lasso, or for basis pursuit by continuation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import axpy_rows, dot, largest_magnitude, residual_of
from maxsparse._core.registry import SOLVERS
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray, check_integer, check_number
from maxsparse.result import Result
from maxsparse.solvers._contract import Batch, Callback, Options, Precondition, run
from maxsparse.solvers._ista_products import ista_by_products

__all__ = ["fista", "ista"]

LAST_LAMBDA = 1e-6  # continuation ends at this share of the λ at which x = 0
CHECK_EVERY = 10  # iterations between checks of the duality gap, each of which costs as much as an iteration


@SOLVERS.register(
    "ista",
    summary="½‖y − Φx‖² + λ‖x‖₁ by proximal gradient steps",
    label="ISTA",
    can=["noise", "callback", "operators", "devices"],
    good_for="the lasso; the paper's baseline",
    order=30,
)
def ista(
    Phi: ArrayLike,
    Y: ArrayLike,
    *,
    lam: float | None = None,
    sparsity: int | None = None,
    max_iter: int = 2000,
    tol: float = 1e-6,
    precondition: Precondition = False,
    noise: float | str = 0.0,
    n_threads: int | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> Result:
    r"""Iterative soft thresholding: a gradient step, then shrink every coefficient.

    .. math:: \min_x \tfrac12 \|y - \Phi x\|_2^2 + \lambda \|x\|_1, \qquad
              x^{(t+1)} = S_{\lambda\mu}\big[x^{(t)} + \mu\Phi^\top(y - \Phi x^{(t)})\big],
              \quad \mu = 1/\|\Phi\|_2^2

    Parameters
    ----------
    Phi : array-like of shape (n, m), or LinearOperator
        Dictionary.
    Y : array-like of shape (N, n)
        Signals as rows.
    lam : float or None, default=None
        Penalty λ. None lowers it from :math:`\|\Phi^\top y\|_\infty` to a millionth of that over the first half of the
        iterations, which leads towards basis pursuit. With noise, it ends at the universal level
        :math:`noise \sqrt{2 \ln m}`.
    sparsity : int or None, default=None
        Keep that many of the largest coefficients and refit them by least squares.
    max_iter : int, default=2000
        Most iterations per signal.
    tol : float, default=1e-6
        Stop when the duality gap is below tol times the objective.
    precondition, noise, n_threads, progress, callback
        As for :func:`maxsparse.solvers.iht`.

    Returns
    -------
    result : Result

    See Also
    --------
    fista : The same with momentum, nearly always faster.
    l1 : Basis pursuit solved exactly.

    References
    ----------
    .. [1] A. Beck, M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse problems",
       SIAM J. Imaging Sciences 2(1), 2009.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(30, 60, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 50, sparsity=2, rng=1)
    >>> ms.metrics.strict_accuracy(X, ms.solvers.ista(Phi, Y).scores) > 0.9
    True
    """
    options = Options(precondition, noise, n_threads, progress, callback)
    return _solve("ista", Phi, Y, lam, sparsity, max_iter, tol, options)


@SOLVERS.register(
    "fista",
    summary="½‖y − Φx‖² + λ‖x‖₁ by accelerated proximal gradient steps",
    label="FISTA",
    can=["noise", "callback", "operators", "devices"],
    good_for="the lasso, in fewer steps than ista",
    order=31,
)
def fista(
    Phi: ArrayLike,
    Y: ArrayLike,
    *,
    lam: float | None = None,
    sparsity: int | None = None,
    max_iter: int = 2000,
    tol: float = 1e-6,
    precondition: Precondition = False,
    noise: float | str = 0.0,
    n_threads: int | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> Result:
    r"""Iterative soft thresholding with Nesterov's momentum, restarted when it points uphill.

    .. math:: \min_x \tfrac12 \|y - \Phi x\|_2^2 + \lambda \|x\|_1

    Parameters
    ----------
    Phi, Y, lam, sparsity, max_iter, tol, precondition, noise, n_threads, progress, callback
        As for :func:`ista`.

    Returns
    -------
    result : Result

    See Also
    --------
    l1 : Basis pursuit solved exactly.

    References
    ----------
    .. [1] A. Beck, M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse problems",
       SIAM J. Imaging Sciences 2(1), 2009.
    .. [2] B. O'Donoghue, E. Candès, "Adaptive restart for accelerated gradient schemes", FoCM 15, 2015.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(30, 60, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 50, sparsity=3, rng=1)
    >>> result = ms.solvers.fista(Phi, Y, lam=1e-3)
    >>> bool(result.converged.all())
    True
    """
    options = Options(precondition, noise, n_threads, progress, callback)
    return _solve("fista", Phi, Y, lam, sparsity, max_iter, tol, options)


def _solve(
    method: str,
    Phi: ArrayLike,
    Y: ArrayLike,
    lam: float | None,
    sparsity: int | None,
    max_iter: int,
    tol: float,
    options: Options,
) -> Result:
    max_iter = check_integer(max_iter, "max_iter", low=1)
    tol = check_number(tol, "tol", low=0.0)
    if lam is not None and check_number(lam, "lam") <= 0:
        raise ValueError(f"lam must be positive, got {lam}; omit it to approach basis pursuit")

    def solve_batch(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        N, m = batch.X.shape
        mu = 1.0 / batch.norm**2
        floor = batch.noise * np.sqrt(2.0 * np.log(max(m, 2)))
        spent, done = batch.counters()
        momentum = 1 + 0 * batch.X[:, 0] if batch.by_products else np.ones(N)
        state = _State(batch.X, 0 * batch.X, momentum, spent, done)
        fixed = -1.0 if lam is None else float(lam)
        schedule = _Schedule(mu, fixed, floor, LAST_LAMBDA ** (2.0 / max_iter), tol, method == "fista")

        def advance(start: int, stop: int) -> None:
            if batch.by_products:
                ista_by_products(batch, schedule, state, start, stop, LAST_LAMBDA, CHECK_EVERY)
                return
            over_slices(_ista_rows, N, _Problem(batch.Phi, batch.atoms, batch.Y), schedule, start, stop, state)

        batch.drive(advance, max_iter, done)
        return spent, done

    return run(method, Phi, Y, solve_batch, options, keep=sparsity)


class _Problem(NamedTuple):
    Phi: FloatArray  # (n, m)
    atoms: FloatArray  # (m, n), Φᵀ
    Y: FloatArray  # (N, n)


class _Schedule(NamedTuple):
    mu: float  # step
    fixed: float  # λ, or −1: it falls from the largest useful one to a small one
    floor: float  # smallest λ that the noise allows
    decay: float  # of λ per iteration
    tol: float
    accelerate: bool


class _State(NamedTuple):
    X: FloatArray  # (N, m)
    previous: FloatArray  # (N, m), one iteration before
    momentum: NDArray[np.float64]  # (N,)
    spent: NDArray[np.int64]  # (N,)
    done: NDArray[np.bool_]  # (N,)


@kernel()
def _ista_rows(
    piece: int, pieces: int, problem: _Problem, schedule: _Schedule, start: int, stop: int, state: _State
) -> None:
    Phi, atoms, Y = problem
    X, done = state.X, state.done
    N, n = Y.shape
    m = atoms.shape[0]
    fixed = schedule.fixed
    z, gradient, r = np.empty(m, dtype=Y.dtype), np.empty(m, dtype=Y.dtype), np.empty(n, dtype=Y.dtype)
    for row in range(piece, N, pieces):
        if done[row]:
            continue
        axpy_rows(Y[row], Phi, 0, m, gradient)
        largest = largest_magnitude(gradient)  # the λ at which x = 0 is optimal
        last = fixed if fixed > 0.0 else max(LAST_LAMBDA * largest, schedule.floor)
        if largest <= last:
            X[row, :] = 0.0
            done[row] = True
            continue
        for t in range(start, stop):
            lam = last if fixed > 0.0 else max(last, largest * schedule.decay**t)
            _ista_step(problem, schedule, state, row, lam, z, gradient, r)
            state.spent[row] += 1
            if (
                lam == last
                and (t + 1) % CHECK_EVERY == 0
                and _gap_closed(Phi, atoms, Y[row], X[row], lam, schedule.tol, r, gradient)
            ):
                done[row] = True
                break


@kernel(fast=True)
def _ista_step(
    problem: _Problem,
    schedule: _Schedule,
    state: _State,
    row: int,
    lam: float,
    z: NDArray[Any],
    gradient: NDArray[Any],
    r: NDArray[Any],
) -> None:
    """Replace x by the shrunk gradient step from z = x + β(x − previous), and the momentum (1 restarts)."""
    x, previous, momentum, mu = state.X[row], state.previous[row], state.momentum[row], schedule.mu
    m = x.shape[0]
    following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum)) if schedule.accelerate else 1.0
    beta = (momentum - 1.0) / following
    for j in range(m):
        z[j] = x[j] + beta * (x[j] - previous[j])
    residual_of(problem.Y[row], problem.atoms, z, r)
    axpy_rows(r, problem.Phi, 0, m, gradient)
    uphill = 0.0
    for j in range(m):
        value = z[j] + mu * gradient[j]
        shrunk = max(abs(value) - mu * lam, 0.0)
        fresh = shrunk if value > 0.0 else -shrunk
        uphill += (z[j] - fresh) * (fresh - x[j])
        previous[j] = x[j]
        x[j] = fresh
    state.momentum[row] = 1.0 if uphill > 0.0 else following


@kernel(fast=True)
def _gap_closed(
    Phi: NDArray[Any],
    atoms: NDArray[Any],
    y: NDArray[Any],
    x: NDArray[Any],
    lam: float,
    tol: float,
    r: NDArray[Any],
    correlation: NDArray[Any],
) -> bool:
    """Return whether primal − dual ≤ tol · primal, with the residual scaled into the dual's feasible set."""
    m = x.shape[0]
    residual_of(y, atoms, x, r)
    axpy_rows(r, Phi, 0, m, correlation)
    size, largest = 0.0, 0.0
    for j in range(m):
        size += abs(x[j])
        largest = max(largest, abs(correlation[j]))
    scale = min(1.0, lam / largest) if largest > 0.0 else 1.0
    r2, yr, y2 = dot(r, r), dot(y, r), dot(y, y)
    primal = 0.5 * r2 + lam * size
    dual = 0.5 * y2 - 0.5 * (y2 - 2.0 * scale * yr + scale * scale * r2)
    return primal - dual <= tol * primal
