"""How many threads compiled loops and BLAS run on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numba
from threadpoolctl import ThreadpoolController

from maxsparse._core.validation import check_integer

__all__ = ["threads"]


@contextmanager
def threads(n_threads: int | None) -> Iterator[None]:
    """Run compiled loops on `n_threads` threads, all cores for None, and BLAS on one.

    BLAS gets the small products before a loop; its threads would go on spinning for milliseconds afterwards and take a
    core from the loop.
    """
    available = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]  # set when numba is imported
    before = _numba_threads()
    numba.set_num_threads(before if n_threads is None else check_integer(n_threads, "n_threads", low=1, high=available))
    try:
        with _blas().limit(limits=1, user_api="blas"):
            yield
    finally:
        numba.set_num_threads(before)


def _numba_threads() -> int:
    """Return how many threads compiled loops run on. The first call starts them, and leaves torch's number alone.

    Numba sets the number of OpenMP's threads as it starts its own, and torch, which shares that runtime, would go on
    with all cores where it had been told to use one.
    """
    torch = sys.modules.get("torch")
    own = torch.get_num_threads() if torch is not None else 0
    count = int(numba.get_num_threads())
    if torch is not None and torch.get_num_threads() != own:
        torch.set_num_threads(own)
    return count


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries, so only once
