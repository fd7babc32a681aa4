"""Dictionaries given by the lights of photometric stereo, or by a file."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import ArrayLike

from maxsparse._core.validation import FloatArray, check_dictionary, check_matrix
from maxsparse.files import read_array

__all__ = ["lighting", "load"]


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
        raise ValueError(f"L has {q} lights; at least 4 are needed, since 3 determine the normal and detect no outlier")
    left, sigma, _ = np.linalg.svd(lights, full_matrices=True)
    if sigma[2] <= max(lights.shape) * np.finfo(lights.dtype).eps * sigma[0]:
        raise ValueError("the lights in L are coplanar and do not determine a normal; add a light outside their plane")
    return left[:, 3:].T.copy()


def load(path: str | os.PathLike[str], key: str | None = None) -> FloatArray:
    """Load a dictionary from a .npy, .npz, .mat or .csv file.

    Parameters
    ----------
    path : str or path
        The file; the suffix sets the format.
    key : str or None, default=None
        Name of the array in a .npz or .mat file. By default ``Phi``, or the only array.

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
    return check_dictionary(read_array(path, key), complex_too=True, name=f"the dictionary in {os.fspath(path)!r}")
