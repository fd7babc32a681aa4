"""Accuracy of a recovery: the paper's two measures, and others.

Scores are (N, m), larger for atoms more likely to be in the support; for a method that returns coefficients they are
the magnitudes. Among equal scores, the atom with the lower index always counts as larger.

>>> import numpy as np
>>> import maxsparse as ms
>>> X = np.array([[0.0, 2.0, 0.0, -1.0]])
>>> ms.metrics.strict_accuracy(X, np.array([[0.1, 0.9, 0.3, 0.8]]))
1.0
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import check_integer, check_matrix, check_number, check_pair

__all__ = [
    "angular_error",
    "exact_recovery",
    "loose_accuracy",
    "normalised_error",
    "ranks",
    "recall",
    "strict_accuracy",
]


def strict_accuracy(X: ArrayLike, scores: ArrayLike) -> float:
    r"""Share of signals whose d largest scores are exactly the true support (s-acc).

    .. math:: \frac1N \sum_i \mathbb{I}\big[S_{gt}^{(i)} = S_{pred}^{(i)}(d_i)\big]

    Parameters
    ----------
    X : array-like of shape (N, m)
        True signals; d_i is the number of nonzeros of row i.
    scores : array-like of shape (N, m)
        Larger for more likely atoms.

    Returns
    -------
    accuracy : float
        In [0, 1]; NaN for N = 0.

    Examples
    --------
    >>> import maxsparse as ms
    >>> ms.metrics.strict_accuracy([[1.0, 0.0, 2.0], [1.0, 0.0, 2.0]], [[0.9, 0.1, 0.8], [0.9, 0.8, 0.1]])
    0.5
    """
    truth, d, rank = _truth_and_ranks(X, scores)
    return _mean(((rank < d[:, None]) == truth).all(axis=1))


def loose_accuracy(X: ArrayLike, scores: ArrayLike, n: int) -> float:
    r"""Mean share of the true support among the n largest scores (l-acc).

    .. math:: \frac1N \sum_i \frac{|S_{gt}^{(i)} \cap S_{pred}^{(i)}(n)|}{d_i}

    Parameters
    ----------
    X : array-like of shape (N, m)
        True signals.
    scores : array-like of shape (N, m)
        Larger for more likely atoms.
    n : int
        Number of measurements: any n atoms in general position explain y, so the support is found if it is among them.

    Returns
    -------
    accuracy : float
        In [0, 1]; a signal without nonzeros counts as 1. NaN for N = 0.

    Notes
    -----
    The paper's formula has a union; an intersection is meant.

    Examples
    --------
    >>> import maxsparse as ms
    >>> ms.metrics.loose_accuracy([[1.0, 0.0, 2.0, 0.0]], [[0.9, 0.7, 0.1, 0.8]], n=2)
    0.5
    """
    n = check_integer(n, "n", low=1)
    truth, d, rank = _truth_and_ranks(X, scores)
    return _share(((rank < n) & truth).sum(axis=1), d)


def recall(X: ArrayLike, scores: ArrayLike) -> float:
    r"""Mean share of the true support among the d largest scores.

    Parameters
    ----------
    X : array-like of shape (N, m)
        True signals; d_i is the number of nonzeros of row i.
    scores : array-like of shape (N, m)
        Larger for more likely atoms.

    Returns
    -------
    recall : float
        In [0, 1]; a signal without nonzeros counts as 1. NaN for N = 0.

    Examples
    --------
    >>> import maxsparse as ms
    >>> ms.metrics.recall([[1.0, 0.0, 2.0, 0.0]], [[0.9, 0.7, 0.1, 0.8]])
    0.5
    """
    truth, d, rank = _truth_and_ranks(X, scores)
    return _share(((rank < d[:, None]) & truth).sum(axis=1), d)


def exact_recovery(X: ArrayLike, coef: ArrayLike, *, tol: float = 1e-6) -> float:
    r"""Share of signals whose coefficients are all correct.

    Signal i counts if :math:`\|\hat x_i - x_i\|_\infty \le tol \cdot \|x_i\|_\infty`, so that the support is correct
    too if the true amplitudes are above the tolerance.

    Parameters
    ----------
    X : array-like of shape (N, m)
        True signals.
    coef : array-like of shape (N, m)
        Recovered signals.
    tol : float, default=1e-6
        Largest error of a coefficient, relative to the signal's largest one.

    Returns
    -------
    rate : float
        In [0, 1]; NaN for N = 0.

    Examples
    --------
    >>> import maxsparse as ms
    >>> ms.metrics.exact_recovery([[1.0, 0.0], [1.0, 0.0]], [[1.0, 1e-9], [0.9, 0.0]])
    0.5
    """
    tol = check_number(tol, "tol", low=0.0)
    truth, estimate = check_pair(X, coef, ("X", "coef"))
    if truth.shape[1] == 0:
        return _mean(np.ones(truth.shape[0], dtype=bool))
    return _mean(np.abs(estimate - truth).max(axis=1) <= tol * np.abs(truth).max(axis=1))


def normalised_error(X: ArrayLike, coef: ArrayLike) -> NDArray[np.float64]:
    r"""Relative error :math:`\|\hat x_i - x_i\|_2 / \|x_i\|_2` of every signal.

    Parameters
    ----------
    X : array-like of shape (N, m)
        True signals.
    coef : array-like of shape (N, m)
        Recovered signals.

    Returns
    -------
    error : ndarray of shape (N,)
        For a zero signal: 0 if it was recovered, else infinity.

    Examples
    --------
    >>> import maxsparse as ms
    >>> ms.metrics.normalised_error([[3.0, 4.0]], [[3.0, 3.0]]).tolist()
    [0.2]
    """
    truth, estimate = check_pair(X, coef, ("X", "coef"))
    error = np.linalg.norm(estimate - truth, axis=1).astype(np.float64)
    size = np.linalg.norm(truth, axis=1).astype(np.float64)
    relative: NDArray[np.float64] = np.divide(error, size, out=np.where(error > 0, np.inf, 0.0), where=size > 0)
    return relative


def angular_error(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    r"""Angle between rows in degrees, as usual in photometric stereo.

    Parameters
    ----------
    a, b : array-like of shape (N, 3)
        Nonzero vectors as rows; other widths than 3 also work.

    Returns
    -------
    degrees : ndarray of shape (N,)
        From 0 to 180; NaN where a vector is zero.

    Notes
    -----
    Computed as 2 atan2(‖a − b‖, ‖a + b‖) of the unit vectors [1]_: arccos loses all digits of small angles.

    References
    ----------
    .. [1] W. Kahan, "How futile are mindless assessments of roundoff in floating-point computation?", 2006, §12.

    Examples
    --------
    >>> import maxsparse as ms
    >>> ms.metrics.angular_error([[0.0, 0.0, 1.0]], [[0.0, 5.0, 5.0]]).round(6).tolist()
    [45.0]
    """
    first, second = check_pair(a, b, ("a", "b"))
    with np.errstate(divide="ignore", invalid="ignore"):
        u = first.astype(np.float64) / np.linalg.norm(first.astype(np.float64), axis=1, keepdims=True)
        v = second.astype(np.float64) / np.linalg.norm(second.astype(np.float64), axis=1, keepdims=True)
    degrees: NDArray[np.float64] = np.degrees(
        2.0 * np.arctan2(np.linalg.norm(u - v, axis=1), np.linalg.norm(u + v, axis=1))
    )
    return degrees


def ranks(scores: ArrayLike) -> NDArray[np.intp]:
    """Rank of every atom within its row, 0 for the largest score; of equal scores the lower index comes first.

    Parameters
    ----------
    scores : array-like of shape (N, m)

    Returns
    -------
    rank : ndarray of shape (N, m), int

    Examples
    --------
    >>> import maxsparse as ms
    >>> ms.metrics.ranks([[0.2, 0.9, 0.2]]).tolist()
    [[1, 0, 2]]
    """
    order = np.argsort(-check_matrix(scores, "scores"), axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(order.shape[1])[None, :], axis=1)
    return rank


def _truth_and_ranks(X: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.intp], NDArray[np.intp]]:
    signals, checked = check_pair(X, scores, ("X", "scores"))
    truth = signals != 0
    return truth, truth.sum(axis=1), ranks(checked)


def _share(hits: NDArray[np.intp], d: NDArray[np.intp]) -> float:
    return _mean(np.divide(hits, d, out=np.ones(d.shape), where=d > 0))


def _mean(values: NDArray[np.bool_] | NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else float("nan")
