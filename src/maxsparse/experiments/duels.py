"""One curve against another, d by d: where it is ahead, where behind, and what that says about a claim."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from maxsparse._core.validation import FloatArray
from maxsparse.experiments.data import Data
from maxsparse.experiments.experiment import Table

__all__ = ["RULE", "Duel", "all_higher", "compare", "duel", "standard_error"]

FLOOR, CEILING = 0.005, 0.995
RULE = (
    "Higher means: behind at no d ≥ 2, ahead at more than half. Level means within two standard errors. Left out: "
    f"both at most {FLOOR} or at least {CEILING}."
)
MEASURES = ("strict", "loose")


class Duel:
    """Where one curve is ahead of another, beyond what the number of test signals leaves open.

    Where both recover next to nothing or next to everything they are neither ahead nor level nor behind.
    """

    def __init__(self, cells: list[tuple[int, float, float, float]]) -> None:
        self.cells = cells  # d, first, second, standard error of the difference
        self.telling = [cell for cell in cells if max(cell[1:3]) > FLOOR and min(cell[1:3]) < CEILING]
        self.ahead = [d for d, a, b, error in self.telling if a - b > 2.0 * error]
        self.behind = [d for d, a, b, error in self.telling if b - a > 2.0 * error]

    @property
    def higher(self) -> bool | None:
        """Whether the first is behind nowhere and ahead at more than half of the d that tell; None where none does."""
        return not self.behind and 2 * len(self.ahead) > len(self.telling) if self.telling else None

    @property
    def means(self) -> tuple[float, float]:
        """Means of both over d; NaN where nothing was compared."""
        if not self.cells:
            return math.nan, math.nan
        return float(np.mean([a for _, a, _, _ in self.cells])), float(np.mean([b for _, _, b, _ in self.cells]))

    @property
    def mean(self) -> float:
        """Mean difference over d; NaN where nothing was compared."""
        first, second = self.means
        return first - second

    @property
    def row(self) -> list[str]:
        """Cells of a table: both means, and the d at which the first is ahead, level, behind and not compared."""
        level = [d for d, *_ in self.telling if d not in self.ahead and d not in self.behind]
        telling = [d for d, *_ in self.telling]
        left_out = [d for d, *_ in self.cells if d not in telling]
        first, second = self.means
        return [f"{first:.3f}", f"{second:.3f}", *map(_spell, (self.ahead, level, self.behind, left_out))]


def duel(first: Data, second: Data, measure: str, signals_per_point: int, *, start: int = 2) -> Duel:
    """Compare two curves at every d from `start` on."""
    cells = []
    for d in sorted(set(first.unique("d")) & set(second.unique("d"))):
        a, b = first.values(measure, d=d), second.values(measure, d=d)
        if d >= start and a.size and b.size:
            cells.append((d, float(a.mean()), float(b.mean()), standard_error(a, b, signals_per_point)))
    return Duel(cells)


def all_higher(duels: Sequence[Duel]) -> bool | None:
    """Tell whether the first curve is higher in every duel that tells; None where none does."""
    found = [duel.higher for duel in duels if duel.higher is not None]
    return all(found) if found else None


def compare(
    pairs: Mapping[tuple[str, str], tuple[Data, Data]], signals_per_point: int
) -> tuple[str, bool | None, Table]:
    """Compare pairs of curves under both metrics.

    Parameters
    ----------
    pairs : mapping of (str, str) to (Data, Data)
        What is said to be higher, and what it is compared with, by their labels.
    signals_per_point : int
        Test signals behind every accuracy of a seed.

    Returns
    -------
    measured : str
        One line.
    higher : bool or None
        Whether the first is higher in all of them.
    table : Table
        Where it is ahead, level and behind.
    """
    duels = {
        (*names, measure): duel(*curves, measure, signals_per_point)
        for names, curves in pairs.items()
        for measure in MEASURES
    }
    higher = all_higher(list(duels.values()))
    lost = [
        f"{second} at d = {_spell(found.behind)} ({measure})" if found.behind else f"{second} ({measure}: level)"
        for (_, second, measure), found in duels.items()
        if found.higher is False
    ]
    means: dict[str, list[str]] = {}
    for (first, second, measure), found in duels.items():
        if measure == MEASURES[0]:
            means.setdefault(f"{first} {found.means[0]:.3f}", []).append(f"{second} {found.means[1]:.3f}")
    said = "; ".join(f"{first} against {', '.join(others)}" for first, others in means.items())
    measured = f"Not higher than {'; '.join(lost)}." if lost else f"Mean strict accuracy over d ≥ 2: {said}."
    header = ["", "metric", "mean", "mean of the other", "ahead at d", "level at", "behind at", "left out"]
    rows = [[f"{a} against {b}", measure, *found.row] for (a, b, measure), found in duels.items()]
    return measured, higher, Table("duels", RULE, header, rows)


def standard_error(a: FloatArray, b: FloatArray, signals_per_point: int) -> float:
    """Return the standard error of the difference of two mean accuracies, one value per seed each.

    A share p of N signals has variance p(1 − p)/N at most, also for loose accuracy, whose terms lie in [0, 1].
    """
    variances = (mean * (1.0 - mean) / values.size for values in (a, b) for mean in [values.mean()])
    return math.sqrt(sum(variances) / signals_per_point)


def _spell(numbers: Sequence[int]) -> str:
    """Return whole numbers as ranges: 2–5, 7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}–{p[-1]}" for p in parts) or "–"
