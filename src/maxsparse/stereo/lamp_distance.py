"""How far away the lamps are, from the photographs: the brightness of near lamps differs over the object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maxsparse._core.validation import FloatArray
from maxsparse.stereo.scene import Scene

if TYPE_CHECKING:
    from maxsparse.stereo.fitting.fit import Fit
    from maxsparse.stereo.fitting.lamp_misfit import SomePixels

__all__ = ["LampDistance", "distance_from", "estimate_lamp_distance"]

PIXELS = 2000  # used at most
FEWEST = 200
FEWEST_LIGHTS = 6
STEEPEST = 0.25  # n_z below which depth is not reliable
SURE = 0.3  # quantile of the confidence below which pixels are not used
START, NEAR_START = 0.02, 0.2  # bend, and inverse distance in widths of the picture, at which searches start
TOLERANCE = 2e-3
LEAST = 0.08  # inverse distance up to which lamps count as distant: a dozen widths of the picture
DEGENERATE = 0.9  # share of the variance of places that may follow from normals; all of it on a ball
BLOCKS = 40  # of pixels, whose spread tells the standard error


@dataclass(frozen=True)
class LampDistance:
    """Distance of the lamps from the middle of the picture.

    Attributes
    ----------
    distance : float
        In widths of the picture; infinite if the photographs agree best with distant lights.
    gain : float
        By what share the misfit of the readings falls, compared with what normals alone can explain.
    determined : bool
        Whether the gain is above 1 % + 0.1/q and three times its standard error.
    """

    distance: float
    gain: float
    determined: bool


def estimate_lamp_distance(scenes: Scene | Sequence[Scene]) -> LampDistance:
    r"""Estimate the common distance of all lamps of a rig from the photographs of one object or several.

    A lamp at distance D in direction :math:`l_i` lights the point x of a matt surface with

    .. math:: o_i = \rho\, n^\top (l_i - x/D)\, /\, \|l_i - x/D\|^3

    so that points nearer to a lamp are brighter. For every D each pixel is fitted robustly, and D minimises the mean
    logarithm of the median misfit. What depends on directions alone, as every material does, must not be mistaken for
    it: :math:`x/D` becomes :math:`x/D + \lambda n` with a second unknown λ, and only what places tell beyond normals
    counts.

    Parameters
    ----------
    scenes : Scene or sequence of Scene
        Photographs by one camera under the same lamps, all of the same width. Objects that do not determine the
        distance by themselves are left out if others do: on one ball in the middle, for example, brightness depends on
        place as it depends on direction.

    Returns
    -------
    distance : LampDistance

    See Also
    --------
    maxsparse.stereo.estimate_normals : ``lamp_distance=`` uses it.
    """
    from maxsparse.stereo.fitting.consensus import consensus  # compiled code: loaded on first use

    known = [scenes] if isinstance(scenes, Scene) else list(scenes)
    if not known:
        raise ValueError("scenes must hold at least one scene, got none")
    widths = sorted({scene.mask.shape[1] for scene in known})
    if len(widths) > 1:
        raise ValueError(f"the photographs of all scenes must have the same width, got {widths}")
    fits = [consensus(np.ascontiguousarray(scene.readings, dtype=np.float64), scene.lights) for scene in known]
    return distance_from(known, fits)


def distance_from(scenes: Sequence[Scene], fits: Sequence[Fit]) -> LampDistance:
    """Return the distance that agrees best with the readings; `fits` are of distant lights, one for every scene."""
    chosen = [_choose(scene, fit) for scene, fit in zip(scenes, fits, strict=True)]
    problems = [some for some in chosen if some is not None]
    width = scenes[0].mask.shape[1]
    found = [_best_distance([some], width) for some in problems]
    # What wrong assumptions do to an object that does not determine the distance would outweigh the others.
    telling = [some for some, alone in zip(problems, found, strict=True) if alone.determined]
    if len(telling) > 1 or (len(problems) > 1 and not telling):
        return _best_distance(telling or problems, width)
    return max(found, key=lambda alone: alone.gain, default=LampDistance(np.inf, 0.0, False))


def _best_distance(problems: Sequence[SomePixels], width: int) -> LampDistance:
    """Minimise the misfit over the inverse distance and a bend for every object, and compare with bends alone."""

    def logs(parameters: FloatArray) -> FloatArray:
        kappa, bends = parameters[0] / width, parameters[1:]
        return np.concatenate([_bent_misfit(*pair, kappa) for pair in zip(problems, bends, strict=True)])

    def bent(bends: FloatArray) -> FloatArray:
        return np.concatenate([[0.0], bends])

    bends = _minimum(lambda bends: float(logs(bent(bends)).mean()), np.full(len(problems), START))
    best = _minimum(lambda parameters: float(logs(parameters).mean()), np.concatenate([[NEAR_START], bends]))
    kappa = float(best[0])
    if kappa <= LEAST:
        return LampDistance(np.inf, 0.0, False)
    change = logs(best) - logs(bent(bends))
    parts = np.array([part.mean() for part in np.array_split(change, BLOCKS)])
    doubt = float(parts.std(ddof=1)) / np.sqrt(BLOCKS)
    q = min(len(some.lights) for some in problems)
    gain = float(1.0 - np.exp(change.mean()))
    clear = gain > 0.01 + 0.1 / q and change.mean() < -3.0 * doubt
    return LampDistance(1.0 / kappa, max(gain, 0.0), bool(clear))


def _minimum(objective: Callable[[FloatArray], float], start: FloatArray) -> FloatArray:
    from scipy.optimize import minimize

    options: Any = {"xatol": TOLERANCE, "fatol": TOLERANCE / 100}
    found: FloatArray = minimize(objective, start, method="Nelder-Mead", options=options).x
    return found


def _bent_misfit(some: SomePixels, bend: float, kappa: float) -> FloatArray:
    """Return the logarithm of the misfit of every pixel for lamps at distance 1/kappa."""
    from maxsparse.stereo.fitting.lamp_misfit import log_misfit

    # κx moves with the place, λn with the normal, in one and the same formula.
    return log_misfit(some._replace(points=kappa * some.points + bend * some.normals))


def _choose(scene: Scene, fit: Fit) -> SomePixels | None:
    """Return the readings of confident pixels, spread over the object; None if they cannot tell the distance."""
    from maxsparse.stereo.fitting.consensus import lit_level
    from maxsparse.stereo.fitting.lamp_misfit import SomePixels
    from maxsparse.stereo.near import points_of

    usable = (fit.albedo > 0) & (fit.normals[:, 2] > STEEPEST)
    if usable.sum() < FEWEST or len(scene.lights) < FEWEST_LIGHTS:
        return None
    good = np.flatnonzero(usable & (fit.confidence >= np.quantile(fit.confidence[usable], SURE)))
    pixels = good[np.linspace(0, len(good) - 1, min(PIXELS, len(good))).astype(np.intp)]
    readings = np.maximum(scene.readings[pixels], 0.0).astype(np.float64)
    points = points_of(scene, fit.normals)[pixels]
    normals = fit.normals[pixels].astype(np.float64)
    if _follow(points, normals) > DEGENERATE:
        return None
    lit = readings > lit_level(readings)[:, None]
    return SomePixels(readings, lit, scene.lights.astype(np.float64), points, normals)


def _follow(points: FloatArray, normals: FloatArray) -> float:
    """Return the share of the variance of points (p, 3) that a linear function of the normals (p, 3) explains."""
    centred, inputs = points - points.mean(axis=0), normals - normals.mean(axis=0)
    rest = centred - inputs @ np.linalg.lstsq(inputs, centred, rcond=None)[0]
    return float(1.0 - (rest**2).sum() / max((centred**2).sum(), 1e-300))
