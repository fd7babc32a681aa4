"""Directions and intensities of the lights from the photographs of an object."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.threads import threads
from maxsparse._core.validation import FloatArray, RandomState, check_rng
from maxsparse.stereo.scene import LightsWarning, Scene
from maxsparse.stereo.self_calibration.cues import collect, lights_of
from maxsparse.stereo.self_calibration.factorise import factorise, shrink, usable
from maxsparse.stereo.self_calibration.relief import settle_relief
from maxsparse.stereo.self_calibration.resolve import Resolved, resolve

__all__ = ["LightEstimate", "bright_pixels", "estimate_lights"]

MOST_PIXELS = 10000  # used; larger pictures are averaged down to them
FEWEST_PIXELS = 200
FEWEST_LIGHTS = 6  # five unknowns per photograph and surface of rank 3 leave outliers unnoticed below
MARGIN = 10.0  # of the cost, by which another answer must be worse
LARGEST_ERROR = 12.0  # degrees of expected error above which the lights count as not determined


@dataclass(frozen=True, eq=False, repr=False)
class LightEstimate:
    """Lights found in the photographs themselves.

    Attributes
    ----------
    lights : ndarray of shape (q, 3)
        Unit directions: x right, y up, z to the camera.
    intensities : ndarray of shape (q,)
        With median 1.
    error : ndarray of shape (q,)
        Expected error of every direction in degrees.
    determined : bool
        Whether the photographs determine the lights.
    reasons : tuple of str
        Why they do not; empty if they do.
    rival : ndarray of shape (q, 3) or None
        Other directions that explain the photographs almost as well.
    before : ndarray of shape (q, 3) or None
        Directions that the scene had, to compare with; they were not used.
    """

    lights: NDArray[np.float64]
    intensities: NDArray[np.float64]
    error: NDArray[np.float64]
    reasons: tuple[str, ...] = ()
    rival: NDArray[np.float64] | None = None
    before: NDArray[np.float64] | None = None

    @property
    def determined(self) -> bool:
        """Whether the photographs determine the lights."""
        return not self.reasons

    def __repr__(self) -> str:
        doubt = "" if self.determined else ", not determined"
        return f"LightEstimate({len(self.lights)} lights, expected error {self.error.mean():.1f}°{doubt})"

    def applied(self, scene: Scene) -> Scene:
        """Return the scene with these lights, its readings divided by the intensities."""
        readings = (scene.readings / self.intensities).astype(scene.readings.dtype)
        return replace(scene, readings=readings, lights=self.lights)


def estimate_lights(scene: Scene, *, rng: RandomState = 0) -> LightEstimate:
    """Estimate the directions and intensities of all lights from the photographs alone.

    Readings are factorised into a surface and lights, without shadows and highlights; the 3×3 matrix that this leaves
    open is found from integrability, even albedo, the silhouette and the intensities
    (:func:`maxsparse.stereo.self_calibration.cues.residuals`). Then normals are fitted with ``auto``, the readings are
    divided by the material that they show, and both steps are repeated. Last, the depth of the relief is the one for
    which one material explains the readings best (:func:`maxsparse.stereo.self_calibration.relief.settle_relief`).

    Parameters
    ----------
    scene : Scene
        At least six photographs; its lights are not used. The mask should be that of the whole object: its silhouette
        is used.
    rng : int, numpy.random.Generator or None, default=0
        Draws the pixels that are compared.

    Returns
    -------
    estimate : LightEstimate

    Warns
    -----
    LightsWarning
        If the photographs do not determine the lights; the best guess is returned.

    Examples
    --------
    A matt ball:

    >>> import numpy as np
    >>> import maxsparse as ms
    >>> y, x = np.mgrid[1:-1:64j, -1:1:64j]
    >>> inside = x**2 + y**2 < 0.95
    >>> n = np.dstack([x, y, np.sqrt(np.maximum(1 - x**2 - y**2, 0))])
    >>> L = ms.stereo.hemisphere_lights(12, lowest=0.4, rng=0)
    >>> scene = ms.stereo.make_scene(np.maximum(np.einsum("hwi,qi->qhw", n, L), 0), None, mask=inside)
    >>> found = ms.stereo.estimate_lights(scene)
    >>> found.determined, bool(ms.metrics.angular_error(found.lights, L).mean() < 3)
    (True, True)
    """
    with threads(None):  # rounding errors of BLAS depend on the number of threads
        resolved, directions, intensities = _find_lights(scene, check_rng(rng))
    reasons = _reasons(resolved, directions)
    for reason in reasons:
        warnings.warn(f"the photographs do not determine the lights: {reason}", LightsWarning, stacklevel=2)
    rival = None if resolved.margin > MARGIN else resolved.rival
    before = scene.lights if scene.lights_known else None
    return LightEstimate(directions, intensities / np.median(intensities), resolved.error, reasons, rival, before)


def _find_lights(
    scene: Scene, generator: np.random.Generator
) -> tuple[Resolved, NDArray[np.float64], NDArray[np.float64]]:
    """Return what the cues say, directions (q, 3) and intensities (q,)."""
    from maxsparse.stereo.material import find_material
    from maxsparse.stereo.methods.auto import auto

    readings, mask = bright_pixels(scene)
    factors = factorise(readings, generator)
    resolved = resolve(collect(factors, mask, generator), factors.surface)
    directions, intensities = lights_of(resolved.A, factors.lights)
    even = readings / intensities
    fit = auto(even, directions)
    material = find_material(even, directions, fit)
    if material is not None:
        factors = factorise(material.divided_out(even, directions, fit.normals) * intensities, generator)
        start = np.linalg.inv(np.linalg.lstsq(factors.lights / intensities[:, None], directions, rcond=None)[0])
        cues = collect(factors, mask, generator)
        again = resolve(cues, factors.surface, start)
        resolved = replace(again, margin=resolved.margin, rival=resolved.rival)
        A = settle_relief(again.A, cues, factors.lights, readings, generator)
        directions, intensities = lights_of(A, factors.lights)
    return resolved, directions, intensities


def bright_pixels(scene: Scene) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the readings of at most MOST_PIXELS pixels, or blocks of them, that are not dark, and their mask."""
    q = scene.readings.shape[1]
    if q < FEWEST_LIGHTS:
        raise ValueError(f"there are {q} photographs; at least {FEWEST_LIGHTS} are needed to estimate their lights")
    readings, mask = shrink(np.maximum(scene.readings, 0.0), scene.mask, MOST_PIXELS)
    bright = usable(readings)
    if bright.sum() < FEWEST_PIXELS:
        raise ValueError(
            f"{int(bright.sum())} pixels of the mask are bright enough; at least {FEWEST_PIXELS} are needed to "
            "estimate lights"
        )
    mask = mask.copy()
    mask[mask] = bright
    return readings[bright], mask


def _reasons(resolved: Resolved, directions: FloatArray) -> tuple[str, ...]:
    """Return why lights are not determined, in sentences."""
    found = []
    error = float(resolved.error.mean())
    if not error < LARGEST_ERROR:
        found.append(
            f"their expected error is {min(error, 90.0):.0f}°; a more curved object, more lights, or lights from more "
            "directions help"
        )
    if resolved.margin < MARGIN and resolved.rival is not None:
        turned = resolved.rival[:, :2] * -1.0
        convex = np.abs(turned - directions[:, :2]).max() < 0.1
        what = "a hollow object under the opposite lights" if convex else "another object under other lights"
        found.append(f"{what} explains them as well; show the whole silhouette of the object, and mask it")
    return tuple(found)
