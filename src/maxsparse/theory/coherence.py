"""Mutual coherence: the cheapest measure of how similar the atoms of Φ are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.prepared import coherence_sums, cosines
from maxsparse._core.validation import check_dictionary, check_integer

__all__ = ["coherence", "cumulative_coherence"]


def coherence(Phi: ArrayLike) -> float:
    r"""Largest cosine between two different atoms.

    .. math:: \mu(\Phi) = \max_{i \ne j} \frac{|\phi_i^\top \phi_j|}{\|\phi_i\|_2 \|\phi_j\|_2}

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary; the atoms need not have norm 1.

    Returns
    -------
    mu : float
        0 for orthogonal atoms (and for a single atom), 1 for two parallel ones.

    See Also
    --------
    cumulative_coherence : The same for sums over several atoms.

    Notes
    -----
    OMP and ℓ1 recover every signal with fewer than (1 + 1/μ)/2 nonzeros [1]_.

    References
    ----------
    .. [1] J. Tropp, "Greed is good", IEEE Trans. Information Theory 50(10), 2004.

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> round(ms.theory.coherence(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])), 6)
    0.707107
    """
    G = cosines(check_dictionary(Phi))
    return float(min(G.max(), 1.0)) if G.size > 1 else 0.0


def cumulative_coherence(Phi: ArrayLike, k: int) -> NDArray[np.float64]:
    r"""Largest sum of cosines between one atom and j others (Babel function), j = 1..k.

    .. math:: \mu_1(j) = \max_{i,\, |S| = j,\, i \notin S} \sum_{s \in S} |\phi_i^\top \phi_s|

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary; the atoms need not have norm 1.
    k : int
        Largest number of atoms to sum over, below m.

    Returns
    -------
    mu_1 : ndarray of shape (k,)

    Notes
    -----
    OMP and ℓ1 recover every k-sparse signal if :math:`\mu_1(k-1) + \mu_1(k) < 1` (J. Tropp, 2004).

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> ms.theory.cumulative_coherence(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]), 2).round(4).tolist()
    [0.7071, 1.4142]
    """
    matrix = check_dictionary(Phi)
    k = check_integer(k, "k", low=1, high=max(1, matrix.shape[1] - 1))
    return coherence_sums(matrix, k)
