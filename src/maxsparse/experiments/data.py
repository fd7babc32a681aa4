"""Measurements of an experiment: records, and their means and spreads over seeds for figures and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Data", "Record", "Series"]


@dataclass(frozen=True)
class Record:
    """One measurement: its parameters (method, ε, seed, …) and values.

    Attributes
    ----------
    where : dict
        Names, numbers and the seed that identify the measurement; JSON scalars.
    values : dict
        Measured numbers by name; NaN where there is none.
    """

    where: dict[str, Any]
    values: dict[str, float]


@dataclass(frozen=True)
class Series:
    """Mean and standard deviation over seeds, against one parameter; all of shape (L,)."""

    x: NDArray[np.float64]
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]


class Data:
    """All records of a run, with the selections that figures, tables and verdicts need."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = list(records)

    def select(self, **where: Any) -> Data:
        """Return the records that agree with all of `where`."""
        return Data(r for r in self.records if all(r.where.get(name) == value for name, value in where.items()))

    def unique(self, name: str) -> list[Any]:
        """Return the values that occur for a parameter, in the order of first occurrence."""
        return list(dict.fromkeys(r.where[name] for r in self.records if name in r.where))

    def values(self, name: str, **where: Any) -> NDArray[np.float64]:
        """Return all values of one measure that agree with `where`, without NaN."""
        found = [r.values[name] for r in self.select(**where).records if name in r.values]
        array = np.array(found, dtype=np.float64)
        return array[~np.isnan(array)]

    def mean(self, name: str, **where: Any) -> float:
        """Return the mean of one measure, NaN if there is none."""
        values = self.values(name, **where)
        return float(values.mean()) if values.size else math.nan

    def series(self, x: str, y: str, **where: Any) -> Series:
        """Return mean and spread of measure `y` against parameter `x`; points without a value are omitted."""
        chosen = self.select(**where)
        positions = sorted(chosen.unique(x))
        groups = [(position, chosen.values(y, **{x: position})) for position in positions]
        groups = [(position, values) for position, values in groups if values.size]
        return Series(
            np.array([position for position, _ in groups], dtype=np.float64),
            np.array([values.mean() for _, values in groups]),
            np.array([values.std(ddof=1) if values.size > 1 else 0.0 for _, values in groups]),
        )

    def summary(self) -> list[dict[str, Any]]:
        """Return mean, standard deviation and count over seeds for every other combination of parameters."""
        groups: dict[tuple[tuple[str, Any], ...], dict[str, list[float]]] = {}
        for record in self.records:
            if not record.values:  # it only carries data to show, such as a picture, which is already in the tasks
                continue
            key = tuple((name, value) for name, value in record.where.items() if name != "seed")
            columns = groups.setdefault(key, {})
            for name, value in record.values.items():
                columns.setdefault(name, []).append(value)
        return [
            {"where": dict(key), "values": {name: _statistics(values) for name, values in columns.items()}}
            for key, columns in groups.items()
        ]


def _statistics(values: list[float]) -> dict[str, float | int | None]:
    array = np.array([value for value in values if not math.isnan(value)])
    if not array.size:
        return {"mean": None, "std": None, "n": 0}
    std = float(array.std(ddof=1)) if array.size > 1 else None
    return {"mean": float(array.mean()), "std": std, "n": int(array.size)}
