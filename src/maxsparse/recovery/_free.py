r"""Climbs where the noise level is unknown: supports compared with σ integrated out.

With :math:`y \sim N(0, \sigma^2 (I + \rho\Phi_S\Phi_S^\top))` and a flat prior on log σ, the evidence of S is

.. math:: \log p(y \mid S) = -\tfrac12 \log\det C - \tfrac n2 \log q + \text{const}, \quad
          C = I + \rho\Phi_S\Phi_S^\top, \quad q = y^\top C^{-1} y .

The sweep of :mod:`maxsparse.recovery._sweep` for σ² = 1 and δ = ρ knows how q changes with every atom: it falls by
:math:`u_j^2/t_j` where j enters. The ratio ρ of the coefficients' variance to that of the noise is learned with every
support.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse.learned_sbl.arithmetic import exp, log
from maxsparse.recovery._climb import MOST_STEPS, Pool, find, hash_of, insert
from maxsparse.recovery._sweep import IMPOSSIBLE, ROUNDING, Sweep, add, clear, largest, remove

__all__ = ["Free", "climb_free", "dense_evidence", "keep_free", "settle_free", "start_free"]

LEAST_GAIN = 1e-4  # in nats; gains are computed in float32
LEAST_LEFT = 1e-13  # of yᵀy in q: less is rounding
LOW, HIGH = 1e-2, 1e11  # of ρ: pivots are at least 1/ρ, which must stay far above their rounding errors
POSITIVE = 0.5  # of 1/ρ: a pivot below it is rounding, of an atom in the span of the support
MOVED = 0.7  # in log ρ: so little is not worth another climb


class Free(NamedTuple):
    """One signal whose noise level is unknown."""

    b: NDArray[np.float64]  # (m,), Φᵀy
    odds: NDArray[np.float64]  # (m,), log odds of the network
    prior: NDArray[np.float64]  # (most + 1,), log probability of one support of each size
    spectrum: NDArray[np.float64]  # (n,), eigenvalues of ΦΦᵀ
    energy: NDArray[np.float64]  # (n,), squares of y in their basis
    power: float  # yᵀy


@kernel()
def dense_evidence(free: Free, ratio: float, size: int) -> float:
    """Return the log evidence of a dense x with the power of `size` coefficients, relative to noise alone."""
    share = ratio * max(size, 1) / free.b.shape[0]
    n, q, value = free.energy.shape[0], 0.0, 0.0
    for i in range(n):
        total = 1.0 + share * free.spectrum[i]
        q += free.energy[i] / total
        value -= 0.5 * math.log(total)
    evidence: float = value - 0.5 * n * math.log(q / free.power)
    return evidence


@kernel()
def start_free(
    s: Sweep, free: Free, G: NDArray[Any], ratio: float, atoms: NDArray[Any], size: int
) -> tuple[float, float]:
    """Make `atoms` the support; return its log posterior relative to noise alone, and q."""
    clear(s, free.b, 1.0, ratio)
    value, q = free.prior[size], free.power
    for a in range(size):
        gain, q = _enter(s, free, G, ratio, q, atoms[a])
        value += gain
    return value, q


@kernel()
def _enter(s: Sweep, free: Free, G: NDArray[Any], ratio: float, q: float, j: int) -> tuple[float, float]:
    """Add an atom; return the change of the evidence, −∞ for an atom in the span of the others, and the new q."""
    dependent = not s.t[j] * ratio > POSITIVE
    fit = s.u[j] * s.u[j] / s.t[j]
    left = max(1.0 - fit / q, min(1.0, LEAST_LEFT * free.power / q))
    gain = add(s, G, 1.0, ratio, j) - 0.5 * fit - 0.5 * free.energy.shape[0] * math.log(left)
    return -np.inf if dependent else gain, q * left


@kernel()
def _leave(s: Sweep, free: Free, ratio: float, q: float, j: int) -> tuple[float, float]:
    """Remove an atom; return the change of the evidence and the new q."""
    fit = s.u[j] * s.u[j] / s.t[j]
    gain = remove(s, ratio, j) + 0.5 * fit - 0.5 * free.energy.shape[0] * math.log1p(fit / q)
    return gain, q + fit


@kernel(fast=True)
def _flip_gains(s: Sweep, free: Free, ratio: float, q: float) -> None:
    """Set gains_j to the change of the log posterior by adding or removing j."""
    m, k, n, prior = s.t.shape[0], s.size[0], free.energy.shape[0], free.prior
    more = prior[k + 1] - prior[k] if k + 1 < prior.shape[0] else -np.inf
    more -= 0.5 * math.log(ratio)
    least, floor = POSITIVE / ratio, min(1.0, LEAST_LEFT * free.power / q)
    for l in range(m):
        s.values[l] = max(1.0 - s.u[l] * s.u[l] / (max(s.t[l], least) * q), floor)
    log(s.values, s.bits, s.logs)
    for l in range(m):
        s.gains[l] = more - 0.5 * n * s.logs[l]
        s.values[l] = max(s.t[l], least)
    log(s.values, s.bits, s.logs)
    for l in range(m):
        s.gains[l] = s.gains[l] - 0.5 * s.logs[l] if s.t[l] > least else -np.inf
    for a in range(k):
        i = s.support[a]
        fit = s.u[i] * s.u[i] / s.t[i]
        s.gains[i] = 0.5 * (math.log(ratio / s.t[i]) - n * math.log1p(fit / q)) + prior[k - 1] - prior[k]


@kernel(fast=True)
def _swap_gains(s: Sweep, free: Free, ratio: float, q: float, a: int) -> None:
    """Set gains_j to the change of the log posterior by exchanging the a-th atom of the support for j; −∞ inside."""
    m, i, n = s.t.shape[0], s.support[a], free.energy.shape[0]
    inverse = 1.0 / s.t[i]
    f = s.u[i] * inverse
    without = q + s.u[i] * f
    loss = -0.5 * (math.log(s.t[i]) + n * math.log(without / q))
    least, floor = POSITIVE / ratio, min(1.0, LEAST_LEFT * free.power / without)
    row = s.H[a]
    for l in range(m):
        t = s.t[l] + inverse * row[l] * row[l]
        u = s.u[l] + f * row[l]
        s.values[l] = max(1.0 - u * u / (max(t, least) * without), floor)
        s.gains[l] = t
    log(s.values, s.bits, s.logs)
    for l in range(m):
        t = s.gains[l]
        s.gains[l] = loss - 0.5 * n * s.logs[l] if t > least else -np.inf
        s.values[l] = max(t, least)
    log(s.values, s.bits, s.logs)
    for l in range(m):
        s.gains[l] -= 0.5 * s.logs[l]
    for b in range(s.size[0]):
        s.gains[s.support[b]] = -np.inf


@kernel(fast=True)
def _penalise(s: Sweep, ratio: float, n: int) -> None:
    """Set penalty_j to the n-th root of t_j, and to more than any other inside the support."""
    least = POSITIVE / ratio
    for l in range(s.t.shape[0]):
        s.values[l] = max(s.t[l], least)
    log(s.values, s.bits, s.logs)
    for l in range(s.t.shape[0]):
        s.logs[l] /= n
    exp(s.logs, s.values, s.bits)
    for l in range(s.t.shape[0]):
        s.penalty[l] = s.values[l]
    for a in range(s.size[0]):
        s.penalty[s.support[a]] = IMPOSSIBLE


@kernel(fast=True)
def _may_gain(s: Sweep, ratio: float, q: float, a: int, n: int, least_gain: float) -> bool:
    """Return False if exchanging the a-th atom of the support gains less than `least_gain`, whatever enters.

    As in :func:`maxsparse.recovery._sweep.best_swap`; a gain is −n/2 times the logarithm of q's share that is left
    times the n-th root of t.
    """
    i, count, row = s.support[a], 0, s.H[a]
    inverse = 1.0 / s.t[i]
    f = s.u[i] * inverse
    without = q + s.u[i] * f
    loss = -0.5 * (math.log(s.t[i]) + n * math.log(without / q))
    most, least = math.exp(2.0 * (loss - least_gain + ROUNDING) / n) * without, POSITIVE / ratio
    for l in range(s.t.shape[0]):
        t = max(s.t[l] + inverse * row[l] * row[l], least)
        u = s.u[l] + f * row[l]
        count += (t * without - u * u) * s.penalty[l] < most * t
    return count > 0


@kernel()
def climb_free(s: Sweep, free: Free, G: NDArray[Any], ratio: float, value: float, q: float) -> tuple[float, float]:
    """Take the best single change until none is a gain; return the log posterior that is reached, and q."""
    n = free.energy.shape[0]
    for _ in range(MOST_STEPS):
        _flip_gains(s, free, ratio, q)
        j = largest(s.gains)
        if s.gains[j] > LEAST_GAIN:
            k = s.size[0]
            if s.place[j] >= 0:
                gain, q = _leave(s, free, ratio, q, j)
            else:
                gain, q = _enter(s, free, G, ratio, q, j)
            value += gain + free.prior[s.size[0]] - free.prior[k]
            continue
        best, leave, enter = LEAST_GAIN, -1, -1
        _penalise(s, ratio, n)
        for a in range(s.size[0]):
            if _may_gain(s, ratio, q, a, n, best):
                _swap_gains(s, free, ratio, q, a)
                j = largest(s.gains)
                if s.gains[j] > best:
                    best, leave, enter = s.gains[j], s.support[a], j
        if enter < 0:
            break
        gain, q = _leave(s, free, ratio, q, leave)
        value += gain
        gain, q = _enter(s, free, G, ratio, q, enter)
        value += gain
    return value, q


@kernel()
def ratio_of(s: Sweep, free: Free, q: float, ratio: float) -> float:
    """Return the next ρ of EM: the mean square of the coefficients over the noise's variance, which is q/n."""
    k = s.size[0]
    if k == 0:
        return ratio
    total, scale = 0.0, free.energy.shape[0] / q
    for a in range(k):
        i = s.support[a]
        total += s.u[i] * s.u[i] * scale + s.t[i]
    learned: float = min(max(total / k, LOW), HIGH)
    return learned


@kernel()
def settle_free(
    s: Sweep, free: Free, G: NDArray[Any], ratio: float, atoms: NDArray[Any], size: int
) -> tuple[float, float, float]:
    """Climb from a support, learn ρ there, and climb again; return the log posterior, q and ρ."""
    own = np.empty(free.prior.shape[0], np.int64)
    own[:size] = atoms[:size]
    for _ in range(5):
        value, q = start_free(s, free, G, ratio, own, size)
        climb_free(s, free, G, ratio, value, q)
        size = s.size[0]
        own[:size] = s.support[:size]
        value, q = start_free(s, free, G, ratio, own, size)  # without the rounding errors of the way
        learned = ratio_of(s, free, q, ratio)
        if abs(math.log(learned / ratio)) < MOVED or not np.isfinite(value):
            break
        ratio = learned
    return value, q, ratio


@kernel()
def keep_free(pool: Pool, ratios: NDArray[Any], s: Sweep, value: float, ratio: float) -> None:
    """Put the current support in the pool where it is among the best, with its ρ."""
    if not np.isfinite(value):
        return
    key, size = hash_of(s.support, s.size[0]), s.size[0]
    place = find(pool, key, size)
    if place < 0:
        place = insert(pool, key, s.support, size, value)
        if place >= 0:
            ratios[place] = ratio
    elif value > pool.value[place]:
        pool.value[place], ratios[place] = value, ratio
