r"""Probability that a normal vector has no negative entry, and its mean then.

For the probability, conditioning on :math:`x_i \ge 0` makes the rest a mixture that is close to a normal distribution
with the same mean and covariance (Mendell and Elston 1974); the least probable condition goes first, so that the order
of the entries does not matter. For the mean, expectation propagation goes through all conditions until they agree
(Cunningham, Hennig and Lacoste-Julien 2011).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel

__all__ = ["log_normal_cdf", "log_orthant", "orthant_mean"]

SAFE = 8.0  # deviations above zero: there a condition is met for certain
ROUNDS, SETTLED = 30, 1e-6  # of expectation propagation at most, and the relative change that ends it
ROOT_HALF, HALF_LOG_2PI = math.sqrt(0.5), 0.5 * math.log(2.0 * math.pi)


@kernel()
def log_normal_cdf(z: float) -> float:
    """Return log P(x ≤ z) of a standard normal x."""
    if z > -30.0:
        return math.log(0.5 * math.erfc(-z * ROOT_HALF))
    w = 1.0 / (z * z)
    return -0.5 * z * z - math.log(-z) - HALF_LOG_2PI + math.log1p(-w + 3.0 * w * w)


@kernel()
def log_orthant(mean: NDArray[Any], C: NDArray[Any], size: int) -> float:
    """Return log P(x ≥ 0) for x ~ N(mean, C) of that size; both are overwritten."""
    done = np.zeros(size, np.bool_)
    total = 0.0
    for _ in range(size):
        i, z = -1, SAFE
        for j in range(size):
            if not done[j] and mean[j] < z * math.sqrt(C[j, j]):
                i, z = j, mean[j] / math.sqrt(C[j, j])
        if i < 0:
            break
        done[i] = True
        value = log_normal_cdf(z)
        total += value
        hazard = math.exp(-0.5 * z * z - HALF_LOG_2PI - value)  # mean of x_i given x_i ≥ 0, over its deviation, less z
        less = min(max(hazard * (hazard + z), 0.0), 1.0 - 1e-12)  # by this share its variance shrinks
        step, share = hazard / math.sqrt(C[i, i]), less / C[i, i]
        row = C[i].copy()
        for j in range(size):
            mean[j] += row[j] * step
            for l in range(size):
                C[j, l] -= row[j] * row[l] * share
    return total


@kernel()
def orthant_mean(mean: NDArray[Any], C: NDArray[Any], size: int) -> None:
    """Replace `mean` by that of x ~ N(mean, C) given x ≥ 0; C is overwritten."""
    precision, shift = np.zeros(size), np.zeros(size)  # of a normal factor in place of every condition
    column = np.empty(size)
    for _ in range(ROUNDS):
        moved = 0.0
        for i in range(size):
            free = 1.0 / C[i, i] - precision[i]  # without the own factor
            if not free > 0.0:
                continue
            center = (mean[i] / C[i, i] - shift[i]) / free
            z = center * math.sqrt(free)
            if z > SAFE:
                fresh, fresh_shift = 0.0, 0.0
            else:
                hazard = math.exp(-0.5 * z * z - HALF_LOG_2PI - log_normal_cdf(z))
                left = max(1.0 - hazard * (hazard + z), 1e-12)
                target = center + hazard / math.sqrt(free)
                fresh = free / left - free
                fresh_shift = target * free / left - center * free
            more, push = fresh - precision[i], fresh_shift - shift[i]
            precision[i], shift[i] = fresh, fresh_shift
            column[:] = C[i, :size]
            own, scale = mean[i], 1.0 / (1.0 + more * column[i])
            moved = max(moved, abs(more) * column[i])
            for j in range(size):
                mean[j] += (push - more * own) * scale * column[j]
                for l in range(size):
                    C[j, l] -= more * scale * column[j] * column[l]
        if moved < SETTLED:
            break
    for j in range(size):
        mean[j] = max(mean[j], 0.0)
