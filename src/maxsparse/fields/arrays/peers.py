"""Classical methods: MUSIC, Capon's beamformer and ESPRIT. All of them must be told the number of sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import check_array, check_integer
from maxsparse.fields.arrays.geometry import Array

__all__ = ["capon", "esprit", "music"]

STEP = 0.25  # degrees, of the grid on which peaks are looked for
LOADING = 1e-3  # of the mean power, added to a covariance that cannot be inverted


def music(Y: ArrayLike, array: Array, sources: int, *, smoothing: int | None = None) -> NDArray[np.float64]:
    r"""Return the directions at which steering vectors are closest to the signal subspace: peaks of 1/‖Eₙᴴa‖².

    Parameters
    ----------
    Y : array-like of shape (L, n), complex
    array : Array
    sources : int
    smoothing : int or None, default=None
        Number of sensors of the subarrays whose covariances are averaged, forward and backward, which separates
        correlated sources and single snapshots; for sensors at equal distances in a row.

    Returns
    -------
    azimuth : ndarray of shape (at most sources,), degrees
        Highest peak first; fewer than `sources` where there are fewer peaks.

    References
    ----------
    R. O. Schmidt, "Multiple emitter location and signal parameter estimation", 1986. S. U. Pillai, B. H. Kwon,
    "Forward/backward spatial smoothing techniques for coherent signal identification", 1989.

    Examples
    --------
    >>> import maxsparse as ms
    >>> array = ms.fields.arrays.linear(10)
    >>> Y = ms.fields.arrays.simulate(array, [-20.0, 12.0], snapshots=50, rng=0)
    >>> sorted(ms.fields.arrays.music(Y, array, 2).round().tolist())
    [-20.0, 12.0]
    """
    R, K = _covariance(Y, array, sources)
    if smoothing is not None:
        R, array = _smoothed(R, array, check_integer(smoothing, "smoothing", low=2, high=len(array)))
    if len(array) <= K:
        raise ValueError(f"MUSIC finds fewer sources than sensors: {K} sources, {len(array)} sensors")
    noise = np.linalg.eigh(R)[1][:, : len(array) - K]
    return _peaks(array, lambda a: 1.0 / np.maximum((np.abs(noise.conj().T @ a) ** 2).sum(axis=0), 1e-300), K)


def capon(Y: ArrayLike, array: Array, sources: int) -> NDArray[np.float64]:
    """Return the directions from which Capon's beamformer receives most: peaks of 1/(aᴴR⁻¹a).

    Parameters
    ----------
    Y : array-like of shape (L, n), complex
    array : Array
    sources : int

    Returns
    -------
    azimuth : ndarray of shape (at most sources,), degrees
        Highest peak first.

    References
    ----------
    J. Capon, "High-resolution frequency-wavenumber spectrum analysis", Proc. IEEE, 1969.
    """
    R, K = _covariance(Y, array, sources)
    inverse = np.linalg.inv(R + LOADING * np.trace(R).real / len(R) * np.eye(len(R)))
    return _peaks(array, lambda a: 1.0 / np.einsum("nm,nm->m", a.conj(), inverse @ a).real, K)


def esprit(Y: ArrayLike, array: Array, sources: int, *, smoothing: int | None = None) -> NDArray[np.float64]:
    """Return directions from the phase between two overlapping halves of a row of sensors at equal distances.

    Parameters
    ----------
    Y : array-like of shape (L, n), complex
    array : Array
    sources : int
    smoothing : int or None, default=None
        As in :func:`music`.

    Returns
    -------
    azimuth : ndarray of shape (at most sources,), degrees

    References
    ----------
    R. Roy, T. Kailath, "ESPRIT: estimation of signal parameters via rotational invariance techniques", 1989; total
    least squares.
    """
    R, K = _covariance(Y, array, sources)
    spacing = _spacing(array)
    if smoothing is not None:
        R, array = _smoothed(R, array, check_integer(smoothing, "smoothing", low=2, high=len(array)))
    if len(array) <= K:
        raise ValueError(f"ESPRIT finds fewer sources than sensors: {K} sources, {len(array)} sensors")
    E = np.linalg.eigh(R)[1][:, -K:]
    right = np.linalg.svd(np.concatenate([E[:-1], E[1:]], axis=1))[2].conj().T
    values = np.linalg.eigvals(-right[:K, K:] @ np.linalg.inv(right[K:, K:]))
    sines = np.angle(values) / (2 * np.pi * spacing)
    return np.asarray(np.degrees(np.arcsin(np.clip(sines, -1.0, 1.0))))


def _covariance(Y: ArrayLike, array: Array, sources: int) -> tuple[NDArray[Any], int]:
    snapshots = check_array(Y, "Y")
    if snapshots.shape[1] != len(array):
        raise ValueError(f"snapshots have {snapshots.shape[1]} sensors, the array has {len(array)}")
    array.waves()  # raises for an array in metres
    return snapshots.T @ snapshots.conj() / len(snapshots), check_integer(sources, "sources", low=1)


def _spacing(array: Array) -> float:
    steps = np.diff(array.positions[:, 0])
    if not array.on_a_line or not np.allclose(steps, steps[0], rtol=1e-6, atol=0.0):
        raise ValueError("this needs sensors at equal distances in a row on the x axis; use music without smoothing")
    return float(steps[0])


def _smoothed(R: NDArray[Any], array: Array, size: int) -> tuple[NDArray[Any], Array]:
    """Average the covariances of all subarrays of `size` sensors, forward and backward."""
    _spacing(array)
    starts = range(len(array) - size + 1)
    mean: NDArray[Any] = np.mean([R[s : s + size, s : s + size] for s in starts], axis=0)
    return (mean + mean.conj()[::-1, ::-1]) / 2, Array(array.positions[:size])


def _peaks(array: Array, spectrum: Callable[[NDArray[Any]], NDArray[Any]], K: int) -> NDArray[np.float64]:
    """Return the K highest peaks of a spectrum, found on a grid and refined by smaller and smaller grids."""
    reach = 90.0 if array.on_a_line else 180.0
    grid = np.arange(-reach, reach + STEP / 2, STEP)
    value = spectrum(array.steering(grid))
    found = 1 + np.flatnonzero((value[1:-1] > value[:-2]) & (value[1:-1] >= value[2:]))
    highest = grid[found[np.argsort(-value[found], kind="stable")[:K]]]
    step = STEP
    for _ in range(4):
        step /= 4
        near = np.clip(highest[:, None] + step * np.arange(-4, 5), -reach, reach)
        values = spectrum(array.steering(near.ravel())).reshape(near.shape)
        highest = near[np.arange(len(near)), values.argmax(axis=1)]
    return highest
