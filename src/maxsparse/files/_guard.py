"""Run a parser in a child process, so that a crash does not end the program."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray


def in_child(parse: Callable[[], NDArray[Any]], most: int | None = None) -> NDArray[Any]:
    """Return ``parse()``, run in a forked process; an error or a crash there raises ValueError.

    `most` limits the bytes that the process may take beyond what this one has, on Linux. Without fork (Windows), it
    runs in this process.
    """
    if not hasattr(os, "fork"):
        return parse()
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiving)
        _limit(most)
        _answer(parse, sending)
    os.close(sending)
    with os.fdopen(receiving, "rb") as stream:
        answer = stream.read()
    _, status = os.waitpid(child, 0)
    if status != 0 or not answer:
        raise ValueError("its parser crashed: the file is damaged")
    if answer[:1] == b"-":
        raise ValueError(answer[1:].decode(errors="replace"))
    return np.asarray(np.lib.format.read_array(BytesIO(answer[1:]), allow_pickle=False))


def _limit(most: int | None) -> None:
    """Let this process take at most so many bytes more, where the system can."""
    try:
        import resource

        with open("/proc/self/statm", "rb") as stream:
            data = int(stream.read().split()[5]) * resource.getpagesize()
        if most is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (data + most, data + most))
    except (ImportError, OSError, ValueError):
        return


def _answer(parse: Callable[[], NDArray[Any]], sending: int) -> None:
    """Write the array or the message of an error to the pipe, and end this process."""
    code = 1
    try:
        faulthandler.disable()
        with os.fdopen(sending, "wb") as stream:
            try:
                content = BytesIO()  # numpy cannot write to a pipe
                np.lib.format.write_array(content, parse(), allow_pickle=False)
                stream.write(b"+" + content.getvalue())
            except Exception as error:  # parsers raise anything for a damaged file
                stream.write(b"-" + str(error).encode())
        code = 0
    finally:
        os._exit(code)
