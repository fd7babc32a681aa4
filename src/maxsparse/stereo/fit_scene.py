"""All pixels of a scene: fitted piece by piece, as if matt, under near lamps, and with the help of their neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.progress import track
from maxsparse._core.validation import FloatArray
from maxsparse.stereo.even_albedo import refit_evenly
from maxsparse.stereo.fitting.consensus import consensus
from maxsparse.stereo.fitting.fit import Fit
from maxsparse.stereo.fitting.lean import lean_on_neighbours
from maxsparse.stereo.fitting.neighbours import decide
from maxsparse.stereo.lamp_distance import distance_from
from maxsparse.stereo.material import Material, fit_as_if_matt
from maxsparse.stereo.methods.auto import expected_error
from maxsparse.stereo.near import NearLamps, points_of
from maxsparse.stereo.scene import Scene

__all__ = ["Pieces", "find_lamps", "fit_scene"]

CHUNK_PIXELS = 16384  # limits memory use, and updates the progress bar


@dataclass(frozen=True, eq=False)
class Pieces:
    """A scene in pieces that a method can fit: consecutive pixels, or tiles under near lamps.

    Attributes
    ----------
    scene : Scene
    lamps : NearLamps or None
    progress : bool
    """

    scene: Scene
    lamps: NearLamps | None = None
    progress: bool = False

    def fit(
        self,
        solver: Callable[[FloatArray, FloatArray], Fit],
        name: str,
        material: Material | None = None,
        normals: FloatArray | None = None,
    ) -> Fit:
        """Fit all pixels by a method; with a material, the readings that a matt surface with `normals` would give."""
        fits, pixels = [], self._pixels()
        for members in track(pixels, name if material is None else f"{name}, as if matt", self.progress):
            readings, lights = self._seen(members)
            if material is not None and normals is not None:
                readings = material.divided_out(readings, lights, normals[members])
            fits.append(solver(readings, lights))
        whole = Fit.join(fits)
        return whole if self.lamps is None else whole.take(np.argsort(np.concatenate(pixels), kind="stable"))

    def _pixels(self) -> list[NDArray[np.intp]]:
        """Return the numbers of the pixels of every piece."""
        if self.lamps is not None and len(self.scene.readings):
            return self.lamps.tiles(self.scene.mask)
        P = len(self.scene.readings)
        return [np.arange(first, min(first + CHUNK_PIXELS, P)) for first in range(0, max(P, 1), CHUNK_PIXELS)]

    def _seen(self, members: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Return readings and lights of a piece."""
        readings = np.ascontiguousarray(self.scene.readings[members].astype(np.float64))
        if self.lamps is None:
            return readings, self.scene.lights
        return self.lamps.equalised(readings, members), self.lamps.seen_from_all(members)


def find_lamps(scene: Scene, distance: float | None, *, progress: bool = False) -> NearLamps | None:
    """Return near lamps at a distance in widths of the picture; None for distant ones.

    Parameters
    ----------
    scene : Scene
    distance : float or None
        None: estimated, if the photographs determine it.
    progress : bool, default=False
    """
    if not len(scene.readings):
        return None
    first = Pieces(scene, progress=progress).fit(consensus, "lamps")
    if distance is None:
        found = distance_from([scene], [first])
        if not found.determined:
            return None
        distance = found.distance
    lamps = NearLamps(scene.lights, points_of(scene, first.normals), distance * scene.mask.shape[1])
    # Depth from normals that are wrong by the distance is wrong by it too.
    second = Pieces(scene, lamps, progress).fit(consensus, "lamps")
    return replace(lamps, points=points_of(scene, second.normals))


def fit_scene(
    pieces: Pieces, solver: Callable[[FloatArray, FloatArray], Fit], name: str, *, material: bool, context: bool
) -> Fit:
    """Fit all pixels of a scene.

    Parameters
    ----------
    pieces : Pieces
    solver : callable
        ``solver(readings, lights) -> Fit``.
    name : str
        Of the method, for the progress bar.
    material : bool
        Divide the readings by the common material, where that helps.
    context : bool
        Let unsure normals lean on their neighbours; for a method whose confidence tells the expected error.

    Returns
    -------
    fit : Fit
    """
    scene, lamps = pieces.scene, pieces.lamps

    def solve(shared: Material | None = None, normals: FloatArray | None = None) -> Fit:
        return decide(pieces.fit(solver, name, shared, normals), scene.mask)

    if material:
        fit, shared = fit_as_if_matt(solve, scene.readings, scene.lights, lamps)
        if shared is not None and lamps is None:
            fit = refit_evenly(scene.readings, scene.lights, fit, scene.mask, shared)
    else:
        fit = solve()
    return lean_on_neighbours(fit, scene.mask, expected_error(fit.confidence)) if context else fit
