"""Intensities of lights whose directions are known, from the photographs of an object."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.threads import threads
from maxsparse._core.validation import FloatArray, RandomState, check_rng
from maxsparse.stereo.fitting.fit import Fit
from maxsparse.stereo.near import NearLamps
from maxsparse.stereo.scene import LightsWarning, Scene
from maxsparse.stereo.self_calibration.estimate import LightEstimate, bright_pixels
from maxsparse.stereo.self_calibration.factorise import factorise

__all__ = ["estimate_intensities"]

DISAGREEMENT = 5.0  # degrees between given directions and the photographs, above which intensities are in doubt
REWEIGHTS = 30
ROUNDS = 3  # of surface and intensities
PIXELS = 3000  # that determine the intensities of a round
FEWEST = 50
SURE = 0.3  # quantile of the confidence below which pixels are not used
LOWEST = 0.15  # cosine between normal and light below which a reading is not used: most are in penumbra or shadow
LEAST = 1e-3  # of the albedo: least standard deviation of a pixel's readings
WIDE = 2.0  # standard deviations at which a reading's weight is a quarter
STEPS = 3  # of reweighting in a round


def estimate_intensities(
    scene: Scene, *, lamp_distance: float | None = math.inf, rng: RandomState = 0
) -> LightEstimate:
    r"""Estimate the intensities of lights whose directions are known.

    First guess: of the factors S A⁻¹ of the readings, the matrix A for which they are parallel to the known directions,

    .. math:: \min_{\|A^{-1}\| = 1} \sum_i w_i \|(s_i^\top A^{-1}) \times l_i\|^2.

    Then surface and intensities are fitted together. With g the inverse intensities, every pixel's scaled normal x can
    be eliminated from the readings o,

    .. math:: \min_{g, x_p} \sum_{p,i} w_{pi} (g_i o_{pi} - l_{pi}^\top x_p)^2
              = \min_g g^\top \Bigl(\sum_p D_p (I - Q_p Q_p^\top) D_p\Bigr) g, \qquad
              D_p = \operatorname{diag}(\sqrt{w_p}\, o_p),

    with :math:`Q_p` a basis of the columns of the weighted lights, so that g is an eigenvector (variable projection).
    Shadows and highlights get small weights.

    Parameters
    ----------
    scene : Scene
        At least six photographs.
    lamp_distance : float or None, default=inf
        Distance of the lamps in widths of the picture; None: estimated, if the photographs determine it.
    rng : int, numpy.random.Generator or None, default=0

    Returns
    -------
    estimate : LightEstimate
        With the directions of the scene; ``error`` is the angle in degrees by which the photographs disagree with them.

    Warns
    -----
    LightsWarning
        If they disagree by more than 5 degrees: the directions are wrong, or the object is far from matt.

    References
    ----------
    .. [1] G. Golub, V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose
       variables separate", SIAM J. Numer. Anal. 10, 1973.
    """
    if not scene.lights_known:
        raise ValueError("the scene has no light directions; estimate them too, with estimate_lights")
    generator = check_rng(rng)
    readings, mask = bright_pixels(scene)
    with threads(None):  # rounding errors of BLAS depend on the number of threads
        intensities, error = _parallel(factorise(readings, generator).lights, scene.lights)
        reasons: tuple[str, ...] = ()
        if np.median(error) > DISAGREEMENT:
            what = f"they disagree with the given directions by {np.median(error):.0f}°"
            reasons = (f"{what}; check the directions and their order",)
            said = f"the photographs do not determine the intensities: {reasons[0]}"
            warnings.warn(said, LightsWarning, stacklevel=2)
        else:
            small = replace(scene, readings=readings.astype(np.float32), mask=mask, normals=None, chroma=None)
            intensities = _with_surface(small, intensities, lamp_distance, generator)
    return LightEstimate(scene.lights, intensities / np.median(intensities), error, reasons)


def _parallel(S: FloatArray, L: FloatArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return intensities (q,) of the first guess, and the angles in degrees (q,) by which factors miss directions."""
    size = np.linalg.norm(S, axis=1, keepdims=True)
    # (sᵀM) × l is linear in the nine entries of M = A⁻¹.
    products = np.cross(np.eye(3)[None], L[:, None])  # (q, 3, 3): e_j × l
    rows = np.einsum("qi,qjk->qkij", S / size, products).reshape(len(L), 3, 9)
    weights = np.ones(len(L))
    for _ in range(REWEIGHTS):
        _, vectors = np.linalg.eigh(np.einsum("qka,q,qkb->ab", rows, weights, rows))
        M = vectors[:, 0].reshape(3, 3)
        length = np.maximum(np.linalg.norm(S / size @ M, axis=1), 1e-12)
        miss = np.linalg.norm(rows @ vectors[:, 0], axis=1) / length
        scale = max(2.0 * 1.4826 * float(np.median(miss)), 1e-6)
        weights = 1.0 / (1.0 + (miss / scale) ** 2) ** 2 / length**2
    return np.abs(((S @ M) * L).sum(axis=1)), np.degrees(np.arcsin(np.minimum(miss, 1.0)))


def _with_surface(
    scene: Scene, intensities: NDArray[np.float64], distance: float | None, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return intensities (q,) that agree best with normals, albedo and the distance of the lamps."""
    from maxsparse.stereo.fit_scene import Pieces, find_lamps
    from maxsparse.stereo.fitting.consensus import consensus  # compiled code: loaded on first use

    for _ in range(ROUNDS):
        even = replace(scene, readings=(scene.readings / intensities).astype(np.float32))
        lamps = None if distance == math.inf else find_lamps(even, distance)
        fit = Pieces(even, lamps).fit(consensus, "intensities")
        known = np.flatnonzero((fit.albedo > 0) & (fit.confidence >= np.quantile(fit.confidence, SURE)))
        if len(known) < FEWEST:
            return intensities
        chosen = rng.permutation(known)[:PIXELS]
        intensities = intensities / _gains(*_seen(even, lamps, chosen), fit.take(chosen))
    return intensities


def _seen(scene: Scene, lamps: NearLamps | None, pixels: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
    """Return readings (p, q) of some pixels as if all lamps were equally far, and the lights (p, q, 3) they see."""
    readings = scene.readings[pixels].astype(np.float64)
    if lamps is None:
        return readings, np.broadcast_to(scene.lights, (len(pixels), *scene.lights.shape))
    return lamps.equalised(readings, pixels), lamps.seen_from(pixels)


def _gains(readings: FloatArray, lights: FloatArray, fit: Fit) -> NDArray[np.float64]:
    """Return the factors g (q,), with median 1, for which g times the readings fit to a surface best."""
    values = readings / fit.albedo[:, None]
    q = readings.shape[1]
    g, x = np.ones(q), np.asarray(fit.normals, dtype=np.float64)
    for _ in range(STEPS):
        predicted = np.einsum("pqi,pi->pq", lights, x)
        residual = np.abs(g * values - predicted)
        sigma = 1.4826 * np.nanmedian(np.where(fit.inliers, residual, np.nan), axis=1, keepdims=True)
        sigma = np.maximum(sigma, LEAST)
        weights = (predicted > LOWEST) / ((1.0 + (residual / (WIDE * sigma)) ** 2) * sigma) ** 2
        root = np.sqrt(weights)
        Q, R = np.linalg.qr(root[:, :, None] * lights)
        D = root * values
        across = (D[:, :, None] * Q).transpose(1, 0, 2).reshape(q, -1)
        total = np.maximum((D**2).sum(axis=0), 1e-12)
        scaled = (across @ across.T) / np.sqrt(np.outer(total, total))
        # Smallest eigenvector of total − across·acrossᵀ relative to total: the largest one of the scaled product.
        _, vectors = np.linalg.eigh(scaled)
        g = np.abs(vectors[:, -1]) / np.sqrt(total)
        g = g / np.median(g)
        x = np.linalg.solve(R + 1e-9 * np.eye(3), np.einsum("pqi,pq->pi", Q, D * g)[..., None])[..., 0]
    return np.asarray(g)
