"""Iterative hard thresholding and the general layer H_k[Ψx + Γy]."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import axpy_rows, dot, image_norm2, residual_of, top_k
from maxsparse._core.registry import SOLVERS
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import check_choice, check_integer, check_matrix, check_number
from maxsparse.result import Result
from maxsparse.solvers._block_iht import block_iht_rows
from maxsparse.solvers._contract import Batch, Callback, Options, Precondition, check_sparsities, run
from maxsparse.solvers._iht_products import iht_by_products

__all__ = ["iht"]

STABLE_SHARE = 0.99  # 1 − c of Blumensath and Davies: a step must stay below this share of the largest safe step
SHRINK = 2.0  # their κ


@SOLVERS.register(
    "iht",
    summary="projected gradient on ‖x‖₀ ≤ k",
    label="IHT",
    needs=["sparsity"],
    can=["noise", "groups", "callback", "complex", "snapshots", "operators", "devices"],
    good_for="the paper's baseline; a small RIP constant is needed",
    order=20,
)
def iht(
    Phi: ArrayLike,
    Y: ArrayLike,
    *,
    sparsity: int | ArrayLike,
    step: float | str = "normalised",
    Gamma: ArrayLike | None = None,
    max_iter: int = 1000,
    tol: float = 1e-8,
    precondition: Precondition = False,
    noise: float | str = 0.0,
    groups: ArrayLike | None = None,
    n_threads: int | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> Result:
    r"""Iterative hard thresholding: a gradient step, then keep the k largest coefficients.

    .. math:: x^{(t+1)} = H_k\big[x^{(t)} + \mu\, \Phi^\top (y - \Phi x^{(t)})\big]

    Parameters
    ----------
    Phi : array-like of shape (n, m), or LinearOperator, real or complex
        Dictionary.
    Y : array-like of shape (N, n) or (N, L, n), real or complex
        Signals as rows; or L snapshots for each, which share one support: the atoms with the largest norm over all.
    sparsity : int or array-like of shape (N,)
        Number k of coefficients (of groups, where there are any) to keep, one for all signals or one for each.
    step : float, "normalised" or "fixed", default="normalised"
        Step μ. ``"normalised"`` is the adaptive rule of [2]_; ``"fixed"`` is :math:`1/\|\Phi\|_2^2`. With both the
        error never increases. The paper's μ = 1 is safe only for :math:`\|\Phi\|_2 \le 1` or a small restricted
        isometry constant.
    Gamma : array-like of shape (m, n) or None, default=None
        Γ of the generalised layer :math:`H_k[(I - \Gamma\Phi)x + \Gamma y]`, in place of :math:`\mu\Phi^\top`; `step`
        is not used then. For one real signal per row, without groups.
    max_iter : int, default=1000
        Most iterations per signal.
    tol : float, default=1e-8
        Stop when the residual is below tol·‖y‖₂ (or at the noise level), or x moves by less than tol·‖x‖₂.
    precondition : bool or (W, D), default=False
        True whitens the problem first, see :func:`maxsparse.theory.precondition`; the coefficients are those of Φ.
    noise : float or "auto", default=0.0
        Standard deviation of the noise on every measurement; of complex noise, that of both parts together.
    groups : array-like of shape (m,) or None, default=None
        Labels of the atoms; those of one label come and go together.
    n_threads : int or None, default=None
        Number of threads; None uses all cores.
    progress : bool, default=False
        Show a progress bar on a terminal if it takes more than two seconds.
    callback : callable or None, default=None
        ``callback(t, X)`` is called with the coefficients after every iteration; a true return value stops.

    Returns
    -------
    result : Result

    See Also
    --------
    aiht : Adaptive IHT for clustered dictionaries.

    Notes
    -----
    Where δ_3k < 1/√32 and μ = 1, :math:`\|x^{(t)} - x^*\|_2 \le 2^{-t} \|x^*\|_2` [1]_. The paper prints the gradient
    step with the wrong sign. By its Proposition "fixed point" a layer that keeps every sparse x* has Ψ = I − ΓΦ, which
    is why only Γ can be chosen here.

    References
    ----------
    .. [1] T. Blumensath, M. Davies, "Iterative hard thresholding for compressed sensing", ACHA 27(3), 2009.
    .. [2] T. Blumensath, M. Davies, "Normalized iterative hard thresholding", IEEE J-STSP 4(2), 2010.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(40, 60, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 100, sparsity=2, rng=1)
    >>> ms.metrics.exact_recovery(X, ms.solvers.iht(Phi, Y, sparsity=2).coef) > 0.9
    True
    """
    max_iter = check_integer(max_iter, "max_iter", low=1)
    tol = check_number(tol, "tol", low=0.0)
    sparsities = check_sparsities(sparsity, Phi, Y, groups=groups)
    if isinstance(step, str):
        check_choice(step, "step", ("normalised", "fixed"))
    elif check_number(step, "step") <= 0:
        raise ValueError(f"step must be positive, got {step}")
    layer = None if Gamma is None else _check_layer(Gamma, Phi, precondition)

    def solve_batch(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        N = len(batch.Y)
        filters, mu = batch.Phi, 0.0  # rows of `filters` are those of Γᵀ; a step of 0 means the adaptive rule
        if layer is not None and (batch.by_products or not batch.structure.plain):
            raise ValueError("Gamma is for one real signal per row, a matrix and atoms without groups; omit it")
        if layer is not None:
            filters, mu = np.ascontiguousarray(layer.T, dtype=batch.Phi.dtype), 1.0
        elif step == "fixed":
            mu = 1.0 / batch.norm**2
        elif not isinstance(step, str):
            mu = float(step)
        limits, floor = sparsities[batch.rows], batch.floor
        spent, done = batch.counters()

        def advance(start: int, stop: int) -> None:
            if batch.by_products:
                most, rule_of_steps = batch.Phi.array(limits), (STABLE_SHARE, SHRINK)
                iht_by_products(batch, most, mu, rule_of_steps, stop - start, tol, spent, done)
                return
            if not batch.structure.plain:
                rule = (mu, (STABLE_SHARE, SHRINK), stop - start, tol, floor)
                problem = (np.ascontiguousarray(batch.Phi.conj()), batch.atoms, batch.Y, batch.structure.start, limits)
                over_slices(block_iht_rows, N, *problem, *rule, batch.X, spent, done)
                return
            plain, rows_rule = _Problem(filters, batch.atoms, batch.Y, limits), _Rule(mu, stop - start, tol, floor)
            over_slices(_iht_rows, N, plain, rows_rule, batch.X, spent, done)

        batch.drive(advance, max_iter, done)
        return spent, done

    return run("iht", Phi, Y, solve_batch, Options(precondition, noise, n_threads, progress, callback, False, groups))


def _check_layer(Gamma: ArrayLike, Phi: ArrayLike, precondition: Precondition) -> NDArray[Any]:
    layer = check_matrix(Gamma, "Gamma")
    if layer.shape != np.shape(Phi)[::-1]:
        raise ValueError(f"Gamma must have shape (m, n) = {np.shape(Phi)[::-1]}, got {layer.shape}")
    if precondition is not None and precondition is not False:
        raise ValueError("Gamma is for the caller's Phi and cannot be combined with precondition")
    return layer


class _Problem(NamedTuple):
    filters: NDArray[Any]  # (n, m), Γᵀ
    atoms: NDArray[Any]  # (m, n), Φᵀ
    Y: NDArray[Any]  # (N, n)
    limits: NDArray[np.int64]  # (N,), nonzeros


class _Rule(NamedTuple):
    mu: float  # step; 0 for the adaptive rule
    iterations: int
    tol: float
    floor: float  # residual that noise explains


class Scratch(NamedTuple):
    """Memory of a step."""

    image: NDArray[Any]  # (n,)
    work: NDArray[Any]  # (5, m)
    chosen: NDArray[np.int64]  # (m,)


@kernel()
def _iht_rows(
    piece: int,
    pieces: int,
    problem: _Problem,
    rule: _Rule,
    X: NDArray[Any],
    spent: NDArray[Any],
    done: NDArray[Any],
) -> None:
    filters, atoms, Y, limits = problem
    mu, iterations, tol, floor = rule
    N, n = Y.shape
    m = atoms.shape[0]
    r = np.empty(n, dtype=Y.dtype)
    scratch = Scratch(np.empty(n, dtype=Y.dtype), np.empty((5, m), dtype=Y.dtype), np.empty(m, dtype=np.int64))
    for row in range(piece, N, pieces):
        goal = max(tol * np.sqrt(dot(Y[row], Y[row])), floor)
        done[row] = done[row] or residual_of(Y[row], atoms, X[row], r) <= goal
        for _ in range(iterations):
            if done[row]:
                break
            moved = iht_step(filters, atoms, X[row], limits[row], 0, mu, r, scratch)
            spent[row] += 1
            residual = residual_of(Y[row], atoms, X[row], r)
            if not residual < np.inf:
                break  # the step is too large for Φ and x diverged: not converged
            done[row] = residual <= goal or moved <= tol * np.sqrt(dot(X[row], X[row]))


@kernel(fast=True)
def iht_step(
    filters: NDArray[Any],
    atoms: NDArray[Any],
    x: NDArray[Any],
    k: int,
    protected: int,
    mu: float,
    r: NDArray[Any],
    scratch: Scratch,
) -> float:
    """Replace x by H_k[x + μΓr] and return how far it moved.

    The first `protected` coefficients are never thresholded (Ω_on of Adaptive IHT); μ = 0 means the adaptive rule.
    """
    m = x.shape[0]
    image, work, chosen = scratch
    gradient, trial, magnitude, delta, sorted_ = work[0], work[1], work[2], work[3], work[4]
    axpy_rows(r, filters, 0, m, gradient)
    adaptive = mu == 0.0
    if adaptive:
        mu = _exact_step(atoms, x, k, protected, scratch)
    while True:
        for j in range(m):
            trial[j] = x[j] + mu * gradient[j]
            magnitude[j] = abs(trial[j])
            delta[j] = -x[j]
        count = _chosen(magnitude, k, protected, sorted_, chosen)
        same = True
        for l in range(count):
            j = chosen[l]
            same = same and x[j] != 0.0
            delta[j] += trial[j]
        moved2 = dot(delta, delta)
        if not adaptive or same:  # on an unchanged support the exact step is safe
            break
        image2 = image_norm2(atoms, delta, image)
        if mu * image2 <= STABLE_SHARE * moved2:
            break
        mu /= SHRINK * STABLE_SHARE
    for j in range(m):
        x[j] = 0.0
    for l in range(count):
        x[chosen[l]] = trial[chosen[l]]
    moved: float = np.sqrt(moved2)
    return moved


@kernel(fast=True)
def _exact_step(atoms: NDArray[Any], x: NDArray[Any], k: int, protected: int, scratch: Scratch) -> float:
    """Return μ = ‖g_S‖²/‖Φ_S g_S‖², the exact line search on the present support S (at x = 0: the k largest of g)."""
    m = x.shape[0]
    image, work, chosen = scratch
    gradient, magnitude, restricted, sorted_ = work[0], work[2], work[3], work[4]
    empty = True
    for j in range(m):
        restricted[j] = gradient[j] if x[j] != 0.0 else 0.0
        empty = empty and x[j] == 0.0
    if empty:
        for j in range(m):
            magnitude[j] = abs(gradient[j])
        for l in range(_chosen(magnitude, k, protected, sorted_, chosen)):
            restricted[chosen[l]] = gradient[chosen[l]]
    image2 = image_norm2(atoms, restricted, image)
    return dot(restricted, restricted) / image2 if image2 > 0.0 else 1.0


@kernel()
def _chosen(magnitude: NDArray[Any], k: int, protected: int, scratch: NDArray[Any], chosen: NDArray[Any]) -> int:
    """Write the protected indices and the k largest of the others to `chosen`; return how many there are."""
    count = top_k(magnitude[protected:], k, scratch, chosen[protected:])
    for l in range(count):
        chosen[protected + l] += protected
    for l in range(protected):
        chosen[l] = l
    return protected + count
