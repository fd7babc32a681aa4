"""Depth from normals: masked Poisson integration, for an orthographic or a perspective camera."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import FloatArray, check_integer, check_matrix, check_number
from maxsparse.stereo.multigrid import solve

__all__ = ["check_camera", "check_distance", "integrate"]

SHARPNESS = 2.0  # k of the bilateral weights
DIRECT = 20_000  # pixels up to which the equations are factorised; beyond, that takes gigabytes and minutes
STEEPEST = 0.02  # cosine to the viewing ray below which a normal gives no reliable slope


def integrate(
    normals: FloatArray,
    mask: NDArray[np.bool_] | None = None,
    *,
    K: ArrayLike | None = None,
    confidence: FloatArray | None = None,
    discontinuities: int = 0,
    distance: float | None = None,
) -> NDArray[np.float64]:
    r"""Integrate a normal map to depth.

    Least squares over the depth steps that the normals of neighbouring pixels a, b imply,

    .. math:: \min_z \sum_{(a,b)} w_a \big(c_a (z_b - z_a) + s_a\big)^2 + w_b \big(c_b (z_b - z_a) + s_b\big)^2

    For an orthographic camera z is the height, c is :math:`n_z` and s is :math:`n_x` (or :math:`n_y`). For a
    perspective one z is the logarithm of depth, c is :math:`n^\top r` with the viewing ray r, and s is
    :math:`n_x / f_x`.

    Parameters
    ----------
    normals : ndarray of shape (H, W, 3)
        x right, y up, z to the camera; zero where unknown.
    mask : ndarray of shape (H, W), bool, or None, default=None
        None: where the normals are not zero.
    K : array-like of shape (3, 3) or None, default=None
        Camera matrix in pixels without skew, with the origin at the top left pixel; None is an orthographic camera.
    confidence : ndarray of shape (H, W) or None, default=None
        Weight of every pixel.
    discontinuities : int, default=0
        Rounds of reweighting, in which a pixel can follow one of its neighbours only, so that depth can jump.
    distance : float or None, default=None
        Distance of the object from the camera, the median of all pixels, in millimetres or any other unit; needs `K`.

    Returns
    -------
    depth : ndarray of shape (H, W)
        NaN outside the mask. Orthographic: height towards the camera in pixels, mean 0 on every connected part.
        Perspective: distance along the optical axis, with median `distance` or 1 on every connected part; photographs
        alone do not determine the scale.

    Notes
    -----
    Weighting by c, as [1]_ does, keeps the slopes of steep normals bounded. With `discontinuities` the weights of
    a pixel's two sides are those of bilateral normal integration [2]_.

    References
    ----------
    .. [1] Y. Quéau, J.-D. Durou, J.-F. Aujol, "Normal integration: a survey", J. Mathematical Imaging and Vision 60,
       2018.
    .. [2] X. Cao, H. Santo, B. Shi, F. Okura, Y. Matsushita, "Bilateral normal integration", ECCV 2022.

    Examples
    --------
    A plane that rises by one pixel per pixel to the right:

    >>> import numpy as np
    >>> import maxsparse as ms
    >>> n = np.broadcast_to(np.array([-1.0, 0.0, 1.0]) / np.sqrt(2), (4, 5, 3))
    >>> (ms.stereo.integrate(n)[0].round(6) + 0.0).tolist()
    [-2.0, -1.0, 0.0, 1.0, 2.0]
    """
    field = np.asarray(normals, dtype=np.float64)
    if field.ndim != 3 or field.shape[2] != 3:
        raise ValueError(f"normals must be (H, W, 3), got shape {field.shape}")
    rounds = check_integer(discontinuities, "discontinuities", low=0)
    known = np.linalg.norm(field, axis=2) > 0.5
    inside = known if mask is None else known & np.asarray(mask, dtype=bool)
    if not inside.any():
        raise ValueError("the mask contains no normals to integrate")
    camera = None if K is None else check_camera(K)
    scale = check_distance(distance, K)
    grid = _Grid.of(inside)
    cosine, across, down = _coefficients(field, inside, camera)
    trust = np.ones(len(cosine)) if confidence is None else np.maximum(np.asarray(confidence)[inside], 1e-3)
    z = _solve(grid, cosine, across, down, trust, rounds)
    depth = np.full(inside.shape, np.nan)
    depth[inside] = scale * _settle(z, grid.parts, perspective=camera is not None)
    return depth


def check_distance(distance: float | None, K: ArrayLike | None) -> float:
    """Return the distance of the object, 1 for None."""
    if distance is None:
        return 1.0
    if K is None:
        raise ValueError("a distance sets the scale only together with the camera matrix K")
    value = check_number(distance, "distance", low=0.0)
    if value == 0.0:
        raise ValueError("distance must be positive, got 0")
    return value


def check_camera(K: ArrayLike) -> NDArray[np.float64]:
    """Return a camera matrix (3, 3) with positive focal lengths and no skew."""
    matrix = check_matrix(K, "K").astype(np.float64)
    if matrix.shape != (3, 3) or matrix[0, 0] <= 0 or matrix[1, 1] <= 0 or abs(matrix[2, 2] - 1) > 1e-9:
        raise ValueError("K must be 3×3 with positive focal lengths K[0, 0], K[1, 1] and K[2, 2] = 1")
    if np.abs(matrix[[0, 1, 2, 2], [1, 0, 0, 1]]).max() > 1e-6 * matrix[0, 0]:
        raise ValueError("K must hold only focal lengths and the principal point; a skew K[0, 1] is not supported")
    return matrix


@dataclass(frozen=True)
class _Grid:
    """Pairs of neighbouring pixels, as numbers of pixels in the mask.

    `right` (E, 2) are pairs (a, b) with b to the right of a, `below` (F, 2) pairs with b below a; `parts` (P,) numbers
    the connected parts.
    """

    right: NDArray[np.intp]
    below: NDArray[np.intp]
    parts: NDArray[np.intp]

    @classmethod
    def of(cls, inside: NDArray[np.bool_]) -> _Grid:
        from scipy import ndimage

        number = np.full(inside.shape, -1, dtype=np.intp)
        number[inside] = np.arange(inside.sum())
        across = inside[:, :-1] & inside[:, 1:]
        down = inside[:-1] & inside[1:]
        right = np.stack([number[:, :-1][across], number[:, 1:][across]], axis=1)
        below = np.stack([number[:-1][down], number[1:][down]], axis=1)
        labels, _ = ndimage.label(inside)
        return cls(right, below, labels[inside].astype(np.intp) - 1)


def _coefficients(
    field: FloatArray, inside: NDArray[np.bool_], K: NDArray[np.float64] | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return c, and s of a step to the right and of a step down, each (P,)."""
    n = field[inside]
    if K is None:
        # Height towards the camera: ∂z/∂x = −n_x/n_z, and a step down is a step against y.
        cosine, across, down = n[:, 2], n[:, 0], -n[:, 1]
    else:
        rows, columns = np.nonzero(inside)
        x, y = (columns - K[0, 2]) / K[0, 0], (rows - K[1, 2]) / K[1, 1]
        # In the camera's own frame y goes down and z away from it: n = (n_x, −n_y, −n_z), ray = (x, y, 1).
        cosine = n[:, 0] * x - n[:, 1] * y - n[:, 2]
        across, down = n[:, 0] / K[0, 0], -n[:, 1] / K[1, 1]
    limit = np.where(cosine < 0, -STEEPEST, STEEPEST)
    return np.where(np.abs(cosine) < STEEPEST, limit, cosine), across, down


def _solve(
    grid: _Grid,
    cosine: FloatArray,
    across: FloatArray,
    down: FloatArray,
    trust: FloatArray,
    rounds: int,
) -> NDArray[np.float64]:
    """Solve the normal equations, once or with bilateral weights; z is fixed up to a constant on every part."""
    steps = ((grid.right, across), (grid.below, down))
    sides = [(np.full(len(trust), 0.5), np.full(len(trust), 0.5)) for _ in steps]  # weight forward, backward
    # The scale of a large misfit follows from the slopes of this surface, in any unit.
    unit = float(np.sqrt((across**2 + down**2).mean() / 2)) + 1e-12
    z = np.zeros(len(trust))
    for round_ in range(rounds + 1):
        pairs, weights, targets = [], [], []
        for (pair, slope), (forward, backward) in zip(steps, sides, strict=True):
            a, b = pair.T
            wa, wb = trust[a] * forward[a], trust[b] * backward[b]
            weight = wa * cosine[a] ** 2 + wb * cosine[b] ** 2
            pairs.append(pair)
            weights.append(weight + 1e-9)
            targets.append(-(wa * cosine[a] * slope[a] + wb * cosine[b] * slope[b]))
        z = _laplace(np.concatenate(pairs), np.concatenate(weights), np.concatenate(targets), grid.parts)
        if round_ < rounds:
            sides = [_bilateral(pair, slope, cosine, z, unit) for pair, slope in steps]
    return z


def _laplace(
    pairs: NDArray[np.intp], weights: FloatArray, targets: FloatArray, parts: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Solve Σ over neighbours of w (z_b − z_a) = t for all pixels at once."""
    from scipy import sparse
    from scipy.sparse.linalg import MatrixRankWarning, spsolve

    P = len(parts)
    a, b = pairs.T
    # One pixel of every part is held at zero: the constant is free, and the matrix would be singular.
    _, anchors = np.unique(parts, return_index=True)
    diagonal = np.bincount(a, weights, P) + np.bincount(b, weights, P) + np.isin(np.arange(P), anchors)
    lower = sparse.csr_matrix((-weights, (b.astype(np.int32), a.astype(np.int32))), shape=(P, P))
    A = (lower + lower.T + sparse.diags(diagonal)).tocsr()
    right = np.asarray(np.bincount(b, targets, P) - np.bincount(a, targets, P), dtype=np.float64)
    if P > DIRECT and (z := solve(A, right)) is not None:
        return z
    with warnings.catch_warnings():
        warnings.simplefilter("error", MatrixRankWarning)
        try:
            return np.atleast_1d(spsolve(A.tocsc(), right, permc_spec="MMD_AT_PLUS_A"))
        except MatrixRankWarning as error:
            raise ValueError(
                "the normals do not determine depth: the equations are singular; check the normals"
            ) from error


def _bilateral(
    pair: NDArray[np.intp], slope: FloatArray, cosine: FloatArray, z: FloatArray, unit: float
) -> tuple[FloatArray, FloatArray]:
    """Weight a pixel's forward and backward steps by how well each fits its normal."""
    a, b = pair.T
    step = z[b] - z[a]
    ahead, behind = np.zeros(len(z)), np.zeros(len(z))
    ahead[a] = ((cosine[a] * step + slope[a]) / unit) ** 2
    behind[b] = ((cosine[b] * step + slope[b]) / unit) ** 2
    forward = 1.0 / (1.0 + np.exp(np.clip(SHARPNESS * (ahead - behind), -50.0, 50.0)))
    return forward, 1.0 - forward


def _settle(z: FloatArray, parts: NDArray[np.intp], *, perspective: bool) -> NDArray[np.float64]:
    """Set the free constant of every connected part: the mean height, or the median distance."""
    z = z.copy()
    if not perspective:
        means = np.bincount(parts, z) / np.bincount(parts)
        return z - means[parts]
    order = np.argsort(parts, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(parts[order])) + 1):
        z[members] -= np.median(z[members])
    return np.exp(z)
