r"""What is expected of coefficients before a signal is seen: how many there are, how large, and of which shape.

A single signal with a handful of nonzeros says little about that, so that its probabilities rest on what is usual. Many
signals say it clearly: :func:`learn_law` finds, by EM over all of them, the weights of a grid of slabs and the
probabilities of all sizes that make the data most probable.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

__all__ = ["Law", "learn_law", "learn_weights", "usual_law", "warn_of_strange", "wide_law"]

# Shapes of the slab: ratio μ/τ of its humps, weight, factors of the mean square δ that are averaged over.
USUAL = (
    (0.0, 0.5, (0.35, 1.0, 2.9)),  # gaussian
    (2.5, 0.5, (0.6, 1.0, 1.6)),  # like U[.1, .5] or N(±.3, .1)
)
USUAL_SIZES = 0.6  # probability of one more nonzero
WIDE_RATIOS, WIDE_FACTORS = (0.0, 1.5, 2.5, 4.0, 8.0), (0.2, 0.36, 0.65, 1.0, 1.55, 2.8, 5.0)
ROUNDS = 300  # of EM
LEAST_WEIGHT = 0.005  # of a slab that is kept
LEARNINGS = 2  # searches from which weights are learned, the second with the sizes of the first
QUARTILES = 1.349  # distance between the quartiles of a normal distribution, in standard deviations
STRANGE = 1e-7  # share of signals as improbable as one that makes it doubtful
STRANGE_SHARE = 0.05  # of the signals: fewer that are strange are not worth a warning
FEWEST = 10  # signals that learning takes
COMPLETE, CLEAR = 0.999, 0.5  # enumerated share of probability that makes a signal one of them; CLEAR if too few are


@dataclass(frozen=True, eq=False)
class Law:
    """Expectations on coefficients of atoms of norm 1.

    Attributes
    ----------
    slab : float
        Mean square δ of a coefficient; 0 if every signal shall say it itself.
    shapes : ndarray of shape (P, 3)
        Log factor of δ, ratio μ/τ and log weight of every slab.
    sizes : ndarray of shape (most + 1,)
        Log probability of each number of nonzeros.
    typical : tuple of float or None
        Median and standard deviation of the log probability of a signal, among those that the law was learned from.
    """

    slab: float
    shapes: NDArray[np.float64]
    sizes: NDArray[np.float64]
    typical: tuple[float, float] | None = None

    def prior(self, m: int) -> NDArray[np.float64]:
        """Return the log probability of one support of each size, supports of one size being equally likely."""
        most = len(self.sizes) - 1
        choices = [math.lgamma(m + 1) - math.lgamma(k + 1) - math.lgamma(m - k + 1) for k in range(most + 1)]
        log_probability: NDArray[np.float64] = self.sizes - np.array(choices)
        return log_probability

    def seen(self, whole: NDArray[np.float64]) -> Law:
        """Return the law with what is typical, from log probabilities (N,) of the signals that it was learned from."""
        low, middle, high = np.percentile(whole, [25, 50, 75])
        margin = 1.0 + 2.0 / math.sqrt(len(whole))  # few signals do not tell how far others are
        return replace(self, typical=(float(middle), max(1.0, margin * float(high - low) / QUARTILES)))

    def trust(self, whole: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how much of the probability of its supports a signal keeps, given its log probability (N,).

        One that is far less probable than the signals that the law was learned from is of another kind, or its support
        was not found: five standard deviations below what is typical, half of its probability is left.
        """
        if self.typical is None:
            return np.ones(len(whole))
        middle, deviation = self.typical
        tail = ndtr((whole - middle) / deviation)
        trusted: NDArray[np.float64] = tail / (tail + STRANGE)
        return trusted


class Searched(Protocol):
    """What learning needs of a search of N signals."""

    @property
    def probability(self) -> NDArray[np.float64]:
        """Of the supports found, most probable first, (N, C)."""

    @property
    def slab(self) -> NDArray[np.float64]:
        """Mean square of the coefficients, (N,)."""

    @property
    def share(self) -> NDArray[np.float64]:
        """Share of all probability that was enumerated, (N,); 0 where it is not all and nobody asked how much it is."""

    @property
    def evidence(self) -> NDArray[np.float64]:
        """Log probability of a signal with each slab and size, (N, P, most + 1)."""


def usual_law(most: int) -> Law:
    """Return the expectations where there is one signal only, for at most so many nonzeros."""
    sizes = np.arange(most + 1) * math.log(USUAL_SIZES)
    return Law(0.0, _rows(USUAL), sizes - np.logaddexp.reduce(sizes))


def wide_law(slab: float, most: int, ratios: tuple[float, ...] = WIDE_RATIOS) -> Law:
    """Return slabs of all kinds around δ, equally likely, and equally likely sizes: what learning starts from."""
    shapes = tuple((ratio, 1.0 / len(ratios), WIDE_FACTORS) for ratio in ratios)
    return Law(slab, _rows(shapes), np.full(most + 1, -math.log(most + 1)))


def _rows(shapes: tuple[tuple[float, float, tuple[float, ...]], ...]) -> NDArray[np.float64]:
    return np.array(
        [
            (math.log(factor), ratio, math.log(weight / len(factors)))
            for ratio, weight, factors in shapes
            for factor in factors
        ]
    )


def learn_law(search: Callable[[Law, bool], Searched], usual: Law, ratios: tuple[float, ...] = WIDE_RATIOS) -> Law:
    """Learn a law from many signals.

    Signals whose probability is spread over more supports than a search lists say less than others, and not quite the
    truth: they count only if there are fewer than 10 others. If most of their probability is out of sight, the usual
    law is returned.

    Parameters
    ----------
    search : callable
        Searches all signals under a law; its second argument requests the evidence.
    usual : Law
        The law that is used before.
    ratios : tuple of float
        Ratios μ/τ of the slabs to learn from.

    Returns
    -------
    law : Law
    """
    law, sizes = usual, usual.sizes
    first = search(law, False)
    if not len(first.slab):
        return law
    trust = first.probability[:, 0] + 1e-3
    wide = wide_law(math.exp(np.average(np.log(first.slab), weights=trust)), len(sizes) - 1, ratios)
    for _ in range(LEARNINGS):
        start = Law(wide.slab, wide.shapes, sizes)
        found = search(start, True)
        clear = found.share > COMPLETE
        if clear.sum() < FEWEST:
            clear = first.share > CLEAR
        if clear.sum() < FEWEST:
            return usual
        law = learn_weights(start, found.evidence[clear])
        sizes = law.sizes
    return law


def learn_weights(law: Law, evidence: NDArray[np.float64]) -> Law:
    """Learn the weights of slabs and sizes from many signals.

    Parameters
    ----------
    law : Law
        What `evidence` was computed with.
    evidence : ndarray of shape (N, P, most + 1)
        Log of the joint probability of a signal, a slab and a size, under `law`.

    Returns
    -------
    law : Law
        With the weights that make all signals most probable. One signal's worth of weight stays spread over all sizes
        and all slabs, and slabs of next to no weight are left out.
    """
    likelihood = evidence - law.shapes[:, 2][:, None] - law.sizes
    likelihood = np.exp(likelihood - likelihood.max(axis=(1, 2), keepdims=True))
    N, P, K = likelihood.shape
    slabs, sizes = np.full(P, 1.0 / P), np.full(K, 1.0 / K)
    for _ in range(ROUNDS):
        by_slab = likelihood @ sizes  # (N, P)
        total = by_slab @ slabs  # (N,)
        of_slabs = slabs * (by_slab / total[:, None]).sum(axis=0)
        of_sizes = sizes * np.einsum("npk,p,n->k", likelihood, slabs, 1.0 / total, optimize=True)
        slabs = (of_slabs + 1.0 / P) / (N + 1.0)
        sizes = (of_sizes + 1.0 / K) / (N + 1.0)
    kept = slabs >= min(LEAST_WEIGHT, slabs.max())
    shapes = law.shapes[kept].copy()
    shapes[:, 2] = np.log(slabs[kept] / slabs[kept].sum())
    return Law(law.slab, shapes, np.log(sizes))


def warn_of_strange(strange: int, N: int, depth: int = 3) -> None:
    """Report signals that are not like those of `fit`; `depth` is the number of calls up to the user's."""
    if strange > STRANGE_SHARE * N:
        warnings.warn(
            f"{strange} of {N} signals are not like those that fit(Y) learned from (size or number of the nonzeros): "
            "they are judged by themselves, as without fit. Fit on signals like these for confidence that is right",
            stacklevel=depth,
        )
