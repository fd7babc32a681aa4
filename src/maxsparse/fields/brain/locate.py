"""Active places of a linear problem: screening, search, and what lies outside; MNE-Python's interface of a solver."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.threads import threads
from maxsparse._core.validation import check_array, check_integer
from maxsparse.fields.brain.gain import Gain
from maxsparse.fields.brain.grid import grid_whitener
from maxsparse.fields.brain.screen import Screen
from maxsparse.fields.brain.search import solved
from maxsparse.fields.brain.weigh import log_evidence

__all__ = ["Located", "located", "solver"]

ROUNDS = 3  # of solving and looking for what was left out
TURNS = 2  # of counting the differences between places as noise
STEPS = 50  # of EM for the power of the sources
CLOSE = 3.0  # log likelihood by which a place outside, or noise of another level, makes no difference
NOTHING = 1e-9  # of the measurements
SOMETHING = 1e-12  # of the largest variance: no direction that has more is empty
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
    G: ArrayLike | Gain,
    n_orient: int,
    *,
    noise: float | None = None,
    between: bool = True,
    budget: int | str = "normal",
) -> Located:
    """Find the active places.

    `noise` is the standard deviation on every measurement, None to learn it; `between`: sources may lie between places.
    A `Gain` keeps what follows from the gain matrix for the next measurements.
    """
    with threads(None):
        return _located(*_without_null_space(*_checked(M, G, n_orient)), noise, between, budget)


def _located(
    measured: NDArray[np.float64], gain: Gain, noise: float | None, between: bool, budget: int | str
) -> Located:
    if not measured.any():
        return Located(np.empty(0, np.intp), np.empty((0, measured.shape[1])), np.zeros(gain.B), 1.0, 0.0)
    screen = Screen(measured, gain)
    whitener, places, level = None, [], 0.0
    if between:
        places = screen.projected()
        level = screen.rows(screen.beyond_chance(places), noise)[1]
        whitener = grid_whitener(screen, places, level)
    found = None if whitener is None else _between(screen, places, whitener, level, noise, budget)
    if found is None:
        found = _searched(screen, noise, budget)
        if between and whitener is None and found.places != sorted(places):
            whitener = grid_whitener(screen, found.places, found.level)
            if whitener is not None:
                found = _between(screen, found.places, whitener, found.level, noise, budget) or found
    X = _posterior_mean(measured, gain.G[:, _columns(found.places, gain.o)], found.level)
    return Located(np.array(found.places, dtype=np.intp), X, found.inclusion, found.confidence, found.level)


class _Found(NamedTuple):
    """Active places, the probabilities of all, that of the answer, and the noise level."""

    places: list[int]
    inclusion: NDArray[np.float64]
    confidence: float
    level: float


def _between(
    screen: Screen, S: list[int], whitener: NDArray[np.float64], level: float, noise: float | None, budget: int | str
) -> _Found | None:
    """Search with the differences of the grid around S as noise; None where sources at the places S are more probable.

    The level is that of the noise next to S.
    """
    rows, _ = screen.rows(S, level)
    at_places = _evidence(screen, rows, S)
    for _ in range(TURNS):
        other = Screen(whitener @ screen.M, Gain(whitener @ screen.G, screen.o))
        found = _searched(other, noise, budget)
        change = len(rows) * float(np.linalg.slogdet(whitener)[1])  # of the measure, by whitening
        if at_places > change + _evidence(other, rows @ whitener.T, found.places):
            return None
        again = None if sorted(S) == found.places else grid_whitener(screen, found.places, found.level)
        if again is None:
            break
        S, whitener = found.places, again
    return found


def _evidence(screen: Screen, rows: NDArray[np.float64], S: list[int]) -> float:
    G = screen.G[:, _columns(S, screen.o)]
    return float(log_evidence(rows, G, [np.arange(len(S))], screen.o, screen.B)[0])


def _searched(screen: Screen, noise: float | None, budget: int | str) -> _Found:
    """Choose places, search among what could replace them, and look for what was left out."""
    active, kept = screen.chosen()
    every = np.zeros(screen.B)
    for _ in range(ROUNDS):
        rows, level = screen.rows(screen.beyond_chance(active), noise)
        columns = np.ascontiguousarray(screen.G[:, _columns(kept, screen.o)])
        start = [np.searchsorted(kept, sorted(active)).tolist()]
        chosen, every[kept], confidence = solved(columns, rows, screen.o, screen.B, start, budget)
        S: list[int] = kept[chosen].tolist()
        outside = np.setdiff1d(screen.rivals(S, CLOSE), kept)
        if not len(outside) and abs(screen.value(S) - screen.value(active)) < CLOSE:
            break
        active, kept = S, np.union1d(kept, screen.rivals(S))
    return _Found(S, every, confidence, level)


def _columns(places: ArrayLike, n_orient: int) -> NDArray[np.intp]:
    return np.asarray(
        (np.asarray(places, dtype=np.intp)[:, None] * n_orient + np.arange(n_orient)).ravel(), dtype=np.intp
    )


def _checked(M: ArrayLike, G: ArrayLike | Gain, n_orient: int) -> tuple[NDArray[np.float64], Gain]:
    measured = np.asarray(check_array(M, "M", complex_too=False), dtype=np.float64)
    if isinstance(G, Gain):
        return measured, G
    matrix = np.asarray(check_array(G, "G", complex_too=False), dtype=np.float64)
    if measured.shape[0] != matrix.shape[0]:
        raise ValueError(f"M has {measured.shape[0]} sensors, G has {matrix.shape[0]}")
    n_orient = check_integer(n_orient, "n_orient", low=1, high=3)
    if not matrix.size or matrix.shape[1] % n_orient:
        raise ValueError(f"G has {matrix.shape[1]} columns, which is not a multiple of n_orient={n_orient}")
    return measured, Gain(matrix, n_orient)


def _without_null_space(M: NDArray[np.float64], gain: Gain) -> tuple[NDArray[np.float64], Gain]:
    """Leave out directions in which projectors left nothing: noise there would be thought to be zero."""
    G = gain.G
    variance = np.linalg.eigvalsh(M @ M.T / max(float(np.sum(M**2)), 1e-300) + gain.covariance)
    if variance[0] > SOMETHING * variance[-1]:
        return M, gain
    few = G[:, :: max(1, G.shape[1] // (4 * len(G)))]
    both = np.concatenate([part / max(float(np.linalg.norm(part)), 1e-300) for part in (M, few)], axis=1)
    U, sizes, _ = np.linalg.svd(both, full_matrices=False)
    null = sizes <= NOTHING * sizes[0]
    if not null.any() or np.linalg.norm(U[:, null].T @ G) > NOTHING * np.linalg.norm(G):
        return M, gain
    return U[:, ~null].T @ M, Gain(U[:, ~null].T @ G, gain.o)


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
