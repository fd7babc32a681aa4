"""Result of every method for a batch of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import FloatArray

__all__ = ["Fit", "agreement"]

EXPLAINED = 0.02  # of the albedo: residuals this small count as explained


@dataclass(frozen=True, eq=False)
class Fit:
    """Normals of P pixels under q lights.

    Attributes
    ----------
    normals : ndarray of shape (P, 3)
        Unit vectors; zero where the readings do not determine a normal.
    albedo : ndarray of shape (P,)
        Diffuse reflectance, in the units of the readings.
    inliers : ndarray of shape (P, q), bool
        Readings that the normal was fitted to.
    confidence : ndarray of shape (P,)
        From 0 to 1.
    rivals : ndarray of shape (P, K, 3) or None
        Other possible normals of a pixel, scaled by the albedo; zero where there is none. Once all pixels of a scene
        are fitted, neighbours decide (:func:`maxsparse.stereo.fitting.neighbours.decide`).
    """

    normals: FloatArray
    albedo: FloatArray
    inliers: NDArray[np.bool_]
    confidence: FloatArray
    rivals: FloatArray | None = None

    @classmethod
    def from_scaled(cls, scaled: FloatArray, inliers: NDArray[np.bool_], confidence: FloatArray) -> Fit:
        """Split normals scaled by the albedo, (P, 3), into direction and length."""
        albedo = np.linalg.norm(scaled, axis=1)
        normals = np.divide(scaled, albedo[:, None], out=np.zeros_like(scaled), where=albedo[:, None] > 0)
        return cls(normals, albedo, inliers, np.where(albedo > 0, confidence, 0.0))

    @classmethod
    def explaining(cls, readings: FloatArray, lights: FloatArray, scaled: FloatArray) -> Fit:
        """Count as inliers the readings that scaled normals (P, 3) explain to within 2 % of the albedo."""
        residual = np.abs(readings - np.einsum("pi,qi->pq", scaled, lights))
        inliers = residual <= EXPLAINED * np.linalg.norm(scaled, axis=1, keepdims=True)
        return cls.from_scaled(scaled, inliers, agreement(readings, lights, scaled, inliers))

    def take(self, pixels: NDArray[np.intp]) -> Fit:
        """Return the fits of some pixels, in this order."""
        rivals = None if self.rivals is None else self.rivals[pixels]
        return Fit(self.normals[pixels], self.albedo[pixels], self.inliers[pixels], self.confidence[pixels], rivals)

    @classmethod
    def join(cls, fits: Sequence[Fit]) -> Fit:
        """Concatenate the fits of several batches of pixels."""
        if len(fits) == 1:
            return fits[0]
        names = ["normals", "albedo", "inliers", "confidence"]
        if all(fit.rivals is not None for fit in fits):
            names.append("rivals")
        return cls(**{name: np.concatenate([getattr(fit, name) for fit in fits]) for name in names})


def agreement(
    readings: FloatArray, lights: FloatArray, scaled: FloatArray, inliers: NDArray[np.bool_]
) -> NDArray[np.float64]:
    r"""Confidence of a fit from its inliers, (P,).

    .. math:: \frac{k - 3}{k + 1} \cdot \frac{1}{1 + (10\, s / \rho)^2}

    with k inliers of root mean square error s (three degrees of freedom used) and albedo ρ: high if many more readings
    than the three that any normal explains agree to within a few per cent of the albedo.
    """
    predicted = np.maximum(np.einsum("pi,qi->pq", scaled, lights), 0.0)
    count = inliers.sum(axis=1)
    square = np.where(inliers, (readings - predicted) ** 2, 0.0).sum(axis=1) / np.maximum(count - 3, 1)
    albedo2 = np.maximum((scaled**2).sum(axis=1), 1e-12)
    confidence: NDArray[np.float64] = np.maximum(count - 3, 0) / (count + 1) / (1.0 + 100.0 * square / albedo2)
    return confidence
