"""Active places of a linear problem: screening, search, and what lies outside; MNE-Python's interface of a solver."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import check_array, check_integer
from maxsparse.fields.brain.grid import grid_whitener
from maxsparse.fields.brain.screen import Screen
from maxsparse.fields.brain.weigh import weighed
from maxsparse.recovery import SparseRecoverer

__all__ = ["Located", "located", "solver"]

ROUNDS = 3  # of solving and looking for what was left out
TURNS = 2  # of counting the differences between places as noise
STEPS = 50  # of EM for the power of the sources
CLOSE = 3.0  # log likelihood by which a place outside, or noise of another level, makes no difference
NOTHING = 1e-9  # of the measurements
SETTLED = 1e-3


class Located(NamedTuple):
    """Active places.

    Attributes
    ----------
    places : ndarray of shape (K,), int
        Numbers of the active places, sorted.
    X : ndarray of shape (n_orient × K, T)
        Their time courses: the posterior mean.
    inclusion : ndarray of shape (B,)
        Probability of every place to be active.
    confidence : float
        Probability that `places` are exactly the active ones.
    noise : float
        Standard deviation of the noise.
    """

    places: NDArray[np.intp]
    X: NDArray[np.float64]
    inclusion: NDArray[np.float64]
    confidence: float
    noise: float


def solver(M: ArrayLike, G: ArrayLike, n_orient: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return active sources and their time courses, for MNE-Python's example of a custom inverse solver.

    Parameters
    ----------
    M : array-like of shape (sensors, times)
        Whitened measurements.
    G : array-like of shape (sensors, n_orient × places)
        Whitened gain matrix.
    n_orient : int
        1 for fixed, 3 for free orientations.

    Returns
    -------
    X : ndarray of shape (active, times)
    active_set : ndarray of shape (n_orient × places,), bool

    Examples
    --------
    >>> import numpy as np
    >>> from maxsparse.fields import brain
    >>> rng = np.random.default_rng(0)
    >>> G = rng.standard_normal((20, 60))
    >>> M = G[:, [7, 33]] @ rng.standard_normal((2, 8)) + 0.1 * rng.standard_normal((20, 8))
    >>> np.flatnonzero(brain.solver(M, G, 1)[1])
    array([ 7, 33])
    """
    found = located(M, G, n_orient)
    active = np.zeros(np.shape(G)[1], dtype=bool)
    active[_columns(found.places, n_orient)] = True
    return found.X, active


def located(
    M: ArrayLike,
    G: ArrayLike,
    n_orient: int,
    *,
    noise: float | None = None,
    between: bool = True,
    budget: int | str = "normal",
) -> Located:
    """Find the active places.

    `noise` is the standard deviation on every measurement, None to learn it; `between`: sources may lie between places.
    """
    measured, gain = _without_null_space(*_checked(M, G, n_orient))
    B = gain.shape[1] // n_orient
    if not measured.any():
        return Located(np.empty(0, np.intp), np.empty((0, measured.shape[1])), np.zeros(B), 1.0, 0.0)
    screen = Screen(measured, gain, n_orient)
    found, inclusion, confidence, level = _searched(screen, noise, budget)
    for _ in range(TURNS if between else 0):
        whitener = None if len(found) < 2 else grid_whitener(screen, found.tolist(), level)
        if whitener is None:
            break
        before, other = found, Screen(whitener @ measured, whitener @ gain, n_orient)
        found, inclusion, confidence, level = _searched(other, noise, budget)
        if np.array_equal(found, before):
            break
    X = _posterior_mean(measured, gain[:, _columns(found, n_orient)], level)
    return Located(found, X, inclusion, confidence, level)


def _searched(
    screen: Screen, noise: float | None, budget: int | str
) -> tuple[NDArray[np.intp], NDArray[np.float64], float, float]:
    """Return active places, the probabilities of all, that of the answer, and the noise level."""
    active, kept = screen.chosen()
    every = np.zeros(screen.B)
    for _ in range(ROUNDS):
        rows, level = screen.rows(screen.beyond_chance(active), noise)
        columns = np.ascontiguousarray(screen.G[:, _columns(kept, screen.o)])
        chosen, every[kept], confidence = _solved(columns, rows, screen.o, screen.B, budget)
        found = kept[chosen]
        S = found.tolist()
        outside = np.setdiff1d(screen.rivals(S, CLOSE), kept)
        if not len(outside) and abs(screen.value(S) - screen.value(active)) < CLOSE:
            break
        active, kept = S, np.union1d(kept, screen.rivals(S))
    return found, every, confidence, level


def _columns(places: NDArray[Any], n_orient: int) -> NDArray[np.intp]:
    return np.asarray((places[:, None] * n_orient + np.arange(n_orient)).ravel(), dtype=np.intp)


def _checked(M: ArrayLike, G: ArrayLike, n_orient: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    measured = np.asarray(check_array(M, "M", complex_too=False), dtype=np.float64)
    gain = np.asarray(check_array(G, "G", complex_too=False), dtype=np.float64)
    if measured.shape[0] != gain.shape[0]:
        raise ValueError(f"M has {measured.shape[0]} sensors, G has {gain.shape[0]}")
    n_orient = check_integer(n_orient, "n_orient", low=1, high=3)
    if not gain.size or gain.shape[1] % n_orient:
        raise ValueError(f"G has {gain.shape[1]} columns, which is not a multiple of n_orient={n_orient}")
    return measured, gain


def _without_null_space(
    M: NDArray[np.float64], G: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Leave out directions in which projectors left nothing: noise there would be thought to be zero."""
    few = G[:, :: max(1, G.shape[1] // (4 * len(G)))]
    both = np.concatenate([part / max(float(np.linalg.norm(part)), 1e-300) for part in (M, few)], axis=1)
    U, sizes, _ = np.linalg.svd(both, full_matrices=False)
    null = sizes <= NOTHING * sizes[0]
    if not null.any() or np.linalg.norm(U[:, null].T @ G) > NOTHING * np.linalg.norm(G):
        return M, G
    return U[:, ~null].T @ M, U[:, ~null].T @ G


def _solved(
    G: NDArray[np.float64], rows: NDArray[np.float64], n_orient: int, B: int, budget: int | str
) -> tuple[NDArray[np.intp], NDArray[np.float64], float]:
    """Return the most probable places of G, the probability of each, and that of the answer."""
    groups = None if n_orient == 1 else np.repeat(np.arange(G.shape[1] // n_orient), n_orient)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "noise=", UserWarning)  # a level that is not right yet is learned next
        result = SparseRecoverer(G, groups=groups, noise=1.0, budget=budget).recover(rows[None])
    listed = result.alternatives(0)
    supports = [np.asarray(columns) for columns, _ in listed]
    places = [np.unique(columns // n_orient) for columns in supports]
    before = np.array([probability for _, probability in listed])
    after = before.sum() * weighed(rows, G, supports, [len(S) for S in places], B)
    inclusion = result.inclusion[0, ::n_orient].copy()  # of supports that are not listed too
    for S, change in zip(places, after - before, strict=True):
        inclusion[S] += change
    best = int(np.argmax(after))
    return places[best].astype(np.intp), np.clip(inclusion, 0.0, 1.0), float(min(after[best], 1.0))


def _posterior_mean(M: NDArray[np.float64], A: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Return the posterior mean of the sources, whose power EM learns; directions without a field stay near zero."""
    K, T = A.shape[1], M.shape[1]
    if K == 0:
        return np.empty((0, T))
    U, sizes, Vt = np.linalg.svd(A, full_matrices=False)
    seen, variance = U.T @ M, max(noise**2, 1e-24 * float(np.mean(M**2)))
    power = float(np.mean((seen / np.maximum(sizes, 1e-3 * sizes[0])[:, None]) ** 2)) + 1e-300
    for _ in range(STEPS):
        spread = power * variance / (power * sizes**2 + variance)
        mean = (spread * sizes / variance)[:, None] * seen
        before, power = power, float(np.mean(mean**2) + np.mean(spread))
        if abs(power - before) < SETTLED * before:
            break
    return np.asarray(Vt.T @ mean)
