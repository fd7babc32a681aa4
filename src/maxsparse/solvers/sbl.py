"""Sparse Bayesian learning: a prior variance per atom, most of which go to zero."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import ArrayLike, NDArray

from maxsparse._validation import check_choice, check_integer, check_number
from maxsparse.result import Result
from maxsparse.solvers._contract import Batch, Callback, Options, Precondition, run
from maxsparse.solvers._kernels import FAST, SLICES, cholesky, residual_into

__all__ = ["sbl"]

UPDATES = ("em", "convex", "mackay")
SCHEDULE_DECAY = 0.8  # of λ per iteration
LEARNING_STARTS_AT = 0.5  # λ, as a share of the signal's mean square, where it is to be learned
FINISH_ITERATIONS = 10  # of MacKay's update after EM has settled
FINISH_PRUNE = 1e-7


def sbl(
    Phi: ArrayLike,
    Y: ArrayLike,
    *,
    update: str = "em",
    sparsity: int | None = None,
    max_iter: int = 500,
    tol: float = 1e-4,
    schedule: tuple[float, float] = (1e-2, 1e-6),
    prune: float = 0.0,
    precondition: Precondition = False,
    noise: float | str = 0.0,
    n_threads: int | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> Result:
    r"""Sparse Bayesian learning: fit a variance γ_i to every atom, then take the posterior mean.

    .. math:: x \sim N(0, \Gamma), \quad y \mid x \sim N(\Phi x, \lambda I), \qquad
              \min_\gamma\ y^\top S^{-1} y + \log\det S, \quad S = \Phi\Gamma\Phi^\top + \lambda I

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary.
    Y : array-like of shape (N, n)
        Signals as rows; the noise level and γ are relative to each signal's own size.
    update : {"em", "convex", "mackay"}, default="em"
        With :math:`u = \Phi^\top S^{-1} y`, :math:`q_i = \phi_i^\top S^{-1} \phi_i` and :math:`x = \gamma u`:
        ``"em"`` is :math:`\gamma = x^2 + \gamma - \gamma^2 q` [1]_, the slowest and on coherent dictionaries by far the
        best, finished by a few steps of the last; ``"convex"`` is :math:`\gamma = |x|/\sqrt q` [2]_; ``"mackay"`` is
        :math:`\gamma = x^2/(\gamma q)` [1]_, the fastest. The first two never increase the objective at a fixed λ.
    sparsity : int or None, default=None
        Keep that many of the largest coefficients and refit them by least squares.
    max_iter : int, default=500
        Most iterations per signal.
    tol : float, default=1e-4
        Stop when no γ moves by more than tol times the largest one.
    schedule : (float, float), default=(1e-2, 1e-6)
        First and last λ of the geometric schedule that stands for λ → 0, for signals scaled to unit mean square.
    prune : float, default=0.0
        Atoms whose γ falls below prune times the largest one are dropped for good. It makes iterations cheaper, but
        the convex and MacKay updates let atoms recover from far below, so there it costs accuracy.
    precondition : bool or (W, D), default=False
        True whitens the problem first, see :func:`maxsparse.theory.precondition`; the coefficients are those of Φ.
    noise : float or "learn", default=0.0
        Standard deviation of the noise on every measurement, which fixes λ; 0 drives λ towards zero by a schedule;
        ``"learn"`` estimates λ along with γ, which for m > n tends to be too low: atoms can explain noise.
    n_threads : int or None, default=None
        Number of threads; None uses all cores.
    progress : bool, default=False
        Show a progress bar on a terminal if it takes more than two seconds.
    callback : callable or None, default=None
        ``callback(t, X)`` is called with the coefficients after every iteration; a true return value stops.

    Returns
    -------
    result : Result

    Notes
    -----
    The objective is invariant under whitening up to the noise term, but with λ > 0 whitening decides which directions
    are trusted, and on coherent dictionaries it decides success.

    References
    ----------
    .. [1] M. Tipping, "Sparse Bayesian learning and the relevance vector machine", JMLR 1, 2001.
    .. [2] D. Wipf, S. Nagarajan, "Iterative reweighted ℓ1 and ℓ2 methods for finding sparse solutions",
       IEEE J-STSP 4(2), 2010.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.decaying(20, 100, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 200, sparsity=3, rng=1)
    >>> ms.metrics.strict_accuracy(X, ms.solvers.sbl(Phi, Y, precondition=True).scores) > 0.95
    True
    """
    code = UPDATES.index(check_choice(update, "update", UPDATES))
    max_iter = check_integer(max_iter, "max_iter", low=1)
    tol = check_number(tol, "tol", low=0.0)
    first, last = _check_schedule(schedule)
    prune = check_number(prune, "prune", low=0.0, high=1.0)
    learn = isinstance(noise, str)
    if learn and noise != "learn":
        raise ValueError(f'noise must be a number or "learn", got {noise!r}')

    def solve_batch(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        N, m = batch.X.shape
        gamma = np.ones((N, m), dtype=batch.X.dtype)
        lam = np.zeros(N)  # 0 until the first iteration sets it
        finishing = np.zeros(N, dtype=np.int64)
        spent, done = np.zeros(N, dtype=np.int64), np.zeros(N, dtype=bool)
        smallest = min(last, 100.0 * float(np.finfo(batch.X.dtype).eps))
        settings = (batch.noise**2, first, last, smallest, tol, prune)

        def advance(start: int, stop: int) -> None:
            _sbl_rows(
                batch.Phi,
                batch.atoms,
                batch.Y,
                code,
                learn,
                settings,
                stop - start,
                gamma,
                lam,
                finishing,
                batch.X,
                spent,
                done,
            )

        batch.drive(advance, max_iter)
        return spent, done

    level = 0.0 if isinstance(noise, str) else noise
    options = Options(precondition, level, n_threads, progress, callback)
    return run("sbl", Phi, Y, solve_batch, options, keep=sparsity)


def _check_schedule(schedule: tuple[float, float]) -> tuple[float, float]:
    if not isinstance(schedule, tuple | list) or len(schedule) != 2:
        raise ValueError(f"schedule must be a pair (first, last), got {schedule!r}")
    first = check_number(schedule[0], "schedule[0]", low=1e-14, high=1e3)
    return first, check_number(schedule[1], "schedule[1]", low=1e-14, high=first)


@njit(cache=True, nogil=True, parallel=True)
def _sbl_rows(
    Phi: NDArray[Any],
    atoms: NDArray[Any],
    Y: NDArray[Any],
    update: int,
    learn: bool,
    settings: tuple[float, float, float, float, float, float],
    iterations: int,
    gamma: NDArray[Any],
    lam: NDArray[Any],
    finishing: NDArray[Any],
    X: NDArray[Any],
    spent: NDArray[Any],
    done: NDArray[Any],
) -> None:
    N, n = Y.shape
    m = Phi.shape[1]
    noise2, first_lambda, last_lambda, smallest, tol, prune = settings
    for piece in prange(min(N, SLICES)):
        B, W = np.empty((n, m), dtype=Y.dtype), np.empty((n, m), dtype=Y.dtype)
        S, y, r = np.empty((n, n), dtype=Y.dtype), np.empty(n, dtype=Y.dtype), np.empty(n, dtype=Y.dtype)
        g, x, q = np.empty(m, dtype=Y.dtype), np.empty(m, dtype=Y.dtype), np.empty(m, dtype=Y.dtype)
        active = np.empty(m, dtype=np.int64)
        for row in range(piece, N, SLICES):
            if done[row]:
                continue
            size = 0.0
            for i in range(n):
                size = max(size, abs(Y[row, i]))
            if size == 0.0:
                done[row] = True
                continue
            mean2 = (
                0.0  # after division by the largest entry, so that tiny and huge signals neither under- nor overflow
            )
            for i in range(n):
                mean2 += (Y[row, i] / size) ** 2 / n
            scale = size * np.sqrt(mean2)
            for i in range(n):
                y[i] = Y[row, i] / scale
            level = noise2 / scale / scale
            if lam[row] == 0.0:
                lam[row] = LEARNING_STARTS_AT if learn else level if level > 0.0 else first_lambda
            count = _pack(Phi, gamma[row], B, g, active)
            for _ in range(iterations):
                if not _posterior(B, g, y, lam[row], count, S, W, x, q):
                    break  # λ is too small for the precision in use: the last x stays
                for l in range(count):
                    X[row, active[l]] = x[l] * scale
                settled, finish = True, finishing[row] > 0
                if learn:
                    fresh = _learned_noise(y, atoms, active, x, g, q, count, lam[row], r)
                    settled = abs(fresh - lam[row]) <= tol * lam[row]
                    lam[row] = max(fresh, last_lambda)
                elif level == 0.0:
                    settled = lam[row] <= last_lambda
                    lam[row] = max(lam[row] * (0.1 if finish else SCHEDULE_DECAY), smallest if finish else last_lambda)
                moved = _update(g, x, q, count, 2 if finish else update)
                spent[row] += 1
                count = _drop(B, g, active, count, FINISH_PRUNE if finish else prune, X[row])
                settled = settled and moved <= tol
                if update == 0 and (settled or finish):
                    # EM has chosen the support, but leaves small γ that fade like 1/t and a bias of λ; MacKay's update
                    # with λ → 0 ends both in a few steps.
                    finishing[row] += 1
                    settled = finishing[row] > FINISH_ITERATIONS
                if settled:
                    done[row] = True
                    break
            gamma[row, :] = 0.0
            for l in range(count):
                gamma[row, active[l]] = g[l]


@njit(cache=True, nogil=True)
def _pack(Phi: NDArray[Any], gamma: NDArray[Any], B: NDArray[Any], g: NDArray[Any], active: NDArray[Any]) -> int:
    """Copy the atoms with γ > 0 side by side to B; return how many there are."""
    count = 0
    for j in range(Phi.shape[1]):
        if gamma[j] > 0.0:
            active[count] = j
            g[count] = gamma[j]
            for i in range(Phi.shape[0]):
                B[i, count] = Phi[i, j]
            count += 1
    return count


@njit(cache=True, nogil=True)
def _drop(B: NDArray[Any], g: NDArray[Any], active: NDArray[Any], count: int, prune: float, x: NDArray[Any]) -> int:
    """Remove atoms whose γ is below prune times the largest one; return how many are left."""
    largest = 0.0
    for l in range(count):
        largest = max(largest, g[l])
    kept = 0
    for l in range(count):
        if g[l] > prune * largest:
            if kept < l:
                active[kept] = active[l]
                g[kept] = g[l]
                for i in range(B.shape[0]):
                    B[i, kept] = B[i, l]
            kept += 1
        else:
            x[active[l]] = 0.0
    return kept


@njit(cache=True, nogil=True, fastmath=FAST)
def _posterior(
    B: NDArray[Any],
    g: NDArray[Any],
    y: NDArray[Any],
    lam: float,
    count: int,
    S: NDArray[Any],
    W: NDArray[Any],
    x: NDArray[Any],
    q: NDArray[Any],
) -> bool:
    """Set x = γ∘Φᵀ S⁻¹ y and q_i = φ_iᵀ S⁻¹ φ_i from S = LLᵀ and W = L⁻¹Φ; return False where S is not definite."""
    n = B.shape[0]
    for i in range(n):
        for j in range(count):
            W[i, j] = g[j] * B[i, j]
    for i in range(n):
        _weighted_row(W[i], B, count, i, S[i])
        S[i, i] += lam
    if not cholesky(S, n):
        return False
    v = np.empty(n, dtype=y.dtype)
    for j in range(count):
        x[j] = 0.0
        q[j] = 0.0
    for i in range(n):
        total = y[i]
        for l in range(i):
            total -= S[i, l] * v[l]
        v[i] = total / S[i, i]
        _substitute_row(S[i], B[i], W, count, i)
        a = v[i]
        for j in range(count):
            x[j] += a * W[i, j]
            q[j] += W[i, j] * W[i, j]
    for j in range(count):
        x[j] *= g[j]
    return True


@njit(cache=True, nogil=True, fastmath=FAST)
def _weighted_row(weighted: NDArray[Any], B: NDArray[Any], count: int, i: int, out: NDArray[Any]) -> None:
    """Set out[k] = weighted·B[k] for k ≤ i, four rows of B at a time."""
    whole = (i + 1) - (i + 1) % 4
    for k in range(0, whole, 4):
        a = b = c = d = weighted[0] * 0
        for j in range(count):
            value = weighted[j]
            a += value * B[k, j]
            b += value * B[k + 1, j]
            c += value * B[k + 2, j]
            d += value * B[k + 3, j]
        out[k], out[k + 1], out[k + 2], out[k + 3] = a, b, c, d
    for k in range(whole, i + 1):
        a = weighted[0] * 0
        for j in range(count):
            a += weighted[j] * B[k, j]
        out[k] = a


@njit(cache=True, nogil=True, fastmath=FAST)
def _substitute_row(l_row: NDArray[Any], b: NDArray[Any], W: NDArray[Any], count: int, i: int) -> None:
    """Set W[i] = (b − Σ_{l<i} L_il W[l]) / L_ii, four rows of W at a time."""
    w = W[i]
    for j in range(count):
        w[j] = b[j]
    whole = i - i % 4
    for l in range(0, whole, 4):
        a, c, d, e = l_row[l], l_row[l + 1], l_row[l + 2], l_row[l + 3]
        for j in range(count):
            w[j] -= (a * W[l, j] + c * W[l + 1, j]) + (d * W[l + 2, j] + e * W[l + 3, j])
    for l in range(whole, i):
        a = l_row[l]
        for j in range(count):
            w[j] -= a * W[l, j]
    scale = 1 / l_row[i]
    for j in range(count):
        w[j] *= scale


@njit(cache=True, nogil=True, fastmath=FAST)
def _update(g: NDArray[Any], x: NDArray[Any], q: NDArray[Any], count: int, update: int) -> float:
    """Replace γ by the rule of that number and return the largest change relative to the largest γ."""
    moved, largest = 0.0, 0.0
    for j in range(count):
        if update == 0:
            fresh = x[j] * x[j] + max(g[j] - g[j] * g[j] * q[j], 0.0)
        elif update == 1:
            fresh = abs(x[j]) / np.sqrt(q[j])
        else:
            fresh = x[j] * x[j] / (g[j] * q[j])
        moved = max(moved, abs(fresh - g[j]))
        largest = max(largest, fresh)
        g[j] = fresh
    return moved / largest if largest > 0.0 else 0.0


@njit(cache=True, nogil=True, fastmath=FAST)
def _learned_noise(
    y: NDArray[Any],
    atoms: NDArray[Any],
    active: NDArray[Any],
    x: NDArray[Any],
    g: NDArray[Any],
    q: NDArray[Any],
    count: int,
    lam: float,
    r: NDArray[Any],
) -> float:
    """Return the EM estimate λ = (‖y − Φx‖² + λ Σ γ_i q_i) / n, the expected squared residual under the posterior."""
    used = 0.0
    for l in range(count):
        used += g[l] * q[l]
    return (residual_into(y, atoms, active, x, count, r) + lam * used) / y.shape[0]
