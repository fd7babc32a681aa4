"""Normals where rays are not parallel: a perspective camera, and lamps at positions instead of directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import FloatArray, check_matrix
from maxsparse.stereo.fitting.fit import Fit
from maxsparse.stereo.fitting.neighbours import decide
from maxsparse.stereo.integrate import check_camera, check_distance, integrate
from maxsparse.stereo.scene import Scene

__all__ = ["NearLamps", "as_if_distant", "check_positions", "fit_near", "points_of"]

STEP = 0.0087  # radians across a tile, in which rays of camera and lamps count as parallel: a quarter of a degree off
SMALLEST = 4  # pixels of a tile's side
ROUNDS = 3  # of depth and normals, for lamps at positions


def check_positions(positions: ArrayLike, q: int) -> NDArray[np.float64]:
    """Return the positions of q lamps, (q, 3)."""
    places: NDArray[np.float64] = check_matrix(positions, "positions").astype(np.float64)
    if places.shape != (q, 3):
        raise ValueError(f"positions must have shape ({q}, 3), one lamp per photograph, got {places.shape}")
    return places


def points_of(scene: Scene, normals: FloatArray) -> NDArray[np.float64]:
    """Return the points (P, 3) that an orthographic camera sees, in pixels from the middle of the picture.

    Heights are those of the surface with these normals (P, 3), zero on average.
    """
    rows, columns = np.nonzero(scene.mask)
    height = integrate(scene.picture(normals), scene.mask)[scene.mask]
    H, W = scene.mask.shape
    x, y = columns - (W - 1) / 2.0, (H - 1) / 2.0 - rows
    return np.stack([x, y, np.where(np.isfinite(height), height, 0.0)], axis=1)


@dataclass(frozen=True, eq=False)
class NearLamps:
    """Lamps at one distance from the middle of the picture, as every pixel of an orthographic camera sees them.

    Attributes
    ----------
    lights : ndarray of shape (q, 3)
        Directions of the lamps from the middle of the picture.
    points : ndarray of shape (P, 3)
        From :func:`points_of`.
    distance : float
        In pixels.
    """

    lights: FloatArray
    points: FloatArray
    distance: float

    def tiles(self, mask: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
        """Return the numbers of the pixels of square tiles within which the lights are almost parallel."""
        return list(_tiles(mask, max(SMALLEST, int(STEP * self.distance))))

    def seen_from(self, pixels: NDArray[np.intp]) -> FloatArray:
        """Return the directions of the lamps from every pixel, (p, q, 3)."""
        towards = self._towards(pixels)
        directions: FloatArray = towards / np.linalg.norm(towards, axis=2, keepdims=True)
        return directions

    def seen_from_all(self, pixels: NDArray[np.intp]) -> FloatArray:
        """Return the directions of the lamps from the mean of some pixels, (q, 3)."""
        towards = self.lights - self.points[pixels].mean(axis=0) / self.distance
        directions: FloatArray = towards / np.linalg.norm(towards, axis=1, keepdims=True)
        return directions

    def equalised(self, readings: FloatArray, pixels: NDArray[np.intp]) -> FloatArray:
        """Return the readings (p, q) of some pixels as if every lamp were equally far from them."""
        equal: FloatArray = readings * (self._towards(pixels) ** 2).sum(axis=2)
        return equal

    def _towards(self, pixels: NDArray[np.intp]) -> FloatArray:
        towards: FloatArray = self.lights[None] - self.points[pixels][:, None] / self.distance
        return towards


def fit_near(
    scene: Scene,
    solve: Callable[[FloatArray, FloatArray], Fit],
    K: ArrayLike,
    *,
    positions: FloatArray | None = None,
    distance: float | None = None,
) -> Fit:
    r"""Fit normals tile by tile, each in the frame of its own viewing ray and with its own lights.

    A lamp at :math:`p` lights the point :math:`X` from the direction :math:`(p - X)/\|p - X\|` with a brightness that
    falls with :math:`\|p - X\|^2`. Points follow from depth, which follows from the normals: three rounds, the first
    with a plane at the given distance.

    Parameters
    ----------
    scene : Scene
    solve : callable
        ``solve(readings, lights) -> Fit`` for lights (q, 3) and a camera that looks along −z.
    K : array-like of shape (3, 3)
        Camera matrix in pixels.
    positions : ndarray of shape (q, 3) or None, default=None
        Of the lamps, in the unit of `distance`: the camera is at the origin, x right, y up, z against its view, so that
        the object is at z = −distance. None: the scene's directions.
    distance : float or None, default=None
        Of the object from the camera; needed with `positions`.

    Returns
    -------
    fit : Fit
        Normals in the frame of the scene.
    """
    camera = check_camera(K)
    if positions is not None and distance is None:
        raise ValueError("positions of lamps need the distance of the object from the camera, in the same unit")
    rows, columns = np.nonzero(scene.mask)
    x, y = (columns - camera[0, 2]) / camera[0, 0], (rows - camera[1, 2]) / camera[1, 1]
    rays = np.stack([x, -y, -np.ones(len(x))], axis=1)  # of depth 1
    away = check_distance(distance, K)
    points = away * rays
    for round_ in range(1 if positions is None else ROUNDS):
        fit = _fit_tiles(scene, solve, points, rays, positions, _side(camera, points, positions))
        if positions is None or round_ == ROUNDS - 1:
            break
        depth = integrate(scene.picture(fit.normals), scene.mask, K=camera, distance=distance)[scene.mask]
        points = np.where(np.isfinite(depth), depth, away)[:, None] * rays
    return fit


def as_if_distant(scene: Scene, K: ArrayLike, positions: FloatArray, distance: float) -> Scene:
    """Return the scene with the lights that its middle sees, readings scaled by the squared distances."""
    camera = check_camera(K)
    row, column = (float(np.median(places)) for places in np.nonzero(scene.mask))
    x, y = (column - camera[0, 2]) / camera[0, 0], (row - camera[1, 2]) / camera[1, 1]
    lights = positions - distance * np.array([x, -y, -1.0])
    size = np.linalg.norm(lights, axis=1)
    readings = (scene.readings * (size**2 / np.median(size**2))).astype(scene.readings.dtype)
    return replace(scene, lights=lights / size[:, None], readings=readings)


def _side(camera: FloatArray, points: FloatArray, positions: FloatArray | None) -> int:
    """Return the side of tiles in pixels, so that rays and lights within one are almost parallel."""
    side = STEP * camera[0, 0]
    if positions is not None:
        middle = np.median(points, axis=0)
        side *= min(1.0, float(np.linalg.norm(positions - middle, axis=1).min() / abs(middle[2])))
    return max(SMALLEST, int(side))


def _fit_tiles(
    scene: Scene,
    solve: Callable[[FloatArray, FloatArray], Fit],
    points: FloatArray,
    rays: FloatArray,
    positions: FloatArray | None,
    side: int,
) -> Fit:
    P, q = scene.readings.shape
    whole = Fit(np.zeros((P, 3)), np.zeros(P), np.zeros((P, q), dtype=np.bool_), np.zeros(P))
    rivals: FloatArray | None = None
    unit = 1.0 if positions is None else float(np.median(((positions - np.median(points, axis=0)) ** 2).sum(axis=1)))
    for members in _tiles(scene.mask, side):
        turn = _turn(-rays[members].mean(axis=0))
        readings = scene.readings[members].astype(np.float64)
        lights = scene.lights
        if positions is not None:
            readings = readings * (((positions[None] - points[members][:, None]) ** 2).sum(axis=2) / unit)
            lights = positions - points[members].mean(axis=0)
            lights = lights / np.linalg.norm(lights, axis=1, keepdims=True)
        fit = solve(np.ascontiguousarray(readings), np.ascontiguousarray(lights @ turn.T))
        whole.normals[members] = fit.normals @ turn
        whole.albedo[members], whole.inliers[members] = fit.albedo, fit.inliers
        whole.confidence[members] = fit.confidence
        if fit.rivals is not None:
            rivals = np.zeros((P, *fit.rivals.shape[1:])) if rivals is None else rivals
            rivals[members] = fit.rivals @ turn
    return decide(Fit(whole.normals, whole.albedo, whole.inliers, whole.confidence, rivals), scene.mask)


def _tiles(mask: NDArray[np.bool_], side: int) -> Iterator[NDArray[np.intp]]:
    """Yield the numbers of the pixels of every square tile of the mask."""
    rows, columns = np.nonzero(mask)
    tile = rows // side * (mask.shape[1] // side + 1) + columns // side
    order = np.argsort(tile, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(tile[order])) + 1)


def _turn(view: FloatArray) -> NDArray[np.float64]:
    """Return the rotation (3, 3) that takes a direction to (0, 0, 1) by the shortest way (Rodrigues)."""
    v = view / np.linalg.norm(view)
    axis = np.array([v[1], -v[0], 0.0])  # v × z
    cross = np.array([[0.0, -axis[2], axis[1]], [axis[2], 0.0, -axis[0]], [-axis[1], axis[0], 0.0]])
    return np.asarray(np.eye(3) + cross + cross @ cross / (1.0 + v[2]))
