"""The clustered model of the paper: a dictionary and its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import RandomState, check_flag, check_integer, check_number
from maxsparse.dictionaries.random import check_shape, unit_columns

__all__ = ["ClusteredDictionary", "HasMatrix", "check_spread", "clustered"]


class HasMatrix:
    """A dictionary with parts, which is an array for every function that takes one."""

    matrix: NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, m) of Φ."""
        return self.matrix.shape[0], self.matrix.shape[1]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.matrix, dtype=dtype, copy=copy)


@dataclass(frozen=True, eq=False)
class ClusteredDictionary(HasMatrix):
    r"""A dictionary of the clustered model, with its parts.

    Cluster j holds the atoms :math:`\phi_i = n_i (v_i u_j + \epsilon a_i)`. Every function that takes Φ takes this
    object as well; Adaptive IHT needs its parts.

    Attributes
    ----------
    matrix : ndarray of shape (n, m)
        Φ itself.
    centers : ndarray of shape (n, c)
        U, one unit column u_j per cluster.
    details : ndarray of shape (n, m)
        A, one unit column a_i per atom.
    labels : ndarray of shape (m,), int
        Cluster j of every atom.
    scales : ndarray of shape (m,)
        v, all positive.
    norms : ndarray of shape (m,)
        Diagonal of N, the factors that scale the atoms to norm 1; ones if they were not scaled.
    epsilon : float
        Weight of the details.
    """

    matrix: NDArray[np.float64]
    centers: NDArray[np.float64]
    details: NDArray[np.float64]
    labels: NDArray[np.intp]
    scales: NDArray[np.float64]
    norms: NDArray[np.float64]
    epsilon: float

    def __repr__(self) -> str:
        n, m = self.shape
        return f"ClusteredDictionary({n}×{m}, clusters={self.centers.shape[1]}, epsilon={self.epsilon:g})"


def clustered(
    n: int, m: int, *, clusters: int, epsilon: float = 0.1, normalise: bool = True, rng: RandomState = None
) -> ClusteredDictionary:
    r"""Draw a dictionary whose atoms form tight clusters.

    .. math:: \Phi = [\Phi_1, \ldots, \Phi_c]\, N, \qquad \Phi_j = u_j v_j^\top + \epsilon A_j

    The columns of U and A are uniform on the unit sphere and the entries of :math:`v_j` are uniform on [0.5, 1.5].

    Parameters
    ----------
    n : int
        Number of measurements (rows).
    m : int
        Number of atoms (columns), divided evenly among the clusters.
    clusters : int
        Number c of clusters, at most m.
    epsilon : float, default=0.1
        Spread of the clusters; as it goes to 0 the atoms of a cluster become equal.
    normalise : bool, default=True
        Scale the atoms to norm 1; otherwise N = I, and atoms are as long as v makes them.
    rng : int, numpy.random.Generator or None, default=None
        Seed, generator, or None for a different dictionary at every call.

    Returns
    -------
    dictionary : ClusteredDictionary
        ``.matrix`` is Φ; ``.centers``, ``.details``, ``.labels`` and ``.scales`` are its parts.

    See Also
    --------
    nested : Clusters within clusters.
    maxsparse.solvers.aiht : The method that needs the parts.

    Notes
    -----
    Definition "Clustered Dictionary Model" of the paper, which allows any v; here v > 0, because otherwise the
    cluster coefficients are Σ sign(v_i) x_i and not Σ x_i.

    Examples
    --------
    >>> import maxsparse as ms
    >>> dictionary = ms.dictionaries.clustered(20, 100, clusters=25, epsilon=0.01, rng=0)
    >>> dictionary
    ClusteredDictionary(20×100, clusters=25, epsilon=0.01)
    >>> dictionary.centers.shape, dictionary.details.shape, dictionary.labels[:5].tolist()
    ((20, 25), (20, 100), [0, 0, 0, 0, 1])
    """
    n, m, generator = check_shape(n, m, rng)
    clusters = check_integer(clusters, "clusters", low=1, high=m)
    epsilon = check_spread(epsilon)
    normalise = check_flag(normalise, "normalise")
    labels = np.arange(m) * clusters // m
    U = unit_columns(generator.standard_normal((n, clusters)))
    A = unit_columns(generator.standard_normal((n, m)))
    v = generator.uniform(0.5, 1.5, m)
    unscaled = U[:, labels] * v + epsilon * A
    norms = 1.0 / np.linalg.norm(unscaled, axis=0) if normalise else np.ones(m)
    return ClusteredDictionary(unscaled * norms, U, A, labels, v, norms, epsilon)


def check_spread(epsilon: float) -> float:
    """Return ε as a positive float."""
    epsilon = check_number(epsilon, "epsilon")
    if epsilon <= 0:
        raise ValueError(f"epsilon must be positive, got {epsilon}: at 0 the atoms of a cluster are equal")
    return epsilon
