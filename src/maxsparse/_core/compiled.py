"""One decorator for all compiled code, so that compiler flags are stated once.

Divisions by zero give infinity or NaN, as in numpy: a check before every division would keep loops from vectorising.
Numba's own parallel loops are not used: they take several times as long to compile, and OpenMP does not survive a
fork. :func:`maxsparse._core.threads.over_slices` runs a kernel on all threads instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

__all__ = ["kernel"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered (the order is fixed at compile time, so results stay reproducible), multiply-adds fused.
REORDER = {"reassoc", "contract", "nsz", "arcp"}


def kernel(*, fast: bool = False, nan: bool = False, inline: bool = False) -> Callable[[Function], Function]:
    """Compile a function: cached on disk, without the interpreter's lock, division as in numpy.

    Parameters
    ----------
    fast : bool, default=False
        Let the compiler reorder sums and fuse multiply-adds.
    nan : bool, default=False
        With `fast`: NaN may occur and must be kept. Otherwise the compiler may assume that there is none.
    inline : bool, default=False
        Copy the whole function into every caller. A separately optimised copy would round differently, and whether a
        caller gets that copy depends on whether this process compiled it or loaded it from the cache: the first run
        would not be bitwise identical to later ones.
    """
    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
    if fast:
        options["fastmath"] = REORDER if nan else REORDER | {"nnan"}
    if inline:
        options["forceinline"] = True
    return lambda function: _past_versions_forgiven(numba.njit(**options)(function))


def _past_versions_forgiven(compiled: Any) -> Any:
    """Compile a function again if its cache cannot be read.

    Numba unpickles the index of a cache before it checks whether it is outdated, and the index of an earlier version of
    this package may refer to classes that have moved.
    """
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if file is not None:
        load_index = file._load_index

        def load_or_forget() -> Any:
            try:
                return load_index()
            except Exception:  # unpickling may raise anything
                return {}

        file._load_index = load_or_forget
    return compiled
