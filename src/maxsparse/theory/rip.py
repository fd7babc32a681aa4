"""Restricted isometry constants: exact by enumeration, or proven bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.progress import track
from maxsparse._core.validation import RandomState, check_choice, check_dictionary, check_integer, check_rng
from maxsparse.theory._rip_bounds import search_extremes, upper_bounds

__all__ = ["IHT_THRESHOLD", "RipConstant", "rip_constant"]

IHT_THRESHOLD = 1.0 / math.sqrt(32.0)
# Eigenvalues closer than this, relative to the largest, count as equal in the enumeration: far above rounding errors,
# so that ties cost nothing, and far below any useful accuracy.
RELATIVE_SLACK = 1e-10


@dataclass(frozen=True, eq=False)
class RipConstant:
    r"""A restricted isometry constant :math:`\delta_k`, or an interval proven to contain it.

    Attributes
    ----------
    k : int
        Size of the subsets.
    exact : bool
        True if all subsets were checked: `lower` and `upper` are then equal.
    lower, upper : float
        :math:`lower \le \delta_k \le upper`. The lower bound is attained on `support`.
    largest, smallest : (float, float)
        Bounds on the largest and on the smallest eigenvalue over all Gram blocks of k atoms.
    support : ndarray of shape (k,), int
        The worst subset found.
    subsets : int
        Number of subsets of k atoms.
    how : str
        How the bounds were found.
    """

    k: int
    exact: bool
    largest: tuple[float, float]
    smallest: tuple[float, float]
    support: NDArray[np.intp]
    subsets: int
    how: str

    @property
    def lower(self) -> float:
        """The constant is at least this."""
        return max(self.largest[0] - 1.0, 1.0 - self.smallest[1])

    @property
    def upper(self) -> float:
        """The constant is at most this."""
        return max(self.largest[1] - 1.0, 1.0 - self.smallest[0])

    @property
    def scaled(self) -> tuple[float, float]:
        r"""Bounds on the constant after the best common factor on Φ, :math:`(b - a)/(b + a)` for eigenvalues in [a, b].

        D may contain such a factor, so compare preconditioners by this number; it is below 1 if no k atoms are
        dependent.
        """
        return _ratio(self.largest[0], self.smallest[1]), _ratio(self.largest[1], self.smallest[0])

    def below(self, threshold: float = IHT_THRESHOLD) -> bool | None:
        r"""Whether the constant is below a threshold, by default IHT's :math:`1/\sqrt{32}`; None if unknown."""
        if self.upper < threshold:
            return True
        return False if self.lower >= threshold else None

    def times(self, factor: float) -> RipConstant:
        """Return the constant of Φ·√factor, whose Gram blocks have `factor` times these eigenvalues."""
        high, low = self.largest, self.smallest
        return replace(self, largest=(factor * high[0], factor * high[1]), smallest=(factor * low[0], factor * low[1]))

    def __float__(self) -> float:
        if not self.exact:
            raise ValueError(
                f"only bounds are known, {self.lower:.4g} ≤ δ_{self.k} ≤ {self.upper:.4g}; "
                "use .lower or .upper, or raise limit= to enumerate"
            )
        return self.lower

    def __repr__(self) -> str:
        if self.exact:
            return f"RipConstant(δ_{self.k} = {self.lower:.6g}, exact over {self.subsets:,} subsets)"
        return f"RipConstant({self.lower:.6g} ≤ δ_{self.k} ≤ {self.upper:.6g}; {self.how})"


def rip_constant(
    Phi: ArrayLike,
    k: int,
    *,
    method: str = "auto",
    limit: int = 20_000_000,
    trials: int = 200,
    rng: RandomState = None,
    progress: bool = False,
) -> RipConstant:
    r"""Restricted isometry constant of order k.

    The smallest :math:`\delta_k` with :math:`(1-\delta_k)\|x\|_2^2 \le \|\Phi x\|_2^2 \le (1+\delta_k)\|x\|_2^2` for
    every x with at most k nonzeros,

    .. math:: \delta_k = \max_{|S| = k} \max\{\lambda_{\max}(\Phi_S^\top\Phi_S) - 1,\;
              1 - \lambda_{\min}(\Phi_S^\top\Phi_S)\}.

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary; its atoms are not normalised.
    k : int
        Number of nonzeros, from 1 to m. For the guarantee of IHT at sparsity k use 3k.
    method : {"auto", "exact", "bounds"}, default="auto"
        ``"exact"`` checks every subset, ``"bounds"`` none, ``"auto"`` enumerates if there are at most `limit`.
    limit : int, default=20_000_000
        Largest number of subsets to enumerate; ``"exact"`` raises an error for more. A laptop checks some million
        subsets per second.
    trials : int, default=200
        Random starts of the search for the lower bound.
    rng : int, numpy.random.Generator or None, default=None
        Seed of that search. An exact constant does not depend on it.
    progress : bool, default=False
        Show a progress bar on a terminal if it takes more than two seconds.

    Returns
    -------
    constant : RipConstant
        ``.lower``, ``.upper``, ``.exact``, ``.support``; ``float(constant)`` if it is exact.

    See Also
    --------
    spark : When sparse solutions are unique.
    minimise_rip : W and D that lower the constant of WΦD.

    Notes
    -----
    The paper notes that these constants are not feasible to compute in general [1]_; for small m and k they are. The
    enumeration does not compute eigenvalues: Cholesky factors, extended by one atom at a time, show that no subset is
    worse than the worst one found so far, which is updated where one is. Values are exact up to 1e-10 of
    the largest eigenvalue.

    Otherwise, the lower bound is the worst subset of a search: truncated power iterations [2]_ from random subsets,
    greedy growth from the most coherent pair, then swaps of single atoms. The upper bound is the best of Gershgorin's
    circles (cumulative coherence), the norm of the whole Gram matrix, the bound
    :math:`\delta_k \le \frac{k-1}{j-1}\delta_j` from an exact constant of lower order [3]_, and soft thresholding of
    the Gram matrix, :math:`\lambda \le \lambda_{\max}(S_\rho(G)) + (k-1)\rho` for any ρ, a feasible point of the dual
    of the semidefinite relaxation [4]_.

    References
    ----------
    .. [1] B. Xin, Y. Wang, W. Gao, D. Wipf, "Maximal Sparsity with Deep Networks?", NIPS 2016, Definition 1.
    .. [2] X.-T. Yuan, T. Zhang, "Truncated power method for sparse eigenvalue problems", JMLR 14, 2013.
    .. [3] P. Koiran, A. Zouzias, "Hidden cliques and the certification of the restricted isometry property", IEEE
       Trans. Information Theory 60(8), 2014.
    .. [4] A. d'Aspremont, L. El Ghaoui, "Testing the nullspace property using semidefinite programming", Math.
       Programming 127, 2011.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(20, 30, rng=0)
    >>> ms.theory.rip_constant(Phi, 3)
    RipConstant(δ_3 = 1.13282, exact over 4,060 subsets)
    >>> bounds = ms.theory.rip_constant(Phi, 3, method="bounds", rng=0)
    >>> bounds.exact, bounds.lower < 1.13283 < bounds.upper
    (False, True)
    """
    matrix = check_dictionary(Phi).astype(np.float64, copy=False)
    m = matrix.shape[1]
    k = check_integer(k, "k", low=1, high=m)
    method = check_choice(method, "method", ("auto", "exact", "bounds"))
    limit = check_integer(limit, "limit", low=1)
    trials = check_integer(trials, "trials", low=1)
    subsets = math.comb(m, k)
    if method == "exact" and subsets > limit:
        raise ValueError(
            f"δ_{k} of {m} atoms needs {subsets:,} subsets, more than limit={limit:,}; raise limit, "
            'or use method="bounds"'
        )
    G = matrix.T @ matrix
    (high, high_support), (low, low_support) = search_extremes(G, k, trials, check_rng(rng))
    exact = method != "bounds" and subsets <= limit
    if exact:
        high, low, high_support, low_support = _enumerate(G, k, (high, high_support), (low, low_support), progress)
        largest, smallest, how = (high, high), (low, low), "enumeration"
    else:
        top, bottom, how = upper_bounds(G, k, min(limit, 2_000_000), check_rng(0), _extremes)
        # Due to rounding errors, a bound may be below the value found.
        largest, smallest = (high, max(top, high)), (min(bottom, low), low)
    support = high_support if high - 1.0 >= 1.0 - low else low_support
    return RipConstant(k, exact, largest, smallest, np.sort(support), subsets, how)


def _extremes(G: NDArray[np.float64], k: int, rng: np.random.Generator) -> tuple[float, float]:
    """Exact extreme eigenvalues over all k-blocks of any symmetric G."""
    high, low = search_extremes(G, k, 50, rng)
    values = _enumerate(G, k, high, low, False)
    return values[0], values[1]


def _enumerate(
    G: NDArray[np.float64],
    k: int,
    high: tuple[float, NDArray[np.intp]],
    low: tuple[float, NDArray[np.intp]],
    progress: bool,
) -> tuple[float, float, NDArray[np.intp], NDArray[np.intp]]:
    """Check every k-subset against the extremes found so far, and update them."""
    from maxsparse.theory._enumeration import extreme_eigenvalues  # compiled code: loaded only when used

    m = G.shape[0]
    slack = RELATIVE_SLACK * max(float(np.abs(G).max()), abs(high[0]))
    prefixes = np.arange(m)[:, None] if k <= 2 else np.column_stack(np.triu_indices(m, 1))
    # Random order, so that blocks take equal time and the remaining time in the bar is right.
    prefixes = prefixes[np.random.default_rng(0).permutation(len(prefixes))]
    blocks = np.array_split(prefixes, min(len(prefixes), 200 if math.comb(m, k) > 1_000_000 else 1))
    for block in track(blocks, f"δ_{k}, {math.comb(m, k):,} subsets", progress):
        # Nothing is worse than a singular block of a Gram matrix, so the search can stop.
        floor = low[0] if low[0] > slack or low[0] < -slack else -np.inf
        highs, lows, high_supports, low_supports = extreme_eigenvalues(G, k, block, high[0], floor, slack)
        if highs.max() > high[0]:
            high = float(highs.max()), _completed(high_supports[highs.argmax()], m)
        if lows.min() < low[0] and lows.min() > -np.inf:
            low = float(lows.min()), _completed(low_supports[lows.argmin()], m)
    return high[0], low[0], high[1], low[1]


def _completed(support: NDArray[np.intp], m: int) -> NDArray[np.intp]:
    """Extend a subset that ends in −1: more atoms never make an extreme eigenvalue less extreme."""
    chosen = support[support >= 0]
    others = np.setdiff1d(np.arange(m), chosen)
    return np.concatenate([chosen, others[: support.size - chosen.size]])


def _ratio(b: float, a: float) -> float:
    return (b - a) / (b + a) if b + a > 0 else math.inf
