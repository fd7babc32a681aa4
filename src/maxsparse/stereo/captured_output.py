"""Captures what image decoders print about a damaged file, so that the error message contains it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import threading
from types import TracebackType

__all__ = ["CapturedOutput"]

_ONE_AT_A_TIME = threading.Lock()  # there is one standard error for all threads


class CapturedOutput:
    """Context manager that captures what libraries write to the terminal.

    C libraries write to the descriptor of standard error, OpenEXR also prints through Python. If the block succeeds,
    the captured text is written after all: it may be another thread's. If it fails, `reason` holds the last line.

    Attributes
    ----------
    reason : str
        Empty if nothing was written.
    """

    def __init__(self) -> None:
        self.reason = ""

    def __enter__(self) -> CapturedOutput:
        _ONE_AT_A_TIME.acquire()
        self._caught = tempfile.TemporaryFile()
        self._printed = contextlib.redirect_stdout(io.StringIO())
        try:
            sys.stderr.flush()
            self._terminal = os.dup(2)
            os.dup2(self._caught.fileno(), 2)
        except (OSError, ValueError, AttributeError):  # a program without standard error
            self._terminal = -1
        self._words = self._printed.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._printed.__exit__(None, None, None)
        if self._terminal >= 0:
            os.dup2(self._terminal, 2)
        self._caught.seek(0)
        written = self._caught.read()
        if error is None:
            if self._terminal >= 0:
                os.write(self._terminal, written)
            print(self._words.getvalue(), end="")
        else:
            lines = [line.strip() for line in written.decode(errors="replace").splitlines() if line.strip()]
            self.reason = lines[-1] if lines else ""
        if self._terminal >= 0:
            os.close(self._terminal)
        self._caught.close()
        _ONE_AT_A_TIME.release()
