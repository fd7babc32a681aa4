"""What tells the true factors of the readings from A times them: integrability, albedo, silhouette, intensities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import FloatArray
from maxsparse.stereo.self_calibration.factorise import Factors

__all__ = ["Cues", "collect", "lights_of", "residuals"]

SAMPLES = 4000  # pixels, and pairs of pixels, that are compared
STEPS = (1, 2)  # pixels over which normals are differentiated
NEAR = (0.02, 0.15)  # distances of pairs, of the square root of the mask's area
OFFSETS = 24
RIM = 2.5  # pixels from the silhouette
# Scale and weight of each cue: a residual of that size counts as one, and the cue as so many readings.
CURL, CURL_WEIGHT = 0.15, 400.0
ALBEDO, ALBEDO_WEIGHT = 0.05, 300.0
RIM_SCALE, RIM_WEIGHT = 0.25, 80.0
RIM_HEIGHT, RIM_SLACK = 0.25, 0.25  # n_z next to the silhouette, and the weight of a deviation from it
INTENSITY, INTENSITY_WEIGHT = 0.1, 8.0
FALL = 4.5  # largest exponent k with which intensities may fall with the height of the light, l_z to the k
LOWEST = 0.15  # l_z of lights below which they are pushed up


class Cues(NamedTuple):
    """Samples of a surface factor B (P, 3), whose rows scaled to length 1 are b."""

    up: NDArray[np.float64]  # (N, 3), b × ∂b/∂y
    right: NDArray[np.float64]  # (N, 3), b × ∂b/∂x
    first: NDArray[np.float64]  # (M, 3), B of the first pixel of pairs
    second: NDArray[np.float64]  # (M, 3), B of the second one
    rim: NDArray[np.float64]  # (R, 3), b next to the silhouette
    outward: NDArray[np.float64]  # (R, 2), direction out of the silhouette, y up
    lights: NDArray[np.float64]  # (q, 3), S


def collect(factors: Factors, mask: NDArray[np.bool_], rng: np.random.Generator) -> Cues:
    """Sample the cues; the surface factor belongs to the pixels of the mask (H, W)."""
    B = factors.surface
    unit = B / np.maximum(np.linalg.norm(B, axis=1, keepdims=True), 1e-12)
    number = np.full((mask.shape[0], mask.shape[1]), -1, dtype=np.intp)
    number[mask] = np.arange(len(B))
    up, right = [], []
    for step in STEPS:
        above, below = _neighbour(number, -step, 0), _neighbour(number, step, 0)
        left, after = _neighbour(number, 0, -step), _neighbour(number, 0, step)
        whole = np.flatnonzero((above >= 0) & (below >= 0) & (left >= 0) & (after >= 0))
        here = rng.permutation(whole)[: SAMPLES // len(STEPS)]
        up.append(np.cross(unit[here], unit[above[here]] - unit[below[here]]) / step)
        right.append(np.cross(unit[here], unit[after[here]] - unit[left[here]]) / step)
    pairs = _pairs(number, rng)
    rim, outward = _silhouette(number, rng)
    return Cues(
        np.concatenate(up),
        np.concatenate(right),
        B[pairs[:, 0]],
        B[pairs[:, 1]],
        unit[rim],
        outward,
        factors.lights / np.median(np.linalg.norm(factors.lights, axis=1)),
    )


def lights_of(A: FloatArray, lights: FloatArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return directions (q, 3) and intensities (q,) of S A⁻¹."""
    vectors = np.linalg.solve(A.T, lights.T).T
    length = np.maximum(np.linalg.norm(vectors, axis=1), 1e-300)
    return vectors / length[:, None], length


def residuals(A: FloatArray, cues: Cues) -> NDArray[np.float64]:
    r"""Return residuals whose sum of squares is the cost of the surface B Aᵀ under the lights S A⁻¹.

    - Slopes p, q of a surface have no curl: :math:`\partial p/\partial y = \partial q/\partial x`. With the rows
      :math:`a_i` of A this is :math:`(a_3 \times a_1)^\top (b \times b_y) = (a_3 \times a_2)^\top (b \times b_x)`
      [1]_; it is taken relative to the size of all derivatives of the slopes. It leaves three unknowns of A, those of
      the generalised bas-relief transformation [2]_.
    - Albedo is even between most neighbours, which is the local form of minimal entropy [3]_.
    - At the silhouette of a smooth object the normal points out of it and lies almost in the image plane. This alone
      tells convex from concave.
    - Intensities do not differ much, except that they may fall with a power of :math:`l_z`, as for lamps on a panel;
      and lights are in front of the object.

    All residuals but the last are :math:`\sqrt{\log(1 + z^2)}`, the negative log likelihood of Cauchy's law.

    Parameters
    ----------
    A : ndarray of shape (3, 3)
    cues : Cues

    Returns
    -------
    residuals : ndarray of shape (N + M + R + q + 2,)

    References
    ----------
    .. [1] A. Yuille, D. Snow, "Shape and albedo from multiple images using integrability", CVPR 1997.
    .. [2] P. Belhumeur, D. Kriegman, A. Yuille, "The bas-relief ambiguity", IJCV 35, 1999.
    .. [3] N. Alldrin, S. Mallick, D. Kriegman, "Resolving the generalized bas-relief ambiguity by entropy
       minimization", CVPR 2007.
    """
    cross = np.stack([np.cross(A[1], A[2]), np.cross(A[2], A[0])], axis=1)  # a2×a3, a3×a1
    y, x = cues.up @ cross, cues.right @ cross
    size = np.sqrt((y * y).sum(axis=1) + (x * x).sum(axis=1))
    floor = 0.3 * (np.median(size) if len(size) else 1.0) + 1e-300
    curl = (y[:, 1] + x[:, 0]) / np.hypot(size, floor)
    albedo = 0.5 * np.log(
        np.maximum(((cues.first @ A.T) ** 2).sum(axis=1), 1e-300)
        / np.maximum(((cues.second @ A.T) ** 2).sum(axis=1), 1e-300)
    )
    n = cues.rim @ A.T
    n = n / np.maximum(np.linalg.norm(n, axis=1, keepdims=True), 1e-300)
    along = (n[:, :2] * cues.outward).sum(axis=1)
    aside = n[:, 0] * cues.outward[:, 1] - n[:, 1] * cues.outward[:, 0]
    rim = np.sqrt(aside**2 + np.minimum(along, 0.0) ** 2 + (RIM_SLACK * (n[:, 2] - RIM_HEIGHT)) ** 2)
    directions, intensities = lights_of(A, cues.lights)
    return np.concatenate(
        [
            _cauchy(curl, CURL, CURL_WEIGHT),
            _cauchy(albedo, ALBEDO, ALBEDO_WEIGHT),
            _cauchy(rim, RIM_SCALE, RIM_WEIGHT),
            [_unevenness(directions, intensities)],
            10.0 * np.maximum(LOWEST - directions[:, 2], 0.0),
            [10.0 * (np.linalg.norm(A) - 1.0)],  # the scale of A is free
        ]
    )


def _unevenness(directions: FloatArray, intensities: FloatArray) -> float:
    """Return one residual for the spread of intensities around a power of the lights' height."""
    height = np.log(np.maximum(directions[:, 2], 0.1))
    logs = np.log(intensities)
    centred = height - height.mean()
    power = np.clip((centred @ logs) / max(float(centred @ centred), 1e-12), 0.0, FALL)
    rest = logs - power * height
    spread = float(((rest - np.median(rest)) ** 2).mean())
    return float(np.sqrt(INTENSITY_WEIGHT * np.log1p(spread / INTENSITY**2)))


def _cauchy(values: FloatArray, scale: float, weight: float) -> NDArray[np.float64]:
    z = values / scale
    shared: NDArray[np.float64] = np.sign(z) * np.sqrt(np.log1p(z * z) * (weight / max(len(z), 1)))
    return shared


def _neighbour(number: NDArray[np.intp], down: int, right: int) -> NDArray[np.intp]:
    """Return, for every pixel of the mask, the number of the pixel at that offset, −1 if it is outside."""
    H, W = number.shape
    rows, columns = np.nonzero(number >= 0)
    rows, columns = rows + down, columns + right
    inside = (rows >= 0) & (rows < H) & (columns >= 0) & (columns < W)
    found = np.full(len(rows), -1, dtype=np.intp)
    found[inside] = number[rows[inside], columns[inside]]
    return found


def _pairs(number: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    side = np.sqrt((number >= 0).sum())
    found = []
    for _ in range(OFFSETS):
        distance, angle = side * rng.uniform(*NEAR), rng.uniform(0.0, 2.0 * np.pi)
        down, right = round(distance * np.sin(angle)), round(distance * np.cos(angle))
        if down == right == 0:
            right = 1
        other = _neighbour(number, down, right)
        here = rng.permutation(np.flatnonzero(other >= 0))[: SAMPLES // OFFSETS]
        found.append(np.stack([here, other[here]], axis=1))
    return np.concatenate(found)


def _silhouette(number: NDArray[np.intp], rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return pixels next to the silhouette, but not next to the picture's edge, and the directions out of it."""
    from scipy import ndimage

    mask = number >= 0
    distance = ndimage.distance_transform_edt(np.pad(mask, 1, mode="edge"))[1:-1, 1:-1]
    down, right = np.gradient(ndimage.gaussian_filter(mask.astype(np.float64), 3.0, mode="nearest"))
    out = np.stack([-right, down], axis=-1)  # rows go down, y goes up
    size = np.linalg.norm(out, axis=-1)
    rows, columns = np.nonzero(mask & (distance <= RIM) & (distance > 1.0) & (size > 1e-3))
    kept = rng.permutation(len(rows))[:SAMPLES]
    rows, columns = rows[kept], columns[kept]
    return number[rows, columns], out[rows, columns] / size[rows, columns, None]
