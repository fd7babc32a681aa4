"""Spark: up to how many nonzeros a solution of y = Φx is the unique sparsest one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.prepared import Prepared
from maxsparse._core.progress import track
from maxsparse._core.validation import FloatArray, check_dictionary, check_integer, check_number
from maxsparse.theory.coherence import coherence

__all__ = ["Spark", "spark"]


@dataclass(frozen=True, eq=False)
class Spark:
    """The smallest number of linearly dependent atoms, or an interval that contains it.

    Attributes
    ----------
    lower, upper : int
        lower ≤ spark ≤ upper; m + 1 means independent atoms.
    exact : bool
        True if both are equal.
    support : ndarray, int
        The smallest dependent set of atoms found; empty if all atoms are independent.
    """

    lower: int
    upper: int
    support: NDArray[np.intp]

    @property
    def exact(self) -> bool:
        """True if the spark is known."""
        return self.lower == self.upper

    @property
    def unique_up_to(self) -> int:
        """Largest sparsity k for which 2k < spark is proven: such a solution is the unique sparsest one."""
        if not self.support.size:  # independent atoms: at most one solution
            return self.lower - 1
        return (self.lower - 1) // 2

    def __int__(self) -> int:
        if not self.exact:
            raise ValueError(f"only bounds are known, {self.lower} ≤ spark ≤ {self.upper}; use .lower or .upper")
        return self.lower

    def __repr__(self) -> str:
        known = f"spark = {self.lower}" if self.exact else f"{self.lower} ≤ spark ≤ {self.upper}"
        return f"Spark({known}; solutions with up to {self.unique_up_to} nonzeros are unique)"


def spark(Phi: ArrayLike, *, tol: float = 1e-10, limit: int = 5_000_000, progress: bool = False) -> Spark:
    r"""Smallest number of linearly dependent atoms.

    .. math:: \mathrm{spark}(\Phi) = \min\{\|z\|_0 : \Phi z = 0,\ z \ne 0\}

    A solution of y = Φx with :math:`2\|x\|_0 < \mathrm{spark}(\Phi)` is the unique sparsest one. With several snapshots
    of rank r that share one support, :math:`2\|x\|_0 < \mathrm{spark}(\Phi) - 1 + r` is enough [2]_.

    Parameters
    ----------
    Phi : array-like of shape (n, m), real or complex
        Dictionary; the atoms need not have norm 1. Of a complex one only bounds are computed, without enumeration.
    tol : float, default=1e-10
        A unit atom this close to the span of others counts as dependent on them.
    limit : int, default=5_000_000
        Largest number of subsets to check. Sizes are tried in ascending order until the next one would exceed it.
    progress : bool, default=False
        Show a progress bar on a terminal if it takes more than two seconds.

    Returns
    -------
    result : Spark
        ``.lower``, ``.upper``, ``.exact``; ``int(result)`` if it is exact.

    See Also
    --------
    rip_constant : δ_2k < 1 implies the same for k nonzeros.

    Notes
    -----
    Any rank(Φ) + 1 atoms are dependent, which bounds the spark from above; a sparse vector of the null space, found by
    ℓ1 minimisation with one entry held at 1, may bound it better. The spark is larger than every size
    enumerated, and at least 1 + 1/μ with the coherence μ [1]_. For atoms in general position, such as random ones, the
    spark is n + 1 with probability one, but only enumeration proves it for a given Φ.

    References
    ----------
    .. [1] D. Donoho, M. Elad, "Optimally sparse representation in general (nonorthogonal) dictionaries via ℓ1
       minimization", PNAS 100(5), 2003.
    .. [2] M. Davies, Y. Eldar, "Rank awareness in joint sparse recovery", IEEE Trans. Information Theory 58(2), 2012.

    Examples
    --------
    >>> import maxsparse as ms
    >>> ms.theory.spark(ms.dictionaries.gaussian(5, 12, rng=0))
    Spark(spark = 6; solutions with up to 2 nonzeros are unique)
    """
    matrix: Any = check_dictionary(Phi, complex_too=True)
    matrix = matrix.astype(np.result_type(matrix, np.float64), copy=False)
    tol = check_number(tol, "tol", low=0.0)
    limit = check_integer(limit, "limit", low=1)
    unit = matrix / np.linalg.norm(matrix, axis=0)
    m = unit.shape[1]
    rank = int(np.linalg.matrix_rank(unit, tol=tol))
    if rank == m:
        return Spark(m + 1, m + 1, np.empty(0, dtype=np.intp))
    if np.iscomplexobj(unit):
        support, lower, found = np.arange(rank + 1), Prepared(unit).spark, np.empty(0, dtype=np.intp)
    else:
        support = _sparse_null_vector(unit, rank, tol)
        lower, found = _enumerate(unit, support.size, tol, limit, progress)
    if found.size:
        return Spark(found.size, found.size, found)
    mu = coherence(unit)
    by_coherence = math.ceil(1.0 + 1.0 / mu - 1e-9) if mu > 0 else m + 1
    return Spark(min(max(lower, by_coherence), support.size), support.size, support)


def _enumerate(unit: FloatArray, upper: int, tol: float, limit: int, progress: bool) -> tuple[int, NDArray[np.intp]]:
    """Try all sizes below `upper` that the limit allows; return a lower bound and a dependent set, if found."""
    from maxsparse.theory._enumeration import find_dependent  # compiled code: loaded only when used

    m = unit.shape[1]
    sizes, spent = [], 0
    for size in range(2, upper):
        spent += math.comb(m, size)
        if spent > limit:
            break
        sizes.append(size)
    atoms = np.ascontiguousarray(unit.T)
    for size in track(sizes, "spark", progress):
        found = find_dependent(atoms, size, tol)
        if found[0] >= 0:
            return size, found.astype(np.intp)
    return (sizes[-1] + 1 if sizes else 2), np.empty(0, dtype=np.intp)


def _sparse_null_vector(unit: FloatArray, rank: int, tol: float) -> NDArray[np.intp]:
    """Atoms of a dependent set of at most rank + 1 atoms: min ‖z‖₁ over Φz = 0 with one entry at 1."""
    from scipy.linalg import qr
    from scipy.optimize import linprog

    n, m = unit.shape
    pivots = qr(unit, mode="economic", pivoting=True)[2]
    best = np.sort(pivots[: rank + 1])
    # Atoms that are most similar to others are most likely to be in a small dependent set.
    G = np.abs(unit.T @ unit)
    np.fill_diagonal(G, 0.0)
    tried = 20 if m <= 200 else 5 if m <= 500 else 0  # larger linear programs take minutes
    for i in np.argsort(-G.max(axis=0))[:tried]:
        bounds: list[tuple[float, float | None]] = [(0, None)] * (2 * m)
        bounds[i], bounds[m + i] = (1, 1), (0, 0)
        answer = linprog(np.ones(2 * m), A_eq=np.hstack([unit, -unit]), b_eq=np.zeros(n), bounds=bounds)
        if answer.x is None:
            continue  # this atom does not depend on others
        z = answer.x[:m] - answer.x[m:]
        support = np.flatnonzero(np.abs(z) > 1e-9)
        if support.size < best.size and np.linalg.svd(unit[:, support], compute_uv=False)[-1] <= tol:
            best = support
    return best.astype(np.intp)
