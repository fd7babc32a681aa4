"""Arrays of sensors: their positions, steering vectors with derivatives, and scenes to try methods on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import RandomState, check_integer, check_number, check_rng

__all__ = ["Array", "circular", "linear", "simulate"]


@dataclass(frozen=True, eq=False)
class Array:
    """Sensors at known positions that receive plane waves.

    Parameters
    ----------
    positions : array-like of shape (n,), (n, 2) or (n, 3)
        x, (x, y) or (x, y, z) of every sensor: in wavelengths or, with `speed`, in metres.
    speed : float or None, default=None
        Speed of the waves in metres per second, such as 343 for sound in air. Then frequencies must be given wherever
        waves are involved.

    Examples
    --------
    >>> import maxsparse as ms
    >>> array = ms.fields.arrays.Array([0.0, 0.5, 1.0, 2.0])
    >>> array
    Array(4 sensors, 2 wavelengths wide)
    >>> array.steering([0.0, 30.0]).shape
    (4, 2)
    """

    positions: NDArray[np.float64]
    speed: float | None = None

    def __init__(self, positions: ArrayLike, *, speed: float | None = None) -> None:
        try:
            found = np.asarray(positions, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"positions of sensors must be numbers: {error}") from error
        found = found[:, None] if found.ndim == 1 else found
        if found.ndim != 2 or found.shape[1] not in (1, 2, 3):
            raise ValueError(f"positions must be x, (x, y) or (x, y, z) of every sensor, got shape {found.shape}")
        if len(found) < 2:
            raise ValueError(f"an array needs at least 2 sensors, got {len(found)}")
        if not np.isfinite(found).all():
            raise ValueError(f"positions must be finite, but sensor {np.argwhere(~np.isfinite(found))[0][0]} is not")
        full = np.zeros((len(found), 3))
        full[:, : found.shape[1]] = found
        if len(np.unique(full, axis=0)) == 1:
            raise ValueError("all sensors are at one position: they cannot tell directions apart")
        object.__setattr__(self, "positions", full)
        object.__setattr__(self, "speed", None if speed is None else check_number(speed, "speed", low=1e-12))

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        unit = "wavelengths" if self.speed is None else "m"
        return f"Array({len(self)} sensors, {self.width:.4g} {unit} wide)"

    @property
    def width(self) -> float:
        """Largest distance between two sensors."""
        distances = self.positions[:, None] - self.positions
        return float(np.sqrt((distances**2).sum(axis=-1)).max())

    @property
    def on_a_line(self) -> bool:
        """Whether all sensors are on the x axis: only the azimuth within ±90° can be told then."""
        return not self.positions[:, 1:].any()

    def waves(self, frequency: float | None = None) -> NDArray[np.float64]:
        """Return the positions (n, 3) in wavelengths."""
        if self.speed is None:
            if frequency is not None:
                raise ValueError("positions are in wavelengths, so frequencies mean nothing; give positions and speed")
            return self.positions
        if frequency is None:
            raise ValueError("positions are in metres: give the frequencies of the waves")
        return self.positions * (check_number(frequency, "frequency", low=1e-300) / self.speed)

    def steering(
        self, azimuth: ArrayLike, elevation: ArrayLike = 0.0, *, frequency: float | None = None
    ) -> NDArray[np.complex128]:
        """Return what unit plane waves from these directions look like at the sensors.

        Parameters
        ----------
        azimuth, elevation : array-like of shape (K,), in degrees
        frequency : float or None, default=None
            In hertz, where positions are in metres.

        Returns
        -------
        A : ndarray of shape (n, K), complex
            Columns of norm √n.
        """
        return self.steering_with_slopes(azimuth, elevation, frequency=frequency)[0]

    def steering_with_slopes(
        self, azimuth: ArrayLike, elevation: ArrayLike = 0.0, *, frequency: float | None = None
    ) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Return steering vectors (n, K) and their derivatives (2, n, K) by azimuth and elevation in radians."""
        a, e = np.broadcast_arrays(np.radians(np.atleast_1d(azimuth)), np.radians(np.atleast_1d(elevation)))
        zero = np.zeros_like(a)
        u = np.array([np.sin(a) * np.cos(e), np.cos(a) * np.cos(e), np.sin(e)])
        by_azimuth = np.array([np.cos(a) * np.cos(e), -np.sin(a) * np.cos(e), zero])
        by_elevation = np.array([-np.sin(a) * np.sin(e), -np.cos(a) * np.sin(e), np.cos(e)])
        k = 2 * np.pi * self.waves(frequency)
        A = np.exp(1j * (k @ u))
        return A, np.array([1j * (k @ by_azimuth) * A, 1j * (k @ by_elevation) * A])

    def blur(self, window: float) -> float:
        """Return how far from a plane wave of one frequency a source can look in pieces of a recording.

        A piece of T seconds hears a band of about 2/T hertz, whose waves reach the sensors with different phases. With
        delays τ between sensors and Hann's window, sensors see the same piece up to its autocorrelation ρ(τ); the
        second eigenvalue of that matrix is what no single plane wave explains.

        Parameters
        ----------
        window : float
            T, in seconds.

        Returns
        -------
        share : float
            Power beyond the plane wave, over the power of the source at one sensor, for the worst direction.
        """
        if self.speed is None:
            raise ValueError("positions are in wavelengths, so a window in seconds means nothing; give speed")
        along = np.linalg.svd(self.positions - self.positions.mean(axis=0), full_matrices=False)[2][0]
        delays = (self.positions @ along) / (self.speed * check_number(window, "window", low=1e-300))
        u = np.minimum(np.abs(delays[:, None] - delays), 1.0)
        seen = (1.0 - u) * (2.0 + np.cos(2 * np.pi * u)) / 3.0 + np.sin(2 * np.pi * u) / (2 * np.pi)
        return float(np.linalg.eigvalsh(seen)[-2]) if len(delays) > 1 else 0.0


def linear(n: int, spacing: float = 0.5, *, speed: float | None = None) -> Array:
    """Return n sensors in a row on the x axis.

    Parameters
    ----------
    n : int
    spacing : float, default=0.5
        Distance of neighbours: in wavelengths or, with `speed`, in metres. Above half a wavelength two directions can
        look the same.
    speed : float or None, default=None
        See :class:`Array`.

    Returns
    -------
    array : Array
    """
    spacing = check_number(spacing, "spacing", low=1e-12)
    return Array(spacing * np.arange(check_integer(n, "n", low=0)), speed=speed)


def circular(n: int, radius: float = 0.5, *, speed: float | None = None) -> Array:
    """Return n sensors on a circle in the x-y plane, which sees all azimuths.

    Parameters
    ----------
    n : int
    radius : float, default=0.5
        In wavelengths or, with `speed`, in metres.
    speed : float or None, default=None
        See :class:`Array`.

    Returns
    -------
    array : Array
    """
    angle = 2 * np.pi * np.arange(check_integer(n, "n", low=3)) / n
    radius = check_number(radius, "radius", low=1e-12)
    return Array(radius * np.column_stack([np.sin(angle), np.cos(angle)]), speed=speed)


def simulate(
    array: Array,
    azimuth: ArrayLike,
    elevation: ArrayLike = 0.0,
    *,
    snapshots: int = 20,
    snr_db: float = 20.0,
    powers_db: ArrayLike = 0.0,
    correlation: float = 0.0,
    frequencies: ArrayLike | None = None,
    calibration: float = 0.0,
    rng: RandomState = None,
) -> NDArray[np.complex128]:
    """Return snapshots of gaussian sources in white noise.

    Parameters
    ----------
    array : Array
    azimuth, elevation : array-like of shape (K,), in degrees
    snapshots : int, default=20
    snr_db : float, default=20.0
        Power of a source of 0 dB over that of the noise, at one sensor.
    powers_db : array-like of shape (K,), default=0.0
    correlation : float, default=0.0
        Between every two sources, from 0 to 1; 1: they are the same signal up to a phase, as echoes are.
    frequencies : array-like of shape (F,) or None, default=None
        In hertz, for an array in metres.
    calibration : float, default=0.0
        Standard deviation of the relative gain error and of the phase error, in radians, of every sensor.
    rng : int, Generator or None

    Returns
    -------
    Y : ndarray of shape (snapshots, n), or (F, snapshots, n) with `frequencies`

    Examples
    --------
    >>> import maxsparse as ms
    >>> array = ms.fields.arrays.linear(8)
    >>> ms.fields.arrays.simulate(array, [-10.0, 20.0], snapshots=5, rng=0).shape
    (5, 8)
    """
    rng = check_rng(rng)
    L = check_integer(snapshots, "snapshots", low=1)
    rho = check_number(correlation, "correlation", low=0.0, high=1.0)
    a, e, power = np.broadcast_arrays(
        np.atleast_1d(np.asarray(azimuth, dtype=float)), np.asarray(elevation, dtype=float), np.asarray(powers_db)
    )
    sigma = 10 ** (-check_number(snr_db, "snr_db") / 20)
    error = check_number(calibration, "calibration", low=0.0)
    gains = np.exp(error * (rng.standard_normal(len(array)) + 1j * rng.standard_normal(len(array))))
    phases = np.exp(2j * np.pi * rng.random(a.size))
    bands: list[Any] = [None] if frequencies is None else [float(f) for f in np.atleast_1d(np.asarray(frequencies))]
    Y = []
    for frequency in bands:
        common, own = _white(rng, (L, 1)), _white(rng, (L, a.size))
        sources = 10 ** (power / 20) * (np.sqrt(rho) * common * phases + np.sqrt(1 - rho) * own)
        Y.append(sources @ (gains[:, None] * array.steering(a, e, frequency=frequency)).T)
        Y[-1] += sigma * _white(rng, Y[-1].shape)
    return Y[0] if frequencies is None else np.array(Y)


def _white(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.complex128]:
    """Return circular gaussian noise of power 1."""
    return np.asarray((rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / np.sqrt(2))
