"""Clusters within clusters: the paper's clustered model with more than two levels of detail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import RandomState, check_integer
from maxsparse.dictionaries.clusters import HasMatrix, check_spread
from maxsparse.dictionaries.random import check_shape, unit_columns

__all__ = ["NestedDictionary", "nested"]


@dataclass(frozen=True, eq=False)
class NestedDictionary(HasMatrix):
    r"""A dictionary with clusters within clusters, and its parts.

    Atom i of the inner cluster l in the outer cluster j is
    :math:`\phi_i = n_i (v_i (u_j + \epsilon w_l) + \epsilon^2 a_i)`, and so on for more levels. Every function that
    takes Φ takes this object as well; Adaptive IHT needs its parts.

    Attributes
    ----------
    matrix : ndarray of shape (n, m)
        Φ itself.
    parts : tuple of ndarray
        Unit columns from coarse to fine: centres U (n, c_1) of the outer clusters, W (n, c_2) of the inner ones, …, and
        details A (n, m).
    parents : tuple of ndarray of int
        For every part but the first: the column of the part before that each of its columns belongs to.
    weights : ndarray of shape (m,)
        Factor :math:`\epsilon^2 n_i` of its detail in every atom.
    epsilon : float
        Spread of every level relative to the one above.
    """

    matrix: NDArray[np.float64]
    parts: tuple[NDArray[np.float64], ...]
    parents: tuple[NDArray[np.intp], ...]
    weights: NDArray[np.float64]
    epsilon: float

    def __repr__(self) -> str:
        n, m = self.shape
        counts = tuple(part.shape[1] for part in self.parts[:-1])
        return f"NestedDictionary({n}×{m}, clusters={counts}, epsilon={self.epsilon:g})"


def nested(
    n: int, m: int, *, clusters: Sequence[int], epsilon: float = 0.1, rng: RandomState = None
) -> NestedDictionary:
    r"""Draw a dictionary whose atoms form tight clusters within clusters.

    .. math:: \phi_i = n_i \Big(v_i \sum_{l=1}^{L} \epsilon^{l-1} u^{(l)}_{j_l(i)} + \epsilon^L a_i\Big)

    The columns of all :math:`u^{(l)}` and of A are uniform on the unit sphere, and v is uniform on [0.5, 1.5].

    Parameters
    ----------
    n : int
        Number of measurements (rows).
    m : int
        Number of atoms (columns), divided evenly among the clusters.
    clusters : sequence of int
        Number of clusters of every level, from coarse to fine: increasing, at most m.
    epsilon : float, default=0.1
        Spread of every level relative to the one above.
    rng : int, numpy.random.Generator or None, default=None
        Seed, generator, or None for a different dictionary at every call.

    Returns
    -------
    dictionary : NestedDictionary

    See Also
    --------
    clustered : One level of clusters.
    maxsparse.solvers.aiht : The method that needs the parts.

    Notes
    -----
    Section 5 of the paper: "A-IHT could be extended to handle a clustered dictionary model with nested structures".

    Examples
    --------
    >>> import maxsparse as ms
    >>> dictionary = ms.dictionaries.nested(60, 240, clusters=(10, 60), epsilon=0.01, rng=0)
    >>> dictionary
    NestedDictionary(60×240, clusters=(10, 60), epsilon=0.01)
    >>> X, Y = ms.signals.sample(dictionary, 50, sparsity=2, rng=1)
    >>> ms.metrics.strict_accuracy(X, ms.solvers.aiht(dictionary, Y, sparsity=2).scores) > 0.9
    True
    """
    n, m, generator = check_shape(n, m, rng)
    counts = [check_integer(count, "clusters", low=1, high=m) for count in clusters]
    if not counts or sorted(set(counts)) != counts:
        raise ValueError(f"clusters must be increasing numbers, from coarse to fine, got {tuple(clusters)}")
    epsilon = check_spread(epsilon)
    sizes = [*counts, m]
    parts = tuple(unit_columns(generator.standard_normal((n, size))) for size in sizes)
    parents = tuple(np.arange(fine) * coarse // fine for coarse, fine in zip(counts, sizes[1:], strict=True))
    center = parts[0]
    for level in range(1, len(counts)):
        center = center[:, parents[level - 1]] + epsilon**level * parts[level]
    v = generator.uniform(0.5, 1.5, m)
    unscaled = center[:, parents[-1]] * v + epsilon ** len(counts) * parts[-1]
    norms = 1.0 / np.linalg.norm(unscaled, axis=0)
    return NestedDictionary(unscaled * norms, parts, parents, epsilon ** len(counts) * norms, epsilon)
