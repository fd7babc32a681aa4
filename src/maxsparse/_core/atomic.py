"""Write files atomically: completely or not at all."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["atomic_write"]


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file next to `path` and rename it to `path` only if the block succeeds.

    After an error, Ctrl-C or a full disk the previous file is intact. The temporary file of a killed process is removed
    when the same file is written again.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"folder {str(target.parent)!r} does not exist; create it first")
    for stale in target.parent.glob(f".{glob.escape(target.name)}.????????.part"):
        _remove_if_nobody_writes(stale)
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        stream = temporary.open("xb")
        if _lock(stream) and os.fstat(stream.fileno()).st_nlink > 0:
            break
        stream.close()  # another process removed it as a leftover before it was locked
    try:
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if os.name != "nt":
                os.replace(temporary, target)  # while it is locked
        if os.name == "nt":  # Windows cannot rename an open file
            os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _lock(stream: IO[bytes]) -> bool:
    """Lock a file until it is closed or the process ends; False if another process has the lock."""
    try:
        import fcntl
    except ImportError:  # no such locks on Windows
        return True
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _remove_if_nobody_writes(path: Path) -> None:
    """Remove a temporary file that no process has locked."""
    if os.name == "nt":
        return
    with contextlib.suppress(OSError), path.open("rb") as stream:
        if _lock(stream):
            path.unlink(missing_ok=True)
