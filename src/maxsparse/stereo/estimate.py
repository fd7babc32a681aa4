"""From a scene to a normal map."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import FloatArray, RandomState, check_choice, check_number, check_rng
from maxsparse.metrics import angular_error
from maxsparse.stereo.methods import check_options, find_method, takes_rng
from maxsparse.stereo.scene import FrameWarning, Scene

if TYPE_CHECKING:
    from maxsparse.stereo.near import NearLamps
    from maxsparse.stereo.self_calibration.estimate import LightEstimate

__all__ = ["NormalMap", "check_frame", "estimate_normals"]

KERNELS = 10  # that the first call compiles
RESIDUAL_PIXELS = 16384


@dataclass(frozen=True, eq=False, repr=False)
class NormalMap:
    """Normals of a scene with confidence and albedo; everything is zero outside the mask.

    Attributes
    ----------
    normals : ndarray of shape (H, W, 3)
        Unit vectors: x right, y up, z to the camera. Zero where the readings do not determine a normal.
    confidence : ndarray of shape (H, W)
        From 0 to 1.
    albedo : ndarray of shape (H, W)
        Diffuse reflectance in the units of the readings.
    inliers : ndarray of shape (H, W, q), bool
        Readings that the normal was fitted to.
    mask : ndarray of shape (H, W), bool
    method : str
    colour : ndarray of shape (H, W, 3)
        Albedo in colour; grey for grey photographs.
    error : ndarray of shape (H, W) or None
        Angular error in degrees where the true normals are known; NaN outside the mask and where no normal was found.
    residuals : ndarray of shape (q,)
        How badly every photograph fits to normals and albedo, relative to the albedo.
    scene : Scene
        With the lights that were used; for near lamps, those that the middle of the object sees.
    light_estimate : LightEstimate or None
        The lights that were estimated, with their expected errors; None if they were given.
    lamp_distance : float
        Distance of the lamps that was used, in widths of the picture; infinite for distant lights.
    """

    normals: FloatArray
    confidence: FloatArray
    albedo: FloatArray
    inliers: NDArray[np.bool_]
    mask: NDArray[np.bool_]
    method: str
    scene: Scene
    light_estimate: LightEstimate | None = None
    lamp_distance: float = math.inf

    @cached_property
    def colour(self) -> FloatArray:
        """Albedo in colour, (H, W, 3)."""
        chroma = self.scene.chroma
        tint = np.ones((*self.mask.shape, 3)) if chroma is None else self.scene.picture(chroma)
        return self.albedo[..., None] * tint

    @cached_property
    def error(self) -> NDArray[np.float64] | None:
        """Angular error in degrees, (H, W)."""
        truth = self.scene.normals
        if truth is None:
            return None
        picture = np.full(self.mask.shape, np.nan)
        picture[self.mask] = angular_error(self.normals[self.mask], truth[self.mask])
        return picture

    @cached_property
    def residuals(self) -> NDArray[np.float64]:
        """How badly every photograph fits, (q,): median of abs(reading / albedo − max(n·l, 0)), as if matt."""
        normals, albedo = self.normals[self.mask], self.albedo[self.mask]
        usable = np.flatnonzero((albedo > 0) & (self.confidence[self.mask] > 0))
        usable = usable[:: max(1, len(usable) // RESIDUAL_PIXELS)]
        if not len(usable):
            return np.full(len(self.scene.lights), np.nan)
        shading = np.maximum(normals[usable] @ self.scene.lights.T, 0.0)
        return np.asarray(np.median(np.abs(self.scene.readings[usable] / albedo[usable, None] - shading), axis=0))

    @property
    def missing(self) -> int:
        """Number of pixels in the mask without a normal: black under every light."""
        return int((~self.normals[self.mask].any(axis=1)).sum())

    @property
    def mean_error(self) -> float | None:
        """Mean angular error in degrees over the pixels that have a normal, None if the true normals are unknown."""
        return None if self.error is None else float(np.nanmean(self.error))

    def __repr__(self) -> str:
        H, W = self.mask.shape
        error = "" if self.mean_error is None else f", mean error {self.mean_error:.2f}°"
        share = self.inliers[self.mask].mean()
        found, dark = self.mask.sum() - self.missing, f", {self.missing} pixels without" if self.missing else ""
        return f"NormalMap({self.method}: {H}×{W}, {found} normals{dark}, {share:.0%} inliers{error})"


def estimate_normals(
    scene: Scene,
    method: str = "auto",
    *,
    lights: str = "known",
    intensities: str = "known",
    camera: ArrayLike | None = None,
    positions: ArrayLike | None = None,
    distance: float | None = None,
    lamp_distance: float | str | None = None,
    material: bool | None = None,
    context: bool | None = None,
    rng: RandomState = 0,
    n_threads: int | None = None,
    progress: bool = False,
    **options: Any,
) -> NormalMap:
    """Estimate the normal of every pixel in the mask.

    Parameters
    ----------
    scene : Scene
        From :func:`load` or :func:`make_scene`.
    method : str, default="auto"
        ``"auto"``, ``"consensus"``, ``"ls"``, ``"l1"``, ``"sbl"``, ``"rnd4"``, ``"network"`` (trains once per rig), or
        a registered one.
    lights : {"known", "estimate"}, default="known"
        "estimate": find directions and intensities of the lights from the photographs
        (:func:`maxsparse.stereo.estimate_lights`); the scene's own are not used.
    intensities : {"known", "estimate"}, default="known"
        "estimate": find the intensities of lights whose directions are known.
    camera : array-like of shape (3, 3) or None, default=None
        Camera matrix in pixels of a perspective camera; None is an orthographic one. Every pixel is then fitted in the
        frame of its own viewing ray (:func:`maxsparse.stereo.near.fit_near`), without `material`.
    positions : array-like of shape (q, 3) or None, default=None
        Positions of lamps that are near, instead of the scene's directions, in the unit of `distance`: the camera is at
        the origin, x right, y up, z against its view. Needs `camera` and `distance`. Intensities are those at equal
        distance.
    distance : float or None, default=None
        Distance of the object from the camera.
    lamp_distance : float, {"estimate", "far"} or None, default=None
        Distance of all lamps from the middle of the picture, in widths of the picture, for an orthographic camera; the
        scene's lights are then directions from there. "estimate" finds it in the photographs where they determine it,
        and takes the lights as distant where they do not (:func:`maxsparse.stereo.estimate_lamp_distance`). None means
        "estimate" for ``"auto"`` with known lights, else "far".
    material : bool or None, default=None
        Divide the readings by the common reflectance of all pixels and fit again, if readings and normals then agree
        better (:func:`maxsparse.stereo.material.fit_as_if_matt`); if they agree very well, refit with an even albedo
        (:func:`maxsparse.stereo.even_albedo.refit_evenly`). None means True for ``"auto"`` only.
    context : bool or None, default=None
        Let normals whose expected error is large lean on their neighbours
        (:func:`maxsparse.stereo.fitting.lean.lean_on_neighbours`). For ``"auto"`` only, where None means True.
    rng : int, numpy.random.Generator or None, default=0
        For methods that use random numbers.
    n_threads : int or None, default=None
        Number of threads; None uses all cores.
    progress : bool, default=False
        Show a progress bar on a terminal if it takes more than two seconds.
    **options
        Other options of the method: ``minutes=8`` first fine-tunes the network of ``"auto"`` to the scene's lights,
        once per rig (:func:`maxsparse.stereo.methods.auto.auto`).

    Returns
    -------
    result : NormalMap
        ``.normals`` is (H, W, 3) and zero outside the mask.

    Warns
    -----
    FrameWarning
        If the lights seem to be given in another frame than x right, y up, z to the camera.
    LightsWarning
        If lights are to be estimated, but the photographs do not determine them.

    Examples
    --------
    A matt ball, with one light blocked:

    >>> import numpy as np
    >>> import maxsparse as ms
    >>> y, x = np.mgrid[1:-1:64j, -1:1:64j]
    >>> inside = x**2 + y**2 < 0.9
    >>> n = np.dstack([x, y, np.sqrt(np.maximum(1 - x**2 - y**2, 0))])
    >>> L = ms.stereo.hemisphere_lights(12, rng=0)
    >>> images = np.maximum(np.einsum("hwi,qi->qhw", n, L), 0)
    >>> images[3] = 0
    >>> scene = ms.stereo.make_scene(images, L, mask=inside, normals=n)
    >>> ms.stereo.estimate_normals(scene, method="ls").mean_error > 5
    True
    >>> ms.stereo.estimate_normals(scene, method="consensus").mean_error < 0.01
    True
    """
    from maxsparse._core.compiled import compiling  # compiled code: loaded on first use
    from maxsparse._core.threads import threads
    from maxsparse.stereo.fit_scene import Pieces, find_lamps, fit_scene
    from maxsparse.stereo.near import as_if_distant, check_positions, fit_near
    from maxsparse.stereo.self_calibration.estimate import estimate_lights
    from maxsparse.stereo.self_calibration.intensities import estimate_intensities

    solver = find_method(method)
    check_options(method, options)
    if takes_rng(solver):
        options["rng"] = check_rng(rng)
    check_choice(lights, "lights", ("known", "estimate"))
    check_choice(intensities, "intensities", ("known", "estimate"))
    if positions is not None:
        if camera is None:
            raise ValueError("positions of lamps need the camera matrix too, as camera=")
        positions = check_positions(positions, scene.readings.shape[1])
    if camera is not None and (lights == "estimate" or intensities == "estimate"):
        raise ValueError("lights can be estimated for an orthographic camera and distant lights only; omit camera=")
    if lights == "known" and not scene.lights_known and positions is None:
        raise ValueError('the scene has no light directions; pass lights="estimate" to find them in the photographs')
    own = method == "auto"
    if context and not own:
        raise ValueError(f"context=True needs the expected errors of method='auto', got method={method!r}; omit it")
    if camera is not None and (material or lamp_distance not in (None, "far")):
        raise ValueError("material=True and lamp_distance= need an orthographic camera; omit camera=")
    far = _check_lamp_distance(lamp_distance, own and lights == "known" and camera is None)
    chosen = partial(solver, **options)
    estimate: LightEstimate | None = None
    lamps: NearLamps | None = None
    with threads(n_threads), compiling(KERNELS):
        if lights == "estimate":
            estimate = estimate_lights(scene, rng=rng)
        elif intensities == "estimate":
            estimate = estimate_intensities(scene, lamp_distance=far, rng=rng)
        if estimate is not None:
            scene = estimate.applied(scene)
        if camera is not None:
            fit = fit_near(scene, chosen, camera, positions=positions, distance=distance)
            if positions is not None and distance is not None:
                scene = as_if_distant(scene, camera, positions, distance)
        else:
            lamps = None if far == math.inf else find_lamps(scene, far, progress=progress)
            pieces = Pieces(scene, lamps, progress)
            fit = fit_scene(
                pieces,
                chosen,
                method,
                material=own if material is None else material,
                context=own if context is None else context,
            )
    result = NormalMap(
        scene.picture(fit.normals),
        scene.picture(fit.confidence),
        scene.picture(fit.albedo),
        scene.picture(fit.inliers),
        scene.mask,
        method,
        scene,
        estimate,
        math.inf if lamps is None else lamps.distance / scene.mask.shape[1],
    )
    check_frame(result.normals, result.mask)
    return result


def _check_lamp_distance(given: float | str | None, estimated: bool) -> float | None:
    """Return the distance in widths of the picture: infinite for distant lights, None where it is to be estimated."""
    if given is None:
        return None if estimated else math.inf
    if isinstance(given, str):
        check_choice(given, "lamp_distance", ("estimate", "far"))
        return None if given == "estimate" else math.inf
    if check_number(given, "lamp_distance", low=0.0) == 0.0:
        raise ValueError("lamp_distance must be above 0, got 0; pass lamp_distance='far' for distant lights")
    return float(given)


def check_frame(normals: FloatArray, mask: NDArray[np.bool_]) -> None:
    """Warn if normals point away from the camera, or form a surface only with y flipped.

    Parameters
    ----------
    normals : ndarray of shape (H, W, 3)
    mask : ndarray of shape (H, W), bool

    Notes
    -----
    Slopes of a surface have no curl: ∂p/∂y = ∂q/∂x. With y the wrong way round the two have opposite signs, which the
    medians of their sum and difference show.
    """
    away = float((normals[mask][:, 2] < 0).mean())
    if away > 0.5:
        warnings.warn(
            f"{away:.0%} of the normals point away from the camera; the frame is x right, y up, z towards the camera: "
            "check the sign of z of the lights",
            FrameWarning,
            stacklevel=3,
        )
        return
    steep = normals[..., 2] > 0.2
    depth = np.where(steep, normals[..., 2], 1.0)
    p, q = -normals[..., 0] / depth, -normals[..., 1] / depth
    whole = mask & steep
    inner = whole[:-1, :-1] & whole[1:, :-1] & whole[:-1, 1:] & whole[1:, 1:]
    if inner.sum() < 500:
        return
    across = (p[:-1] - p[1:])[:, :-1][inner]  # ∂p/∂y: rows go down, y goes up
    along = (q[:, 1:] - q[:, :-1])[:-1][inner]
    right, wrong = np.median(np.abs(across - along)), np.median(np.abs(across + along))
    if wrong < 0.5 * right:
        warnings.warn(
            "the normals form a surface only if one axis is flipped; the frame is x right, y up: pass "
            "lights * [1, -1, 1] if your y points down, or lights * [-1, 1, 1] if your x points left",
            FrameWarning,
            stacklevel=3,
        )
