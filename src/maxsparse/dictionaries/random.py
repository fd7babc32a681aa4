"""Random dictionaries: coherent, incoherent, and coherent due to a low-rank term."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import RandomState, check_integer, check_number, check_rng

__all__ = ["check_shape", "decaying", "gaussian", "low_rank_plus", "unit_columns"]


def decaying(n: int, m: int, *, power: float = 2.0, rng: RandomState = None) -> NDArray[np.float64]:
    r"""Draw the coherent dictionary of the paper's experiments.

    The singular values decay super-linearly,

    .. math:: \Phi = \Big[\sum_{i=1}^{n} i^{-p}\, u_i v_i^\top\Big] N,

    with :math:`u_i \in \mathbb{R}^n` and :math:`v_i \in \mathbb{R}^m` of iid standard normal entries and N the
    diagonal matrix that scales every column to norm 1.

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
    n, m, generator = check_shape(n, m, rng)
    power = check_number(power, "power", low=0.0)
    U = generator.standard_normal((n, n))  # columns u_i
    V = generator.standard_normal((n, m))  # rows v_iᵀ
    return unit_columns((U * np.arange(1.0, n + 1.0) ** -power) @ V)


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
    OMP and ℓ1 recover signals that are sparse enough.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(20, 100, rng=0)
    >>> bool(ms.theory.coherence(Phi) < 0.85)
    True
    """
    n, m, generator = check_shape(n, m, rng)
    return unit_columns(generator.standard_normal((n, m)))


def low_rank_plus(
    n: int, m: int, *, rank: int = 1, epsilon: float = 0.1, rng: RandomState = None
) -> NDArray[np.float64]:
    r"""Draw a dictionary made coherent by a low-rank term.

    .. math:: \Phi = [\epsilon A + \Delta_r]\, N, \qquad \Delta_r = \sum_{i=1}^{r} u_i v_i^\top

    A has iid normal entries of variance 1/n, each :math:`u_i` is uniform on the unit sphere and each :math:`v_i` has
    iid standard normal entries; N scales every column to norm 1.

    Parameters
    ----------
    n : int
        Number of measurements (rows).
    m : int
        Number of atoms (columns).
    rank : int, default=1
        Rank r < n of the low-rank term; 1 is the example of Section 2, more is the corollary of Section 3.
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
    n, m, generator = check_shape(n, m, rng)
    rank = check_integer(rank, "rank", low=0, high=n - 1)
    epsilon = check_number(epsilon, "epsilon")
    if epsilon <= 0:
        raise ValueError(f"epsilon must be positive, got {epsilon}: without A the dictionary has rank {rank}")
    A = generator.standard_normal((n, m)) / np.sqrt(n)
    U = unit_columns(generator.standard_normal((n, rank)))
    V = generator.standard_normal((rank, m))
    return unit_columns(epsilon * A + U @ V)


def check_shape(n: int, m: int, rng: RandomState) -> tuple[int, int, np.random.Generator]:
    """Check the sizes of a random dictionary, and create the generator."""
    return check_integer(n, "n", low=1), check_integer(m, "m", low=1), check_rng(rng)


def unit_columns(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale every column to norm 1."""
    unit: NDArray[np.float64] = matrix / np.linalg.norm(matrix, axis=0)
    return unit
