"""``estimate_directions``: how many sources there are, where they are, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.tables import html_table
from maxsparse._core.validation import check_array, check_integer, check_number
from maxsparse.fields.arrays.geometry import Array
from maxsparse.fields.arrays.likelihood import Data, Fit, with_volume
from maxsparse.fields.arrays.refine import refine
from maxsparse.fields.arrays.search import distances, grid_of, search

__all__ = ["Directions", "estimate_directions"]

MOST_SOURCES = 12


@dataclass(frozen=True, eq=False, repr=False)
class Directions:
    """Sources that an array hears, strongest first.

    Attributes
    ----------
    azimuth : ndarray of shape (K,), degrees
    elevation : ndarray of shape (K,), degrees
        Zeros where only azimuths were asked for.
    azimuth_error, elevation_error : ndarray of shape (K,), degrees
        Standard errors.
    powers : ndarray of shape (K,)
        Mean power of every source at one sensor; over all frequencies.
    probability : ndarray of shape (K,)
        That there is a source there.
    confidence : float
        Probability that the number of sources is right.
    number_probability : ndarray
        Probability of 0, 1, 2, … sources.
    noise : float
        Standard deviation of the noise at a sensor.
    gains : ndarray of shape (n,), complex
        Of the sensors; ones unless `calibration` was given.
    grid, spectrum : ndarray of shape (m, d) and (m,)
        Power that a beamformer receives from every direction, for the picture.
    """

    azimuth: NDArray[np.float64]
    elevation: NDArray[np.float64]
    azimuth_error: NDArray[np.float64]
    elevation_error: NDArray[np.float64]
    powers: NDArray[np.float64]
    probability: NDArray[np.float64]
    confidence: float
    number_probability: NDArray[np.float64]
    noise: float
    gains: NDArray[np.complex128]
    grid: NDArray[np.float64]
    spectrum: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.azimuth)

    def __repr__(self) -> str:
        if not len(self):
            return f"Directions(no source, confidence {self.confidence:.2f})"
        shown = [f"{a:.2f}° ± {s:.2g}°" for a, s in zip(self.azimuth, self.azimuth_error, strict=True)]
        if self.grid.shape[1] == 2:
            pairs = zip(shown, self.elevation, self.elevation_error, strict=True)
            shown = [f"({text}, {e:.2f}° ± {s:.2g}°)" for text, e, s in pairs]
        return f"Directions({', '.join(shown)}; confidence {self.confidence:.2f})"

    def _repr_html_(self) -> str:
        """Return the sources as a small table, for notebooks."""
        two = self.grid.shape[1] == 2
        rows = []
        for row in self.table():
            angles = [f"{row['azimuth']:.2f}° ± {row['azimuth_error']:.2g}°"]
            angles += [f"{row['elevation']:.2f}° ± {row['elevation_error']:.2g}°"] if two else []
            rows.append([*angles, f"{row['power_db']:.1f} dB", f"{row['probability']:.2f}"])
        head = ["azimuth", *(["elevation"] if two else []), "power", "probability"]
        return html_table(f"{len(self)} sources, confidence {self.confidence:.2f}", head, rows)

    def table(self) -> list[dict[str, float]]:
        """Return one dict per source; ``pandas.DataFrame`` makes a table of them."""
        keys = ("azimuth", "azimuth_error", "elevation", "elevation_error", "probability")
        rows = [{key: float(getattr(self, key)[k]) for key in keys} for k in range(len(self))]
        for row, power in zip(rows, self.powers, strict=True):
            row["power_db"] = float(10 * np.log10(power))
        return rows

    def plot(self, *, truth: ArrayLike | None = None, axes: Any = None) -> Any:
        """Draw the power that a beamformer receives and the sources with their standard errors.

        Parameters
        ----------
        truth : array-like of shape (K,) or (K, 2), or None, default=None
            True directions in degrees.
        axes : matplotlib Axes or None, default=None
            None makes a new figure.

        Returns
        -------
        axes : matplotlib Axes
        """
        from maxsparse.fields.arrays.picture import draw

        return draw(self, truth, axes)


def estimate_directions(
    Y: ArrayLike,
    array: Array,
    *,
    sources: int | None = None,
    noise: float | None = None,
    frequencies: ArrayLike | None = None,
    azimuth: tuple[float, float] | None = None,
    elevation: tuple[float, float] | None = None,
    calibration: float = 0.0,
    window: float | None = None,
) -> Directions:
    """Find the directions of the sources that an array hears, and their number.

    Sources are placed one at a time where they raise the evidence of the snapshots most; all of them then move together
    to its next maximum, on no grid. One may also become two, and one of them may go. The number of sources with the
    most evidence is the answer.

    Parameters
    ----------
    Y : array-like of shape (L, n), or (F, L, n) with `frequencies`, complex
        L snapshots of n sensors. The snapshots of one frequency share their directions with those of the others, not
        their powers.
    array : Array
    sources : int or None, default=None
        Number of sources, where it is known.
    noise : float or None, default=None
        Standard deviation of the noise at a sensor; None: it is learned.
    frequencies : array-like of shape (F,) or None, default=None
        In hertz, for an array in metres.
    azimuth : (float, float) or None, default=None
        Field of view in degrees; None: ±90 for sensors in a row, else ±180.
    elevation : (float, float) or None, default=None
        Field of view in degrees; None: all sources are at elevation 0, and only azimuths are looked for.
    calibration : float, default=0.0
        Standard deviation of the relative errors of the sensors' gains, and of their phases in radians, where they are
        not calibrated well: they are learned too, and standard errors allow for them.
    window : float or None, default=None
        Length in seconds of the pieces whose Fourier transforms `Y` holds. Short pieces hear a band of frequencies, in
        which a source is no plane wave: what looks like a second source much weaker than the first is then taken for
        noise, see :meth:`Array.blur`.

    Returns
    -------
    found : Directions

    See Also
    --------
    cramer_rao : The smallest standard errors that are possible.
    music, capon, esprit : Classical methods.

    References
    ----------
    D. P. Wipf, B. D. Rao, "An empirical Bayesian strategy for solving the simultaneous sparse approximation problem",
    IEEE Trans. Signal Processing 55(7), 2007: the evidence. M. E. Tipping, A. C. Faul, "Fast marginal likelihood
    maximisation for sparse Bayesian models", AISTATS 2003: by how much one more source raises it.

    Examples
    --------
    >>> import maxsparse as ms
    >>> array = ms.fields.arrays.linear(12)
    >>> Y = ms.fields.arrays.simulate(array, [-20.0, 10.0, 15.0], snapshots=30, snr_db=20, rng=0)
    >>> found = ms.fields.arrays.estimate_directions(Y, array)
    >>> sorted(found.azimuth.round().tolist())
    [-20.0, 10.0, 15.0]
    """
    data = _checked(Y, array, noise, frequencies, azimuth, elevation, calibration, window)
    n, L = data.R.shape[1], data.snapshots
    # n snapshots or more tell up to n − 1 sources apart; one snapshot, half of them.
    most = n - 1 if n <= L else min(n - 1, (n * L) // (L + 1))
    grid = grid_of(data)
    if sources is not None:
        wanted = check_integer(sources, "sources", low=0)
        if wanted > most:
            raise ValueError(
                f"{n} sensors and {L} snapshots can tell at most {most} sources apart, got sources={wanted}"
            )
        path = search(data, grid, wanted, stop=False)
    else:
        path = search(data, grid, min(most, MOST_SOURCES), stop=True)
    evidence = np.array([model.evidence for model in path])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    best = int(np.argmax(evidence)) if sources is None else len(path) - 1
    if sources is not None:
        weights = np.eye(len(path))[best]
    return _answer(data, path, best, weights, grid)


def _checked(
    Y: ArrayLike,
    array: Array,
    noise: Any,
    frequencies: Any,
    azimuth: Any,
    elevation: Any,
    calibration: Any,
    window: Any,
) -> Data:
    if not isinstance(array, Array):
        raise ValueError(f"array must be an Array, such as linear({np.shape(Y)[-1:]}), got {type(array).__name__}")
    snapshots = check_array(Y, "Y", dimensions=(2, 3))
    n = len(array)
    bands: tuple[float | None, ...] = (None,)
    if frequencies is not None:
        found = np.atleast_1d(np.asarray(frequencies, dtype=float))
        bands = tuple(found.tolist())
        snapshots = snapshots[None] if snapshots.ndim == 2 and found.size == 1 else snapshots
        if snapshots.ndim != 3 or len(snapshots) != found.size:
            raise ValueError(f"{found.size} frequencies need snapshots ({found.size}, L, n), got shape {np.shape(Y)}")
    elif snapshots.ndim == 3:
        raise ValueError(f"snapshots of shape {snapshots.shape} are of several frequencies: give frequencies=")
    snapshots = snapshots if snapshots.ndim == 3 else snapshots[None]
    _, L, width = snapshots.shape
    if width != n:
        hint = "; snapshots are rows, so pass its transpose" if n == L else ""
        raise ValueError(f"snapshots have {width} sensors, the array has {n}{hint}")
    if L == 0:
        raise ValueError("there are no snapshots")
    if not np.iscomplexobj(snapshots):
        raise ValueError(
            "snapshots are real; directions need complex ones: take the analytic signal (scipy.signal.hilbert) of a "
            "narrow band, or read recordings with read_snapshots, which takes the Fourier transform of short pieces"
        )
    for frequency in bands:
        array.waves(frequency)  # raises where unit and frequencies do not fit
    if not snapshots.any():
        raise ValueError("all snapshots are zero")
    data = _data(snapshots.astype(np.complex128), array, noise, bands, azimuth, elevation, calibration)
    return data if window is None else data._replace(blur=array.blur(window))


def _data(Y: NDArray[Any], array: Array, noise: Any, bands: Any, azimuth: Any, elevation: Any, error: Any) -> Data:
    limits = [_limits(azimuth, "azimuth", (-90.0, 90.0) if array.on_a_line else (-180.0, 180.0), 360.0)]
    if elevation is not None:
        if array.on_a_line:
            raise ValueError("sensors in a row on the x axis cannot tell elevations: omit elevation=")
        limits.append(_limits(elevation, "elevation", (0.0, 90.0), 180.0))
    low, high = np.array(limits).T
    field = np.radians(high[0] - low[0])
    if elevation is not None:
        field *= np.radians(high[1] - low[1])
    R = np.einsum("fla,flb->fab", Y, Y.conj()) / Y.shape[1]
    sigma = None if noise is None else check_number(noise, "noise", low=1e-150)
    data = Data(
        array,
        R,
        Y.shape[1],
        bands,
        elevation is not None,
        float(field),
        low,
        high,
        check_number(error, "calibration", low=0.0, high=1.0),
        None if sigma is None else sigma**2,
    )
    return with_volume(data)


def _limits(given: Any, name: str, usual: tuple[float, float], widest: float) -> tuple[float, float]:
    if given is None:
        return usual
    if np.shape(given) != (2,):
        raise ValueError(f"{name} must be a range (low, high) in degrees, got {given!r}")
    low, high = float(given[0]), float(given[1])
    if not 0 < high - low <= widest:
        raise ValueError(f"{name} must be a range (low, high) of at most {widest:g}°, got ({low:g}, {high:g})")
    return low, high


def _answer(data: Data, path: list[Fit], best: int, weights: NDArray[Any], grid: NDArray[np.float64]) -> Directions:
    """Return the sources of the chosen number, strongest first."""
    found = path[best]
    order = np.argsort(-found.powers.sum(axis=0), kind="stable")
    directions, errors = (part[order] for part in refine(data, found))
    nearby = np.maximum(data.beam / 2, 3 * errors.max(axis=1, initial=0.0))
    probability = np.zeros(len(order))
    for weight, model in zip(weights, path, strict=True):
        for k, direction in enumerate(directions):
            probability[k] += weight * bool((distances(model.directions, direction) <= nearby[k]).any())
    zeros = np.zeros(len(order))
    return Directions(
        azimuth=directions[:, 0] if np.isfinite(data.limits[0][0]) else (directions[:, 0] + 180) % 360 - 180,
        elevation=directions[:, 1] if data.two else zeros,
        azimuth_error=errors[:, 0],
        elevation_error=errors[:, 1] if data.two else zeros,
        powers=found.powers.sum(axis=0)[order],
        probability=probability,
        confidence=float(weights[best]),
        number_probability=weights,
        noise=float(np.sqrt(np.mean(found.noise))),
        gains=np.exp(found.gains),
        grid=grid,
        spectrum=_beamformer(data, grid),
    )


def _beamformer(data: Data, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the power that a beamformer receives from every direction of the grid, over all frequencies."""
    power = np.zeros(len(grid))
    for R, frequency in zip(data.R, data.frequencies, strict=True):
        a = data.array.steering(grid[:, 0], grid[:, 1] if data.two else 0.0, frequency=frequency) / len(data.array)
        power += np.einsum("nm,nm->m", a.conj(), R @ a).real
    return power
