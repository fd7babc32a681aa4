"""Compiled code on disk: one file per kernel and types of arguments, written at once.

Numba's own cache has an index per function that is written before the code, and numbers the code's files. After Ctrl-C,
or if two processes compile for float32 and float64 at the same time, the index may name code for other types, or for
an earlier version; calling that crashes. Numba also looks for changes in the function's own file only.

Compiled code is a pickle, as in numba's own cache, in the folder that numba chose: whoever can write there can change
the package itself. Files that a user hands over (models, data) are never unpickled.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps

from maxsparse._core.atomic import atomic_write

__all__ = ["Stored"]


class Stored:
    """What numba's cache of one kernel loads from and saves to, in place of its own files."""

    def __init__(self, kernel: CPUDispatcher, cache: Any) -> None:
        self.kernel, self.folder, self.base = kernel, Path(cache.cache_path), cache._impl.filename_base

    @cached_property
    def stamp(self) -> str:
        """The files and constants that the kernel and its parts are made of, as they are now, and numba's version."""
        kernels, constants, open_ = {self.kernel}, set(), [self.kernel]
        while open_:
            function = open_.pop().py_func
            for name in function.__code__.co_names:
                value = function.__globals__.get(name)
                if isinstance(value, type(self.kernel)) and value not in kernels:
                    kernels.add(value)
                    open_.append(value)
                elif isinstance(value, int | float | tuple | str | np.generic):
                    constants.add((function.__module__, name, repr(value)))
        compiler = ("compiled.py", "_parts.py", "_borrowed.py")  # its flags
        names = {str(Path(__file__).with_name(name)) for name in compiler}
        names |= {kernel.py_func.__code__.co_filename for kernel in kernels}
        stats = [(name, os.stat(name)) for name in sorted(names) if os.path.exists(name)]
        files = [(name, stat.st_mtime_ns, stat.st_size) for name, stat in stats]
        return repr((numba.__version__, files, sorted(constants)))

    @property
    def _first_line(self) -> bytes:
        return hashlib.sha256(self.stamp.encode()).hexdigest().encode() + b"\n"

    def load(self, key: Any) -> Any:
        """Return what was saved for these types of arguments; None if nothing was, or of other code."""
        try:
            with self._path(key).open("rb") as stream:
                if stream.readline() != self._first_line:
                    return None  # before the rest is read, which may refer to classes that have moved
                saved, data = pickle.load(stream)
        except Exception:  # no file, or a damaged one; unpickling may raise anything
            return None
        return data if saved == key else None

    def save(self, key: Any, data: Any) -> None:
        """Save compiled code for these types of arguments; if it cannot be written, it is compiled again next time."""
        with suppress(OSError), atomic_write(self._path(key)) as stream:
            stream.write(self._first_line + dumps((key, data)))

    def flush(self) -> None:
        """Forget all that was saved."""
        for path in self.folder.glob(f"{self.base}.*.nbc"):
            path.unlink(missing_ok=True)

    def _path(self, key: Any) -> Path:
        return self.folder / f"{self.base}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"
