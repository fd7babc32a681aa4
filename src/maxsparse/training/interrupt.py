"""Handle Ctrl-C after the current batch, so that the saved state is consistent."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any

__all__ = ["Interrupt"]

PATIENCE_SECONDS = 1.0  # torchrun forwards a Ctrl-C to processes that already got it from the terminal


class Interrupt:
    """Context in which SIGINT and SIGTERM only set `asked`; a second Ctrl-C, after a second, has its normal effect.

    Outside the main thread Python allows no handlers, and signals have their normal effect.
    """

    def __init__(self) -> None:
        self.asked = False
        self._since = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT and time.monotonic() - self._since > PATIENCE_SECONDS:
            raise KeyboardInterrupt
        if not self.asked:
            self.asked, self._since = True, time.monotonic()
