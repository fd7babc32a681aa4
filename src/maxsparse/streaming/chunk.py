"""Sparse answers for some rows of signals: returned by tasks and stored in the parts on disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.atomic import atomic_write
from maxsparse.recovery import Recovery
from maxsparse.recovery.certificate import ARGUMENTS
from maxsparse.result import Result

__all__ = ["Chunk"]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Answers of N signals, sparse by rows.

    Attributes
    ----------
    counts : ndarray of shape (N,), int32
        Nonzeros of every signal.
    indices, values : ndarray of shape (sum of counts,)
        Atoms and coefficients, signal after signal, atoms in rising order.
    columns : dict of ndarray of shape (N,)
        Other values per signal: residual, certified, …; ``argument`` as its index in ``ARGUMENTS``.
    """

    counts: NDArray[np.int32]
    indices: NDArray[np.int32]
    values: NDArray[Any]
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, result: Result, bad: NDArray[np.bool_]) -> Chunk:
        """Convert a result; `bad` marks signals that could not be read and have no answer."""
        rows, atoms = np.nonzero(result.coef)
        columns: dict[str, NDArray[Any]] = {
            "residual": np.where(bad, np.nan, result.residual).astype(result.residual.dtype),
            "certified": result.certified & ~bad,
            "converged": result.converged & ~bad,
            "iterations": result.iterations,
        }
        if isinstance(result, Recovery):
            codes = np.zeros(len(result), dtype=np.uint8)
            for code, argument in enumerate(ARGUMENTS):
                codes[(result.argument == argument) & ~bad] = code
            columns |= {"argument": codes, "confidence": np.where(bad, np.nan, result.confidence)}
        counts = np.bincount(rows, minlength=len(result)).astype(np.int32)
        return cls(counts, atoms.astype(np.int32), result.coef[rows, atoms], columns)

    def __len__(self) -> int:
        return len(self.counts)

    def dense(self, m: int) -> NDArray[Any]:
        """Return the coefficients (N, m)."""
        coef = np.zeros((len(self), m), dtype=self.values.dtype)
        coef[np.repeat(np.arange(len(self)), self.counts), self.indices] = self.values
        return coef

    def write(self, path: Path) -> None:
        """Write to a .npz file atomically."""
        with atomic_write(path) as stream:
            np.savez(stream, counts=self.counts, indices=self.indices, values=self.values, **self.columns)  # type: ignore[arg-type]

    @classmethod
    def read(cls, path: Path) -> Chunk:
        """Read a file of :meth:`write`; its checksums are verified."""
        try:
            with np.load(path, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            return cls(arrays.pop("counts"), arrays.pop("indices"), arrays.pop("values"), arrays)
        except Exception as error:  # zipfile raises anything for a damaged file
            raise ValueError(f"{str(path)!r} is damaged ({error}); remove it and run again") from error
