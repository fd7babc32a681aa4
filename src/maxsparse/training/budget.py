"""Budget and progress of a training run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from maxsparse._core.validation import check_integer, check_number
from maxsparse.training.presets import Settings

__all__ = ["Budget", "Report"]


@dataclass
class Report:
    """Progress and validations of a run.

    Attributes
    ----------
    batches, samples : int
        Steps taken and signals seen.
    seconds : float
        Training time over all parts of an interrupted run, including all validations but the last.
    skipped : int
        Steps skipped because their gradient was not finite.
    loss : float
        Mean training loss since the last validation.
    best : dict
        The best validation so far: the task's result, with ``samples`` and ``loss``.
    history : list of dict
        Every validation.
    finished : bool
    """

    batches: int = 0
    samples: int = 0
    seconds: float = 0.0
    skipped: int = 0
    loss: float = math.inf
    best: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    finished: bool = False


@dataclass(frozen=True)
class Budget:
    """How long to train: minutes, samples, or whichever is reached first."""

    minutes: float | None
    samples: int | None

    @classmethod
    def of(cls, minutes: float | None, samples: int | None, settings: Settings) -> Budget:
        """Check the arguments; the default is the budget of the settings."""
        if minutes is None and samples is None:
            samples = settings.samples
        if minutes is None and samples is None:
            raise ValueError("set the training budget: minutes= or samples= (--minutes or --samples)")
        return cls(
            None if minutes is None else check_number(minutes, "minutes", low=1e-9),
            None if samples is None else check_integer(samples, "samples", low=1),
        )

    def spent(self, report: Report) -> float:
        """Return the used share of the budget, up to 1."""
        by_clock = 0.0 if self.minutes is None else report.seconds / (60.0 * self.minutes)
        by_count = 0.0 if self.samples is None else report.samples / self.samples
        return min(max(by_clock, by_count), 1.0)
