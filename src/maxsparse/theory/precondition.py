"""Preconditioners (W, D) in closed form: whitening and projection."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from maxsparse._core.prepared import whiten
from maxsparse._core.structure import Structure, check_groups
from maxsparse._core.validation import FloatArray, check_dictionary, check_integer, check_matrix, check_number

__all__ = ["null_low_rank", "precondition"]

REWEIGHTINGS = 10


def precondition(
    Phi: ArrayLike, *, noise: float = 0.0, groups: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""Whiten a dictionary: W and D such that WΦD is much less coherent than Φ.

    .. math::

        W = (\Phi\Phi^\top + \lambda I)^{-1/2}, \qquad D = \mathrm{diag}(W\Phi\ \text{column norms})^{-1}

    :math:`y = \Phi x` becomes :math:`Wy = (W\Phi D)(D^{-1}x)`, with the same support.

    Parameters
    ----------
    Phi : array-like of shape (n, m), real or complex
        Dictionary; for a complex one, ⊤ is the conjugate transpose, and W is complex.
    noise : float, default=0.0
        Standard deviation of the noise on y relative to the root mean square of y's entries, that is
        :math:`10^{-snr/20}`. It sets :math:`\lambda = noise^2 \|\Phi\|_F^2 / n`, which makes Wy white for random x and
        does
        not amplify noise in the directions in which Φ is weak.
    groups : array-like of shape (m,) or None, default=None
        Labels of the atoms that come and go together: one number of D for each group, the root mean square of its
        atoms' norms, so that whitening keeps the shapes of the groups.

    Returns
    -------
    W : ndarray of shape (r, n)
        r = rank Φ for noise = 0, else n. For full rank it is the symmetric inverse root, up to a rotation.
    D : ndarray of shape (m,)
        Diagonal of D.

    Notes
    -----
    Proposition "constant layer improvement" of the paper allows any W and D and minimises the restricted
    isometry constant of WΦD; whitening is a valid choice that needs no search. W may be multiplied by any rotation, so
    the form :math:`\Lambda^{-1/2}U^\top` of the singular value decomposition is returned.

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.decaying(20, 100, rng=0)
    >>> W, D = ms.theory.precondition(Phi)
    >>> round(ms.theory.coherence(Phi), 2), round(ms.theory.coherence(W @ Phi * D), 2)
    (1.0, 0.86)
    """
    matrix, level = check_dictionary(Phi, complex_too=True), check_number(noise, "noise", low=0.0)
    n, m = matrix.shape
    structure = Structure((n, m), labels=check_groups(groups, m))
    if structure.labels is None:
        return whiten(matrix, level)
    W, D = whiten(structure.arranged(matrix), level, structure.start)
    return W, structure.restored(D)


def null_low_rank(Phi: ArrayLike, rank: int, *, low_rank: ArrayLike | None = None) -> tuple[FloatArray, FloatArray]:
    r"""Remove the r directions in which a dictionary is strongest: the projection of the paper's corollary.

    For :math:`\Phi = [\epsilon A + \Delta_r] N` let the rows of W be orthonormal and span the orthogonal complement of
    :math:`\mathrm{range}(\Delta_r)`. Then

    .. math:: W \Phi D = W A \cdot \mathrm{diag}, \qquad W \in \mathbb{R}^{(n-r) \times n},

    behaves like A with r fewer rows: the price is r measurements.

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary.
    rank : int
        Number r < n of directions to remove.
    low_rank : array-like of shape (n, p) or None, default=None
        :math:`\Delta_r`, or any matrix with the range to remove, if it is known. None estimates that range from Φ.

    Returns
    -------
    W : ndarray of shape (n - r, n)
        Orthonormal rows.
    D : ndarray of shape (m,)
        Diagonal of D, which scales the atoms of WΦD to norm 1.

    See Also
    --------
    precondition : Whitening, which attenuates strong directions but keeps them.

    Notes
    -----
    Corollary "constant layer improvement" of the paper. Its proof says r orthonormal rows; n − r is meant. An atom
    that lies in the removed range cannot be kept, and raises an error.

    Atoms on which :math:`\Delta_r` is weak keep much more of A than others, and would pull the singular vectors of Φ
    towards themselves by as much as all others have left. The range is therefore estimated by least absolute
    deviations, :math:`\min \sum_i \|W\phi_i\|_2`, through singular vectors of reweighted atoms [1]_.

    References
    ----------
    .. [1] G. Lerman, T. Maunu, "Fast, robust and non-convex subspace recovery", Information and Inference 7(2), 2018.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.low_rank_plus(20, 30, rank=1, epsilon=1e-3, rng=0)
    >>> W, D = ms.theory.null_low_rank(Phi, 1)
    >>> ms.theory.coherence(Phi) > 0.999, ms.theory.coherence(W @ Phi * D) < 0.9
    (True, True)
    """
    matrix = check_dictionary(Phi)
    n = matrix.shape[0]
    rank = check_integer(rank, "rank", low=0, high=n - 1)
    source = matrix
    if low_rank is not None:
        source = check_matrix(low_rank, "low_rank").astype(matrix.dtype, copy=False)
        if source.shape[0] != n:
            raise ValueError(f"low_rank must have n = {n} rows like Phi, got shape {source.shape}")
    W, norms = _complement(source, rank, matrix)
    for _ in range(REWEIGHTINGS if low_rank is None else 0):
        # The floor keeps an atom that fits well by chance from getting all the weight.
        W, norms = _complement(matrix / np.sqrt(np.maximum(norms, 0.1 * np.median(norms))), rank, matrix)
    return W, (1.0 / norms).astype(matrix.dtype)


def _complement(source: FloatArray, rank: int, Phi: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return orthonormal rows W outside the first `rank` singular vectors, and the column norms of WΦ."""
    U = np.linalg.svd(source, full_matrices=True)[0]
    W = np.ascontiguousarray(U[:, rank:].T)
    norms = np.linalg.norm(W @ Phi, axis=0)
    lost = np.flatnonzero(norms <= 100 * np.finfo(Phi.dtype).eps * np.linalg.norm(Phi, axis=0))
    if lost.size:
        raise ValueError(f"atom {lost[0]} lies in the {rank} directions to remove: it would become zero")
    return W, norms
