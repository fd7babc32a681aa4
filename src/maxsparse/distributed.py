"""Recover on many machines through dask.distributed: chunks are tasks, the model is sent to every worker once.

:class:`Cluster` does the work of :func:`maxsparse.streaming.run` on the workers of a scheduler; :func:`recover` takes a
dask array and returns dask arrays.
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse import __version__
from maxsparse._core.extras import needs
from maxsparse._core.validation import check_width
from maxsparse.recovery import SparseRecoverer
from maxsparse.streaming.chunk import Chunk
from maxsparse.streaming.pipeline import Task
from maxsparse.streaming.work import Recover, Work, answer

__all__ = ["Cluster", "DaskResult", "recover"]

CONNECT_SECONDS = 20
RETURN_SECONDS = 600  # without any worker, before the run ends; what is finished stays, and the run can be resumed
LOOK_SECONDS = 30  # between looks whether there are workers, while no chunk finishes
ATTEMPTS = 4  # per chunk, where the scheduler was restarted or forgot it
RESUME = "start workers and run the same command again to resume"
# A worker of several threads processes one chunk at a time, on all of them: compiled loops have their own threads.
ONE_AT_A_TIME = threading.Lock()


class Cluster:
    """Run the work of :func:`maxsparse.streaming.run` on the workers of a dask scheduler.

    Parameters
    ----------
    scheduler : str or distributed.Client
        Address such as ``"tcp://host:8786"``, or a connected client.

    Notes
    -----
    This process reads the signals and writes the answers, so workers need no access to the files. At any
    time two chunks per worker thread are in progress, which bounds the memory of this process and of the scheduler. If
    a worker dies, another one repeats its chunk; a worker that hangs or is paused counts as dead after dask's
    ``distributed.scheduler.worker-ttl``, 5 minutes. Without any worker for ten minutes, the run ends with an error
    and can be resumed. Workers need the same version of maxsparse.

    Examples
    --------
    >>> import maxsparse as ms
    >>> with ms.distributed.Cluster("tcp://10.0.0.1:8786") as cluster:  # doctest: +SKIP
    ...     ms.streaming.recover(model, "Y.npy", "X.npz", runner=cluster)
    """

    def __init__(self, scheduler: Any) -> None:
        distributed = _distributed()
        self._own = isinstance(scheduler, str)
        self.client = distributed.Client(scheduler, timeout=CONNECT_SECONDS) if self._own else scheduler
        try:
            self.client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            self.close()
            raise TimeoutError(
                f"the scheduler has no workers, and none connected within {CONNECT_SECONDS} s"
            ) from error

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect from the scheduler, unless the caller gave the client."""
        if self._own:
            self.client.close()

    def __call__(self, work: Work, tasks: Iterable[Task], name: str, skip_bad: bool) -> Iterator[tuple[int, Chunk]]:
        """Yield the number and the answer of every chunk, in the order of completion."""
        send = _Sender(self.client, work, name, skip_bad)
        waiting = iter(tasks)
        under_way: dict[Any, tuple[Task, int]] = {}
        try:
            while True:
                for task in waiting:
                    under_way[send(task)] = task, 1
                    if len(under_way) >= 2 * max(1, self._threads()):
                        break
                if not under_way:
                    return
                for future in send.finished(list(under_way)):
                    task, attempt = under_way.pop(future)
                    found = send.result(future, attempt)
                    if found is None:
                        under_way[send(task)] = task, attempt + 1
                    else:
                        yield task[0], found
        finally:
            for future in under_way:
                future.cancel()

    def _threads(self) -> int:
        return sum(self.client.nthreads().values())


class _Sender:
    """Sends chunks to workers, and the model before the first one."""

    def __init__(self, client: Any, work: Work, name: str, skip_bad: bool) -> None:
        self.client, self.work, self.name, self.skip_bad = client, work, name, skip_bad
        self._model = self._submit(_keep, work)

    def __call__(self, task: Task) -> Any:
        _, start, Y = task
        return self._submit(_answer, self._model, Y, start, self.name, self.skip_bad, __version__)

    def _submit(self, function: Any, *arguments: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "large graph": the scheduler keeps a chunk in case its worker dies
            return self.client.submit(function, *arguments, pure=False, retries=0)

    def finished(self, futures: list[Any]) -> list[Any]:
        """Wait until some are finished or lost, and return these."""
        worked = time.monotonic()
        while True:
            with contextlib.suppress(TimeoutError, CancelledError):  # which some of them may be
                _distributed().wait(futures, timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED")
            done = [future for future in futures if future.done()]
            if done:
                return done
            worked = self._last_worked(worked)

    def result(self, future: Any, attempt: int) -> Chunk | None:
        """Return the answer, or None if the chunk has to be repeated."""
        try:
            found: Chunk = self._fetched(future)
        except CancelledError as error:  # the scheduler does not know the chunk any more
            if attempt >= ATTEMPTS:
                raise OSError(f"a chunk was lost {attempt} times; giving up ({error})") from error
            self._connect_again()
            return None
        except _distributed().KilledWorker as error:
            raise OSError(f"every worker that processed a chunk died (too little memory?): {error}") from error
        return found

    def _fetched(self, future: Any) -> Any:
        """Return a result; where its worker is gone before it was sent, another worker computes it again."""
        worked = time.monotonic()
        while True:
            try:
                return future.result(timeout=LOOK_SECONDS)
            except TimeoutError:
                if future.status == "error":  # of the chunk itself
                    raise
            worked = self._last_worked(worked)

    def _last_worked(self, before: float) -> float:
        """Return when there was a worker last; raise an error if that is long ago: the scheduler would wait on."""
        if self.client.nthreads():
            return time.monotonic()
        if time.monotonic() - before >= RETURN_SECONDS:
            raise OSError(f"the scheduler has had no workers for {RETURN_SECONDS} s; {RESUME}")
        return before

    def _connect_again(self) -> None:
        """Wait for the scheduler and a worker, and send the model if it is lost."""
        try:
            self.client.wait_for_workers(1, timeout=RETURN_SECONDS)
        except (TimeoutError, OSError, RuntimeError) as error:  # dask raises any of them without a scheduler
            raise OSError(f"the connection to the scheduler is lost ({error}); {RESUME}") from error
        if self._model.cancelled():
            self._model = self._submit(_keep, self.work)


def _keep(work: Work) -> Work:
    """Return the model, as a task: unlike scattered data, the scheduler makes a lost one again.

    It does not stay on all workers, because dask's active memory manager removes copies that no task waits for.
    """
    return work


def _answer(work: Work, Y: NDArray[Any], start: int, name: str, skip_bad: bool, version: str) -> Chunk:
    """Recover a chunk on a worker."""
    if version != __version__:
        raise ValueError(
            f"a worker has maxsparse {__version__}, but this run uses {version}; install the same version on all"
        )
    with ONE_AT_A_TIME:
        return answer(work, Y, start, name, skip_bad, _worker_threads())


def _worker_threads() -> int:
    """Return the number of threads of the current worker."""
    from maxsparse._core.threads import available_threads  # loads numba

    available = available_threads()
    try:
        threads = int(_distributed().get_worker().state.nthreads)
    except ValueError:  # no worker: dask's own scheduler in this process
        threads = available
    return max(1, min(threads, available))


@dataclass(frozen=True, eq=False)
class DaskResult:
    """Answers as dask arrays, chunked by rows like the signals; computed lazily.

    Attributes
    ----------
    coef : dask array of shape (N, m)
    residual, certified, converged, iterations : dask arrays of shape (N,)
        As in :class:`maxsparse.Result`.
    """

    coef: Any
    residual: Any
    certified: Any
    converged: Any
    iterations: Any


def recover(model: SparseRecoverer, Y: Any, *, easy_first: bool = True) -> DaskResult:
    """Recover the signals of a dask array, one task per block of rows.

    Parameters
    ----------
    model : SparseRecoverer
        The model. It is one node of the graph: every worker gets it once.
    Y : dask array of shape (N, n)
        Signals as rows. Use blocks of ten to a hundred thousand rows.
    easy_first : bool, default=True
        As for :func:`maxsparse.streaming.recover`.

    Returns
    -------
    result : DaskResult
        Compute several of its arrays together, ``dask.compute(result.coef, result.certified)``, so that the signals
        are recovered once; or ``persist`` them on the cluster.

    Examples
    --------
    >>> import dask.array as da  # doctest: +SKIP
    >>> Y = da.from_zarr("Y.zarr")  # doctest: +SKIP
    >>> ms.distributed.recover(model, Y).certified.mean().compute()  # doctest: +SKIP
    """
    with needs("recovering dask arrays"):
        import dask.array as da
        from dask.delayed import delayed
    if not isinstance(Y, da.Array):
        raise ValueError(f"Y must be a dask array, got {type(Y).__name__}; use maxsparse.streaming for files")
    work = Recover(model, easy_first)
    n, m = work.shape
    if Y.ndim == 2:
        check_width(Y.shape, (n, m))
    else:
        raise ValueError(f"Y must be 2-D, got shape {Y.shape}; solve snapshots in memory with ms.solve")
    signals = Y.rechunk({1: -1})
    sent = delayed(work, pure=False, traverse=False)
    task = delayed(_answer, pure=False)
    dtype = np.result_type(np.asarray(model.Phi).dtype, signals.dtype)
    parts: dict[str, list[Any]] = {"coef": [], "residual": [], "certified": [], "converged": [], "iterations": []}
    kinds = {"residual": dtype, "certified": bool, "converged": bool, "iterations": np.int64}
    start = 0
    for block, rows in zip(signals.to_delayed().ravel(), signals.chunks[0], strict=True):
        chunk = task(sent, block, start, "Y", False, __version__)
        parts["coef"].append(da.from_delayed(delayed(_dense)(chunk, m), shape=(rows, m), dtype=dtype))
        for name, kind in kinds.items():
            parts[name].append(da.from_delayed(delayed(_column)(chunk, name), shape=(rows,), dtype=kind))
        start += rows
    return DaskResult(**{name: da.concatenate(arrays) for name, arrays in parts.items()})


def _dense(chunk: Chunk, m: int) -> NDArray[Any]:
    return chunk.dense(m)


def _column(chunk: Chunk, name: str) -> NDArray[Any]:
    return chunk.columns[name]


def _distributed() -> Any:
    with needs("a scheduler"):
        import distributed
    return distributed
