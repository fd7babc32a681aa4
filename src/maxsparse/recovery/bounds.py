r"""Proven bounds on how many atoms y needs, up to the noise: the optimum of a stated problem, never the truth.

The problem is

.. math:: \min_x \|x\|_0 \ \text{ s.t. } \ \|y - \Phi x\|_2 \le \varepsilon,

over all x whose terms do not cancel to less than a part in 100,000 of their size,
:math:`\sum_j |x_j| \|\varphi_j\|_2 \le 10^5 \|y\|_2`. Beyond that, rounding errors of Φ's own entries decide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.threads import over_slices, threads
from maxsparse._core.validation import FloatArray, check_matrix, check_number, check_problem
from maxsparse.recovery._proof import prove_rows
from maxsparse.recovery.refit import CANCELLATION

__all__ = ["Bounds", "noise_radius", "prove"]

WORK_PER_MILLISECOND = 1e6  # multiply-adds; measured 1.0e6 to 1.2e6 for 8 ≤ n ≤ 64
CHEAP = 4e5  # multiply-adds up to which looking for the best group size costs more than it saves
MOST_ORDERED = 2048  # atoms up to which their Gram matrix is formed to put similar ones next to each other


@dataclass(frozen=True, eq=False)
class Bounds:
    """What is proven about a batch of signals.

    Attributes
    ----------
    lower : ndarray of shape (N,), int
        No x with fewer nonzeros is within ε. m + 1 where no x is, with however many nonzeros.
    upper : ndarray of shape (N,), int
        Size of `support`, which is within ε. m + 1 where no support within ε is known.
    optimal : ndarray of shape (N,), bool
        lower = upper, and no other support of that size is within ε.
    support : ndarray of shape (N, m), bool
        The smallest support known to be within ε: the given one, or a smaller one that turned up. The given one, with
        atoms added, where it is not within ε.
    work : ndarray of shape (N,)
        What was spent, in milliseconds of the budget.
    """

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    optimal: NDArray[np.bool_]
    support: NDArray[np.bool_]
    work: NDArray[np.float64]


def noise_radius(n: int, noise: float = 1.0) -> float:
    r"""Return :math:`\sigma\sqrt{n + 3\sqrt{2n}}`: the length of the noise, and three standard deviations of it.

    Parameters
    ----------
    n : int
        Number of measurements.
    noise : float, default=1.0
        Standard deviation σ of the noise on every measurement; 1 after whitening.

    Returns
    -------
    epsilon : float

    Examples
    --------
    >>> from maxsparse.recovery import noise_radius
    >>> round(noise_radius(20, 0.1), 3)
    0.624
    """
    return float(noise * np.sqrt(n + 3.0 * np.sqrt(2.0 * n)))


def prove(
    Phi: ArrayLike,
    Y: ArrayLike,
    support: ArrayLike | None = None,
    *,
    epsilon: ArrayLike,
    milliseconds: float = 100.0,
    n_threads: int | None = None,
) -> Bounds:
    r"""Bound the number of nonzeros that every signal needs, and tell which supports are proven to be the best.

    .. math:: \min_x \|x\|_0 \ \text{ s.t. } \ \|y - \Phi x\|_2 \le \varepsilon

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary, whitened by the noise if that is not the same on every measurement.
    Y : array-like of shape (N, n)
        Signals as rows, whitened likewise.
    support : array-like of shape (N, m) or None, default=None
        A guess: what is not zero. A good one gives a good upper bound, and is needed for a proof; by default, and where
        it is not within ε, atoms are added as by OMP.
    epsilon : float or array-like of shape (N,)
        Residual up to which x explains y, of every signal; see :func:`noise_radius`.
    milliseconds : float, default=100.0
        Budget per signal. It stands for a number of operations, so that answers are reproducible: on a busy or slow
        machine it takes longer. A size of supports is not begun where it would exceed what is left.
    n_threads : int or None, default=None
        Number of threads; None uses all cores.

    Returns
    -------
    bounds : Bounds

    Notes
    -----
    All supports of j atoms are excluded for j = 1, 2, …, by a walk over unions of groups of atoms: where y is far from
    the span of a union, it is as far from all of its parts (leaps and bounds, Furnival and Wilson 1974, turned around).
    Unions close to y are split. The size of the groups is the one with the least expected work. A distance counts as
    larger than ε only if it is so by more than rounding errors can change, for all x with
    :math:`\sum_j |x_j| \|\varphi_j\|_2 \le 10^5 \|y\|_2`; so what is proven holds for the numbers as given.

    Examples
    --------
    >>> import maxsparse as ms
    >>> from maxsparse.recovery import noise_radius, prove
    >>> Phi = ms.dictionaries.gaussian(20, 100, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 3, sparsity=4, noise=0.01, rng=1)
    >>> bounds = prove(Phi, Y, X, epsilon=noise_radius(20, 0.01))
    >>> bounds.lower, bounds.upper, bounds.optimal
    (array([4, 4, 4]), array([4, 4, 4]), array([ True,  True,  True]))
    """
    dictionary, signals = check_problem(Phi, Y)
    N, m = len(signals), dictionary.shape[1]
    known = np.zeros((N, m), dtype=bool) if support is None else check_matrix(support, "support") != 0
    if known.shape != (N, m):
        raise ValueError(f"support must have shape {(N, m)}, as many rows as Y and columns as Phi, got {known.shape}")
    radius = _check_epsilon(epsilon, N)
    work = check_number(milliseconds, "milliseconds", low=0.0) * WORK_PER_MILLISECOND
    lower, upper = np.zeros(N, np.int64), np.zeros(N, np.int64)
    optimal, spent = np.zeros(N, bool), np.zeros(N)
    with threads(n_threads):
        atoms = _unit_atoms(dictionary)
        Y64 = np.array(signals, dtype=np.float64, order="C")
        order = similar_neighbours(atoms)
        options = (CANCELLATION, work, CHEAP)
        over_slices(prove_rows, N, atoms, order, Y64, radius, *options, known, lower, upper, optimal, spent)
    return Bounds(lower, upper, optimal, known, spent / WORK_PER_MILLISECOND)


def similar_neighbours(atoms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return an order of the atoms (m, n) in which each is followed by the most similar one that is left.

    Groups of neighbours then span little, so that y is far from unions of more of them.
    """
    m = len(atoms)
    if m > MOST_ORDERED:
        return np.arange(m)
    similarity = np.abs(atoms @ atoms.T)
    order = np.zeros(m, dtype=np.int64)
    for l in range(1, m):
        similarity[:, order[l - 1]] = -1.0
        order[l] = np.argmax(similarity[order[l - 1]])
    return order


def _unit_atoms(Phi: FloatArray) -> NDArray[np.float64]:
    atoms = np.array(Phi.T, dtype=np.float64, order="C")
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    return atoms


def _check_epsilon(epsilon: ArrayLike, N: int) -> NDArray[np.float64]:
    radius = np.asarray(epsilon, dtype=np.float64)
    if radius.shape not in ((), (N,)):
        raise ValueError(f"epsilon must be a number or have shape ({N},), one for every signal, got {radius.shape}")
    if not np.all(np.isfinite(radius) & (radius >= 0)):
        raise ValueError("epsilon must be finite and at least 0 for every signal")
    return np.array(np.broadcast_to(radius, (N,)), order="C")
