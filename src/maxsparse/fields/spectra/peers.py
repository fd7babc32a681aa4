"""SUnSAL: sparse unmixing by the alternating direction method of multipliers, to compare with."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import check_integer, check_number

__all__ = ["sunsal"]


def sunsal(
    library: ArrayLike, spectra: ArrayLike, penalty: float = 1e-3, *, max_iter: int = 5000, tol: float = 1e-7
) -> NDArray[np.float64]:
    r"""Return non-negative abundances with a small ℓ1 norm.

    .. math:: \min_{x \ge 0} \tfrac12 \lVert y - \Phi x \rVert_2^2 + \lambda \lVert x \rVert_1

    Parameters
    ----------
    library : array-like of shape (m, n)
        Pure spectra as rows.
    spectra : array-like of shape (N, n)
        Measured spectra as rows.
    penalty : float, default=1e-3
        λ.
    max_iter : int, default=5000
    tol : float, default=1e-7
        Of the primal and the dual residual, relative to √(N m).

    Returns
    -------
    abundance : ndarray of shape (N, m)

    References
    ----------
    J. M. Bioucas-Dias, M. A. T. Figueiredo, "Alternating direction algorithms for constrained sparse regression:
    application to hyperspectral unmixing", WHISPERS 2010.
    """
    Phi, Y = np.asarray(library, dtype=np.float64).T, np.atleast_2d(np.asarray(spectra, dtype=np.float64))
    if Phi.ndim != 2 or Y.shape[1] != Phi.shape[0]:
        raise ValueError(f"library has {Phi.shape[0]} bands, spectra {Y.shape[1]}")
    penalty = check_number(penalty, "penalty", low=0.0)
    m, N = Phi.shape[1], len(Y)
    values, vectors = np.linalg.eigh(Phi.T @ Phi)
    values = np.maximum(values, 0.0)
    mu = max(float(np.median(values[values > 1e-6 * values[-1]])), 1e-12)
    right = Y @ Phi
    u, d = np.zeros((N, m)), np.zeros((N, m))
    for _ in range(check_integer(max_iter, "max_iter", low=1)):
        x = ((right + mu * (u + d)) @ vectors / (values + mu)) @ vectors.T
        before, u = u, np.maximum(x - d - penalty / mu, 0.0)
        d -= x - u
        primal, dual = float(np.linalg.norm(x - u)), mu * float(np.linalg.norm(u - before))
        if max(primal, dual) <= tol * np.sqrt(N * m):
            break
        if primal > 10 * dual:
            mu, d = 2 * mu, d / 2
        elif dual > 10 * primal:
            mu, d = mu / 2, 2 * d
    return np.asarray(u)
