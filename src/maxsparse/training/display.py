"""The progress bar of a training run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from maxsparse.training.budget import Report

__all__ = ["describe", "progress_bar"]

# Lists that a validation may have, each with its label, factor and decimals.
MEASURES = (("strict", "s-acc", 100, 0), ("loose", "l-acc", 100, 0), ("degrees", "degrees", 1, 2))


@contextmanager
def progress_bar(wanted: bool) -> Iterator[Callable[[float, Report], None]]:
    """Give a function that shows (share of the budget, report); it does nothing without a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield lambda spent, report: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (BarColumn(bar_width=20), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=1.0)
        yield lambda spent, report: progress.update(bar, completed=spent, description=describe(report))


def describe(report: Report) -> str:
    """Return progress and accuracy in one line: accuracies in per cent, errors of normals in degrees."""
    parts = [f"{report.samples:,} signals, loss {report.loss:.4g}"]
    if report.history:
        for key, label, scale, digits in MEASURES:
            values = report.history[-1].get(key, [])
            if values:
                parts.append(f"{label} " + " ".join(f"{scale * value:.{digits}f}" for value in values))
    return "  ".join(parts)
