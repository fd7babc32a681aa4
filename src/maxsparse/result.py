"""The object that every method returns."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.atomic import atomic_write
from maxsparse._core.products import as_numpy, is_tensor
from maxsparse._core.tables import html_table
from maxsparse._core.validation import FloatArray

__all__ = ["Result"]

SHOWN_SIGNALS, SHOWN_ATOMS = 8, 6  # in the table of a notebook


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Recovered signals, one per row, with residual, certificate and more for each.

    Attributes
    ----------
    coef : ndarray of shape (N, m), or (N, L, m) for signals with L snapshots
        Coefficients of the caller's Φ; complex where Φ or Y is. Where Φ or Y was a torch tensor, this and all other
        arrays are tensors on its device.
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
    names : tuple of m str, or None
        Names of the atoms, where Φ was a table or ``names=`` were given.

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
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        whole = self.coef.shape
        for name, value in self._stored().items():
            expected: tuple[int, ...] = whole[:1]
            if name.startswith("explicit_"):
                expected = whole if name == "explicit_mean" else (whole[0], whole[-1])
            if name != "coef" and value.shape != expected:
                raise ValueError(f"{name} has shape {value.shape}, but coef {self.coef.shape} needs {expected}")
        if self.names is not None and len(self.names) != self.coef.shape[-1]:
            raise ValueError(f"there are {len(self.names)} names for {self.coef.shape[-1]} atoms")

    @cached_property
    def support(self) -> NDArray[np.bool_]:
        """Atoms in use, (N, m)."""
        used: NDArray[np.bool_] = self.coef != 0
        anywhere: Any = used.any(1) if used.ndim == 3 else used
        return anywhere  # type: ignore[no-any-return]

    @cached_property
    def scores(self) -> FloatArray:
        """How likely every atom is to be in the support, (N, m)."""
        return self._magnitudes() if self.explicit_scores is None else self.explicit_scores

    def _magnitudes(self) -> FloatArray:
        """Magnitudes of the coefficients over all snapshots, (N, m)."""
        if self.coef.ndim == 2:
            return abs(self.coef)
        magnitudes: FloatArray = self.coef.norm(dim=1) if is_tensor(self.coef) else np.linalg.norm(self.coef, axis=1)  # type: ignore[attr-defined]
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
        if is_tensor(self.coef):
            return repr(self.moved(as_numpy))
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

    def table(self, i: int = 0) -> list[dict[str, Any]]:
        """Return the atoms in the support of signal i, largest score first: one dict per atom.

        Parameters
        ----------
        i : int, default=0
            Number of the signal.

        Returns
        -------
        rows : list of dict
            With the keys ``atom`` (number), ``name``, ``coef`` (of several snapshots, the root mean square) and, where
            there are probabilities, ``inclusion``; ``pandas.DataFrame(rows)`` is a table.

        Examples
        --------
        >>> import maxsparse as ms
        >>> Phi = ms.dictionaries.gaussian(10, 3, rng=0)
        >>> ms.solve(Phi, 2 * Phi.T[:1], method="omp", names=["a", "b", "c"]).table()
        [{'atom': 0, 'name': 'a', 'coef': 2.0}]
        """
        part = self[i].moved(as_numpy) if is_tensor(self.coef) else self[i]
        x = part.coef[0] if part.coef.ndim == 2 else np.sqrt(np.mean(np.abs(part.coef[0]) ** 2, axis=0))
        inclusion = getattr(part, "inclusion", None)
        atoms = np.flatnonzero(part.support[0])
        rows = []
        for j in atoms[np.argsort(-part._magnitudes()[0, atoms], kind="stable")]:
            name = str(j) if self.names is None else self.names[j]
            rows.append({"atom": int(j), "name": name, "coef": x[j].item()})
            if inclusion is not None:
                rows[-1]["inclusion"] = float(inclusion[0, j])
        return rows

    def plot(self, i: int = 0, *, truth: Any = None, axes: Any = None) -> Any:
        """Draw the coefficients of signal i, see :func:`maxsparse.plotting.coefficients`.

        Parameters
        ----------
        i : int, default=0
            Number of the signal.
        truth : array-like of shape (m,), (L, m) or None, default=None
            True coefficients of this signal.
        axes : matplotlib Axes or None, default=None
            None makes a new figure.

        Returns
        -------
        axes : matplotlib Axes
        """
        from maxsparse.plotting import coefficients

        return coefficients(self, i, truth=truth, axes=axes)

    def _repr_html_(self) -> str:
        """Return the first signals as a small table, for notebooks."""
        confidence = getattr(self, "confidence", None)
        head = [
            "signal",
            "nonzeros",
            "residual",
            *([] if confidence is None else ["confidence"]),
            "atoms: coefficients",
        ]
        rows = []
        for i in range(min(len(self), SHOWN_SIGNALS)):
            atoms = [f"{row['name']}: {row['coef']:.3g}" for row in self.table(i)]
            more = f", … {len(atoms) - SHOWN_ATOMS} more" if len(atoms) > SHOWN_ATOMS else ""
            cells = [f"{i}", f"{len(atoms)}", f"{self.residual[i]:.2g}"]
            if confidence is not None:
                cells.append("certified" if self.certified[i] else f"{confidence[i]:.2f}")
            rows.append([*cells, ", ".join(atoms[:SHOWN_ATOMS]) + more])
        return html_table(repr(self), head, rows)

    def to_npz(self, path: str | os.PathLike[str]) -> None:
        """Write every array to a compressed .npz file, atomically.

        Parameters
        ----------
        path : str or path
            File to write; an existing one is replaced. Read it with ``numpy.load(path)``.
        """
        names = {name.removeprefix("explicit_") for name in self._stored() if name[0] != "_"}  # a subclass's too
        with atomic_write(path) as stream:
            arrays = {name: as_numpy(getattr(self, name)) for name in sorted(names | {"support", "scores"})}
            if self.names is not None:
                arrays["names"] = np.array(self.names)
            np.savez_compressed(stream, method=np.array(self.method), **arrays)

    def _stored(self) -> dict[str, NDArray[Any]]:
        kind: Any = type(self)
        values = {name: getattr(self, name) for name in _fields(kind)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray) or is_tensor(value)}

    def moved(self, move: Callable[[Any], Any]) -> Result:
        """Return the same with ``move`` applied to every array of numbers; for tensors, see ``maxsparse.solve``."""
        arrays = {name: value for name, value in self._stored().items() if is_tensor(value) or value.dtype.kind != "U"}
        return replace(self, **{name: move(value) for name, value in arrays.items()})


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    """Return the names of a result's fields."""
    return tuple(field.name for field in fields(kind))
