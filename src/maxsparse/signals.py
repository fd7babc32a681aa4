"""Sparse signals X and their measurements Y = XΦᵀ: one batch, or an infinite stream of batches.

>>> import maxsparse as ms
>>> Phi = ms.dictionaries.gaussian(20, 100, rng=0)
>>> X, Y = ms.signals.sample(Phi, 5, sparsity=3, rng=1)
>>> X.shape, Y.shape, (X != 0).sum(axis=1).tolist()
((5, 100), (5, 20), [3, 3, 3, 3, 3])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import (
    FloatArray,
    RandomState,
    check_choice,
    check_dictionary,
    check_integer,
    check_number,
    check_rng,
)

__all__ = ["AMPLITUDES", "sample", "stream"]

LARGEST_SNR_DB = 1000.0  # for more, the ratio of amplitudes exceeds the range of floats

AmplitudeLaw = Callable[[np.random.Generator, int], NDArray[np.floating[Any]]]


def _uniform(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    return rng.uniform(0.1, 0.5, size) * _signs(rng, size)


def _gaussian(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    return rng.normal(0.3, 0.1, size) * _signs(rng, size)


def _unit(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    return _signs(rng, size)


def _signs(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    return 2.0 * rng.integers(0, 2, size).astype(np.float64) - 1.0


AMPLITUDES: dict[str, AmplitudeLaw] = {"uniform": _uniform, "gaussian": _gaussian, "unit": _unit}


def sample(
    Phi: ArrayLike,
    N: int,
    *,
    sparsity: int | tuple[int, int],
    amplitudes: str | AmplitudeLaw = "uniform",
    noise: float = 0.0,
    snr_db: float | None = None,
    rng: RandomState = None,
) -> tuple[FloatArray, FloatArray]:
    r"""Draw N sparse signals and measure them.

    .. math:: y = \Phi x^* + \nu, \qquad \|x^*\|_0 = d

    Supports are uniform over all subsets of d atoms; amplitudes are independent of them.

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary.
    N : int
        Number of signals.
    sparsity : int or (int, int)
        Number d of nonzeros, or (low, high) for d uniform on low..high, both included.
    amplitudes : {"uniform", "gaussian", "unit"} or callable, default="uniform"
        ``"uniform"`` is U[0.1, 0.5] with a random sign, ``"gaussian"`` is N(±0.3, 0.1²), ``"unit"`` is ±1. A callable
        ``f(rng, size)`` returns that many amplitudes, none of them zero.
    noise : float, default=0.0
        Standard deviation of iid normal noise on every measurement.
    snr_db : float or None, default=None
        Signal-to-noise ratio in decibels instead of `noise`: every signal gets noise of the standard deviation
        :math:`\|\Phi x\|_2 / \sqrt{n} \cdot 10^{-snr/20}`.
    rng : int, numpy.random.Generator or None, default=None
        Seed, generator, or None for different signals at every call.

    Returns
    -------
    X : ndarray of shape (N, m)
        The sparse signals, one per row.
    Y : ndarray of shape (N, n)
        Their measurements, one per row. Both have the dtype of Φ.

    See Also
    --------
    stream : An infinite stream of batches, for training.

    Notes
    -----
    Supports are drawn by Floyd's algorithm [1]_ on all rows at once: d steps, exact sampling without replacement.
    The amplitude distributions are those of the paper's Sections 7 and 9.

    References
    ----------
    .. [1] J. Bentley, B. Floyd, "Programming pearls: a sample of brilliance", CACM 30(9), 1987.

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.decaying(20, 100, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 1000, sparsity=(1, 10), amplitudes="unit", rng=1)
    >>> d = (X != 0).sum(axis=1)
    >>> int(d.min()), int(d.max()), bool(np.allclose(Y, X @ Phi.T))
    (1, 10, True)
    """
    dictionary = check_dictionary(Phi)
    generator = check_rng(rng)
    N = check_integer(N, "N")
    low, high = check_sparsity(sparsity, dictionary.shape[1])
    law = _check_amplitudes(amplitudes)
    noise, snr_db = _check_noise(noise, snr_db)
    return _sample(dictionary, N, low, high, law, noise, snr_db, generator)


def stream(
    Phi: ArrayLike,
    batch_size: int,
    *,
    sparsity: int | tuple[int, int],
    amplitudes: str | AmplitudeLaw = "uniform",
    noise: float = 0.0,
    snr_db: float | None = None,
    rng: RandomState = None,
    start: int = 0,
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Draw an infinite stream of batches of new signals, for training.

    Batch i depends only on the seed and on i, so that a run resumed at batch i gets the same batches as an
    uninterrupted one, and no two batches share random numbers.

    Parameters
    ----------
    Phi, sparsity, amplitudes, noise, snr_db
        As for :func:`sample`.
    batch_size : int
        Signals in a batch.
    rng : int, numpy.random.Generator or None, default=None
        Seed of the stream. Of a generator, the next number is used as the seed.
    start : int, default=0
        Number of the first batch.

    Yields
    ------
    X : ndarray of shape (batch_size, m)
    Y : ndarray of shape (batch_size, n)

    Examples
    --------
    >>> import itertools
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(20, 100, rng=0)
    >>> batches = list(itertools.islice(ms.signals.stream(Phi, 32, sparsity=3, rng=7), 4))
    >>> X, Y = next(ms.signals.stream(Phi, 32, sparsity=3, rng=7, start=3))
    >>> bool((X == batches[3][0]).all()), bool((X == batches[2][0]).all())
    (True, False)
    """
    dictionary = check_dictionary(Phi)
    batch_size = check_integer(batch_size, "batch_size", low=1)
    start = check_integer(start, "start")
    low, high = check_sparsity(sparsity, dictionary.shape[1])
    law = _check_amplitudes(amplitudes)
    noise, snr_db = _check_noise(noise, snr_db)
    if isinstance(rng, np.random.Generator):
        rng = int(rng.integers(2**63))
    seed = np.random.SeedSequence(None if rng is None else check_integer(rng, "rng")).entropy

    def batches() -> Iterator[tuple[FloatArray, FloatArray]]:
        number = start
        while True:
            generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
            yield _sample(dictionary, batch_size, low, high, law, noise, snr_db, generator)
            number += 1

    return batches()  # a nested generator, so that bad arguments raise here, not at the first batch


def _sample(
    Phi: FloatArray,
    N: int,
    low: int,
    high: int,
    law: AmplitudeLaw,
    noise: float,
    snr_db: float | None,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    n, m = Phi.shape
    support = _supports(N, m, low, high, rng)
    X = np.zeros((N, m), dtype=Phi.dtype)
    values = np.asarray(law(rng, int(np.count_nonzero(support))))
    X[support] = values
    Y = X @ Phi.T
    if snr_db is not None:
        noise_level = np.linalg.norm(Y, axis=1, keepdims=True) / np.sqrt(n) * 10.0 ** (-snr_db / 20.0)
        Y += (noise_level * rng.standard_normal((N, n))).astype(Phi.dtype)
    elif noise > 0:
        Y += (noise * rng.standard_normal((N, n))).astype(Phi.dtype)
    return X, Y


def _supports(N: int, m: int, low: int, high: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw uniform subsets of {0..m-1} as rows of a mask, by Floyd's algorithm on all rows at once."""
    support = np.zeros((N, m), dtype=bool)
    d = rng.integers(low, high + 1, N) if low < high else np.full(N, low)
    rows = np.arange(N)
    for step in range(high):
        if low < high:
            rows = np.flatnonzero(d > step)
        last = m - d[rows] + step  # this step draws from 0..last
        drawn = rng.integers(0, last + 1)
        taken = support[rows, drawn]
        support[rows, np.where(taken, last, drawn)] = True
    return support


def check_sparsity(sparsity: Any, m: int) -> tuple[int, int]:
    if isinstance(sparsity, tuple | list):
        if len(sparsity) != 2:
            raise ValueError(f"sparsity must be a number or a pair (low, high), got {sparsity!r}")
        low = check_integer(sparsity[0], "sparsity[0]", low=0, high=m)
        return low, check_integer(sparsity[1], "sparsity[1]", low=low, high=m)
    d = check_integer(sparsity, "sparsity", low=0, high=m)
    return d, d


def _check_amplitudes(amplitudes: Any) -> AmplitudeLaw:
    if callable(amplitudes):
        return _checked_law(amplitudes)
    return AMPLITUDES[check_choice(amplitudes, "amplitudes", tuple(AMPLITUDES))]


def _checked_law(law: AmplitudeLaw) -> AmplitudeLaw:
    """Wrap a caller's amplitude function to check shapes and nonzero values."""

    def checked(rng: np.random.Generator, size: int) -> NDArray[np.floating[Any]]:
        values = np.asarray(law(rng, size))
        if values.shape != (size,):
            raise ValueError(f"amplitudes(rng, {size}) must return shape ({size},), got {values.shape}")
        if not np.isfinite(values).all() or (values == 0).any():
            raise ValueError("amplitudes(rng, size) must return finite, nonzero values: a zero changes the sparsity")
        return values

    return checked


def _check_noise(noise: Any, snr_db: Any) -> tuple[float, float | None]:
    noise = check_number(noise, "noise", low=0.0)
    if snr_db is None:
        return noise, None
    if noise > 0:
        raise ValueError(f"give noise or snr_db, not both; got noise={noise} and snr_db={snr_db}")
    return 0.0, check_number(snr_db, "snr_db", low=-LARGEST_SNR_DB, high=LARGEST_SNR_DB)
