"""Vector approximate message passing, with a Bernoulli-gaussian prior that is learned, and one SVD of Φ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import COLUMN_TILE, four_rows, times
from maxsparse._core.prepared import Form
from maxsparse._core.registry import SOLVERS
from maxsparse._core.threads import over_slices, threads_in_use
from maxsparse._core.validation import FloatArray, check_integer, check_number
from maxsparse.result import Result
from maxsparse.solvers._contract import Batch, Callback, Options, Precondition, Rows, run

__all__ = ["vamp"]

# All variances are those of a signal scaled to unit mean square.
FIRST_DENSITY = 0.1  # initial number of nonzeros per measurement
LARGEST_DENSITY = 0.95
NOISE_DECAY = 0.5  # of σ² per iteration, from 1 down to the level given
LEARNING_STARTS_AT = 1e-2  # σ² below which EM replaces that schedule, if σ is learned
NOISE_TOL = 1e-3  # σ² has converged if its relative change per iteration is smaller
SMALLEST_NOISE = 1e-12  # σ² used for "no noise"
LARGEST_PRECISION = 1e15
PATIENCE = 40  # iterations without improvement before a signal is abandoned
GROUP = 4  # signals in step with each other, that share products with the singular vectors
LARGE_GROUP, MANY_SIGNALS = 16, 64  # that share one reading of the singular vectors, where there are many signals
CACHED = 2**21  # bytes of singular vectors that are read from a cache


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
        signals = _signals(batch.Y.astype(np.float64), factors, batch.noise, learn)
        state = _start(signals, factors)
        odds = np.zeros(batch.X.shape)
        spent, done = np.zeros(len(batch.Y), dtype=np.int64), signals.scale == 0.0

        def advance(start: int, stop: int) -> None:
            most = LARGE_GROUP if len(spent) >= MANY_SIGNALS or factors.V.nbytes > CACHED else GROUP
            size = min(most, GROUP * max(1, len(spent) // (GROUP * threads_in_use())))
            arguments = (factors, signals, state, stop - start, tol, damping, learn, batch.X, odds, spent, done)
            over_slices(_vamp_rows, -(-len(spent) // size), size, *arguments)

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


class _Signals(NamedTuple):
    """The signals, each scaled to unit mean square."""

    scale: FloatArray  # (N,) root mean square
    b: FloatArray  # (N, r) Uᵀy
    outside: FloatArray  # (N,) ‖y‖² − ‖Uᵀy‖², the part outside the range of Φ
    noise2: FloatArray  # (N,) the smallest σ² allowed: the given one, or SMALLEST_NOISE


class _State(NamedTuple):
    """Messages as γ and h = γr, the prior, and progress."""

    g1: FloatArray  # (N,) γ of what the prior receives
    h1: FloatArray  # (N, m)
    g2: FloatArray  # (N,) γ of what the linear estimate receives; 0 before the first iteration
    h2: FloatArray  # (N, m)
    rho: FloatArray  # (N,)
    v: FloatArray  # (N,)
    sigma2: FloatArray  # (N,)
    best: FloatArray  # (N,) disagreement of the estimates of the best iterate
    since: NDArray[np.int64]  # (N,) iterations since then
    learning: NDArray[np.bool_]  # (N,) σ² follows EM, no longer the schedule
    settled: NDArray[np.bool_]  # (N,) σ² has converged
    given_up: NDArray[np.bool_]  # (N,)


# Of a form of Φ, for as long as that is in use: a factorisation takes as long as some signals.
_kept: WeakKeyDictionary[Form, _Factors] = WeakKeyDictionary()


def _factors_of(form: Form) -> _Factors:
    if form not in _kept:
        _kept[form] = _factors(*form.svd)
    return _kept[form]


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


def _signals(Y: FloatArray, factors: _Factors, noise: float, learn: bool) -> _Signals:
    largest = np.max(np.abs(Y), axis=1, initial=0.0)  # squares of tiny and huge signals would under- or overflow
    safe = np.where(largest > 0, largest, 1.0)[:, None]
    scale = largest * np.sqrt(np.mean((Y / safe) ** 2, axis=1))
    Y = Y / np.where(scale > 0, scale, 1.0)[:, None]
    b = times(Y, factors.U)
    outside = np.maximum(np.sum(Y**2, axis=1) - np.sum(b**2, axis=1), 0.0)
    given = 0.0 if learn else noise
    with np.errstate(divide="ignore", over="ignore"):  # results of zero signals are not used
        noise2 = np.clip((given / scale) ** 2, SMALLEST_NOISE, 1e6) if given > 0 else np.full(len(Y), SMALLEST_NOISE)
    return _Signals(scale, b, outside, noise2)


def _start(signals: _Signals, factors: _Factors) -> _State:
    N, n, m = len(signals.scale), factors.n, factors.m
    energy = n / np.sum(factors.s**2)  # of an entry of x, if all atoms contribute equally to y
    rho = FIRST_DENSITY * min(n, m) / m
    h1, h2 = np.zeros((N, m)), np.zeros((N, m))
    sigma2 = np.maximum(signals.noise2, 1.0)
    since = np.zeros(N, dtype=np.int64)
    learning, settled, given_up = (np.zeros(N, dtype=bool) for _ in range(3))
    g1, g2, density, v, best = (np.full(N, value) for value in (1 / energy, 0.0, rho, energy / rho, np.inf))
    return _State(g1, h1, g2, h2, density, v, sigma2, best, since, learning, settled, given_up)


@kernel()
def _vamp_rows(
    piece: int,
    pieces: int,
    size: int,
    factors: _Factors,
    signals: _Signals,
    state: _State,
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
                    _prior_estimate(state, first + l, factors, damping, x1[l], r2[l], fresh[l])
            _product(r2, done[first : first + count], factors.V, sums, z)
            for l in range(count):
                if not done[first + l]:
                    e2[l] = _linear_estimate(state, first + l, factors, signals, learn, z[l])
            _product(z, done[first : first + count], factors.Vt, sums, x2)
            for l in range(count):
                row = first + l
                if done[row]:
                    continue
                gap = _message(state, row, damping, e2[l], x1[l], r2[l], x2[l])
                spent[row] += 1
                if _judge(state, row, gap, tol, signals.noise2[row], done):
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


@kernel(fast=True, nan=True)
def _prior_estimate(
    state: _State,
    row: int,
    factors: _Factors,
    damping: float,
    x1: NDArray[Any],
    r2: NDArray[Any],
    odds: NDArray[Any],
) -> None:
    """Set x1 to the posterior mean given r1 = h1/γ1, learn ρ and v, and set the message r2."""
    n, m, g1, rho, v = factors.n, factors.m, state.g1[row], state.rho[row], state.v[row]
    ratio = v * g1
    gain, variance = ratio / (1 + ratio), v / (1 + ratio)
    offset = np.log(rho / (1 - rho)) - 0.5 * np.log1p(ratio)
    half = 0.5 * gain / g1
    spread, used, energy = 0.0, 0.0, 0.0
    h1 = state.h1[row]
    for j in range(m):
        odds[j] = offset + half * h1[j] * h1[j]
        p = 1 / (1 + np.exp(-odds[j]))
        mean = gain * h1[j] / g1
        x1[j] = p * mean
        spread += p * (variance + mean * mean * (1 - p))
        used += p
        energy += p * (variance + mean * mean)
    e1 = m / max(spread, m / LARGEST_PRECISION)
    g2 = min(max(e1 - g1, 1e-6 * e1), LARGEST_PRECISION)
    share = damping if state.g2[row] > 0.0 else 1.0  # the first iteration has no old message
    if state.g2[row] > 0.0:  # EM; the first estimate is zero and carries no information
        state.rho[row] = min(max(used / m, 0.5 / m), LARGEST_DENSITY * min(n, m) / m)
        state.v[row] = energy / max(used, 1e-12)
    h2 = state.h2[row]
    for j in range(m):
        h2[j] += share * ((g1 + g2) * x1[j] - h1[j] - h2[j])
    state.g2[row] += share * (g2 - state.g2[row])
    scale = 1 / state.g2[row]
    for j in range(m):
        r2[j] = scale * h2[j]


@kernel(fast=True, nan=True)
def _linear_estimate(
    state: _State, row: int, factors: _Factors, signals: _Signals, learn: bool, z: NDArray[Any]
) -> float:
    """Turn z = Vᵀr2 into Vᵀ(x2 − r2), set the next σ², and return the precision of x2."""
    s, b, g2 = factors.s, signals.b[row], state.g2[row]
    n, m, r = factors.n, factors.m, s.shape[0]
    weight = 1 / state.sigma2[row]
    rest, spread, fit = 0.0, 0.0, signals.outside[row]
    for i in range(r):
        d = 1 / (weight * s[i] * s[i] + g2)
        estimate = d * (weight * s[i] * b[i] + g2 * z[i])
        error = b[i] - s[i] * estimate
        fit += error * error
        spread += s[i] * s[i] * d
        rest += g2 * d
        z[i] = estimate - z[i]
    # EM sets nσ² to the expected squared residual.
    state.learning[row] |= learn and state.sigma2[row] <= LEARNING_STARTS_AT
    if state.learning[row]:
        level = max((fit + spread) / n, signals.noise2[row])
        state.settled[row] = abs(level - state.sigma2[row]) <= NOISE_TOL * state.sigma2[row]
    else:
        level = max(state.sigma2[row] * NOISE_DECAY, signals.noise2[row])
        state.settled[row] = level == state.sigma2[row]
    state.sigma2[row] = level
    precision: float = g2 * m / (rest + (m - r))
    return precision


@kernel(fast=True, nan=True)
def _message(
    state: _State, row: int, damping: float, e2: float, x1: NDArray[Any], r2: NDArray[Any], x2: NDArray[Any]
) -> float:
    """Set the message to the prior from x2 − r2, stored in x2; return the squared relative gap of x1 and x2."""
    g2 = state.g2[row]
    g1 = min(max(e2 - g2, 1e-6 * e2), LARGEST_PRECISION)
    share = damping if state.best[row] < np.inf else 1.0
    h1 = state.h1[row]
    gap, size = 0.0, 0.0
    for j in range(x1.shape[0]):
        x = r2[j] + x2[j]
        h1[j] += share * ((g1 + g2) * x - g2 * r2[j] - h1[j])
        gap += (x1[j] - x) * (x1[j] - x)
        size += x * x
    state.g1[row] += share * (g1 - state.g1[row])
    return gap / size if size > 0.0 else gap


@kernel()
def _judge(state: _State, row: int, gap: float, tol: float, noise2: float, done: NDArray[Any]) -> bool:
    """Decide whether the signal is done; return whether this iterate is the best so far.

    While the schedule of σ² is above its goal, agreement of the estimates is worth no more than that σ².
    """
    doubt = gap if state.learning[row] else gap + (state.sigma2[row] - noise2)
    if not np.isfinite(doubt):
        done[row] = state.given_up[row] = True
        return False
    if state.settled[row] and gap <= tol * tol:
        done[row] = True
        return True
    if doubt < state.best[row]:
        state.best[row] = doubt
        state.since[row] = 0
        return True
    state.since[row] += 1
    if state.since[row] >= PATIENCE:
        done[row] = state.given_up[row] = True
    return False
