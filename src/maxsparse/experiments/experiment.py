"""Base class of experiments: independent tasks, and how their records are shown and judged."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.recipes import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["HOLDS", "NOT", "UNTESTED", "Claim", "Experiment", "Picture", "Table", "Verdict", "all_below"]

HOLDS, NOT, UNTESTED = "holds", "does not hold", "untested"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper in one sentence, and its section."""

    key: str
    text: str
    where: str


@dataclass(frozen=True)
class Picture:
    """A figure: `draw` fills an empty matplotlib figure of that size in inches."""

    name: str
    caption: str
    draw: Callable[[Figure], None]
    size: tuple[float, float] = (10.0, 4.0)


@dataclass(frozen=True)
class Table:
    """A table of text cells."""

    name: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Verdict:
    """What was measured about a claim, and whether the claim holds.

    Attributes
    ----------
    claim : Claim
    measured : str
        One line with the numbers.
    verdict : str
        ``HOLDS``, ``NOT`` or ``UNTESTED``.
    table : Table or None
        The comparison behind it.
    because : str
        Where a claim does not hold: whether that is a property of the method, the hardware or this reproduction.
    """

    claim: Claim
    measured: str
    verdict: str
    table: Table | None = None
    because: str = ""


def all_below(*pairs: tuple[float, float]) -> bool | None:
    """Return whether the first number of every pair is below the second; None if one was not measured."""
    if any(math.isnan(value) for pair in pairs for value in pair):
        return None
    return all(first < second for first, second in pairs)


class Experiment(ABC):
    """Base of all experiments; one file each.

    A task is a dictionary of JSON scalars with a ``seed``. Tasks are independent: they may run in any order, in other
    processes, and a resumed run does only the remaining tasks.
    """

    name: ClassVar[str]
    paper: ClassVar[str]  # where in the paper
    about: ClassVar[str]  # the protocol, in a few sentences
    claims: ClassVar[tuple[Claim, ...]]
    # Settings by preset; JSON values. "seeds" and "training" reach the measurements only through tasks and recipes.
    presets: ClassVar[dict[str, dict[str, Any]]]
    methods: ClassVar[tuple[str, ...]] = ()  # methods compared by default; () for experiments that compare none
    because: ClassVar[str] = ""  # why a claim does not hold, where its verdict gives no reason of its own

    @property
    def title(self) -> str:
        """Its title: the summary that it was registered with."""
        return EXPERIMENTS.entry(self.name).summary

    @abstractmethod
    def tasks(self, settings: dict[str, Any], methods: Sequence[str]) -> list[dict[str, Any]]:
        """List the tasks."""

    @abstractmethod
    def measure(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
        """Run one task."""

    @abstractmethod
    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare the measurements with the paper, claim by claim."""

    def recipes(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Recipe]:
        """List the networks that a task needs; each is trained once for all tasks and experiments."""
        return []

    def known_methods(self) -> list[str] | None:
        """List the methods that it can compare; None for those of the registry, plug-ins included."""
        return None

    def depends(self, task: dict[str, Any]) -> list[str]:
        """List hashes of bundled weights that a task uses besides settings, networks and registered methods."""
        return []

    def pictures(self, settings: dict[str, Any], data: Data) -> list[Picture]:
        """List the figures."""
        return []

    def tables(self, settings: dict[str, Any], data: Data) -> list[Table]:
        """List the tables."""
        return []

    def claim(self, key: str) -> Claim:
        """Return the claim of that key."""
        return next(claim for claim in self.claims if claim.key == key)

    def verdict(
        self, key: str, measured: str, holds: bool | None, table: Table | None = None, because: str = ""
    ) -> Verdict:
        """Build the verdict on a claim; None for untested. `because` is kept where the claim does not hold."""
        found = UNTESTED if holds is None else HOLDS if holds else NOT
        return Verdict(self.claim(key), measured, found, table, (because or self.because) if found == NOT else "")

    def untested(self, key: str, data: Data, methods: Sequence[str]) -> Verdict | None:
        """Build the verdict on a claim if some of its methods were not run; None if all were."""
        found = data.unique("method")
        missing = [method for method in methods if method not in found]
        return self.verdict(key, f"Not run: {', '.join(missing)}.", None) if missing else None
