r"""Convert complex problems to real ones, with real and imaginary parts stacked.

:math:`y = \Phi x` over the complex numbers is

.. math::

    \begin{pmatrix} \mathrm{Re}\,y \\ \mathrm{Im}\,y \end{pmatrix} =
    \begin{pmatrix} \mathrm{Re}\,\Phi & -\mathrm{Im}\,\Phi \\ \mathrm{Im}\,\Phi & \mathrm{Re}\,\Phi \end{pmatrix}
    \begin{pmatrix} \mathrm{Re}\,x \\ \mathrm{Im}\,x \end{pmatrix}

over the real ones, with twice as many measurements, atoms and nonzeros: every method can be used.

>>> import numpy as np
>>> import maxsparse as ms
>>> rng = np.random.default_rng(0)
>>> Phi = rng.standard_normal((10, 30)) + 1j * rng.standard_normal((10, 30))
>>> x = np.zeros((1, 30), dtype=complex)
>>> x[0, [3, 17]] = 1 - 2j, 0.5j
>>> real = ms.complex_data.stack_dictionary(Phi)
>>> result = ms.SparseRecoverer(real, budget="fast").recover(ms.complex_data.stack_signals(x @ Phi.T))
>>> found = ms.complex_data.unstack(result.coef)
>>> bool(result.certified[0]), np.flatnonzero(found[0]).tolist()
(True, [3, 17])
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import FloatArray, check_matrix

__all__ = ["stack_dictionary", "stack_signals", "unstack"]


def stack_dictionary(Phi: ArrayLike) -> FloatArray:
    """Return the real dictionary of a complex one.

    Parameters
    ----------
    Phi : array-like of shape (n, m), complex
        Dictionary.

    Returns
    -------
    stacked : ndarray of shape (2n, 2m)
        [[Re, −Im], [Im, Re]]. Columns j and m + j are the real and the imaginary part of atom j.

    Examples
    --------
    >>> stack_dictionary([[1 + 2j]])
    array([[ 1., -2.],
           [ 2.,  1.]])
    """
    real, imaginary = _parts(Phi, "Phi")
    return np.block([[real, -imaginary], [imaginary, real]])


def stack_signals(Y: ArrayLike) -> FloatArray:
    """Return complex rows as real ones: signals for a stacked dictionary, or coefficients.

    Parameters
    ----------
    Y : array-like of shape (N, n), complex
        Signals as rows.

    Returns
    -------
    stacked : ndarray of shape (N, 2n)
        [Re, Im].

    Examples
    --------
    >>> stack_signals([[1 + 2j, 3]])
    array([[1., 3., 2., 0.]])
    """
    return np.concatenate(_parts(Y, "Y"), axis=1)


def unstack(X: ArrayLike) -> NDArray[np.complexfloating[Any, Any]]:
    """Return the complex rows of stacked real ones; the inverse of :func:`stack_signals`.

    Parameters
    ----------
    X : array-like of shape (N, 2m)
        Rows [Re, Im].

    Returns
    -------
    unstacked : ndarray of shape (N, m), complex
        An atom is in use if either part is.

    Examples
    --------
    >>> unstack([[1.0, 3.0, 2.0, 0.0]])
    array([[1.+2.j, 3.+0.j]])
    """
    stacked = check_matrix(X, "X")
    if stacked.shape[1] % 2:
        raise ValueError(f"X must have an even number of columns, [Re, Im], got shape {stacked.shape}")
    m = stacked.shape[1] // 2
    return np.asarray(stacked[:, :m] + 1j * stacked[:, m:])


def _parts(array: ArrayLike, name: str) -> tuple[FloatArray, FloatArray]:
    values = np.asarray(array)
    return check_matrix(values.real, name), check_matrix(values.imag, name)
