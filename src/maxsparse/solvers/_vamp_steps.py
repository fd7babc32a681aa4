"""Steps of vector approximate message passing, one signal at a time: two estimates of x, and what they send each other.

Products with the singular vectors of Φ are made elsewhere: stored ones in :mod:`maxsparse.solvers.vamp`, those of many
atoms by way of Φ itself in :mod:`maxsparse.solvers._wide_vamp`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import times
from maxsparse._core.validation import FloatArray

__all__ = [
    "Signals",
    "State",
    "first_state",
    "judge",
    "linear_estimate",
    "prior_estimate",
    "scaled_signals",
    "send_message",
]

# All variances are those of a signal scaled to unit mean square.
FIRST_DENSITY = 0.1  # initial number of nonzeros per measurement
LARGEST_DENSITY = 0.95
NOISE_DECAY = 0.5  # of σ² per iteration, from 1 down to the level given
LEARNING_STARTS_AT = 1e-2  # σ² below which EM replaces that schedule, if σ is learned
NOISE_TOL = 1e-3  # σ² has converged if its relative change per iteration is smaller
SMALLEST_NOISE = 1e-12  # σ² used for "no noise"
LARGEST_PRECISION = 1e15
PATIENCE = 40  # iterations without improvement before a signal is abandoned


class Signals(NamedTuple):
    """The signals, each scaled to unit mean square."""

    scale: FloatArray  # (N,) root mean square
    b: FloatArray  # (N, r) Uᵀy
    outside: FloatArray  # (N,) ‖y‖² − ‖Uᵀy‖², the part outside the range of Φ
    noise2: FloatArray  # (N,) the smallest σ² allowed: the given one, or SMALLEST_NOISE


class State(NamedTuple):
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


def scaled_signals(Y: FloatArray, factors: Any, noise: float, learn: bool) -> Signals:
    largest = np.max(np.abs(Y), axis=1, initial=0.0)  # squares of tiny and huge signals would under- or overflow
    safe = np.where(largest > 0, largest, 1.0)[:, None]
    scale = largest * np.sqrt(np.mean((Y / safe) ** 2, axis=1))
    Y = Y / np.where(scale > 0, scale, 1.0)[:, None]
    b = times(Y, factors.U)
    outside = np.maximum(np.sum(Y**2, axis=1) - np.sum(b**2, axis=1), 0.0)
    given = 0.0 if learn else noise
    with np.errstate(divide="ignore", over="ignore"):  # results of zero signals are not used
        noise2 = np.clip((given / scale) ** 2, SMALLEST_NOISE, 1e6) if given > 0 else np.full(len(Y), SMALLEST_NOISE)
    return Signals(scale, b, outside, noise2)


def first_state(signals: Signals, factors: Any) -> State:
    N, n, m = len(signals.scale), factors.n, factors.m
    energy = n / np.sum(factors.s**2)  # of an entry of x, if all atoms contribute equally to y
    rho = FIRST_DENSITY * min(n, m) / m
    h1, h2 = np.zeros((N, m)), np.zeros((N, m))
    sigma2 = np.maximum(signals.noise2, 1.0)
    since = np.zeros(N, dtype=np.int64)
    learning, settled, given_up = (np.zeros(N, dtype=bool) for _ in range(3))
    g1, g2, density, v, best = (np.full(N, value) for value in (1 / energy, 0.0, rho, energy / rho, np.inf))
    return State(g1, h1, g2, h2, density, v, sigma2, best, since, learning, settled, given_up)


@kernel(fast=True, nan=True)
def prior_estimate(
    state: State,
    row: int,
    factors: Any,
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
def linear_estimate(state: State, row: int, factors: Any, signals: Signals, learn: bool, z: NDArray[Any]) -> float:
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
def send_message(
    state: State, row: int, damping: float, e2: float, x1: NDArray[Any], r2: NDArray[Any], x2: NDArray[Any]
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
def judge(state: State, row: int, gap: float, tol: float, noise2: float, done: NDArray[Any]) -> bool:
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
