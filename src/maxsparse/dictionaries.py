"""Dictionaries Φ of the paper, as (n, m) arrays: n measurements by m atoms, with atoms of norm 1.

>>> import maxsparse as ms
>>> ms.dictionaries.gaussian(20, 100, rng=0).shape
(20, 100)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._validation import (
    FloatArray,
    RandomState,
    check_dictionary,
    check_integer,
    check_matrix,
    check_number,
    check_rng,
)
from maxsparse.files import read_array

__all__ = ["ClusteredDictionary", "clustered", "decaying", "gaussian", "lighting", "load", "low_rank_plus"]


def decaying(n: int, m: int, *, power: float = 2.0, rng: RandomState = None) -> NDArray[np.float64]:
    r"""Draw the coherent dictionary of the paper's experiments.

    The singular values decay super-linearly,

    .. math:: \Phi = \Big[\sum_{i=1}^{n} i^{-p}\, u_i v_i^\top\Big] N,

    with :math:`u_i \in \mathbb{R}^n` and :math:`v_i \in \mathbb{R}^m` of iid standard normal entries and N the
    diagonal matrix that brings every column to norm 1.

    Parameters
    ----------
    n : int
        Number of measurements (rows).
    m : int
        Number of atoms (columns).
    power : float, default=2.0
        Decay p of the terms. 0 gives nearly incoherent atoms, the paper's 2 very coherent ones.
    rng : int, numpy.random.Generator or None, default=None
        Seed, generator, or None for a different dictionary at every call.

    Returns
    -------
    Phi : ndarray of shape (n, m)

    See Also
    --------
    low_rank_plus : Coherence that shared layer weights can remove.
    clustered : Coherence that they cannot.

    Notes
    -----
    Equation of Section "Basic Sparse Estimation Experimental Setup" of [1]_. With probability one every n columns
    are linearly independent, so a solution of y = Φx with fewer than n/2 + 1 nonzeros is the only sparsest one.

    References
    ----------
    .. [1] B. Xin, Y. Wang, W. Gao, D. Wipf, "Maximal Sparsity with Deep Networks?", NIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.decaying(20, 100, rng=0)
    >>> Phi.shape
    (20, 100)
    >>> bool(np.allclose(np.linalg.norm(Phi, axis=0), 1))
    True
    >>> round(ms.theory.coherence(Phi), 3)
    0.999
    """
    n, m, generator = _check_shape(n, m, rng)
    power = check_number(power, "power", low=0.0)
    U = generator.standard_normal((n, n))  # columns u_i
    V = generator.standard_normal((n, m))  # rows v_iᵀ
    return _unit_columns((U * np.arange(1.0, n + 1.0) ** -power) @ V)


def gaussian(n: int, m: int, *, rng: RandomState = None) -> NDArray[np.float64]:
    r"""Draw atoms uniformly from the unit sphere.

    Parameters
    ----------
    n : int
        Number of measurements (rows).
    m : int
        Number of atoms (columns).
    rng : int, numpy.random.Generator or None, default=None
        Seed, generator, or None for a different dictionary at every call.

    Returns
    -------
    Phi : ndarray of shape (n, m)

    See Also
    --------
    decaying : The paper's coherent dictionary.

    Notes
    -----
    The favourable case of the theory: its restricted isometry constants are small with high probability, so IHT,
    OMP and ℓ1 recover what is sparse enough.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(20, 100, rng=0)
    >>> bool(ms.theory.coherence(Phi) < 0.85)
    True
    """
    n, m, generator = _check_shape(n, m, rng)
    return _unit_columns(generator.standard_normal((n, m)))


def low_rank_plus(
    n: int, m: int, *, rank: int = 1, epsilon: float = 0.1, rng: RandomState = None
) -> NDArray[np.float64]:
    r"""Draw a dictionary that a low-rank term makes coherent.

    .. math:: \Phi = [\epsilon A + \Delta_r]\, N, \qquad \Delta_r = \sum_{i=1}^{r} u_i v_i^\top

    A has iid normal entries of variance 1/n, each :math:`u_i` is uniform on the unit sphere and each :math:`v_i` has
    iid standard normal entries; N brings every column to norm 1.

    Parameters
    ----------
    n : int
        Number of measurements (rows).
    m : int
        Number of atoms (columns).
    rank : int, default=1
        Rank r < n of the disturbing term; 1 is the example of Section 2, more is the corollary of Section 3.
    epsilon : float, default=0.1
        Weight of the incoherent part. As it goes to 0, no δ_3k stays below 1/√32.
    rng : int, numpy.random.Generator or None, default=None
        Seed, generator, or None for a different dictionary at every call.

    Returns
    -------
    Phi : ndarray of shape (n, m)

    See Also
    --------
    clustered : As many rank-one terms as clusters, which no single projection can remove.

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.low_rank_plus(20, 100, rank=1, epsilon=1e-4, rng=0)
    >>> sigma = np.linalg.svd(Phi, compute_uv=False)
    >>> bool(sigma[0] > 20 * sigma[1])
    True
    """
    n, m, generator = _check_shape(n, m, rng)
    rank = check_integer(rank, "rank", low=0, high=n - 1)
    epsilon = check_number(epsilon, "epsilon")
    if epsilon <= 0:
        raise ValueError(f"epsilon must be positive, got {epsilon}: without A the dictionary has rank {rank}")
    A = generator.standard_normal((n, m)) / np.sqrt(n)
    U = _unit_columns(generator.standard_normal((n, rank)))
    V = generator.standard_normal((rank, m))
    return _unit_columns(epsilon * A + U @ V)


@dataclass(frozen=True, eq=False)
class ClusteredDictionary:
    r"""A dictionary of the clustered model, with the parts it was made of.

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
        Diagonal of N, the factors that bring the atoms to norm 1.
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

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, m) of Φ."""
        return self.matrix.shape[0], self.matrix.shape[1]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.matrix, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        n, m = self.shape
        return f"ClusteredDictionary({n}×{m}, clusters={self.centers.shape[1]}, epsilon={self.epsilon:g})"


def clustered(n: int, m: int, *, clusters: int, epsilon: float = 0.1, rng: RandomState = None) -> ClusteredDictionary:
    r"""Draw a dictionary whose atoms form tight clusters.

    .. math:: \Phi = [\Phi_1, \ldots, \Phi_c]\, N, \qquad \Phi_j = u_j v_j^\top + \epsilon A_j

    The columns of U and A are uniform on the unit sphere and the entries of :math:`v_j` are uniform on [0.5, 1.5].

    Parameters
    ----------
    n : int
        Number of measurements (rows).
    m : int
        Number of atoms (columns), shared out evenly over the clusters.
    clusters : int
        Number c of clusters, at most m.
    epsilon : float, default=0.1
        Spread of the clusters; as it goes to 0 the atoms of a cluster become one.
    rng : int, numpy.random.Generator or None, default=None
        Seed, generator, or None for a different dictionary at every call.

    Returns
    -------
    dictionary : ClusteredDictionary
        ``.matrix`` is Φ; ``.centers``, ``.details``, ``.labels`` and ``.scales`` are its parts.

    See Also
    --------
    maxsparse.solvers.aiht : The method that needs the parts.

    Notes
    -----
    Definition "Clustered Dictionary Model" of the paper, which leaves v arbitrary; v > 0 is taken here because the
    cluster coefficients are otherwise Σ sign(v_i) x_i and not Σ x_i.

    Examples
    --------
    >>> import maxsparse as ms
    >>> dictionary = ms.dictionaries.clustered(20, 100, clusters=25, epsilon=0.01, rng=0)
    >>> dictionary
    ClusteredDictionary(20×100, clusters=25, epsilon=0.01)
    >>> dictionary.centers.shape, dictionary.details.shape, dictionary.labels[:5].tolist()
    ((20, 25), (20, 100), [0, 0, 0, 0, 1])
    """
    n, m, generator = _check_shape(n, m, rng)
    clusters = check_integer(clusters, "clusters", low=1, high=m)
    epsilon = check_number(epsilon, "epsilon")
    if epsilon <= 0:
        raise ValueError(f"epsilon must be positive, got {epsilon}: at 0 the atoms of a cluster are equal")
    labels = np.arange(m) * clusters // m
    U = _unit_columns(generator.standard_normal((n, clusters)))
    A = _unit_columns(generator.standard_normal((n, m)))
    v = generator.uniform(0.5, 1.5, m)
    unscaled = U[:, labels] * v + epsilon * A
    norms = 1.0 / np.linalg.norm(unscaled, axis=0)
    return ClusteredDictionary(unscaled * norms, U, A, labels, v, norms, epsilon)


def lighting(L: ArrayLike) -> FloatArray:
    r"""Build the dictionary of photometric stereo: orthonormal rows that span null(Lᵀ).

    Readings of one surface point under q lights are :math:`o = \rho L n + e` with sparse outliers e. Since
    :math:`\Phi L = 0`, :math:`y = \Phi o = \Phi e` no longer depends on the normal n.

    Parameters
    ----------
    L : array-like of shape (q, 3)
        Light directions as rows, q > 3, not all in one plane through the origin.

    Returns
    -------
    Phi : ndarray of shape (q - 3, q)
        Its rows are orthonormal; its columns are not scaled to norm 1, so that Φo is a projection.

    Notes
    -----
    Section "Problem Details" of the paper.

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> L = np.random.default_rng(0).standard_normal((10, 3))
    >>> Phi = ms.dictionaries.lighting(L)
    >>> Phi.shape, bool(np.allclose(Phi @ L, 0)), bool(np.allclose(Phi @ Phi.T, np.eye(7)))
    ((7, 10), True, True)
    """
    lights = check_matrix(L, "L")
    q, width = lights.shape
    if width != 3:
        hint = "; it fits transposed, pass L.T" if q == 3 else ""
        raise ValueError(f"L must have 3 columns, one row per light, got shape {lights.shape}{hint}")
    if q < 4:
        raise ValueError(f"L has {q} lights; at least 4 are needed, since 3 fix the normal and leave no check")
    left, sigma, _ = np.linalg.svd(lights, full_matrices=True)
    if sigma[2] <= max(lights.shape) * np.finfo(lights.dtype).eps * sigma[0]:
        raise ValueError("the rows of L lie in one plane: such lights cannot fix a normal; add a light off that plane")
    return left[:, 3:].T.copy()


def load(path: str | os.PathLike[str], key: str | None = None) -> FloatArray:
    """Load a dictionary from a .npy, .npz, .mat or .csv file.

    Parameters
    ----------
    path : str or path
        The file; its ending tells the format.
    key : str or None, default=None
        Name of the array in a .npz or .mat file. By default ``Phi``, or the only array there is.

    Returns
    -------
    Phi : ndarray of shape (n, m)
        As stored: the atoms are not scaled.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> path = os.path.join(tempfile.mkdtemp(), "Phi.npy")
    >>> np.save(path, ms.dictionaries.gaussian(4, 8, rng=0))
    >>> ms.dictionaries.load(path).shape
    (4, 8)
    """
    return check_dictionary(read_array(path, key), name=f"the dictionary in {os.fspath(path)!r}")


def _check_shape(n: int, m: int, rng: RandomState) -> tuple[int, int, np.random.Generator]:
    return check_integer(n, "n", low=1), check_integer(m, "m", low=1), check_rng(rng)


def _unit_columns(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return matrix / np.linalg.norm(matrix, axis=0)
