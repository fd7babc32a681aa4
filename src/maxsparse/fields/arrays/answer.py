"""``Directions``: the sources that were found, as text, table and picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.tables import html_table

__all__ = ["Directions"]

NOTHING = "no source: the snapshots look like noise, which as many sources as sensors can do too"


@dataclass(frozen=True, eq=False, repr=False)
class Directions:
    """Sources that an array hears, strongest first.

    Attributes
    ----------
    azimuth : ndarray of shape (K,), degrees
    elevation : ndarray of shape (K,), degrees
        Zeros where only azimuths were asked for.
    azimuth_error, elevation_error : ndarray of shape (K,), degrees
        Standard errors.
    powers : ndarray of shape (K,)
        Mean power of every source at one sensor; over all frequencies.
    probability : ndarray of shape (K,)
        That there is a source there: shared with the directions of `ambiguous`.
    confidence : float
        Probability that the number of sources is right.
    number_probability : ndarray
        Probability of 0, 1, 2, … sources; what is left to 1 is that of more sources than the array can tell apart.
    noise : float
        Standard deviation of the noise at a sensor.
    gains : ndarray of shape (n,), complex
        Of the sensors; ones unless `calibration` was given.
    ambiguous : list of list of (float, float)
        For every source, other azimuths and elevations in the field of view from which its waves look the same.
    outside : int
        Number of sources outside the field of view.
    grid, spectrum : ndarray of shape (m, d) and (m,)
        Power that a beamformer receives from every direction, for the picture.
    """

    azimuth: NDArray[np.float64]
    elevation: NDArray[np.float64]
    azimuth_error: NDArray[np.float64]
    elevation_error: NDArray[np.float64]
    powers: NDArray[np.float64]
    probability: NDArray[np.float64]
    confidence: float
    number_probability: NDArray[np.float64]
    noise: float
    gains: NDArray[np.complex128]
    ambiguous: list[list[tuple[float, float]]]
    outside: int
    grid: NDArray[np.float64]
    spectrum: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.azimuth)

    def __repr__(self) -> str:
        two = self._two
        shown = []
        for k, row in enumerate(self.table()):
            text = f"{row['azimuth']:.2f}° ± {row['azimuth_error']:.2g}°"
            text = f"({text}, {row['elevation']:.2f}° ± {row['elevation_error']:.2g}°)" if two else text
            shown.append(f"{text} or {self.same_as(k)}" if self.ambiguous[k] else text)
        beyond = f"; {self.outside} outside the field of view" if self.outside else ""
        return f"Directions({', '.join(shown) or NOTHING}{beyond}; confidence {self.confidence:.2f})"

    @property
    def _two(self) -> bool:
        return bool(self.grid.shape[1] == 2)

    def same_as(self, k: int) -> str:
        """Return the directions that source k cannot be told from, as text; empty if there are none."""
        return ", ".join(f"({a:.2f}°, {e:.2f}°)" if self._two else f"{a:.2f}°" for a, e in self.ambiguous[k])

    def _repr_html_(self) -> str:
        """Return the sources as a small table, for notebooks."""
        two, unsure = self._two, any(self.ambiguous)
        rows = []
        for k, row in enumerate(self.table()):
            angles = [f"{row['azimuth']:.2f}° ± {row['azimuth_error']:.2g}°"]
            angles += [f"{row['elevation']:.2f}° ± {row['elevation_error']:.2g}°"] if two else []
            angles += [self.same_as(k)] if unsure else []
            rows.append([*angles, f"{row['power_db']:.1f} dB", f"{row['probability']:.2f}"])
        head = ["azimuth", *(["elevation"] if two else []), *(["or"] if unsure else []), "power", "probability"]
        return html_table(f"{len(self)} sources, confidence {self.confidence:.2f}", head, rows)

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per source; ``pandas.DataFrame`` makes a table of them."""
        keys = ("azimuth", "azimuth_error", "elevation", "elevation_error", "probability")
        rows: list[dict[str, Any]] = [{key: float(getattr(self, key)[k]) for key in keys} for k in range(len(self))]
        for row, power, same in zip(rows, self.powers, self.ambiguous, strict=True):
            row |= {"power_db": float(10 * np.log10(power)), "ambiguous": same}
        return rows

    def plot(self, *, truth: ArrayLike | None = None, axes: Any = None) -> Any:
        """Draw the power that a beamformer receives and the sources with their standard errors.

        Parameters
        ----------
        truth : array-like of shape (K,) or (K, 2), or None, default=None
            True directions in degrees.
        axes : matplotlib Axes or None, default=None
            None makes a new figure.

        Returns
        -------
        axes : matplotlib Axes
        """
        from maxsparse.fields.arrays.picture import draw

        return draw(self, truth, axes)
