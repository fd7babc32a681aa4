"""Whitening: the (W, D) of the proposition on shared weights that costs nothing to find."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from maxsparse._validation import FloatArray, check_dictionary, check_number

__all__ = ["precondition"]


def precondition(Phi: ArrayLike, *, noise: float = 0.0) -> tuple[FloatArray, FloatArray]:
    r"""Whiten a dictionary: W and D such that WΦD is as incoherent as a linear change of y can make it.

    .. math::

        W = (\Phi\Phi^\top + \lambda I)^{-1/2}, \qquad D = \mathrm{diag}(W\Phi\ \text{column norms})^{-1}

    :math:`y = \Phi x` becomes :math:`Wy = (W\Phi D)(D^{-1}x)`, with the same support.

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary.
    noise : float, default=0.0
        Standard deviation of the noise on y relative to the root mean square of y's entries, that is
        :math:`10^{-snr/20}`. It sets :math:`\lambda = noise^2 \|\Phi\|_F^2 / n`, which makes Wy white for random x and
        keeps the directions in which Φ is weak from being blown up.

    Returns
    -------
    W : ndarray of shape (r, n)
        r = rank Φ for noise = 0, else n. For full rank it is the symmetric inverse root, up to a rotation.
    D : ndarray of shape (m,)
        Diagonal of D.

    Notes
    -----
    Proposition "constant layer improvement" of the paper allows any W and D and asks for those with the smallest
    restricted isometry constant of WΦD; whitening is a legal choice that needs no search. Rows of W may be rotated
    freely, so the form :math:`\Lambda^{-1/2}U^\top` of the singular value decomposition is returned.

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.decaying(20, 100, rng=0)
    >>> W, D = ms.theory.precondition(Phi)
    >>> round(ms.theory.coherence(Phi), 2), round(ms.theory.coherence(W @ Phi * D), 2)
    (1.0, 0.86)
    """
    matrix = check_dictionary(Phi)
    noise = check_number(noise, "noise", low=0.0)
    U, sigma, _ = np.linalg.svd(matrix, full_matrices=noise > 0)
    if noise == 0:
        kept = sigma > max(matrix.shape) * np.finfo(matrix.dtype).eps * sigma[0]
        W = (U[:, kept] / sigma[kept]).T
    else:
        eigenvalues = np.zeros(U.shape[0], dtype=matrix.dtype)
        eigenvalues[: sigma.size] = sigma**2
        regularisation = noise**2 * eigenvalues.sum() / matrix.shape[0]
        W = (U / np.sqrt(eigenvalues + regularisation)).T
    D = 1.0 / np.linalg.norm(W @ matrix, axis=0)
    return np.ascontiguousarray(W, dtype=matrix.dtype), D.astype(matrix.dtype)
