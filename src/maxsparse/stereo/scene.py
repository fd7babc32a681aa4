"""The input of photometric stereo: readings of every pixel under every light.

Frame everywhere: x to the right, y **up**, z towards the camera. A light's direction points from the object to the
light, a normal points away from the surface.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import FloatArray, check_matrix

__all__ = ["FrameWarning", "LightsWarning", "Scene", "check_lights", "make_scene", "spread"]

MIN_LIGHTS = 4  # three determine a normal, but detect no outlier
LUMA = np.array([0.299, 0.587, 0.114])


class FrameWarning(UserWarning):
    """Lights or normals seem to be given in another frame than x right, y up, z to the camera."""


class LightsWarning(UserWarning):
    """The lights are badly placed, so that normals are inaccurate."""


@dataclass(frozen=True, eq=False, repr=False)
class Scene:
    """Readings of P pixels under q lights, and the positions of the pixels.

    Attributes
    ----------
    readings : ndarray of shape (P, q), float32
        Linear grey values, divided by the lights' intensities; one row per pixel of the mask, in row-major order.
    lights : ndarray of shape (q, 3)
        Unit directions to the lights: x right, y up, z to the camera; NaN if they are unknown.
    mask : ndarray of shape (H, W), bool
        Pixels that show the object.
    normals : ndarray of shape (H, W, 3) or None
        True normals if known, zero outside the mask.
    chroma : ndarray of shape (P, 3) or None
        Colour of every pixel relative to its grey value; None for grey photographs.
    names : tuple of str
        Name of every photograph.

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> lights = ms.stereo.hemisphere_lights(10, rng=0)
    >>> images = np.full((10, 4, 5), 0.5)
    >>> ms.stereo.make_scene(images, lights)
    Scene(4×5, 20 pixels in the mask, 10 lights)
    """

    readings: NDArray[np.float32]
    lights: NDArray[np.float64]
    mask: NDArray[np.bool_]
    normals: FloatArray | None = None
    chroma: NDArray[np.float32] | None = None
    names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        H, W = self.mask.shape
        unknown = "" if self.lights_known else ", directions unknown"
        truth = ", true normals" if self.normals is not None else ""
        return f"Scene({H}×{W}, {self.readings.shape[0]} pixels in the mask, {len(self.lights)} lights{unknown}{truth})"

    @property
    def lights_known(self) -> bool:
        """Whether the scene has light directions."""
        return bool(np.isfinite(self.lights).all())

    def select(self, lights: Sequence[int] | NDArray[np.intp]) -> Scene:
        """Return the scene with only some of its lights.

        Parameters
        ----------
        lights : sequence of int, or mask of shape (q,)
            Indices of at least four lights that are not coplanar; or True for those to keep.

        Returns
        -------
        scene : Scene
        """
        chosen = _numbers(lights, len(self.lights))
        names = tuple(self.names[i] for i in chosen) if self.names else ()
        directions = check_lights(self.lights[chosen] if self.lights_known else None, len(chosen))
        return replace(self, readings=self.readings[:, chosen], lights=directions, names=names)

    def picture(self, values: ArrayLike) -> NDArray[Any]:
        """Arrange values of the P pixels, (P, …), as an (H, W, …) picture that is zero outside the mask."""
        return spread(np.asarray(values), self.mask)


def _numbers(lights: ArrayLike, q: int) -> NDArray[np.intp]:
    """Return the indices of the lights in a list or a mask."""
    chosen = np.asarray(lights)
    if chosen.dtype == bool:
        if chosen.shape != (q,):
            raise ValueError(f"a mask of the lights must have shape ({q},), got {chosen.shape}")
        return np.flatnonzero(chosen)
    if chosen.ndim != 1 or (chosen.size and not np.issubdtype(chosen.dtype, np.integer)):
        raise ValueError(f"lights must be a list of whole numbers or a mask, got {lights!r}")
    if chosen.size and not (-q <= chosen.min() and chosen.max() < q):
        raise ValueError(f"there are lights 0 to {q - 1}, got {chosen[(chosen < -q) | (chosen >= q)][0]}")
    return chosen.astype(np.intp)


def spread(values: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
    """Arrange values (P, …) of the pixels of a mask (H, W) as an (H, W, …) picture, zero elsewhere."""
    picture = np.zeros((*mask.shape, *values.shape[1:]), dtype=values.dtype)
    picture[mask] = values
    return picture


def make_scene(
    images: ArrayLike,
    lights: ArrayLike | None,
    *,
    mask: ArrayLike | None = None,
    intensities: ArrayLike | None = None,
    normals: ArrayLike | None = None,
    names: Sequence[str] = (),
) -> Scene:
    """Build a scene from arrays.

    Parameters
    ----------
    images : array-like of shape (q, H, W), (q, H, W, 3), or with a mask also (q, P) or (q, P, 3)
        Linear photographs. Integers are divided by the largest value of their type; floats are not scaled.
    lights : array-like of shape (q, 3) or None
        Directions to the lights, scaled to length 1 here; None if they are unknown, for
        ``estimate_normals(scene, lights="estimate")``.
    mask : array-like of shape (H, W) or None, default=None
        Nonzero where the object is; None means every pixel.
    intensities : array-like of shape (q,) or (q, 3), or None, default=None
        Brightness of every light, which the readings are divided by.
    normals : array-like of shape (H, W, 3) or (P, 3), or None, default=None
        True normals.
    names : sequence of str, default=()
        Names of the photographs.

    Returns
    -------
    scene : Scene

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> scene = ms.stereo.make_scene(np.ones((5, 2, 3), dtype=np.uint8), ms.stereo.hemisphere_lights(5, rng=0))
    >>> scene.readings.shape, float(scene.readings[0, 0] * 255)
    ((6, 5), 1.0)
    """
    stack = np.asarray(images)
    if stack.ndim not in (2, 3, 4):
        raise ValueError(f"images must be (q, H, W) or (q, H, W, 3), got shape {stack.shape}")
    if 0 in stack.shape:
        raise ValueError(f"images of shape {stack.shape} contain no pixels")
    given = None if mask is None else np.asarray(mask)
    if given is not None and np.issubdtype(given.dtype, np.floating) and np.isnan(given).any():
        raise ValueError("mask holds NaN; use True or False for every pixel")
    region = None if given is None else given != 0
    if region is not None and (region.ndim != 2 or not region.any()):
        raise ValueError(f"mask must be 2-D with at least one pixel set, got shape {region.shape}")
    flat = _at_pixels(stack, region)
    if region is None:
        region = np.ones(stack.shape[1:3], dtype=bool)
    q, P, channels = flat.shape
    directions = check_lights(lights, q)
    brightness = check_intensities(intensities, q)
    collector = Collector(P, q)
    for i in range(q):
        collector.add(i, to_float(flat[i], f"image {i}"), brightness[i])
    truth = None if normals is None else _truth(np.asarray(normals), region)
    return Scene(collector.readings, directions, region, truth, collector.chroma(channels), tuple(names))


class Collector:
    """Collects photographs one by one, so that a stack of colour images never has to be in memory."""

    def __init__(self, pixels: int, q: int) -> None:
        self.readings = np.empty((pixels, q), dtype=np.float32)
        self._colour = np.zeros((pixels, 3))

    def add(self, number: int, values: FloatArray, intensity: NDArray[np.float64]) -> None:
        """Add the pixels (P, c) of one photograph, c = 1 or 3 channels."""
        if not np.isfinite(values).all():
            raise ValueError(
                f"image {number} holds NaN or Inf inside the mask; repair it, or exclude these pixels from the mask"
            )
        values = values / (intensity if values.shape[1] == 3 else intensity @ LUMA)
        self.readings[:, number] = values @ LUMA if values.shape[1] == 3 else values[:, 0]
        self._colour += values

    def chroma(self, channels: int) -> NDArray[np.float32] | None:
        """Return the colour of every pixel relative to its grey value, (P, 3)."""
        if channels != 3:
            return None
        grey = np.maximum(self._colour @ LUMA, 1e-12)
        colour: NDArray[np.float32] = (self._colour / grey[:, None]).astype(np.float32)
        return colour


def check_lights(lights: ArrayLike | None, q: int) -> NDArray[np.float64]:
    """Return q light directions (q, 3) scaled to length 1, NaN for None; refuse too few, zero and coplanar ones."""
    if lights is None:
        check_count(q)
        return np.full((q, 3), np.nan)
    directions: NDArray[np.float64] = check_matrix(lights, "lights").astype(np.float64)
    if directions.shape[1] != 3:
        hint = "; they fit transposed, pass lights.T" if directions.shape[0] == 3 else ""
        raise ValueError(f"lights must have 3 columns (x, y, z), got shape {directions.shape}{hint}")
    if len(directions) != q:
        raise ValueError(f"there are {q} images but {len(directions)} lights; each image needs its own light")
    check_count(q)
    size = np.linalg.norm(directions, axis=1, keepdims=True)
    if (size == 0).any():
        raise ValueError(f"light {int(np.argmin(size))} is the zero vector; a light needs a direction")
    directions = directions / size
    sigma = np.linalg.svd(directions, compute_uv=False)
    if sigma[2] < 1e-6 * sigma[0]:
        raise ValueError("the lights are coplanar and do not determine a normal; add a light outside their plane")
    if sigma[2] < 1e-2 * sigma[0]:
        warnings.warn(
            f"the lights are almost coplanar: errors of the readings grow {sigma[0] / sigma[2]:.0f}-fold",
            LightsWarning,
            stacklevel=3,
        )
    if (directions[:, 2] < 0).mean() > 0.5:
        warnings.warn(
            "most lights have z < 0, behind the object; the frame is x right, y up, z towards the camera: "
            "if yours points away from it, pass lights * [1, 1, -1]",
            FrameWarning,
            stacklevel=3,
        )
    return directions


def check_count(q: int) -> None:
    """Refuse fewer than four lights."""
    if q < MIN_LIGHTS:
        raise ValueError(
            f"there are {q} lights; at least {MIN_LIGHTS} are needed: 3 determine a normal, more can detect outliers"
        )


def check_intensities(intensities: ArrayLike | None, q: int) -> NDArray[np.float64]:
    """Return (q, 3) positive intensities from (q,), (q, 1), (q, 3) or None."""
    if intensities is None:
        return np.ones((q, 3))
    values = np.asarray(intensities, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or values.shape[0] != q or values.shape[1] not in (1, 3):
        raise ValueError(f"intensities must have shape ({q},) or ({q}, 3), one row per image, got {values.shape}")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError("intensities must be finite and positive")
    return np.broadcast_to(values, (q, 3)).copy()


def to_float(values: NDArray[Any], name: str) -> FloatArray:
    """Return linear values as floats: integers divided by the largest value of their type."""
    if np.issubdtype(values.dtype, np.floating):
        return values.astype(np.float64, copy=False)
    if values.dtype == bool:
        return values.astype(np.float64)
    if not np.issubdtype(values.dtype, np.unsignedinteger):
        raise ValueError(f"{name} has dtype {values.dtype}; 8- or 16-bit unsigned integers or floats are needed")
    return values / float(np.iinfo(values.dtype).max)


def _at_pixels(stack: NDArray[Any], region: NDArray[np.bool_] | None) -> NDArray[Any]:
    """Return the stack at the pixels of the mask, (q, P, c)."""
    picture_like = stack.ndim == 4 or (stack.ndim == 3 and (region is None or stack.shape[1:] == region.shape))
    if picture_like:
        if region is not None and stack.shape[1:3] != region.shape:
            raise ValueError(f"images are {stack.shape[1]}×{stack.shape[2]} but the mask is {region.shape}")
        full = stack if stack.ndim == 4 else stack[..., None]
        flat = full.reshape(len(full), -1, full.shape[-1]) if region is None else full[:, region]
    else:
        if region is None:
            raise ValueError(f"images of shape {stack.shape} are the pixels of a mask, but no mask was given")
        flat = stack if stack.ndim == 3 else stack[..., None]
        if flat.shape[1] != region.sum():
            raise ValueError(f"images hold {flat.shape[1]} pixels, but the mask has {int(region.sum())} set")
    if flat.shape[2] not in (1, 3):
        raise ValueError(f"images must have 1 or 3 channels, got {flat.shape[2]}")
    return flat


def _truth(normals: NDArray[Any], region: NDArray[np.bool_]) -> FloatArray:
    """Return true normals as an (H, W, 3) picture."""
    listed = normals.shape == (int(region.sum()), 3)
    if not listed and normals.shape != (*region.shape, 3):
        raise ValueError(f"true normals have shape {normals.shape}, but the mask is {region.shape}")
    inside = normals.astype(np.float64) if listed else normals[region].astype(np.float64)
    if not np.isfinite(inside).all():
        raise ValueError("the true normals hold NaN or Inf inside the mask; exclude these pixels from the mask")
    return spread(inside, region)
