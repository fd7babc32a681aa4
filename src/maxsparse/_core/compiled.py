"""One decorator for all compiled code, so that compiler flags are stated once.

Divisions by zero give infinity or NaN, as in numpy: a check before every division would keep loops from vectorising.
Numba's own parallel loops are not used: they take several times as long to compile, and OpenMP does not survive a
fork. :func:`maxsparse._core.threads.over_slices` runs a kernel on all threads instead.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeVar, cast

import numba
from numba.core.event import Event, Listener, register

from maxsparse._core._parts import Kernel

__all__ = ["compiling", "kernel"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered (the order is fixed at compile time, so results stay reproducible), multiply-adds fused.
REORDER = {"reassoc", "contract", "nsz", "arcp"}
DELAY_SECONDS = 1.0  # of compiling before a line says so


def kernel(
    *, fast: bool = False, nan: bool = False, apart: bool = False, alone: bool = False
) -> Callable[[Function], Function]:
    """Compile a function: cached on disk, without the interpreter's lock, division as in numpy.

    Parameters
    ----------
    fast : bool, default=False
        Let the compiler reorder sums and fuse multiply-adds.
    nan : bool, default=False
        With `fast`: NaN may occur and must be kept. Otherwise the compiler may assume that there is none.
    apart : bool, default=False
        No two arrays that the function is given overlap, where one of them is written to. Loops then vectorise without
        a check for that, and those over many arrays vectorise at all.
    alone : bool, default=False
        Call the function instead of copying it into its callers: long loops are optimised better by themselves.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    if fast:
        options["fastmath"] = REORDER if nan else REORDER | {"nnan"}

    def compiled(function: Function) -> Function:
        if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # set when numba is imported
            return function
        return cast("Function", Kernel(function, options, apart=apart, alone=alone))

    return compiled


@contextmanager
def compiling(expected: int) -> Iterator[None]:
    """Say on a terminal how far compilation is, if it takes over a second: "compiling, once (2 of about 9)".

    Within another one it does nothing.

    Parameters
    ----------
    expected : int
        Kernels that the code within usually needs.
    """
    if not _alone.acquire(blocking=False):
        yield
        return
    line = _listen()
    line.begin(expected)
    try:
        yield
    finally:
        line.end()
        _alone.release()


_alone = Lock()


@cache
def _listen() -> _Line:
    """Return what numba tells of compilation, from the first call on."""
    line = _Line()
    register("numba:compile", line)  # type: ignore[no-untyped-call]
    return line


class _Line(Listener):
    """A line on standard error that is overwritten with each kernel; nothing where that is not a terminal."""

    def __init__(self) -> None:
        self.end()

    def begin(self, expected: int) -> None:
        self.expected = expected

    def end(self) -> None:
        if getattr(self, "shown", ""):
            self._write("")
        self.expected, self.count, self.begun, self.shown = 0, 0, 0.0, ""

    def on_start(self, event: Event) -> None:
        if self.expected and isinstance(event.data["dispatcher"], Kernel):  # not its parts
            self.begun = self.begun or time.monotonic()
            self.count += 1
        self._show()

    def on_end(self, event: Event) -> None:
        self._show()

    def _show(self) -> None:
        text = f"compiling, once ({self.count} of about {max(self.count, self.expected)})"
        if self.begun and time.monotonic() - self.begun > DELAY_SECONDS and text != self.shown:
            self._write(text)

    def _write(self, text: str) -> None:
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write("\r" + text.ljust(len(self.shown)) + ("" if text else "\r"))
            sys.stderr.flush()
            self.shown = text
