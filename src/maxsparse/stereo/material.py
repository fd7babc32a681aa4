"""The common reflectance of all pixels of a scene: estimated from all of them, then divided out of the readings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from maxsparse._core.compiled import kernel
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray
from maxsparse.stereo.fitting.consensus import lit_level
from maxsparse.stereo.fitting.fit import Fit
from maxsparse.stereo.near import NearLamps

__all__ = ["Material", "find_material", "fit_as_if_matt"]

LAMBERT, BURLEY, FLAT, GGX = 0.0, 1.0, 2.0, 3.0
ROUGHNESSES = (0.1, 0.14, 0.2, 0.28, 0.38, 0.5, 0.65, 0.85)
# Kind, roughness or exponent, reflectance at normal incidence. A material is a set of non-negative weights over them.
TERMS = np.array(
    [(LAMBERT, 0.0, 0.0)]
    + [(BURLEY, roughness, 0.0) for roughness in (0.0, 0.5, 1.0)]
    + [(FLAT, 0.7, 0.0)]
    + [(GGX, roughness, f0) for f0 in (0.04, 1.0) for roughness in ROUGHNESSES]
)
PIXELS = 4000  # used to estimate a material
FEWEST = 200
ROUNDS = 8  # of reweighting
SURE = 0.3  # quantile of the confidence below which pixels are not used for the material
GRAZING = 0.15  # n·v below which pixels are not used either
LEAST = 0.003  # smallest scatter used for the weights of readings
CORRECTIONS = 2
LOOSE = 0.06  # scatter above which one material describes the scene only if a correction helps much
HOPELESS = 0.3  # scatter above which no correction is tried


@dataclass(frozen=True, eq=False)
class Material:
    """A mixture of reflectances, relative to the albedo.

    Attributes
    ----------
    weights : ndarray of shape (K,)
        Non-negative, one for every row of `TERMS`.
    scatter : float
        Typical residual of lit readings, relative to the albedo or, if larger, to the reading.
    """

    weights: FloatArray
    scatter: float

    @classmethod
    def matt(cls, scatter: float) -> Material:
        """Return Lambert's reflectance."""
        return cls((TERMS[:, 0] == LAMBERT).astype(np.float64), scatter)

    def divided_out(self, readings: FloatArray, lights: FloatArray, normals: FloatArray) -> FloatArray:
        """Return the readings (P, q) that a matt surface with the same normals (P, 3) would give.

        Readings in or near attached shadows (n·l below 0.02) are not changed; no reading is multiplied by more than 3
        or divided by more than 20.
        """
        used = self.weights > 0
        matt = np.array(readings, dtype=np.float64, order="C")
        directions = np.ascontiguousarray(lights, dtype=np.float64)
        over_slices(
            _divide_rows, len(matt), matt, directions, np.ascontiguousarray(normals), TERMS[used], self.weights[used]
        )
        return matt


def find_material(
    readings: FloatArray, lights: FloatArray, fit: Fit, lamps: NearLamps | None = None
) -> Material | None:
    r"""Estimate the material that best explains the readings of the most confident pixels, given their normals.

    .. math:: \min_{c \ge 0} \sum_{p,i} w_{pi} \Bigl(\frac{o_{pi}}{\rho_p} - \sum_k c_k f_k(n_p, l_i)\Bigr)^2

    over lit readings. The weights w are those of Geman and McClure, which suppress shadows and interreflections,
    divided by 1 + the square of the prediction, since errors grow with brightness. The f are Lambert's cosine, Burley's
    diffuse term [1]_, a flattened cosine, and lobes of GGX [2]_.

    Parameters
    ----------
    readings : ndarray of shape (P, q)
    lights : ndarray of shape (q, 3)
    fit : Fit
    lamps : NearLamps or None, default=None
        Instead of distant `lights`.

    Returns
    -------
    material : Material or None
        None if too few pixels are confident, or none of their readings is lit.

    References
    ----------
    .. [1] B. Burley, "Physically based shading at Disney", SIGGRAPH courses, 2012.
    .. [2] B. Walter et al., "Microfacet models for refraction through rough surfaces", EGSR 2007.
    """
    usable = (fit.albedo > 0) & (fit.normals[:, 2] > GRAZING)
    if not usable.any():
        return None
    good = np.flatnonzero(usable & (fit.confidence >= np.quantile(fit.confidence[usable], SURE)))
    if len(good) < FEWEST:
        return None
    pixels = good[np.linspace(0, len(good) - 1, min(PIXELS, len(good))).astype(np.intp)]
    some: FloatArray = np.maximum(readings[pixels], 0.0).astype(np.float64)
    every: FloatArray = np.broadcast_to(lights, (len(pixels), *lights.shape))
    if lamps is not None:
        some, every = lamps.equalised(some, pixels), lamps.seen_from(pixels)
    rows, columns = np.nonzero(some > lit_level(some)[:, None])
    normals = np.ascontiguousarray(fit.normals[pixels], dtype=np.float64)
    A = _design(normals, np.ascontiguousarray(every, dtype=np.float64), rows, columns, TERMS)
    if not A.any():
        return None
    b = some[rows, columns] / fit.albedo[pixels][rows]
    weights = 1.0 / (1.0 + b**2)
    for _ in range(ROUNDS):
        c = _nonnegative(A, b, weights)
        predicted = A @ c
        bright = 1.0 + predicted**2  # errors grow with readings above the albedo
        residual = np.abs(b - predicted) / np.sqrt(bright)
        scatter = 1.4826 * float(np.median(residual))
        weights = 1.0 / (1.0 + (residual / (2.0 * max(scatter, LEAST))) ** 2) ** 2 / bright
    return Material(c, scatter)


def fit_as_if_matt(
    solve: Callable[[Material | None, FloatArray | None], Fit],
    readings: FloatArray,
    lights: FloatArray,
    lamps: NearLamps | None = None,
) -> tuple[Fit, Material | None]:
    """Fit, divide the readings by the common material, and fit again, as long as readings and normals agree better.

    Parameters
    ----------
    solve : callable
        ``solve(material, normals) -> Fit`` fits the readings that ``material.divided_out`` gives for these normals; the
        unchanged readings if both are None.
    readings : ndarray of shape (P, q)
    lights : ndarray of shape (q, 3)
    lamps : NearLamps or None, default=None
        Instead of distant `lights`.

    Returns
    -------
    fit : Fit
    material : Material or None
        Material of the readings that agree with the fit, with the remaining scatter: matt if no correction was kept;
        None if it cannot be estimated.

    Notes
    -----
    A wrong material can compensate wrong normals, so a correction is kept only if, with the new normals and the
    material estimated again, the scatter is smaller than before by 2 % + 0.4/q (where it is above 6 % of the albedo: by
    20 % + 0.4/q). This is not the case if materials vary over the scene or most of the scatter comes from
    interreflections.
    """
    fit = solve(None, None)
    material = find_material(readings, lights, fit, lamps)
    if material is None or material.scatter > HOPELESS:
        return fit, None
    kept = Material.matt(material.scatter)
    for _ in range(CORRECTIONS):
        again = solve(material, fit.normals)
        after = find_material(readings, lights, again, lamps)
        if after is None or after.scatter > _worth(len(lights), material.scatter) * material.scatter:
            break
        fit, material = again, after
        kept = after
    return fit, kept


def _worth(q: int, scatter: float) -> float:
    """Return the ratio of new to old scatter below which a correction is kept.

    The fewer the lights, the more of the scatter the three unknowns of a pixel can absorb. Where one material hardly
    describes the scene, as it is before the first correction of a metal, the improvement must be large.
    """
    return (0.98 if scatter < LOOSE else 0.8) - 0.4 / q


def _nonnegative(A: FloatArray, b: FloatArray, weights: FloatArray) -> FloatArray:
    """Solve weighted non-negative least squares via the normal equations; A (N, K) has very many rows."""
    weighted = A * weights[:, None]
    gram = weighted.T @ A
    gram[np.diag_indices_from(gram)] += 1e-6 * np.trace(gram) / len(gram)  # lobes of similar roughness are nearly equal
    R = np.linalg.cholesky(gram).T
    return np.asarray(nnls(R, np.linalg.solve(R.T, weighted.T @ b))[0])


@kernel()
def _term(term: NDArray[Any], nl: float, nv: float, nh: float, lh: float) -> float:
    """Return one reflectance times n·l; nl, nv, nh, lh are the cosines between normal, light, view and half vector."""
    if term[0] == LAMBERT:
        return nl
    if term[0] == BURLEY:
        edge = 2.0 * lh * lh * term[1] - 0.5
        burley: float = nl * (1.0 + edge * (1.0 - nl) ** 5) * (1.0 + edge * (1.0 - nv) ** 5)
        return burley
    if term[0] == FLAT:
        flat: float = nl ** term[1]
        return flat
    alpha = term[1] * term[1]
    peak = nh * nh * (alpha * alpha - 1.0) + 1.0
    k = alpha / 2.0
    shading = nl / (nl * (1.0 - k) + k) / (nv * (1.0 - k) + k)
    lobe: float = alpha * alpha / (peak * peak) * shading * (term[2] + (1.0 - term[2]) * (1.0 - lh) ** 5) / 4.0
    return lobe


@kernel()
def _cosines(normal: NDArray[Any], light: NDArray[Any]) -> tuple[float, float, float, float]:
    """Return nl, nv, nh and lh; the view is along z, so the half vector is (l + z)/‖l + z‖, and l·h = ‖l + z‖/2."""
    nl = normal[0] * light[0] + normal[1] * light[1] + normal[2] * light[2]
    length = max(np.sqrt(2.0 + 2.0 * light[2]), 1e-6)
    return nl, max(normal[2], 0.02), min(max((nl + normal[2]) / length, 0.0), 1.0), min(length / 2.0, 1.0)


@kernel()
def _design(
    normals: NDArray[Any], lights: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any], terms: NDArray[Any]
) -> NDArray[Any]:
    A = np.zeros((len(rows), len(terms)))
    for i in range(len(rows)):
        nl, nv, nh, lh = _cosines(normals[rows[i]], lights[rows[i], columns[i]])
        if nl > 0.0:
            for k in range(len(terms)):
                A[i, k] = _term(terms[k], nl, nv, nh, lh)
    return A


@kernel()
def _divide_rows(
    piece: int,
    pieces: int,
    readings: NDArray[Any],
    lights: NDArray[Any],
    normals: NDArray[Any],
    terms: NDArray[Any],
    weights: NDArray[Any],
) -> None:
    P, q = readings.shape
    for row in range(piece, P, pieces):
        for i in range(q):
            nl, nv, nh, lh = _cosines(normals[row], lights[i])
            if nl > 0.02:  # near the terminator the ratio depends more on the normal than on the material
                value = 0.0
                for k in range(len(terms)):
                    value += weights[k] * _term(terms[k], nl, nv, nh, lh)
                readings[row, i] *= min(max(nl / max(value, 1e-9), 0.05), 3.0)
