"""Read snapshots from array files and recordings, and the positions of sensors."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse import files
from maxsparse._core.validation import check_integer, check_number
from maxsparse.fields.arrays.geometry import Array
from maxsparse.fields.arrays.tones import tones

__all__ = ["Recording", "read_array", "read_snapshots"]

LARGEST_WAV = 2**31  # bytes
MOST_NAMES = 1000  # characters of a line of names
HEADER_NAME = r"(?!nan|inf)[a-z_][\w ()\[\]/]*"  # not a number, and not one that is not finite


class Recording(NamedTuple):
    """Snapshots and their frequencies.

    Attributes
    ----------
    snapshots : ndarray of shape (L, n) or (F, L, n), complex
    frequencies : ndarray of shape (F,) in hertz, or None
    window : float or None
        Length in seconds of the pieces of a recording.
    """

    snapshots: NDArray[Any]
    frequencies: NDArray[np.float64] | None
    window: float | None = None


def read_snapshots(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    band: tuple[float, float] | None = None,
    bins: int = 8,
    window: float = 0.032,
) -> Recording:
    """Read snapshots: complex arrays as they are, recordings (.wav) by Fourier transforms of short pieces.

    Parameters
    ----------
    path : str or path
        .npy, .npz, .mat or .zarr with snapshots (L, n) or (F, L, n), or .wav with one channel per sensor.
    key : str or None, default=None
        Name of the array in a file with several.
    band : (float, float) or None, default=None
        Lowest and highest frequency in hertz to use of a recording; None: all but the lowest and highest tenth.
    bins : int, default=8
        Number of frequencies to use of a recording: those with the most power in the band. A tone counts once, with its
        own frequency.
    window : float, default=0.032
        Length of a piece of a recording in seconds; pieces overlap by half.

    Returns
    -------
    recording : Recording
    """
    source = Path(path)
    if source.suffix.lower() == ".wav":
        rate, samples = _read_wav(source)
        return _transformed(samples, rate, band, check_integer(bins, "bins", low=1), check_number(window, "window"))
    if band is not None:
        raise ValueError(f"band= is for recordings (.wav); {source.name} holds snapshots")
    return Recording(files.read_array(source, key, prefer=("Y", "snapshots", "X")), None)


def read_array(path: str | os.PathLike[str], *, speed: float | None = None) -> Array:
    """Read the positions of sensors, one row each: x, or x y, or x y z.

    Parameters
    ----------
    path : str or path
        .csv, .npy, .npz or .mat.
    speed : float or None, default=None
        See :class:`Array`: positions are in wavelengths without, in metres with it.

    Returns
    -------
    array : Array
    """
    positions = _without_header(Path(path))
    if positions.ndim == 2 and positions.shape[0] == 1 and positions.shape[1] > 3:
        positions = positions[0]  # x of all sensors in one line
    return Array(positions, speed=speed)


def _without_header(path: Path) -> NDArray[Any]:
    """Read positions; a text file may begin with a line of names, such as x,y,z."""
    if path.suffix.lower() == ".csv" and path.is_file():
        with path.open(encoding="utf-8-sig", errors="replace") as stream:
            first = stream.readline(MOST_NAMES).strip().lower()
        if first and all(re.fullmatch(HEADER_NAME, name.strip(' "')) for name in first.split(",")):
            try:
                return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2, encoding="utf-8-sig")
            except ValueError as error:
                raise ValueError(f"cannot read {str(path)!r}: {error}") from error
    return files.read_array(path, prefer=("positions",))


def _read_wav(path: Path) -> tuple[int, NDArray[Any]]:
    from scipy.io import wavfile

    if not path.is_file():
        raise FileNotFoundError(f"{str(path)!r} is not a file")
    if path.stat().st_size > LARGEST_WAV:
        raise ValueError(f"{str(path)!r} has more than {LARGEST_WAV:,} bytes; cut it into parts")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of chunks that it does not know
            rate, samples = wavfile.read(path)
    except Exception as error:  # the parser raises anything for a damaged file
        raise ValueError(f"cannot read {str(path)!r} as a recording: {error or type(error).__name__}") from error
    if samples.ndim != 2 or rate <= 0:
        raise ValueError(f"{str(path)!r} has one channel; directions need one channel per sensor, at least 2")
    if samples.dtype.kind in "iu":
        middle = 128.0 if samples.dtype == np.uint8 else 0.0
        return int(rate), (samples - middle) / float(np.iinfo(samples.dtype).max)
    if not np.isfinite(samples).all():
        raise ValueError(f"{str(path)!r} holds samples that are not finite")
    return int(rate), samples.astype(np.float64)


def _transformed(samples: NDArray[Any], rate: int, band: Any, bins: int, window: float) -> Recording:
    """Return the strongest frequencies of a recording (T, n) as snapshots (F, L, n)."""
    length = round(window * rate)
    if length < 4:
        raise ValueError(f"window={window:g} s is only {length} samples at {rate} Hz; choose a longer one")
    if len(samples) < length:
        raise ValueError(
            f"the recording lasts {1e3 * len(samples) / rate:.3g} ms, but pieces of {1e3 * window:.3g} ms are needed: "
            "record longer, or read it with read_snapshots(..., window=) and a shorter window"
        )
    low, high = _band(band, rate)
    frequency = np.fft.rfftfreq(length, 1 / rate).astype(np.float64)
    inside = np.flatnonzero((frequency >= low) & (frequency <= high) & (frequency > 0))
    if not inside.size:
        raise ValueError(f"no frequency of the recording, 0 to {rate / 2:g} Hz, is in the band {low:g} to {high:g} Hz")
    hop = length // 2
    pieces = np.lib.stride_tricks.sliding_window_view(samples, length, axis=0)[::hop]  # (L, n, length)
    spectra = np.fft.rfft(pieces * np.hanning(length + 1)[:-1], axis=2) / np.sqrt(length)
    power = (np.abs(spectra) ** 2).mean(axis=(0, 1))
    if not power[inside].any():
        raise ValueError("the recording is silent in this band")
    heard, usable = tones(spectra, power, hop / rate, length / rate)
    inside = inside[usable[inside]]
    chosen = np.sort(inside[np.argsort(-power[inside], kind="stable")[:bins]])
    found = np.ascontiguousarray(spectra[:, :, chosen].transpose(2, 0, 1))
    return Recording(found, heard[chosen], length / rate)


def _band(band: Any, rate: int) -> tuple[float, float]:
    """Return the lowest and the highest frequency to use, both of the recording."""
    if band is None:
        return 0.05 * rate, 0.45 * rate
    low, high = float(band[0]), float(band[1])
    if not 0 <= low < high:
        raise ValueError(f"band must be a range (low, high) of frequencies in hertz, got ({low:g}, {high:g})")
    if high > rate / 2 > low:
        warnings.warn(
            f"the recording, at {rate} samples per second, ends at {rate / 2:g} Hz: the band {low:g} to {high:g} Hz is "
            "cut there",
            UserWarning,
            stacklevel=4,
        )
    return low, high
