"""Number of threads of compiled loops and BLAS, and the loop over slices that all kernels share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import Any

import numba
from threadpoolctl import ThreadpoolController

from maxsparse._core.validation import check_integer

__all__ = ["available_threads", "over_slices", "still_running", "threads", "threads_in_use"]

SLICES_PER_THREAD = 8  # enough to balance hard signals, few enough that the overhead per slice is negligible

_chosen: ContextVar[int | None] = ContextVar("threads", default=None)


def available_threads() -> int:
    """Return the most threads that compiled loops may use: the cores of this process, or NUMBA_NUM_THREADS."""
    return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]  # set when numba is imported


def threads_in_use() -> int:
    """Return the number of threads that :func:`over_slices` uses here."""
    return _chosen.get() or available_threads()


@contextmanager
def threads(n_threads: int | None, *, blas: bool = True) -> Iterator[None]:
    """Run compiled loops on `n_threads` threads, all cores for None, and BLAS on one.

    BLAS computes the small products before a loop; its threads would keep spinning for milliseconds afterwards and take
    a core from the loop. Where none is called (``blas=False``) it is left alone, which saves the time of ten signals.
    """
    if n_threads is None:
        n_threads = _chosen.get()
    else:
        n_threads = check_integer(n_threads, "n_threads", low=1, high=available_threads())
    before = _chosen.set(n_threads)
    try:
        with _blas().limit(limits=1, user_api="blas") if blas else nullcontext():
            yield
    finally:
        _chosen.reset(before)


def over_slices(kernel: Callable[..., Any], count: int, *arguments: Any) -> None:
    """Run ``kernel(piece, pieces, *arguments)`` for every piece in range(pieces), on all threads.

    A kernel handles the rows ``range(piece, count, pieces)`` and nothing else, so results do not depend on the number
    of threads. Slices are strided: adjacent hard signals do not all go to one thread. The caller's thread works too and
    takes slices that no other thread has started, so a nested call cannot deadlock, and a short one does not wait for
    threads to wake up.

    Parameters
    ----------
    kernel : compiled function that releases the interpreter's lock.
    count : number of rows to divide.
    arguments : further arguments of the kernel, including arrays that it writes to.
    """
    n_threads = min(count, threads_in_use())
    if n_threads <= 1:
        if count > 0:
            kernel(0, 1, *arguments)
        return
    pieces = min(count, SLICES_PER_THREAD * n_threads)
    open_pieces = iter(range(pieces))

    def work() -> None:
        try:
            for piece in open_pieces:
                kernel(piece, pieces, *arguments)
        except BaseException:
            for _ in open_pieces:  # no other thread starts another one
                pass
            raise

    helpers = _start(work, n_threads - 1)
    try:
        work()
    except KeyboardInterrupt:
        if ending:  # nobody looks at what the other threads write
            _left.extend(helper for helper in helpers if not helper.cancel())
        raise
    finally:
        running = [helper for helper in helpers if helper not in _left and not helper.cancel()]
        wait(running)
    for helper in running:
        helper.result()


ending = False  # whether Ctrl-C ends the process, so that slices of other threads need not be waited for
_left: list[Future[None]] = []  # helpers that were still at work when Ctrl-C was pressed


def still_running() -> bool:
    """Whether a thread is still at work on a slice of a call that Ctrl-C ended; the interpreter would wait for it."""
    return any(not helper.done() for helper in _left)


def _start(work: Callable[[], None], n_helpers: int) -> list[Future[None]]:
    """Start helpers; none if the interpreter is shutting down."""
    try:
        return [_pool().submit(work) for _ in range(n_helpers)]
    except RuntimeError:
        return []


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, available_threads() - 1), thread_name_prefix="maxsparse")


if hasattr(os, "register_at_fork"):  # a forked child has none of the threads: it starts its own
    os.register_at_fork(after_in_child=_pool.cache_clear)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries, so only once
