"""What unmixing returns: materials with abundances, probabilities and alternatives, and whether the library fits."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.tables import html_table
from maxsparse.fields.spectra.table import Spectra
from maxsparse.fields.spectra.verdict import VERDICTS, hints, neighbour_correlation, verdict_numbers
from maxsparse.recovery import CredibleSet

__all__ = ["Material", "Unmixing"]

SHOWN = 10  # spectra in a notebook
HELD, LEAST_SHARE = 0.95, 0.05  # alternatives: share of a set's probability together; of the largest, each


class Material(NamedTuple):
    """One material of an answer.

    Attributes
    ----------
    name : str
        The most probable one.
    abundance, error : float
        Estimate and standard error, given that the materials are right.
    probability : float
        That it is in the mixture.
    alternatives : tuple of (str, float)
        Materials that may stand in its place, itself included, with probabilities: the fewest that hold 95 % of the
        probability of its credible set, without those below a twentieth of the largest. Where the data say little, two
        places may share them.
    """

    name: str
    abundance: float
    error: float
    probability: float
    alternatives: tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Unmixing:
    """Materials of N spectra.

    Attributes
    ----------
    library, spectra : Spectra
        As they were compared: on the wavelengths of the spectra.
    used : ndarray of shape (n,), bool
        Bands that were used.
    abundance, error, probability : ndarray of shape (N, m)
        Of every material of the library; errors are given that the materials are right.
    mean : ndarray of shape (N, m)
        Abundances on average over all sets of materials that are possible, by their probabilities. Where several are,
        it is closer to the truth on average than `abundance`, but names more materials than there are.
    confidence : ndarray of shape (N,)
        Probability that these are exactly the materials.
    fit : ndarray of shape (N, n)
        Materials and nuisances together; NaN where a band was not used.
    noise : ndarray of shape (N,)
        Standard deviation of the noise; relative to the given one where it was given per band.
    """

    library: Spectra
    spectra: Spectra
    used: NDArray[np.bool_]
    abundance: NDArray[np.float64]
    error: NDArray[np.float64]
    mean: NDArray[np.float64]
    probability: NDArray[np.float64]
    confidence: NDArray[np.float64]
    fit: NDArray[np.float64]
    noise: NDArray[np.float64]
    sets: tuple[tuple[CredibleSet, ...], ...]
    weight: NDArray[np.float64]  # (n,), 1/σ per band up to a factor; ones where noise is the same everywhere
    nuisances: tuple[str, ...] = ()  # those that were allowed for

    def __len__(self) -> int:
        return len(self.abundance)

    def __repr__(self) -> str:
        counts = np.count_nonzero(self.abundance, axis=1)
        return (
            f"Unmixing({len(self)} spectr{'um' if len(self) == 1 else 'a'}, library of {len(self.library)}, "
            f"{np.median(counts):g} materials (median), {self.used.sum()} of {self.used.size} bands)"
        )

    def _repr_html_(self) -> str:
        """Return the first spectra as a small table, for notebooks."""
        rows = []
        for i in range(min(len(self), SHOWN)):
            found = "; ".join(f"{m.name}: {m.abundance:.3g} ± {m.error:.1g}" for m in self.materials(i)) or "–"
            verdict, sure = self.verdict(i), f"{self.confidence[i]:.2f}"
            if verdict == VERDICTS[2]:
                found, sure = f"best attempt: {found}", "–"
            rows.append([self.spectra.names[i], verdict, sure, found])
        return html_table(repr(self), ("spectrum", "verdict", "confidence", "materials"), rows)

    @property
    def residual(self) -> NDArray[np.float64]:
        """Measured minus fit, (N, n); NaN where a band was not used."""
        return self.spectra.values - self.fit

    def materials(self, i: int = 0) -> list[Material]:
        """Return the materials of spectrum i, most abundant first.

        Parameters
        ----------
        i : int, default=0

        Returns
        -------
        materials : list of Material
        """
        i = self._number(i)
        names, found = self.library.names, []
        for j in np.flatnonzero(self.abundance[i]):
            own: CredibleSet | None = next((s for s in self.sets[i] if j in s.atoms), None)
            others = [(int(j), float(self.probability[i, j]))] if own is None else _alternatives(own, int(j))
            alternatives = tuple((names[a], p) for a, p in others)
            x, error, probability = (float(part[i, j]) for part in (self.abundance, self.error, self.probability))
            found.append(Material(names[j], x, error, probability, alternatives))
        return sorted(found, key=lambda material: -material.abundance)

    def verdict(self, i: int = 0) -> str:
        """Return whether the library explains spectrum i: "fits", "incomplete" or "none of the library".

        "incomplete": the residual is not noise, as neighbouring bands have similar residuals or some band has a far
        larger one: something that is not in the library, or a nuisance that was not allowed for. "none of the library":
        no material is found, or in most bands a quarter of the spectrum's variation is left.

        Parameters
        ----------
        i : int, default=0
        """
        return VERDICTS[self.verdict_numbers[self._number(i)]]

    @cached_property
    def verdict_numbers(self) -> NDArray[np.int8]:
        """Verdicts of all spectra, (N,): 0 fits, 1 incomplete, 2 none of the library."""
        rest, whole = ((part * self.weight)[:, self.used] for part in (self.residual, self.spectra.values))
        return verdict_numbers(rest, whole, np.asarray(self.abundance.any(axis=1)))

    def hints(self) -> list[str]:
        """Return what to try where the library does not fit: a sentence each, none if all is well."""
        correlation = neighbour_correlation((self.residual * self.weight)[:, self.used])
        return hints(self.verdict_numbers, correlation, len(self.library), self.nuisances)

    def table(self, i: int = 0) -> list[dict[str, Any]]:
        """Return the materials of spectrum i, most abundant first: one dict per material.

        Parameters
        ----------
        i : int, default=0

        Returns
        -------
        rows : list of dict
            With the keys ``spectrum``, ``verdict``, ``material``, ``abundance``, ``error``, ``probability`` and
            ``alternatives`` (a dict of names and probabilities); ``pandas.DataFrame(rows)`` is a table.
        """
        i = self._number(i)
        common = {"spectrum": self.spectra.names[i], "verdict": self.verdict(i)}
        rows = []
        for material in self.materials(i):
            fields = material._asdict() | {"alternatives": dict(material.alternatives)}
            rows.append(common | {"material": fields.pop("name"), **fields})
        return rows

    def plot(self, i: int = 0, *, axes: Any = None) -> Any:
        """Draw the measured spectrum, the fit, its materials and the residual.

        Parameters
        ----------
        i : int, default=0
        axes : pair of matplotlib Axes or None, default=None
            For the spectrum and for the residual; None makes a new figure.

        Returns
        -------
        axes : pair of matplotlib Axes
        """
        from maxsparse.fields.spectra.report import draw

        return draw(self, self._number(i), axes)

    def report(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``report.html``, one file that needs no network, and ``materials.csv`` to a folder.

        Parameters
        ----------
        folder : str or path
            Made if it does not exist.

        Returns
        -------
        path : Path
            Of the page.
        """
        from maxsparse.fields.spectra.report import write_report

        return write_report(self, Path(folder))

    def _number(self, i: int) -> int:
        if not -len(self) <= i < len(self):
            raise IndexError(f"spectrum {i} is out of range: there are {len(self)}")
        return i % len(self)


def _alternatives(own: CredibleSet, j: int) -> list[tuple[int, float]]:
    """Return the members of a set that matter, with probabilities, and material j in any case."""
    order = np.argsort(-own.probability, kind="stable")
    p = own.probability[order]
    before = np.cumsum(p) - p
    kept = (before < HELD * p.sum()) & (p >= LEAST_SHARE * p[0]) | (own.atoms[order] == j)
    return [(int(a), float(q)) for a, q in zip(own.atoms[order][kept], p[kept], strict=True)]
