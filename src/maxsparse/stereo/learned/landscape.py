"""Small random landscapes: normals, cast shadows and bounced light that belong together, as on a real object.

A landscape is a height z on a square grid of cells of side 1, seen from above: x right, y up, z to the camera. Rays are
marched over the grid, so whatever stands in the way of a light casts its shadow, and whatever a surface faces sends on
the light that falls on it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["sample_heights", "sample_points", "slopes"]

SIDE = 56  # cells
RAYS = 24  # per point, to find what it faces
BOUNCES = 2
STEP = 0.8  # of a march, in cells
LIFT = 0.35  # of a ray's start above the surface, in cells: a plane must not shade itself


def sample_points(
    lights: NDArray[np.float64], count: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Draw points of random landscapes under a rig.

    Parameters
    ----------
    lights : ndarray of shape (q, 3)
    count : int
        Number B of points.
    rng : numpy.random.Generator

    Returns
    -------
    normals : ndarray of shape (B, 3)
    visible : ndarray of shape (B, q)
        1 where the light reaches the point, else 0.
    bounced : ndarray of shape (B, q)
        Light that comes by way of other points, in units of what a surface of reflectance 1 that faces the light
        would show.
    """
    z = sample_heights(rng)
    normals = slopes(z)
    n = normals.reshape(-1, 3)
    visible = _visibility(z, normals, lights)
    direct = np.maximum(n @ lights.T, 0.0) * visible
    faced = _faced(z, normals, rng.random((RAYS, 2)))
    reflectance = rng.uniform(0.1, 0.95)
    bounced = np.zeros_like(direct)
    for _ in range(BOUNCES):
        bounced = reflectance * _gather(faced, direct + bounced)
    # Beyond the edge there is nothing to cast a shadow, and the steepest cells are drawn too coarsely.
    inner = np.zeros((SIDE, SIDE), dtype=bool)
    inner[2:-2, 2:-2] = normals[2:-2, 2:-2, 2] > 0.06
    cells = np.flatnonzero(inner)
    if len(cells) == 0:
        return sample_points(lights, count, rng)
    chosen = rng.choice(cells, count, replace=len(cells) < count)
    return n[chosen], visible[chosen], bounced[chosen]


def sample_heights(rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw a landscape (SIDE, SIDE): waves with or without ridges, ellipsoids in front of one another, or both."""
    z = np.zeros((SIDE, SIDE))
    kind = rng.random()
    if kind < 0.7:
        z += _waves(rng)
    if kind > 0.3:
        y, x = np.mgrid[SIDE - 1 : -1 : -1, 0:SIDE].astype(np.float64)
        for _ in range(rng.integers(1, 9)):
            middle, radius = rng.uniform(0, SIDE, 2), SIDE * rng.uniform(0.08, 0.6, 2)
            turn = rng.uniform(0, math.pi)
            u = ((x - middle[0]) * math.cos(turn) + (y - middle[1]) * math.sin(turn)) / radius[0]
            v = ((y - middle[1]) * math.cos(turn) - (x - middle[0]) * math.sin(turn)) / radius[1]
            height = radius.min() * rng.uniform(0.4, 2.5)
            bump = height * np.sqrt(np.maximum(1 - u * u - v * v, 0.0)) + rng.uniform(-0.5, 0.5) * height
            z = np.where(u * u + v * v < 1, np.maximum(z, bump), z)
    return z


def slopes(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the unit normals (H, W, 3) of a landscape; row 0 is the largest y."""
    along = np.gradient(z, axis=1)
    up = -np.gradient(z, axis=0)
    normals = np.stack([-along, -up, np.ones_like(z)], axis=2)
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    return normals


def _waves(rng: np.random.Generator) -> NDArray[np.float64]:
    """Sum waves whose height falls with their frequency; some landscapes are folded at zero into ridges or valleys."""
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    z = np.zeros((SIDE, SIDE))
    fall = rng.uniform(1.0, 2.2)
    for _ in range(14):
        frequency = 0.7 * 12 ** rng.random()
        angle, phase = rng.uniform(0, 2 * math.pi, 2)
        wave = np.sin(2 * math.pi * frequency * (x * math.cos(angle) + y * math.sin(angle)) + phase)
        z += frequency**-fall * wave
    if rng.random() < 0.4:
        z = rng.choice([-1.0, 1.0]) * np.sqrt((z - z.mean()) ** 2 + (0.1 * z.std()) ** 2)
    steep = np.hypot(*np.gradient(z)).mean()
    return z * 10 ** rng.uniform(-0.5, 0.55) / max(steep, 1e-9)


@njit(cache=True, nogil=True)
def _march(z: NDArray[Any], top: float, cell: int, n: NDArray[Any], d: NDArray[Any]) -> int:
    """Return the cell that a ray from a cell with normal n meets, −1 where it leaves the landscape."""
    across = np.sqrt(d[0] * d[0] + d[1] * d[1])
    if across < 1e-3:
        return -1
    dx, dy, dz = STEP * d[0] / across, STEP * d[1] / across, STEP * d[2] / across
    H, W = z.shape
    x, y, h = cell % W + LIFT * n[0], cell // W - LIFT * n[1], z[cell // W, cell % W] + LIFT * n[2]
    while h < top:
        x, y, h = x + dx, y - dy, h + dz
        if x < 0.0 or y < 0.0 or x > W - 1.001 or y > H - 1.001:
            return -1
        i, j = int(y), int(x)
        a, b = y - i, x - j
        ground = (1 - a) * ((1 - b) * z[i, j] + b * z[i, j + 1]) + a * ((1 - b) * z[i + 1, j] + b * z[i + 1, j + 1])
        if h < ground:
            return int(y + 0.5) * W + int(x + 0.5)
    return -1


@njit(cache=True, nogil=True)
def _visibility(z: NDArray[Any], normals: NDArray[Any], L: NDArray[Any]) -> NDArray[Any]:
    """Return 1 for every light that reaches a cell, (H·W, q)."""
    W, top = z.shape[1], z.max()
    visible = np.zeros((z.size, len(L)))
    for cell in range(z.size):
        n = normals[cell // W, cell % W]
        for light in range(len(L)):
            if n[0] * L[light, 0] + n[1] * L[light, 1] + n[2] * L[light, 2] > 0.0:
                visible[cell, light] = 1.0 if _march(z, top, cell, n, L[light]) < 0 else 0.0
    return visible


@njit(cache=True, nogil=True)
def _faced(z: NDArray[Any], normals: NDArray[Any], draws: NDArray[Any]) -> NDArray[Any]:
    """Return the cells that rays from every cell meet, (H·W, K), −1 for the sky; their density is the cosine."""
    W, top = z.shape[1], z.max()
    faced = np.empty((z.size, len(draws)), dtype=np.int64)
    d = np.empty(3)
    for cell in range(z.size):
        n = normals[cell // W, cell % W]
        for ray in range(len(draws)):
            # An even point of the unit sphere about the tip of the normal has a direction with that density.
            # Every cell turns the same draws its own way, by a sequence that fills the square evenly.
            c, turn = (
                1.0 - 2.0 * ((draws[ray, 0] + 0.75488 * cell) % 1.0),
                2.0 * np.pi * (draws[ray, 1] + 0.56984 * cell),
            )
            s = np.sqrt(max(1.0 - c * c, 0.0))
            d[0], d[1], d[2] = n[0] + s * np.cos(turn), n[1] + s * np.sin(turn), n[2] + c
            faced[cell, ray] = _march(z, top, cell, n, d)
    return faced


@njit(cache=True, nogil=True)
def _gather(faced: NDArray[Any], radiosity: NDArray[Any]) -> NDArray[Any]:
    """Return the mean radiosity of what a cell faces, (B, q)."""
    B, K = faced.shape
    total = np.zeros((B, radiosity.shape[1]))
    for place in range(B):
        for ray in range(K):
            if faced[place, ray] >= 0:
                for light in range(radiosity.shape[1]):
                    total[place, light] += radiosity[faced[place, ray], light] / K
    return total
