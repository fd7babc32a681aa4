"""Mutual coherence: the cheapest measure of how similar the atoms of Φ are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.cosines import coherence_sums, cosines, group_cosines
from maxsparse._core.structure import Structure, check_groups
from maxsparse._core.validation import check_dictionary, check_integer

__all__ = ["coherence", "cumulative_coherence"]


def coherence(Phi: ArrayLike, *, groups: ArrayLike | None = None) -> float:
    r"""Largest cosine between two different atoms.

    .. math:: \mu(\Phi) = \max_{i \ne j} \frac{|\phi_i^\top \phi_j|}{\|\phi_i\|_2 \|\phi_j\|_2}

    Parameters
    ----------
    Phi : array-like of shape (n, m), real or complex
        Dictionary; the atoms need not have norm 1.
    groups : array-like of shape (m,) or None, default=None
        Labels of the atoms that come and go together. Two groups have the cosine of the smallest angle between their
        spans.

    Returns
    -------
    mu : float
        0 for orthogonal atoms (and for a single atom), 1 for two parallel ones.

    See Also
    --------
    cumulative_coherence : The same for sums over several atoms.

    Notes
    -----
    OMP and ℓ1 recover every signal with fewer than (1 + 1/μ)/2 nonzeros [1]_; their forms for groups of orthonormal
    atoms every signal with so few groups [2]_.

    References
    ----------
    .. [1] J. Tropp, "Greed is good", IEEE Trans. Information Theory 50(10), 2004.
    .. [2] Y. Eldar, P. Kuppinger, H. Bölcskei, "Block-sparse signals: uncertainty relations and efficient recovery",
       IEEE Trans. Signal Processing 58(6), 2010.

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> round(ms.theory.coherence(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])), 6)
    0.707107
    """
    matrix, start = _grouped(Phi, groups)
    G = cosines(matrix) if start is None else group_cosines(matrix, start)
    return float(min(G.max(), 1.0)) if G.size > 1 else 0.0


def cumulative_coherence(Phi: ArrayLike, k: int, *, groups: ArrayLike | None = None) -> NDArray[np.float64]:
    r"""Largest sum of cosines between one atom and j others (Babel function), j = 1..k.

    .. math:: \mu_1(j) = \max_{i,\, |S| = j,\, i \notin S} \sum_{s \in S} |\phi_i^\top \phi_s|

    Parameters
    ----------
    Phi : array-like of shape (n, m), real or complex
        Dictionary; the atoms need not have norm 1.
    k : int
        Largest number of atoms (groups) to sum over, below m (the number of groups).
    groups : array-like of shape (m,) or None, default=None
        Labels of the atoms that come and go together. Two groups have the cosine of the smallest angle between their
        spans.

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
    matrix, start = _grouped(Phi, groups)
    size = matrix.shape[1] if start is None else len(start) - 1
    k = check_integer(k, "k", low=1, high=max(1, size - 1))
    return coherence_sums(matrix, k, start)


def _grouped(Phi: ArrayLike, groups: ArrayLike | None) -> tuple[Any, NDArray[np.int64] | None]:
    """Check Φ; return it with the atoms of every group side by side, and where groups start (None for single atoms)."""
    matrix = check_dictionary(Phi, complex_too=True)
    n, m = matrix.shape
    structure = Structure((n, m), labels=check_groups(groups, m))
    return structure.arranged(matrix), None if structure.labels is None else structure.start
