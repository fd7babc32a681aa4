r"""Proven lower and upper bounds on the number of atoms that explain y up to the noise.

They bound the optimum of

.. math:: \min_x \|x\|_0 \ \text{ s.t. } \ \|y - \Phi x\|_2 \le \varepsilon,

over all x with :math:`\sum_j |x_j| \|\varphi_j\|_2 \le 10^5 \|y\|_2`: where terms cancel even more, the answer depends
on the rounding errors of the entries of Φ. The optimum need not be the x that made y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.threads import over_slices, threads
from maxsparse._core.validation import FloatArray, check_matrix, check_number, check_problem
from maxsparse.recovery._proof import Limits, nothing_proven, prove_rows
from maxsparse.recovery.refit import CANCELLATION

__all__ = ["Bounds", "noise_radius", "prove"]

WORK_PER_MILLISECOND = 1e6  # multiply-adds; measured 1.0e6 to 1.2e6 for 8 ≤ n ≤ 64
CHEAP = 4e5  # multiply-adds below which choosing a group size costs more than it saves
MOST_ORDERED = 2048  # most atoms for which the Gram matrix is formed, to put similar ones next to each other


@dataclass(frozen=True, eq=False)
class Bounds:
    """Proven bounds for a batch of signals.

    Attributes
    ----------
    lower : ndarray of shape (N,), int
        No x with fewer nonzeros is within ε. m + 1 if no x at all is.
    upper : ndarray of shape (N,), int
        Size of `support`, which is within ε. m + 1 if no support within ε is known.
    optimal : ndarray of shape (N,), bool
        lower = upper, and no other support of that size is within ε.
    support : ndarray of shape (N, m), bool
        The smallest support known to be within ε: the given one, with atoms added where it is not within ε, or a
        smaller one found on the way.
    work : ndarray of shape (N,)
        Work spent, in milliseconds of the budget.
    """

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    optimal: NDArray[np.bool_]
    support: NDArray[np.bool_]
    work: NDArray[np.float64]


def noise_radius(n: int, noise: float = 1.0) -> float:
    r"""Return :math:`\sigma\sqrt{n + 3\sqrt{2n}}`: root of the mean of ‖noise‖² plus three standard deviations.

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
    r"""Bound the number of nonzeros that every signal needs, and report which supports are proven optimal.

    .. math:: \min_x \|x\|_0 \ \text{ s.t. } \ \|y - \Phi x\|_2 \le \varepsilon

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary. If the noise differs between measurements, multiply Φ and Y by its inverse square root first.
    Y : array-like of shape (N, n)
        Signals as rows.
    support : array-like of shape (N, m) or None, default=None
        A guess; nonzero entries are its atoms. The better it is, the better is the upper bound, and only a support of
        the smallest size can be proven optimal. If it is missing or not within ε, atoms are added as in OMP.
    epsilon : float or array-like of shape (N,)
        Largest residual of an x that explains y, one for all or one per signal; see :func:`noise_radius`.
    milliseconds : float, default=100.0
        Budget per signal, converted to a number of operations so that answers are reproducible: a busy or slow machine
        takes longer. A size of supports that would exceed the rest of the budget is not started.
    n_threads : int or None, default=None
        Number of threads; None uses all cores.

    Returns
    -------
    bounds : Bounds

    Notes
    -----
    For j = 1, 2, …, all supports of j atoms are ruled out by testing unions of groups of atoms: if y is far from the
    span of a union, it is at least as far from the span of every subset (leaps and bounds [1]_, from the other side).
    Unions close to y are split. Group sizes are those with the least expected work. A distance counts as larger than ε
    only if rounding errors cannot explain the difference, for all x with
    :math:`\sum_j |x_j| \|\varphi_j\|_2 \le 10^5 \|y\|_2`, so the bounds hold exactly for the numbers given.

    References
    ----------
    .. [1] G. Furnival, R. Wilson, "Regressions by leaps and bounds", Technometrics 16(4), 1974.

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
    proven = nothing_proven(known)
    with threads(n_threads):
        atoms = _unit_atoms(dictionary)
        Y64 = np.array(signals, dtype=np.float64, order="C")
        order = similar_neighbours(atoms)
        over_slices(prove_rows, N, atoms, order, Y64, radius, Limits(CANCELLATION, work, CHEAP), proven)
    return Bounds(proven.lower, proven.upper, proven.unique, proven.support, proven.spent / WORK_PER_MILLISECOND)


def similar_neighbours(atoms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return an order of the atoms (m, n) in which each is followed by the most similar remaining one.

    Groups of similar atoms are far from y more often, so larger groups can be ruled out.
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
