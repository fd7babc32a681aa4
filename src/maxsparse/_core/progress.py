"""Progress bars for work of more than two seconds; those that are nested stand below each other."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock, Timer
from typing import Any, TypeVar

__all__ = ["bar", "clear", "countdown", "track"]

T = TypeVar("T")
DELAY_SECONDS = 2.0


def track(items: Sequence[T], label: str, show: bool) -> Iterator[T]:
    """Iterate over `items` with a bar on standard error, once the work has taken two seconds.

    Nothing is drawn if `show` is false or standard error is not a terminal, so that piped output stays clean.
    """
    if not show or not sys.stderr.isatty():
        yield from items
        return
    with _Bar(label, len(items)) as shown:
        for item in items:
            yield item
            shown.advance()


@contextmanager
def countdown(seconds: float, label: str, show: bool) -> Iterator[None]:
    """Show how much is left of the time that the code within may take, once it has taken two seconds.

    For work that is cut to a time, as trials are. Like :func:`track`, it draws nothing if `show` is false or standard
    error is not a terminal.
    """
    if not show or not sys.stderr.isatty() or seconds == float("inf"):
        yield
        return
    with _Bar(label, seconds, timed=True):
        yield


class _Bar:
    """One bar, which appears after two seconds; a timed one fills by itself."""

    def __init__(self, label: str, total: float, timed: bool = False) -> None:
        self.label, self.total, self.timed, self.done = label, total, timed, 0.0
        self.begun, self.task = time.monotonic(), None
        self.timer: Any = None

    def __enter__(self) -> _Bar:
        self._wait(DELAY_SECONDS)
        return self

    def _wait(self, seconds: float) -> None:
        self.timer = Timer(seconds, self._show)
        self.timer.daemon = True
        self.timer.start()

    def _show(self) -> None:
        with _display.lock:
            if self.timer is None:
                return
            if self.timed:
                self.done = min(self.total, time.monotonic() - self.begun)
                self._wait(0.5)
            if self.task is None:
                self.task = _display.add(self.label, self.total)
            self._draw()

    def _draw(self) -> None:
        state = "" if self.timed else f"{self.done:.0f}/{self.total:.0f}"
        _display.update(self.task, completed=self.done, state=state)

    def advance(self) -> None:
        with _display.lock:
            self.done += 1
            if self.task is not None:
                self._draw()

    def __exit__(self, *error: object) -> None:
        with _display.lock:
            if self.timer is not None:
                self.timer.cancel()
            self.timer = None
            if self.task is not None:
                _display.remove(self.task)


class _Display:
    """All bars of this process, drawn together."""

    def __init__(self) -> None:
        self.lock, self.progress, self.tasks = RLock(), None, set[Any]()

    def add(self, label: str, total: float) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        if self.progress is None:
            state = TextColumn("{task.fields[state]}")
            columns = (TextColumn("{task.description}"), BarColumn(), state, TimeRemainingColumn())
            progress: Any = Progress(*columns, console=Console(stderr=True), transient=True)
            progress.start()
            self.progress = progress
        assert self.progress is not None
        task = self.progress.add_task(label, total=total, state="")
        self.tasks.add(task)
        return task

    def update(self, task: Any, **fields: Any) -> None:
        if task in self.tasks:
            assert self.progress is not None
            self.progress.update(task, **fields)

    def remove(self, task: Any) -> None:
        if task in self.tasks:
            assert self.progress is not None
            self.progress.remove_task(task)
            self.tasks.discard(task)
        if not self.tasks:
            self.stop()

    def stop(self) -> None:
        progress, self.progress = self.progress, None
        self.tasks.clear()
        if progress is not None:
            progress.stop()


_display = _Display()


def clear() -> None:
    """Remove all bars, before an error is printed."""
    with _display.lock:
        _display.stop()


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
