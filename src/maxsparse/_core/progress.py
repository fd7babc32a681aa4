"""Progress bars for work of more than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["bar", "track"]

T = TypeVar("T")
DELAY_SECONDS = 2.0


def track(items: Sequence[T], label: str, show: bool) -> Iterator[T]:
    """Iterate over `items` with a bar on standard error, once the work has taken two seconds.

    Nothing is drawn if `show` is false or standard error is not a terminal, so that piped output stays clean.
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


@contextmanager
def bar(total: int, done: int, label: str, show: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances a bar on standard error, with a count, the speed and the remaining time.

    Like :func:`track`, it draws nothing if `show` is false or standard error is not a terminal.
    """
    if not show or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeRemainingColumn(),
    )
    # Chunks may take minutes: the speed is that of the last half hour, not rich's half minute.
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=1800) as progress:
        task = progress.add_task(label, total=total, completed=done)
        yield lambda count: progress.advance(task, count)
