"""The object that every method returns."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.atomic import atomic_write
from maxsparse._core.validation import FloatArray

__all__ = ["Result"]


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Recovered signals, one per row, with residual, certificate and more for each.

    Attributes
    ----------
    coef : ndarray of shape (N, m), or (N, L, m) for signals with L snapshots
        Coefficients of the caller's Φ; complex where Φ or Y is.
    support : ndarray of shape (N, m), bool
        Atoms in use: where `coef` is not zero, in any snapshot.
    scores : ndarray of shape (N, m)
        Larger for atoms more likely to be in the support; for a method that estimates coefficients, their magnitudes,
        of several snapshots the root of the sum of squares.
    residual : ndarray of shape (N,)
        ‖y − Φx‖₂, over all snapshots.
    certified : ndarray of shape (N,), bool
        True where the answer is certified to be the sparsest; always False for classical methods.
    iterations : ndarray of shape (N,), int
        Iterations spent on each signal.
    converged : ndarray of shape (N,), bool
        True where the method met its stopping rule before `max_iter`.
    method : str
        Name of the method.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(20, 50, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 100, sparsity=2, rng=1)
    >>> result = ms.solve(Phi, Y, method="omp", sparsity=2)
    >>> result
    Result(omp: 100 signals × 50 atoms, 2 nonzeros (median), residual ... (median), 100 converged, 0 certified)
    >>> len(result[:10]), result[3].coef.shape
    (10, (1, 50))
    """

    coef: FloatArray  # or complex
    residual: FloatArray
    iterations: NDArray[np.int64]
    converged: NDArray[np.bool_]
    certified: NDArray[np.bool_]
    method: str
    # None means: the magnitudes of coef, computed on first use, to save time for many signals.
    explicit_scores: FloatArray | None = None

    def __post_init__(self) -> None:
        for name, value in self._stored().items():
            expected: tuple[int, ...] = (len(self),)
            if name.startswith("explicit_"):
                expected = self.coef.shape if name == "explicit_mean" else (len(self), self.coef.shape[-1])
            if name != "coef" and value.shape != expected:
                raise ValueError(f"{name} has shape {value.shape}, but coef {self.coef.shape} needs {expected}")

    @cached_property
    def support(self) -> NDArray[np.bool_]:
        """Atoms in use, (N, m)."""
        used: NDArray[np.bool_] = self.coef != 0
        return np.asarray(used.any(axis=1)) if used.ndim == 3 else used

    @cached_property
    def scores(self) -> FloatArray:
        """How likely every atom is to be in the support, (N, m)."""
        return self._magnitudes() if self.explicit_scores is None else self.explicit_scores

    def _magnitudes(self) -> FloatArray:
        """Magnitudes of the coefficients over all snapshots, (N, m)."""
        magnitudes: FloatArray = np.linalg.norm(self.coef, axis=1) if self.coef.ndim == 3 else np.abs(self.coef)
        return magnitudes

    def __len__(self) -> int:
        return int(self.coef.shape[0])

    def __getitem__(self, index: Any) -> Result:
        """Return the result of some of the signals; a single index keeps a batch of one."""
        if isinstance(index, int | np.integer):
            if not -len(self) <= index < len(self):
                raise IndexError(f"signal {index} is out of range: there are {len(self)} signals")
            index = [index]
        return replace(self, **{name: value[index] for name, value in self._stored().items()})

    def __repr__(self) -> str:
        N, m, kind = len(self), self.coef.shape[-1], type(self).__name__
        snapshots = f" of {self.coef.shape[1]} snapshots" if self.coef.ndim == 3 else ""
        if N == 0:
            return f"{kind}({self.method}: 0 signals × {m} atoms)"
        nonzeros = np.median(np.count_nonzero(self.support, axis=1))
        return (
            f"{kind}({self.method}: {N} signal{'s' if N > 1 else ''}{snapshots} × {m} atoms, "
            f"{nonzeros:g} nonzeros (median), "
            f"residual {np.median(self.residual):.1e} (median), {self.converged.sum()} converged, "
            f"{self.certified.sum()} certified)"
        )

    def to_npz(self, path: str | os.PathLike[str]) -> None:
        """Write every array to a compressed .npz file, atomically.

        Parameters
        ----------
        path : str or path
            File to write; an existing one is replaced. Read it with ``numpy.load(path)``.
        """
        names = {name.removeprefix("explicit_") for name in self._stored() if name[0] != "_"}  # a subclass's too
        with atomic_write(path) as stream:
            arrays = {name: getattr(self, name) for name in sorted(names | {"support", "scores"})}
            np.savez_compressed(stream, method=np.array(self.method), **arrays)

    def _stored(self) -> dict[str, NDArray[Any]]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
