"""Active places as MNE-Python's objects, and their picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.tables import html_table
from maxsparse.fields.brain.locate import Located
from maxsparse.fields.brain.prepare import Prepared
from maxsparse.fields.brain.refine import refined

__all__ = ["BrainSources", "answer"]

LEAST_SHOWN = 1e-3  # probability of a place in the estimate of probabilities
CLASSES = {
    "surface": ("SourceEstimate", "VectorSourceEstimate"),
    "volume": ("VolSourceEstimate", "VolVectorSourceEstimate"),
    "discrete": ("VolSourceEstimate", "VolVectorSourceEstimate"),
    "mixed": ("MixedSourceEstimate", "MixedVectorSourceEstimate"),
}


@dataclass(frozen=True, eq=False, repr=False)
class BrainSources:
    """Active places and how sure they are.

    Attributes
    ----------
    stc : mne.SourceEstimate, mne.VolSourceEstimate or mne.MixedSourceEstimate
        Time courses of the active places in Am; with ``pick_ori="vector"`` the estimate has three of each.
    probability : the same kind of estimate
        Probability of every place to be active, one sample in time; places below 0.001 are left out.
    dipoles : list of mne.Dipole
        The active places. Their goodness of fit is that of all of them together.
    places : ndarray of shape (K,), int
        Numbers of the active places in the forward solution.
    positions : ndarray of shape (K, 3)
        Of the sources, in metres, in the coordinates of the forward solution. With free orientations they may lie
        between the places, where the measurements tell it.
    confidence : float
        Probability that these are exactly the active places.
    noise : float
        Standard deviation of the whitened noise: 1 if `noise_cov` is that of the average, 1/√n if it is that of single
        trials and n were averaged.
    """

    stc: Any
    probability: Any
    dipoles: list[Any]
    places: NDArray[np.intp]
    positions: NDArray[np.float64]
    confidence: float
    noise: float
    _space: NDArray[np.float64]
    _inclusion: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        lines = [f"{len(self)} active place{'' if len(self) == 1 else 's'}, confidence {self.confidence:.2f}"]
        for row in self.table():
            where = ", ".join(f"{row[axis]:.0f}" for axis in "xyz")
            peak = f"{row['peak_nam']:.3g} nAm at {row['peak_ms']:.0f} ms"
            lines.append(f"  ({where}) mm: {peak}, probability {row['probability']:.2f}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the places as a small table, for notebooks."""
        rows = []
        for row in self.table():
            where = ", ".join(f"{row[axis]:.0f}" for axis in "xyz")
            peak = f"{row['peak_nam']:.3g} nAm at {row['peak_ms']:.0f} ms"
            rows.append([str(row["place"]), where, peak, f"{row['probability']:.2f}"])
        title = f"{len(self)} active place{'' if len(self) == 1 else 's'}, confidence {self.confidence:.2f}"
        return html_table(title, ("place", "x, y, z in mm", "peak", "probability"), rows)

    def table(self) -> list[dict[str, Any]]:
        """Return one row per place, for a table: its number, coordinates in mm, peak in nAm and ms, probability."""
        rows = []
        for place, position, dipole in zip(self.places, 1e3 * self.positions, self.dipoles, strict=True):
            peak = int(np.argmax(np.abs(dipole.amplitude)))
            where = dict(zip("xyz", position.tolist(), strict=True))
            height = {"peak_nam": 1e9 * abs(float(dipole.amplitude[peak])), "peak_ms": 1e3 * float(dipole.times[peak])}
            rows.append({"place": int(place), **where, **height, "probability": float(self._inclusion[place])})
        return rows

    def plot(self, *, truth: ArrayLike | None = None, axes: Any = None) -> Any:
        """Draw the places from above, behind and the right, and their time courses.

        Parameters
        ----------
        truth : array-like of shape (K, 3) or None, default=None
            True positions in metres, drawn as crosses.
        axes : sequence of four axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        axes : ndarray of four axes
        """
        from maxsparse.fields.brain.picture import draw

        return draw(self, self._space, self._inclusion, truth, axes)


def answer(
    mne: Any, evoked: Any, problem: Prepared, found: Located, *, vector: bool, between: bool = False
) -> BrainSources:
    """Put what was found into MNE-Python's objects."""
    head = problem.head
    forward, o = head.forward, head.gain.o
    columns = (found.places[:, None] * o + np.arange(o)).ravel()
    X = (found.X * head.weighting[columns, None]).reshape(len(found.places), o, found.X.shape[1])
    axes = np.asarray(forward["source_nn"]).reshape(-1, o, 3)[found.places]  # of the components of every place
    moments = np.einsum("kot,koc->kct", X, axes)  # x, y, z in the head
    length = X[:, 0] if o == 1 else np.linalg.norm(moments, axis=1)
    begin, step = evoked.times[0], 1.0 / evoked.info["sfreq"]
    stc = _estimate(mne, forward, found.places, moments if vector else length, begin, step, vector=vector)
    shown = np.flatnonzero(found.inclusion > LEAST_SHOWN)
    probability = _estimate(mne, forward, shown, found.inclusion[shown, None], 0.0, 1.0, vector=False)
    positions = np.asarray(forward["source_rr"], dtype=float)
    own = refined(problem.M, head, found) if between else positions[found.places]
    left = np.sum((problem.M - head.gain.G[:, columns] @ found.X) ** 2, axis=0)
    total = np.sum(problem.M**2, axis=0)
    gof = 100.0 * (1.0 - left / np.where(total > 0, total, 1.0))
    dipoles = []
    for k, place in enumerate(own):
        size = length[k]
        moving = (moments[k] / np.where(size > 0, size, 1.0)).T
        direction = np.tile(axes[k, 0], (len(size), 1)) if o == 1 else moving
        dipoles.append(mne.Dipole(evoked.times, np.tile(place, (len(size), 1)), size, direction, gof))
    return BrainSources(
        stc, probability, dipoles, found.places, own, found.confidence, found.noise, positions, found.inclusion
    )


def _estimate(
    mne: Any, forward: Any, places: NDArray[np.intp], data: NDArray[Any], begin: float, step: float, *, vector: bool
) -> Any:
    """Return values of some places, in ascending order, as a source estimate."""
    spaces, vertices, start = forward["src"], [], 0
    for space in spaces:
        inside = places[(places >= start) & (places < start + space["nuse"])] - start
        vertices.append(np.asarray(space["vertno"])[inside])
        start += space["nuse"]
    kind = getattr(mne, CLASSES[spaces.kind][vector])
    return kind(data, vertices, tmin=begin, tstep=step, subject=spaces[0].get("subject_his_id"))
