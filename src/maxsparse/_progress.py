"""Progress bars for whatever may take longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

__all__ = ["track"]

T = TypeVar("T")
DELAY_SECONDS = 2.0


def track(items: Sequence[T], label: str, show: bool) -> Iterator[T]:
    """Iterate over `items` with a bar on standard error, once the work has taken two seconds.

    Nothing is drawn where `show` is false or standard error is not a terminal, so that piped output stays clean.
    """
    if not show or not sys.stderr.isatty():
        yield from items
        return
    begun = time.monotonic()
    iterator = enumerate(items)
    for position, item in iterator:
        yield item
        if time.monotonic() - begun > DELAY_SECONDS:
            yield from _with_bar((item for _, item in iterator), label, position + 1, len(items))


def _with_bar(rest: Iterable[T], label: str, done: int, total: int) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total, completed=done)
        for item in rest:
            yield item
            progress.advance(task)
