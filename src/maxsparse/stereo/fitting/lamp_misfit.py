"""How badly readings agree with lamps at a distance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.sorting import median
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray
from maxsparse.stereo.fitting.kernels import fit as fit_readings

__all__ = ["SomePixels", "log_misfit"]

ROUNDS = 12  # of reweighting


class SomePixels(NamedTuple):
    """Readings of some pixels, and where they are."""

    readings: NDArray[np.float64]  # (p, q)
    lit: NDArray[np.bool_]  # (p, q)
    lights: NDArray[np.float64]  # (q, 3)
    points: NDArray[
        np.float64
    ]  # (p, 3), from the middle of the picture; in units of the lamps' distance for `log_misfit`
    normals: NDArray[np.float64]  # (p, 3), of distant lights


def log_misfit(some: SomePixels) -> FloatArray:
    """Return the logarithm of every pixel's median misfit relative to its albedo."""
    out = np.zeros(len(some.readings))
    over_slices(_misfit_rows, len(out), some, out)
    return out


@kernel()
def _misfit_rows(piece: int, pieces: int, some: SomePixels, out: NDArray[Any]) -> None:
    readings, lit, lights, points, _ = some
    P, q = readings.shape
    A, o = np.empty((q, 3)), np.empty(q)
    weights, size = np.empty(q), np.empty(q)
    x = np.empty(3)
    for row in range(piece, P, pieces):
        for i in range(q):
            square = 0.0
            for c in range(3):
                A[i, c] = lights[i, c] - points[row, c]
                square += A[i, c] * A[i, c]
            o[i] = readings[row, i] * square * np.sqrt(square)
            weights[i] = 1.0 if lit[row, i] else 0.0
        scatter = 1.0
        for _ in range(ROUNDS):
            if not fit_readings(o, A, weights, x):
                break
            albedo = max(np.sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]), 1e-300)
            count = 0
            for i in range(q):
                if lit[row, i]:
                    size[count] = abs(o[i] - A[i, 0] * x[0] - A[i, 1] * x[1] - A[i, 2] * x[2]) / albedo
                    count += 1
            scatter = median(size, count) + 1e-5
            for i in range(q):
                if lit[row, i]:
                    z = (o[i] - A[i, 0] * x[0] - A[i, 1] * x[1] - A[i, 2] * x[2]) / (2.0 * scatter * albedo)
                    weights[i] = 1.0 / ((1.0 + z * z) * (1.0 + z * z))
        out[row] = np.log(scatter)
