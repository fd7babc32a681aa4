r"""Amplitudes that are not gaussian: a support and its neighbours under slabs with two humps.

A gaussian slab expects coefficients near zero and so never rules out one more tiny atom. Real amplitudes often stay
away from zero. Here :math:`x_i \sim \frac12 N(\mu, \tau^2) + \frac12 N(-\mu, \tau^2)`; with :math:`\mu = 0` it is the
gaussian slab again. Given the signs s of the coefficients on S, which the data fix wherever a coefficient matters,
:math:`y - \mu\Phi_S s` follows the gaussian model with slab :math:`\tau^2`, so that the sweep of
:mod:`maxsparse.recovery._sweep` serves. One more atom j, with both signs summed up, changes the evidence by

.. math:: \tfrac12 u_j^2/t_j - \tfrac12\log(\tau^2 t_j) - \tfrac12(\mu/\tau)^2(1 - w_j)
          + \log\cosh(\mu w_j u_j), \quad w_j = 1/(\tau^2 t_j),

and one atom i less, whose posterior mean and variance are :math:`x_i` and :math:`t_i`, by
:math:`\frac12\log(\tau^2/t_i) - \frac12 x_i^2/t_i + \frac12(\mu/\tau)^2 + \log 2`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse.recovery._climb import Task, start_from
from maxsparse.recovery._sweep import Sweep

__all__ = ["LOG2", "entering_gain", "entering_mean", "flip_gains_humped", "settle", "swap_gains_humped"]

LOG2 = math.log(2.0)
TURNS = 4  # signs that are tried, one after the other turned to the better


@kernel()
def settle(s: Sweep, task: Task, G: NDArray[Any], atoms: NDArray[Any], size: int) -> tuple[float, float]:
    """Make `atoms` the support; leave the posterior means in u.

    Returns
    -------
    fixed, summed : float
        Log posterior with the most probable sign of every coefficient, and with the other sign of each allowed too.
    """
    mu, tau2 = task.hump, task.slab
    if mu == 0.0:
        value = start_from(s, task, G, atoms, size)
        return value, value
    plain = Task(task.b, task.odds, task.prior, task.base, task.variance, tau2 + mu * mu, 0.0, task.enough)
    start_from(s, plain, G, atoms, size)
    signs = np.empty(size)
    for a in range(size):
        signs[a] = 1.0 if s.u[atoms[a]] > 0 else -1.0
    ratio = mu / tau2
    for turn in range(TURNS):
        value = _with_signs(s, task, G, atoms, signs)
        others, wrong, most = 0.0, -1, 0.0
        for a in range(size):
            gain = 2.0 * ratio * (ratio * s.t[atoms[a]] - signs[a] * s.u[atoms[a]])  # of the other sign
            others += math.exp(min(gain, 0.0))
            if gain > most:
                wrong, most = a, gain
        if wrong < 0 or turn == TURNS - 1:
            break
        signs[wrong] = -signs[wrong]
    return value, value + math.log1p(others)


@kernel()
def _with_signs(s: Sweep, task: Task, G: NDArray[Any], atoms: NDArray[Any], signs: NDArray[Any]) -> float:
    """Make `atoms`, with coefficients of these signs, the support; return its log posterior."""
    mu, size = task.hump, signs.shape[0]
    b = task.b.copy()
    shift = 0.0
    for a in range(size):
        row, f = G[atoms[a]], mu * signs[a]
        for j in range(b.shape[0]):
            b[j] -= f * row[j]
    for a in range(size):
        shift += 0.5 * mu * signs[a] * (task.b[atoms[a]] + b[atoms[a]])
    base = task.base + shift / task.variance
    moved = Task(b, task.odds, task.prior, base, task.variance, task.slab, mu, task.enough)
    value: float = start_from(s, moved, G, atoms, size) - size * LOG2
    for a in range(size):
        s.u[atoms[a]] += mu * signs[a]
    return value


@kernel()
def _log_cosh(z: float) -> float:
    z = abs(z)
    value: float = z - LOG2 + math.log1p(math.exp(-2.0 * z))
    return value


@kernel()
def entering_gain(t: float, u: float, mu: float, tau2: float, least: float) -> float:
    """Return the gain of an atom that enters; −∞ where a bound says that it is below `least`."""
    w = 1.0 / (tau2 * t)
    rough = 0.5 * u * u / t - 0.5 * mu * mu / tau2 * (1.0 - w)
    if rough + abs(mu * w * u) < least:
        return -np.inf
    gain: float = rough + 0.5 * math.log(w) + _log_cosh(mu * w * u)
    return gain


@kernel()
def flip_gains_humped(s: Sweep, task: Task, least: float) -> None:
    """Set gains_j to the change of the log posterior by adding or removing j, where it may be above `least`."""
    mu, tau2, prior = task.hump, task.slab, task.prior
    m, k = s.t.shape[0], s.size[0]
    more = prior[k + 1] - prior[k] if k + 1 < prior.shape[0] else -np.inf
    for j in range(m):
        s.gains[j] = entering_gain(s.t[j], s.u[j], mu, tau2, least - more) + more
    for a in range(k):
        i = s.support[a]
        less = 0.5 * (math.log(tau2 / s.t[i]) - s.u[i] * s.u[i] / s.t[i] + mu * mu / tau2) + LOG2
        s.gains[i] = less + prior[k - 1] - prior[k]


@kernel()
def swap_gains_humped(s: Sweep, task: Task, a: int, least: float) -> None:
    """Set gains_j to the change by exchanging the a-th atom of the support for j, where it may be above `least`."""
    mu, tau2 = task.hump, task.slab
    m, i = s.t.shape[0], s.support[a]
    inverse = 1.0 / s.t[i]
    f = s.u[i] * inverse
    loss = 0.5 * (math.log(tau2 * inverse) - s.u[i] * f + mu * mu / tau2) + LOG2
    row = s.H[a]
    for j in range(m):
        t, u = s.t[j] + inverse * row[j] * row[j], s.u[j] + f * row[j]
        s.gains[j] = entering_gain(t, u, mu, tau2, least - loss) + loss
    for b in range(s.size[0]):
        s.gains[s.support[b]] = -np.inf


@kernel()
def entering_mean(task: Task, t: float, u: float) -> float:
    """Return the posterior mean of an atom that enters."""
    w = 1.0 / (task.slab * t)
    mean: float = u / t + task.hump * w * math.tanh(task.hump * w * u)
    return mean
