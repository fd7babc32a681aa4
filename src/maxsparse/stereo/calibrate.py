"""Light directions from photographs of a chrome ball."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import FloatArray
from maxsparse.stereo.images import read_image
from maxsparse.stereo.readers import find_mask, photographs
from maxsparse.stereo.scene import LUMA, to_float

__all__ = ["Calibration", "calibrate_lights"]

BRIGHT = 0.9  # share of the ball's maximum brightness above which a pixel belongs to the highlight


@dataclass(frozen=True, eq=False)
class Calibration:
    """Lights found on a chrome ball.

    Attributes
    ----------
    lights : ndarray of shape (q, 3)
        Unit directions: x right, y up, z to the camera.
    highlights : ndarray of shape (q, 2)
        Column and row of the highlights in pixels.
    center : (float, float)
        Column and row of the ball's centre.
    radius : float
        In pixels.
    names : tuple of str
        Names of the photographs.
    """

    lights: NDArray[np.float64]
    highlights: NDArray[np.float64]
    center: tuple[float, float]
    radius: float
    names: tuple[str, ...]


def calibrate_lights(
    folder: str | os.PathLike[str], *, mask: str | os.PathLike[str] | ArrayLike | None = None
) -> Calibration:
    r"""Find the direction of the light in every photograph of a mirror ball.

    A distant camera looks along :math:`v = (0, 0, 1)`. At the highlight, the ball's normal n bisects the angle
    between light and camera, so

    .. math:: l = 2 (n^\top v)\, n - v, \qquad n = \big((c - c_0)/R,\; -(r - r_0)/R,\; \cdot\big)

    with the highlight in column c and row r.

    Parameters
    ----------
    folder : str or path
        Photographs of the ball, one per light, and its mask as an image named mask.
    mask : path or array-like of shape (H, W), default=None
        The mask, if it is not in the folder.

    Returns
    -------
    calibration : Calibration

    Notes
    -----
    The highlight is the connected region of nearly maximal brightness in the ball; its centre is weighted by
    brightness. An error of one pixel shifts the light by about 2/R radians.

    See Also
    --------
    load : Uses the lights found here.
    """
    source = Path(folder)
    paths = photographs(source)
    if not paths:
        raise ValueError(f"{str(source)!r} holds no photographs of a ball")
    first = read_image(paths[0])
    region = find_mask(source, mask, first.shape[:2])
    if region.all():
        raise ValueError(f"no mask of the ball: put an image named mask into {str(source)!r}, or pass mask=")
    center, radius = _circle(region)
    rows, columns = np.indices(region.shape)
    inside: NDArray[np.bool_] = np.asarray((columns - center[0]) ** 2 + (rows - center[1]) ** 2 <= (0.98 * radius) ** 2)
    lights, highlights = np.empty((len(paths), 3)), np.empty((len(paths), 2))
    for i, path in enumerate(paths):
        image = first if i == 0 else read_image(path)
        if image.shape[:2] != region.shape:
            raise ValueError(f"image {path.name!r} is {image.shape[:2]}, but the first is {region.shape}")
        grey = to_float(image, path.name)
        highlights[i] = _highlight(grey @ LUMA if grey.ndim == 3 else grey, inside, path.name)
        x, y = (highlights[i, 0] - center[0]) / radius, (center[1] - highlights[i, 1]) / radius
        n = np.array([x, y, np.sqrt(max(0.0, 1.0 - x * x - y * y))])
        lights[i] = 2.0 * n[2] * n - np.array([0.0, 0.0, 1.0])
    return Calibration(lights, highlights, center, radius, tuple(path.name for path in paths))


def _circle(region: NDArray[np.bool_]) -> tuple[tuple[float, float], float]:
    """Return centre (column, row) and radius of a round mask."""
    rows, columns = np.nonzero(region)
    radius = float(np.sqrt(region.sum() / np.pi))
    height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
    if abs(height - width) > 0.1 * max(height, width) or abs(0.5 * width - radius) > 0.1 * radius:
        raise ValueError(
            f"the mask is {width}×{height} pixels with {region.sum()} set, which is not a disc; "
            "the whole ball must be in the picture and nothing else in the mask"
        )
    return (float(columns.mean()), float(rows.mean())), radius


def _highlight(grey: FloatArray, inside: NDArray[np.bool_], name: str) -> NDArray[np.float64]:
    """Return column and row of the highlight."""
    from scipy import ndimage

    values = np.where(inside, grey, 0.0)
    peak = values.max()
    if peak <= 0 or peak < 2.0 * np.median(grey[inside]):
        raise ValueError(f"image {name!r} shows no highlight on the ball")
    labels, count = ndimage.label(values >= BRIGHT * peak)
    spot = labels == 1 + int(np.argmax(ndimage.sum_labels(values, labels, np.arange(1, count + 1))))
    row, column = ndimage.center_of_mass(values * spot)
    return np.array([column, row])
