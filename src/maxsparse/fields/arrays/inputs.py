"""Checks of snapshots and options, and what the search needs of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import check_array, check_number
from maxsparse.fields.arrays.geometry import Array
from maxsparse.fields.arrays.likelihood import Data, with_volume

__all__ = ["checked", "data_of"]


def checked(
    Y: ArrayLike,
    array: Array,
    noise: Any,
    frequencies: Any,
    azimuth: Any,
    elevation: Any,
    calibration: Any,
    window: Any,
) -> Data:
    """Check the arguments of ``estimate_directions``; return what the search needs of them."""
    if not isinstance(array, Array):
        n = np.shape(Y)[-1] if np.ndim(Y) > 1 else 8
        raise ValueError(
            f"array must be an Array with the positions of the sensors, such as arrays.linear({n}, spacing=0.5), got "
            f"{array!r}"
        )
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
    data = data_of(snapshots.astype(np.complex128), array, noise, bands, azimuth, elevation, calibration)
    return data if window is None else data._replace(blur=array.blur(window))


def data_of(Y: NDArray[Any], array: Array, noise: Any, bands: Any, azimuth: Any, elevation: Any, error: Any) -> Data:
    """Return what the search needs of snapshots (F, L, n)."""
    half = (-90.0, 90.0)
    view = [_limits(azimuth, "azimuth", half if array.on_a_line else (-180.0, 180.0), 360.0)]
    if elevation is not None:
        if array.on_a_line:
            raise ValueError("sensors in a row on the x axis cannot tell elevations: omit elevation=")
        view.append(_limits(elevation, "elevation", half, 180.0, within=half))
    low, high = np.array(_everywhere(array, view)).T
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
        (np.array([limits[0] for limits in view]), np.array([limits[1] for limits in view])),
        check_number(error, "calibration", low=0.0, high=1.0),
        None if sigma is None else sigma**2,
    )
    return with_volume(data)


def _everywhere(array: Array, view: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return where sources are looked for: those outside the field of view would look like others inside."""
    low, high = view[0]
    if high - low >= 360.0:
        azimuths = (low, high)
    else:
        azimuths = (-90.0, 90.0) if array.on_a_line and low >= -90.0 and high <= 90.0 else (-180.0, 180.0)
    if len(view) == 1:
        return [azimuths]
    flat = not np.ptp(array.positions[:, 2])  # elevations look like their negatives
    low, high = view[1]
    return [azimuths, (0.0 if flat and low >= 0 else -90.0, 0.0 if flat and high <= 0 else 90.0)]


def _limits(
    given: Any, name: str, usual: tuple[float, float], widest: float, within: tuple[float, float] | None = None
) -> tuple[float, float]:
    if given is None:
        return usual
    if np.shape(given) != (2,):
        raise ValueError(f"{name} must be a range (low, high) in degrees, got {given!r}")
    low, high = float(given[0]), float(given[1])
    if not 0 < high - low <= widest:
        raise ValueError(f"{name} must be a range (low, high) of at most {widest:g}°, got ({low:g}, {high:g})")
    if within is not None and not within[0] <= low < high <= within[1]:
        raise ValueError(f"{name} must be within {within[0]:g}° to {within[1]:g}°, got ({low:g}, {high:g})")
    return low, high
