"""Recover signals chunk by chunk: constant memory, a progress bar, and resumable when killed."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.progress import bar
from maxsparse._core.validation import check_integer, check_width
from maxsparse.recovery import SparseRecoverer
from maxsparse.streaming.chunk import Chunk
from maxsparse.streaming.parts import Parts, parts_folder, sync_replace
from maxsparse.streaming.sources import Source, open_source
from maxsparse.streaming.work import Recover, Solve, Work, answer
from maxsparse.streaming.writers import WRITERS, check_format

__all__ = ["Summary", "recover", "run", "solve"]

CHUNK_BYTES = 32 * 2**20  # of the coefficients of one chunk
LARGE, CHUNK_ENTRIES = 20_000, 40_000_000  # entries of a large Φ, and of all Φ of a chunk: less than a minute is lost
UNSURE = 0.5  # confidence below which an answer is more likely wrong than right
Task = tuple[int, int, NDArray[Any]]  # number of the chunk, of its first signal, and its signals
Runner = Callable[[Work, Iterable[Task], str, bool], Iterator[tuple[int, Chunk]]]


@dataclass
class Summary:
    """Summary of a run.

    Attributes
    ----------
    signals, atoms : int
    nonzeros : dict of int to int
        Number of signals by number of nonzeros.
    certified, converged, bad : int
        Number of signals whose answer is certified to be the sparsest, that converged, that could not be read.
    unsure : int
        Number of answers of a recoverer that are more likely wrong than right, by their confidence.
    mean_confidence : float
        Over all answers of a recoverer; NaN for other methods.
    largest_residual : float
        The largest ‖y − Φx‖₂.
    seconds : float
        Of this run, without earlier, interrupted ones.
    resumed : int
        Signals finished by an earlier, interrupted run.
    """

    signals: int
    atoms: int
    nonzeros: dict[int, int] = field(default_factory=dict)
    certified: int = 0
    converged: int = 0
    bad: int = 0
    unsure: int = 0
    mean_confidence: float = math.nan
    largest_residual: float = 0.0
    seconds: float = 0.0
    resumed: int = 0

    def __post_init__(self) -> None:
        self._confidence, self._judged = 0.0, 0

    def take(self, chunk: Chunk) -> None:
        """Add a chunk."""
        for k, count in zip(*np.unique(chunk.counts, return_counts=True), strict=True):
            self.nonzeros[int(k)] = self.nonzeros.get(int(k), 0) + int(count)
        self.certified += int(chunk.columns["certified"].sum())
        self.converged += int(chunk.columns["converged"].sum())
        confidence = chunk.columns.get("confidence", np.zeros(0))
        confidence = confidence[~np.isnan(confidence)]
        self._confidence += float(confidence.sum())
        self._judged += confidence.size
        self.unsure += int(np.count_nonzero(confidence < UNSURE))
        self.mean_confidence = self._confidence / self._judged if self._judged else math.nan
        residual = chunk.columns["residual"]
        self.bad += int(np.isnan(residual).sum())
        self.largest_residual = max(self.largest_residual, float(np.nanmax(residual, initial=0.0)))

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self) | {"nonzeros": {str(k): self.nonzeros[k] for k in sorted(self.nonzeros)}}


def recover(
    model: SparseRecoverer,
    Y: str | os.PathLike[str] | ArrayLike,
    output: str | os.PathLike[str],
    *,
    easy_first: bool = True,
    **options: Any,
) -> Summary:
    """Recover any number of signals from file to file.

    Parameters
    ----------
    model : SparseRecoverer
        The model.
    Y : path or array-like of shape (N, n)
        Signals as rows; .npy, .zarr and .parquet files may be larger than memory.
    output : path
        .npz (sparse), .parquet (lists), .zarr, .npy (dense), .mat or .csv.
    easy_first : bool, default=True
        Without noise, try whitened OMP first; the model gets the signals whose OMP answer is not certified.
    **options
        Of :func:`run`: ``chunk=``, ``fresh=``, ``skip_bad=``, ``key=``, ``progress=``.

    Returns
    -------
    summary : Summary

    Examples
    --------
    >>> import os, tempfile
    >>> import scipy.sparse
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(12, 24, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 50, sparsity=2, rng=1)
    >>> path = os.path.join(tempfile.mkdtemp(), "X.npz")
    >>> ms.streaming.recover(ms.SparseRecoverer(Phi), Y, path, chunk=20).certified
    50
    >>> scipy.sparse.load_npz(path).shape
    (50, 24)
    """
    return run(Recover(model, easy_first), Y, output, **options)


def solve(
    Phi: ArrayLike,
    Y: str | os.PathLike[str] | ArrayLike,
    output: str | os.PathLike[str],
    method: str = "sbl",
    *,
    method_options: dict[str, Any] | None = None,
    **options: Any,
) -> Summary:
    """Recover signals with a classical method, from file to file.

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary.
    Y, output
        As for :func:`recover`.
    method : str, default="sbl"
        A name in ``maxsparse.solvers.METHODS``.
    method_options : dict or None, default=None
        Of :func:`maxsparse.solve`: sparsity, precondition, noise, …
    **options
        Of :func:`run`.

    Returns
    -------
    summary : Summary
    """
    return run(Solve(np.asarray(Phi), method, dict(method_options or {})), Y, output, **options)


def run(
    work: Work,
    Y: str | os.PathLike[str] | ArrayLike,
    output: str | os.PathLike[str],
    *,
    chunk: int | None = None,
    fresh: bool = False,
    skip_bad: bool = False,
    key: str | None = None,
    progress: bool = False,
    runner: Runner | None = None,
) -> Summary:
    """Process every chunk of the signals and write the answers.

    Parameters
    ----------
    work : Work
        The work per chunk.
    Y, output
        As for :func:`recover`.
    chunk : int or None, default=None
        Signals per chunk; None for 32 MB of coefficients, less for a large Φ, whose signals take long.
    fresh : bool, default=False
        Start over instead of resuming an interrupted run.
    skip_bad : bool, default=False
        Give no answer for signals with NaN or infinite numbers, instead of failing.
    key : str or None, default=None
        Name of the array or column in Y's file.
    progress : bool, default=False
        Show a progress bar on a terminal.
    runner : callable or None, default=None
        Where the work is done; None for this process, or a ``maxsparse.distributed.Cluster``.

    Returns
    -------
    summary : Summary
    """
    begun = time.monotonic()
    target = Path(output)
    kind = check_format(target)
    if isinstance(Y, str | os.PathLike) and target.exists() and os.path.exists(Y) and os.path.samefile(Y, target):
        raise ValueError(f"{str(target)!r} holds the signals; write the answers to another file")
    source = open_source(Y, key=key)
    n, m = work.shape
    check_width(source.shape, (n, m), source.name)
    N = source.shape[0]
    size = _usual_chunk(n, m) if chunk is None else check_integer(chunk, "chunk", low=1)
    depends = {**work.identity, "input": source.identity, "signals": N, "chunk": size, "skip bad": skip_bad}
    summary = Summary(N, m)
    again = "run the same command again to resume" if depends["input"] is not None else "the input cannot be read again"
    with _parts(target, depends, max(1, -(-N // size)), fresh) as parts:
        summary.resumed = sum(min(N, (index + 1) * size) - index * size for index in parts.done)
        with bar(N, summary.resumed, "recover", progress) as advance:
            for index, found in (runner or _here)(work, _tasks(source, parts.todo, size), source.name, skip_bad):
                with _writing(parts, again):
                    parts.add(index, found)
                advance(len(found))
        for found in parts:
            summary.take(found)
        with _writing(parts, again):
            whole = parts.place(f"whole.{kind}")
            WRITERS[kind](parts, whole, (N, m))
            sync_replace(whole, target)
        parts.remove()
    summary.seconds = round(time.monotonic() - begun, 3)
    return summary


@contextmanager
def _writing(parts: Parts, again: str) -> Iterator[None]:
    """Say in the message of a system error (a full disk) where it happened, what is finished, and how to go on."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        kept = f"{len(parts.done):,} of {parts.count:,} chunks are finished"
        raise OSError(error.errno, f"{error.strerror}; {kept}, {again}", str(parts.folder)) from error


def _usual_chunk(n: int, m: int) -> int:
    """Return how many signals are recovered at a time: as many as fit, fewer where each takes long."""
    most = CHUNK_BYTES // (8 * m)
    return max(1, most if n * m <= LARGE else min(most, CHUNK_ENTRIES // (n * m)))


def _parts(target: Path, depends: dict[str, Any], count: int, fresh: bool) -> Parts:
    if depends["input"] is not None:
        return Parts(parts_folder(target), depends, count, fresh=fresh)
    # Input that cannot be read again cannot be resumed.
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".parts", dir=target.parent))
    return Parts(folder, depends, count, resumable=False)


def _tasks(source: Source, todo: list[int], size: int) -> Iterator[Task]:
    for index in todo:
        start = index * size
        yield index, start, source.rows(start, min(source.shape[0], start + size))


def _here(work: Work, tasks: Iterable[Task], name: str, skip_bad: bool) -> Iterator[tuple[int, Chunk]]:
    """Do the work in this process."""
    for index, start, Y in tasks:
        yield index, answer(work, Y, start, name, skip_bad)
