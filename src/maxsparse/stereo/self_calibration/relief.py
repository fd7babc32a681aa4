"""How deep the relief is: the one unknown that even albedo leaves loosest, from how well one material explains it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import FloatArray
from maxsparse.stereo.self_calibration.cues import Cues, lights_of, residuals

__all__ = ["settle_relief"]

PIXELS = 1500
DEPTHS = (0.7, 0.8, 0.9, 1.0, 1.12)  # steps of the search, relative to the first guess; ascending
LOOSE = 0.02  # scatter above which interreflections or several materials, not the relief, decide over it
WEIGHT = 150.0  # of the logarithm of the scatter, in units of the cost of the cues


def settle_relief(
    A: FloatArray, cues: Cues, lights: FloatArray, readings: FloatArray, rng: np.random.Generator
) -> NDArray[np.float64]:
    r"""Return A with its third row rescaled, so that cues and material agree best.

    .. math:: \min_\lambda \; \operatorname{cost}\bigl(\operatorname{diag}(1, 1, 1/\lambda) A\bigr)
              + 150 \log \sigma(\lambda)

    σ is the scatter of the readings around one material (:func:`maxsparse.stereo.material.find_material`), with
    normals of ``auto`` for these lights: highlights are where the half vector is the normal, which a relief of another
    depth violates.

    Parameters
    ----------
    A : ndarray of shape (3, 3)
    cues : Cues
    lights : ndarray of shape (q, 3)
        S, the lights' factor.
    readings : ndarray of shape (P, q)
    rng : numpy.random.Generator
        Draws the pixels that are used.

    Returns
    -------
    A : ndarray of shape (3, 3)
        Unchanged if the scatter is above 2 % of the albedo.
    """
    some = readings[rng.permutation(len(readings))[:PIXELS]]
    scaled = [np.diag([1.0, 1.0, 1.0 / depth]) @ A for depth in DEPTHS]
    costs = np.array([_cost(candidate / np.linalg.norm(candidate), cues, lights, some) for candidate in scaled])
    if not np.isfinite(costs).all():  # no material, or not one for the whole object
        return np.asarray(A)
    k = int(np.clip(np.argmin(costs), 1, len(costs) - 2))
    x, y = np.log(DEPTHS[k - 1 : k + 2]), costs[k - 1 : k + 2]
    a, b, _ = np.polyfit(x - x[1], y, 2)
    step = float(np.clip(-b / (2.0 * a), x[0] - x[1], x[2] - x[1])) if a > 0 else float(x[np.argmin(y)] - x[1])
    return np.diag([1.0, 1.0, float(np.exp(-(x[1] + step)))]) @ A


def _cost(A: FloatArray, cues: Cues, lights: FloatArray, readings: FloatArray) -> float:
    from maxsparse.stereo.material import find_material
    from maxsparse.stereo.methods.auto import auto

    directions, intensities = lights_of(A, lights)
    even = readings / intensities
    fit = auto(even, directions)
    material = find_material(even, directions, fit)
    if material is not None:
        fit = auto(material.divided_out(even, directions, fit.normals), directions)
        material = find_material(even, directions, fit)
    if material is None or material.scatter > LOOSE:
        return np.inf
    return float((residuals(A, cues) ** 2).sum()) + WEIGHT * float(np.log(max(material.scatter, 1e-6)))
