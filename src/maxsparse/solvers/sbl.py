"""Sparse Bayesian learning: a prior variance per atom; most of them go to zero."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.registry import SOLVERS
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import check_choice, check_integer, check_number
from maxsparse.result import Result
from maxsparse.solvers._block_sbl import Settings, State, block_sbl
from maxsparse.solvers._contract import Batch, Callback, Options, Precondition, run
from maxsparse.solvers._posterior import drop, learned_noise, pack, posterior, scaled, update_gamma
from maxsparse.solvers._screened_sbl import Solved, screened_sbl

__all__ = ["sbl"]

UPDATES = ("em", "convex", "mackay")
SCHEDULE_DECAY = 0.8  # of λ per iteration
LEARNING_STARTS_AT = 0.5  # initial λ, as a share of the signal's mean square, if it is learned
FINISH_ITERATIONS = 10  # of MacKay's update after EM has converged
FINISH_PRUNE = 1e-7


@SOLVERS.register(
    "sbl",
    summary="min yᵀS⁻¹y + log det S, sparse Bayesian learning",
    label="SBL",
    can=["noise", "positive", "groups", "callback", "complex", "snapshots", "operators"],
    good_for="a coherent Φ, or noise; **the default**",
    order=40,
)
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
    positive: bool = False,
    groups: ArrayLike | None = None,
    n_threads: int | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> Result:
    r"""Sparse Bayesian learning: fit a variance γ_i to every atom, then take the posterior mean.

    .. math:: x \sim N(0, \Gamma), \quad y \mid x \sim N(\Phi x, \lambda I), \qquad
              \min_\gamma\ y^\top S^{-1} y + \log\det S, \quad S = \Phi\Gamma\Phi^\top + \lambda I

    Parameters
    ----------
    Phi : array-like of shape (n, m), real or complex, or a real LinearOperator
        Dictionary. Of an operator, promising atoms are looked up and solved for; by n + 1 products all others are
        shown to be better left out, or join. Meant for n up to about a thousand.
    Y : array-like of shape (N, n) or (N, L, n), real or complex
        Signals as rows; or L snapshots for each, which share their γ (M-SBL [3]_). The noise level and γ are relative
        to each signal's own size.
    update : {"em", "convex", "mackay"}, default="em"
        With :math:`u = \Phi^\top S^{-1} y`, :math:`q_i = \phi_i^\top S^{-1} \phi_i` and :math:`x = \gamma u`:
        ``"em"`` is :math:`\gamma = x^2 + \gamma - \gamma^2 q` [1]_, the slowest and on coherent dictionaries by far the
        best, finished by a few steps of the last; ``"convex"`` is :math:`\gamma = |x|/\sqrt q` [2]_; ``"mackay"`` is
        :math:`\gamma = x^2/(\gamma q)` [1]_, the fastest. The first two never increase the objective at a fixed λ.
    sparsity : int or None, default=None
        Keep that many of the largest coefficients (groups, where there are any) and refit them by least squares.
    max_iter : int, default=500
        Most iterations per signal.
    tol : float, default=1e-4
        Stop when no γ moves by more than tol times the largest one.
    schedule : (float, float), default=(1e-2, 1e-6)
        First and last λ of the geometric schedule for λ → 0, for signals scaled to unit mean square.
    prune : float, default=0.0
        Atoms whose γ falls below prune times the largest one are removed permanently. It makes iterations cheaper, but
        with the convex and MacKay updates a very small γ can grow again, so there it costs accuracy.
    precondition : bool or (W, D), default=False
        True whitens the problem first, see :func:`maxsparse.theory.precondition`; the coefficients are those of Φ.
    noise : float, "auto" or "learn", default=0.0
        Standard deviation of the noise on every measurement, which fixes λ; 0 lowers λ towards zero by a schedule;
        ``"auto"`` estimates it for every signal beforehand, see :func:`maxsparse.solve`;
        ``"learn"`` estimates λ along with γ, which for m > n tends to be too low: atoms can explain noise.
        Of complex noise, the deviation of real and imaginary part together.
    positive : bool, default=False
        Only coefficients of at least zero: γ is the mean square of a posterior that is cut off at zero, atom by atom
        [4]_.
    groups : array-like of shape (m,) or None, default=None
        Labels of the atoms; those of one label share one γ, and come and go together.
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
    .. [3] D. Wipf, B. Rao, "An empirical Bayesian strategy for solving the simultaneous sparse approximation problem",
       IEEE Trans. Signal Processing 55(7), 2007.
    .. [4] A. Nalci, I. Fedorov, M. Al-Shoukairi, T. Liu, B. Rao, "Rectified Gaussian scale mixtures and the sparse
       non-negative least squares problem", IEEE Trans. Signal Processing 66(12), 2018.

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
    learn = noise == "learn"
    if isinstance(noise, str) and noise not in ("learn", "auto"):
        raise ValueError(f'noise must be a number, "auto" or "learn", got {noise!r}')

    def solve_batch(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        if batch.by_products:
            return solve_operator(batch)
        N, size = len(batch.X), batch.structure.n_blocks
        gamma = np.ones((N, size), dtype=batch.X.real.dtype)
        lam = np.zeros(N)  # 0 until the first iteration sets it
        finishing = np.zeros(N, dtype=np.int64)
        spent, done = np.zeros(N, dtype=np.int64), np.zeros(N, dtype=bool)
        smallest = min(last, 100.0 * float(np.finfo(batch.X.dtype).eps))
        settings = (batch.noise**2, first, last, smallest, tol, prune)
        finish = (LEARNING_STARTS_AT, SCHEDULE_DECAY, FINISH_ITERATIONS, FINISH_PRUNE)

        def advance(start: int, stop: int) -> None:
            if not batch.structure.plain:
                general = Settings(code, learn, *settings, *finish, batch.structure.positive, batch.snapshots)
                block_sbl(batch, general, State(gamma, lam, finishing, spent, done), stop - start)
                return
            over_slices(
                _sbl_rows,
                len(batch.Y),
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

        batch.drive(advance, max_iter, done)
        return spent, done

    def solve_operator(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        if batch.structure.complex or batch.watch is not None:
            which = "complex operators" if batch.structure.complex else "callback= where Phi is an operator"
            raise ValueError(f"method 'sbl' cannot take {which}; use 'omp' or 'iht', or pass a matrix")
        spent, done = batch.counters()
        for i, y in enumerate(batch.Y):

            def solve(atoms: NDArray[Any], i: int = i) -> Solved:
                size = atoms.shape[1]
                gamma, lam = np.ones((1, size), dtype=atoms.dtype), np.zeros(1)
                X, met = np.zeros_like(gamma), np.zeros(1, dtype=bool)
                finishing, one = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
                smallest = min(last, 100.0 * float(np.finfo(atoms.dtype).eps))
                settings = (batch.noise**2, first, last, smallest, tol, prune)
                problem = (atoms, np.ascontiguousarray(atoms.T), batch.Y[i : i + 1], code, learn, settings, max_iter)
                over_slices(_sbl_rows, 1, *problem, gamma, lam, finishing, X, one, met)
                return Solved(X[0], gamma[0], float(lam[0]), int(one[0]), bool(met[0]))

            batch.X[i], spent[i], done[i] = screened_sbl(batch.Phi, y, solve, last)
        return spent, done

    level = 0.0 if learn else noise
    options = Options(precondition, level, n_threads, progress, callback, positive, groups)
    return run("sbl", Phi, Y, solve_batch, options, keep=sparsity)


def _check_schedule(schedule: tuple[float, float]) -> tuple[float, float]:
    if not isinstance(schedule, tuple | list) or len(schedule) != 2:
        raise ValueError(f"schedule must be a pair (first, last), got {schedule!r}")
    first = check_number(schedule[0], "schedule[0]", low=1e-14, high=1e3)
    return first, check_number(schedule[1], "schedule[1]", low=1e-14, high=first)


@kernel()
def _sbl_rows(
    piece: int,
    pieces: int,
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
    B, W = np.empty((n, m), dtype=Y.dtype), np.empty((n, m), dtype=Y.dtype)
    S, y, r = np.empty((n, n), dtype=Y.dtype), np.empty(n, dtype=Y.dtype), np.empty(n, dtype=Y.dtype)
    g, x, q = np.empty(m, dtype=Y.dtype), np.empty(m, dtype=Y.dtype), np.empty(m, dtype=Y.dtype)
    active = np.empty(m, dtype=np.int64)
    for row in range(piece, N, pieces):
        if done[row]:
            continue
        scale = scaled(Y[row], y)
        if scale == 0.0:
            done[row] = True
            continue
        level = noise2 / scale / scale
        if lam[row] == 0.0:
            lam[row] = LEARNING_STARTS_AT if learn else level if level > 0.0 else first_lambda
        count = pack(Phi, gamma[row], B, g, active)
        for _ in range(iterations):
            if not posterior(B, g, y, lam[row], count, S, W, x, q):
                break  # λ is too small for this precision: keep the last x
            for l in range(count):
                X[row, active[l]] = x[l] * scale
            settled, finish = True, finishing[row] > 0
            if learn:
                fresh = max(learned_noise(y, atoms, active, x, g, q, count, lam[row], r), last_lambda)
                settled = abs(fresh - lam[row]) <= tol * lam[row]
                lam[row] = fresh
            elif level == 0.0:
                settled = lam[row] <= last_lambda
                lam[row] = max(lam[row] * (0.1 if finish else SCHEDULE_DECAY), smallest if finish else last_lambda)
            moved = update_gamma(g, x, q, count, 2 if finish else update)
            spent[row] += 1
            count = drop(B, g, active, count, FINISH_PRUNE if finish else prune, X[row])
            settled = settled and moved <= tol
            if update == 0 and (settled or finish):
                # EM has found the support, but small γ decay only like 1/t, and λ causes a bias; MacKay's update with
                # λ → 0 removes both in a few steps.
                finishing[row] += 1
                settled = finishing[row] > FINISH_ITERATIONS
            if settled:
                done[row] = True
                break
        gamma[row, :] = 0.0
        for l in range(count):
            gamma[row, active[l]] = g[l]
