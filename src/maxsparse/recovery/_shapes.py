r"""Amplitudes that are not gaussian: supports weighed again under slabs with two humps.

A gaussian slab expects coefficients near zero and so never rules out one more tiny atom. Real amplitudes often stay
away from zero. Here :math:`x_i \sim \frac12 N(\mu, \tau^2) + \frac12 N(-\mu, \tau^2)` with the ratio μ/τ of a shape;
given the signs, which the data fix wherever a coefficient matters, the evidence is gaussian again:

.. math:: \log p(y \mid S) = -\tfrac12\log\det(I + \tau^2 \Phi_S^\top\Phi_S/\sigma^2)
          - \tfrac12\left(y^\top y/\sigma^2 + k\mu^2/\tau^2 - r^\top A^{-1} r\right) - k \log 2,

with :math:`A = \Phi_S^\top\Phi_S/\sigma^2 + I/\tau^2` and :math:`r = \Phi_S^\top y/\sigma^2 + \mu s/\tau^2`. Shapes are
equally likely before the data; a signal with many nonzeros soon decides between them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import cholesky, cholesky_solve
from maxsparse.recovery._climb import Task
from maxsparse.recovery._neighbours import NEGLIGIBLE, Mass

__all__ = ["reweigh"]

RATIOS = (2.5, 8.0)  # μ/τ: amplitudes like U[.1, .5] or N(.3, .1); and nearly equal ones
SCALES = (0.5, 0.7, 1.0, 1.4, 2.0)  # factors of the slab's variance


class Fit(NamedTuple):
    """Scratch for one support."""

    A: NDArray[np.float64]  # (most, most)
    x: NDArray[np.float64]  # (most,)
    signs: NDArray[np.float64]  # (most,)
    r: NDArray[np.float64]  # (most,)
    mean: NDArray[np.float64]  # (most,), average over scales


@kernel()
def _evidence(fit: Fit, task: Task, G: NDArray[Any], atoms: NDArray[Any], k: int, mu: float, tau2: float) -> float:
    """Return the log evidence up to what all shapes share, and leave the posterior mean in `x`."""
    for a in range(k):
        for b in range(a + 1):
            fit.A[a, b] = G[atoms[a], atoms[b]] / task.variance
        fit.A[a, a] += 1.0 / tau2
        fit.r[a] = task.b[atoms[a]] / task.variance + mu * fit.signs[a] / tau2
        fit.x[a] = fit.r[a]
    if not cholesky(fit.A, k):
        return -np.inf
    cholesky_solve(fit.A, k, fit.x)
    value = -0.5 * k * (math.log(tau2) + mu * mu / tau2)
    for a in range(k):
        value += 0.5 * fit.r[a] * fit.x[a] - math.log(fit.A[a, a])
    return value


@kernel()
def _shape(fit: Fit, task: Task, G: NDArray[Any], atoms: NDArray[Any], k: int, slab: float, ratio: float) -> float:
    """Return the log evidence of a shape, averaged over scales; add the posterior means to `mean`, likewise."""
    best, total = -np.inf, 0.0
    for scale in SCALES:
        tau2 = slab * scale / (1.0 + ratio * ratio)
        value = _evidence(fit, task, G, atoms, k, ratio * math.sqrt(tau2), tau2)
        if value > best:
            old = math.exp(best - value)
            best, total = value, total * old
            for a in range(k):
                fit.mean[a] *= old
        weight = math.exp(value - best)
        total += weight
        for a in range(k):
            fit.mean[a] += weight * fit.x[a]
    for a in range(k):
        fit.mean[a] /= total
    return best + math.log(total)


@kernel()
def reweigh(task: Task, G: NDArray[Any], slab: float, mass: Mass) -> None:
    """Add the other shapes to the sums, for the supports listed; the rest of the gaussian's mass stays as it is."""
    best, most = mass.best, mass.best.atoms.shape[1]
    fit = Fit(np.empty((most, most)), np.empty(most), np.empty(most), np.empty(most), np.empty(most))
    highest = -np.inf
    for c in range(best.filled[0]):
        highest = max(highest, best.value[c])
    for c in range(best.filled[0]):
        k, atoms = best.size[c], best.atoms[c]
        if best.value[c] < highest - 2.0 * NEGLIGIBLE:
            continue
        fit.signs[:k] = 0.0
        fit.mean[:k] = 0.0
        gaussian = _shape(fit, task, G, atoms, k, slab, 0.0)
        for a in range(k):
            fit.signs[a] = 1.0 if fit.mean[a] > 0 else -1.0
        more = 0.0
        for ratio in RATIOS:
            fit.mean[:k] = 0.0
            factor = math.exp(min(_shape(fit, task, G, atoms, k, slab, ratio) - k * math.log(2.0) - gaussian, 600.0))
            more += factor
            weight = factor * math.exp(best.value[c])
            for a in range(k):
                mass.inclusion[atoms[a]] += weight
                mass.mean[atoms[a]] += weight * fit.mean[a]
            mass.total[0] += weight
        best.value[c] += math.log(1.0 + more)
