"""Common steps of all solvers: check, precondition, split, run on threads, transform back, return the result.

A solver passes :func:`run` a function that solves a batch for one dictionary; everything else is done here. A batch is
*plain*, real signals (N, n) with free signs of atoms on their own, or it has a structure: then signals are (N, L, n),
perhaps complex, and the atoms of every group stand side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core import joint
from maxsparse._core.compiled import compiling, kernel
from maxsparse._core.estimates import estimated_levels
from maxsparse._core.linalg import least_squares, times, top_k
from maxsparse._core.names import atom_names, in_order, measurement_names
from maxsparse._core.prepared import Form, Prepared, noise_levels
from maxsparse._core.products import is_tensor
from maxsparse._core.progress import track
from maxsparse._core.registry import SOLVERS
from maxsparse._core.structure import Structure, check_groups, check_structured
from maxsparse._core.threads import over_slices, threads
from maxsparse._core.validation import (
    check_array,
    check_clean_dictionary,
    check_dictionary,
    check_integer,
    check_number,
    is_complex,
    shape_of,
)
from maxsparse.result import Result
from maxsparse.solvers._by_products import on_cpu, run_by_products, takes_products

Precondition = bool | None | tuple[ArrayLike, ArrayLike]
Callback = Callable[[int, Any], bool | None]
Rows = slice | NDArray[np.intp]
SHOWN_PIECES, SMALLEST_PIECE = 25, 256  # for a progress bar, which advances when a piece is finished
KERNELS = 4  # that a solver compiles at its first call
WIDE = 5_000  # atoms of a dictionary that is not copied if that can be avoided
KEPT_ENTRIES, KEPT_ATOMS = 2**20, 2**11  # of the last Φ, which is kept with what was computed from it
CHUNK_BYTES = 64 * 2**20  # of coefficients; small enough for a smooth progress bar, large enough for all threads


# The last dictionary: Φ is used again and again, and its checks and its Gram matrix take as long as some signals.
_last: Prepared | None = None


@dataclass(frozen=True)
class Options:
    """The keyword arguments that every solver passes on unchanged."""

    precondition: Precondition = False
    noise: float | str = 0.0  # or "auto"
    n_threads: int | None = None
    progress: bool = False
    callback: Callback | None = None
    positive: bool = False
    groups: ArrayLike | None = None


@dataclass(frozen=True)
class Batch:
    """Signals that share one (preconditioned) dictionary; all arrays C-contiguous and of one dtype.

    Where Φ is an operator or lies on a device, `Phi` is a :class:`maxsparse._core.products.Products`, and arrays are
    where it is.
    """

    form: Form  # the dictionary, changed or not
    Y: Any  # (N, n); (N, L, n) where it has a structure, with L ≤ n unless coefficients must be non-negative
    X: Any  # (N, m) or (N, L, m), zeros: the solver writes the coefficients of its Φ here
    rows: Rows  # their numbers in the caller's Y
    noise: float  # standard deviation of the noise on the entries of Y
    watch: Callback | None
    structure: Structure
    given: Callable[[Any, Rows], Any]  # coefficients as the caller knows them

    @property
    def Phi(self) -> Any:
        """Dictionary, (n, m)."""
        return self.form.Q

    @property
    def atoms(self) -> Any:
        """Φᵀ, (m, n)."""
        return self.form.columns

    @property
    def by_products(self) -> bool:
        """Whether Φ is known by its products only, or lies on a device."""
        return not self.form.in_memory

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of Φ, which need not be formed for it."""
        return self.form.shape

    def counters(self) -> tuple[Any, Any]:
        """Return zeros for the iterations of every signal, (N,), and False for whether it has converged, (N,)."""
        N = len(self.Y)
        if self.by_products:
            return self.Phi.zeros(N, dtype=self.Phi.xp.int64), self.Phi.zeros(N, dtype=self.Phi.xp.bool)
        return np.zeros(N, dtype=np.int64), np.zeros(N, dtype=bool)

    @property
    def norm(self) -> float:
        """‖Φ‖₂."""
        return float(self.Phi.norm if self.by_products else np.linalg.norm(self.Phi, 2))

    @property
    def snapshots(self) -> int:
        """Number of snapshots that the caller gave; Y may hold them in fewer rows."""
        return self.structure.snapshots or 1

    @property
    def floor(self) -> float:
        """Norm of the noise on one signal: ‖y − Φx‖ need not be smaller."""
        return float(self.noise * np.sqrt(self.Y.shape[-1] * self.snapshots))

    def drive(self, advance: Callable[[int, int], object], max_iter: int, done: NDArray[np.bool_]) -> None:
        """Run iterations 0..max_iter, at once, or one at a time with a callback, until all signals are finished.

        ``advance(start, stop)`` runs these iterations from its state, writes the coefficients to `X` and marks in
        `done` (N,) which signals have met the stopping rule.
        """
        if self.watch is None:
            advance(0, max_iter)
            return
        for t in range(max_iter):
            advance(t, t + 1)
            X = 1 * self.X if self.form.D is None else self.X * self.form.D
            if self.watch(t + 1, self.given(X, self.rows)) or done.all():
                return


# Solves a batch: fills its X and returns iterations and convergence, each (N,).
BatchSolver = Callable[[Batch], tuple[NDArray[np.int64], NDArray[np.bool_]]]


def run(
    method: str,
    Phi: ArrayLike | Prepared,
    Y: ArrayLike,
    solve_batch: BatchSolver,
    options: Options,
    *,
    keep: int | None = None,
    blas: bool = True,
) -> Result:
    """Solve for every row of Y and return the coefficients of the caller's Φ.

    Parameters
    ----------
    method : name for the result.
    Phi, Y : checked by :func:`check_structured`; a Φ that is prepared already saves most of the time of a small batch.
        Operators, and tensors, go another way.
    solve_batch : solves signals that share one dictionary.
    options : what every solver takes.
    keep : number of largest coefficients to keep and refit by least squares; None keeps them all.
    blas : whether `solve_batch` calls BLAS for a plain batch of up to `WIDE` atoms.
    """
    if takes_products(Phi, Y):
        return run_by_products(method, Phi, Y, solve_batch, options, Batch, keep)
    if is_tensor(Phi) or is_tensor(Y):
        return on_cpu(lambda Phi, Y: run(method, Phi, Y, solve_batch, options, keep=keep), Phi, Y)
    Y = in_order(Y, measurement_names(Phi))
    prepared, data, structure = _checked(method, Phi, Y, options)
    levels = _noise_groups(prepared, data, options.noise)
    if keep is not None:
        keep = check_integer(keep, "sparsity", low=0, high=structure.largest)
    N, n, m = len(data), *prepared.shape
    if structure.plain:
        signals, rotation = data.reshape(N, n), None
    else:
        signals, rotation = structure.compressed(data if data.ndim == 3 else data[:, None])

    def given(X: Any, rows: Rows) -> Any:
        X = structure.restored(X if rotation is None else rotation[rows] @ X)
        return X.reshape(*data[rows].shape[:-1], m)

    coef = np.zeros((*signals.shape[:-1], m), dtype=signals.dtype)
    iterations = np.zeros(N, dtype=np.int64)
    converged = np.zeros(N, dtype=bool)
    blas = blas or not structure.plain or m > WIDE or bool(options.precondition)
    with threads(options.n_threads, blas=blas), compiling(KERNELS):
        pieces = [
            (form, rows if group is None else group[rows], noise)
            for noise, group in levels
            for form, rows in _pieces(prepared, data if group is None else data[group], noise, options, structure)
        ]
        if options.callback is not None and len(pieces) > 1:
            raise ValueError(
                "callback= cannot be used here: these signals have different noise-to-signal ratios and are solved "
                "separately; pass one signal at a time, or give noise= as a number, and precondition=(W, D)"
            )
        for form, rows, noise in track(pieces, method, options.progress):
            changed = signals[rows]
            if form.W is not None:
                changed = times(changed.reshape(-1, n), form.back).reshape(*changed.shape[:-1], len(form.W))
            batch = Batch(form, changed, coef[rows], rows, form.noise(noise), options.callback, structure, given)
            iterations[rows], converged[rows] = solve_batch(batch)
            if form.D is not None:
                batch.X[...] *= form.D
            if not isinstance(rows, slice):
                coef[rows] = batch.X
        if structure.plain:
            if keep is not None:
                over_slices(_keep_largest, N, signals, prepared.plain.columns, coef, keep)
            residual = prepared.residual_norms(signals, coef)
        else:
            if keep is not None:
                joint.keep_largest(signals, prepared.plain.columns, coef, structure, keep)
            residual = joint.residual_norms(signals, prepared.plain.columns, coef)
    whole, certified = given(coef, slice(None)), np.zeros(N, dtype=bool)
    return Result(whole, residual, iterations, converged, certified, method, names=atom_names(Phi))


def _checked(method: str, Phi: Any, Y: Any, options: Options) -> tuple[Prepared, Any, Structure]:
    """Check a problem, refuse what the method cannot do, and prepare Φ as methods see it."""
    global _last
    known: Any = Phi.Phi if isinstance(Phi, Prepared) else None
    clean = False
    if method in SOLVERS and is_complex(Y):  # before the error that positive= and complex data exclude each other
        SOLVERS.require(method, "complex")
    if type(Phi) is np.ndarray:  # a masked array, say, is compared otherwise
        kept = _last
        if kept is not None and kept.dtype == Phi.dtype and np.array_equal(kept.Phi, Phi):
            Phi, known = kept, kept.Phi
        else:
            known, clean = check_clean_dictionary(Phi)
    dictionary, signals, structure = check_structured(
        Phi, Y, positive=options.positive, groups=options.groups, checked=known
    )
    for ability in structure.asked if method in SOLVERS else ():
        SOLVERS.require(method, ability)
    if isinstance(Phi, Prepared) and structure.labels is None and dictionary.dtype == known.dtype:
        return Phi, signals, structure
    if clean and structure.labels is None and dictionary.size <= KEPT_ENTRIES and dictionary.shape[1] <= KEPT_ATOMS:
        _last = Prepared(np.array(dictionary, order="C"))  # a copy: the caller may change Φ
        return _last, signals, structure
    start = None if structure.labels is None else structure.start
    return Prepared(structure.arranged(dictionary), start=start), signals, structure


def _noise_groups(prepared: Prepared, Y: Any, noise: float | str) -> list[tuple[float, NDArray[np.intp] | None]]:
    """Return the noise levels in use with the rows that have them, None for all of them."""
    if not isinstance(noise, str):
        return [(check_number(noise, "noise", low=0.0), None)]
    if noise != "auto":
        raise ValueError(f'noise must be a number or "auto", got {noise!r}')
    if np.iscomplexobj(Y):
        raise ValueError('noise="auto" is for real signals; give noise= as a number')
    levels = estimated_levels(prepared.Phi, Y)
    return [(float(level), np.flatnonzero(levels == level)) for level in np.unique(levels)] or [(0.0, None)]


def _pieces(
    prepared: Prepared, Y: Any, noise: float, options: Options, structure: Structure
) -> Iterator[tuple[Form, Rows]]:
    """Split the signals into pieces that share a preconditioner and fit the memory budget."""
    N, m = Y.shape[0], prepared.shape[1] * (Y.shape[1] if Y.ndim == 3 else 1)
    most = N if options.callback is not None else max(1, CHUNK_BYTES // (m * Y.itemsize))
    if options.progress and options.callback is None:
        most = min(most, max(SMALLEST_PIECE, -(-N // SHOWN_PIECES)))
    for form, rows in _forms(prepared, Y, noise, options.precondition, structure):
        for start in range(0, N if rows is None else rows.size, max(1, most)):
            yield form, slice(start, start + most) if rows is None else rows[start : start + most]


def _forms(
    prepared: Prepared, Y: Any, noise: float, precondition: Precondition, structure: Structure
) -> Iterator[tuple[Form, NDArray[np.intp] | None]]:
    """Yield every form of Φ in use with the rows that use it, None for all of them."""
    if precondition is None or precondition is False:
        yield prepared.plain, None
    elif precondition is not True:
        W, D = check_preconditioner(precondition, prepared.Phi, positive=structure.positive)
        yield Form.of(prepared.Phi, W, D if structure.order is None else D[structure.order]), None
    elif noise == 0:
        yield prepared.form(), None
    else:
        yield from ((prepared.form(level), rows) for level, rows in noise_levels(Y, noise))


def check_preconditioner(pair: Any, Phi: Any, *, positive: bool = False) -> tuple[Any, Any]:
    """Check a pair (W, D) that a caller gave for Φ."""
    n, m = Phi.shape
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"precondition must be True, False or a pair (W, D), got {pair!r}")
    W = check_array(pair[0], "W of precondition", complex_too=np.iscomplexobj(Phi)).astype(Phi.dtype, copy=False)
    D = np.asarray(pair[1], dtype=Phi.real.dtype)
    if W.shape[1] != n:
        raise ValueError(f"W of precondition must have n = {n} columns, got shape {W.shape}")
    if D.shape != (m,) or not np.isfinite(D).all() or (D == 0).any():
        raise ValueError(f"D of precondition must be {m} finite, nonzero numbers, got shape {D.shape}")
    if positive and (D < 0).any():
        raise ValueError("D of precondition must be positive for non-negative coefficients")
    return W, D


@kernel()
def _keep_largest(piece: int, pieces: int, Y: NDArray[Any], atoms: NDArray[Any], X: NDArray[Any], k: int) -> None:
    """Keep the k largest coefficients of every row and refit them by least squares, in place."""
    N, m = X.shape
    n = Y.shape[1]
    magnitude, work = np.empty(m, dtype=X.dtype), np.empty(m, dtype=X.dtype)
    chosen = np.empty(m, dtype=np.int64)
    L, x, r = np.empty((k, k), dtype=X.dtype), np.empty(k, dtype=X.dtype), np.empty(n, dtype=X.dtype)
    for row in range(piece, N, pieces):
        for j in range(m):
            magnitude[j] = abs(X[row, j])
        count = 0
        for l in range(top_k(magnitude, k, work, chosen)):
            if magnitude[chosen[l]] > 0.0:  # never activate atoms that the solver did not select
                chosen[count] = chosen[l]
                count += 1
        for l in range(count):
            x[l] = X[row, chosen[l]]
        least_squares(Y[row], atoms, chosen, count, L, x, r)
        for j in range(m):
            X[row, j] = 0.0
        for l in range(count):
            X[row, chosen[l]] = x[l]


def check_sparsities(
    sparsity: Any, Phi: ArrayLike, Y: ArrayLike, *, groups: Any = None, optional: bool = False
) -> NDArray[np.int64]:
    """Return the number of nonzeros allowed for every signal, (N,), from one number, one per signal, or None.

    It counts groups where there are any.
    """
    n, m = shape_of(Phi, "Phi")
    if min(n, m) == 0:
        check_dictionary(Phi)  # raises the error for an empty Phi
    labels = check_groups(groups, m)
    most = min(n, m if labels is None else int(labels.max()) + 1)
    N = shape_of(Y, "Y")[0]
    if sparsity is None:
        if not optional:
            raise ValueError("sparsity is missing: this method needs the number of nonzeros")
        return np.full(N, most, dtype=np.int64)
    if isinstance(sparsity, int) or np.ndim(sparsity) == 0:
        k = check_integer(sparsity, "sparsity", low=0)
        if k <= most:
            return np.full(N, k, dtype=np.int64)
        values = np.full(N, k, dtype=np.int64)
    else:
        values = np.asarray(sparsity)
        if values.shape != (N,) or not np.issubdtype(values.dtype, np.integer):
            raise ValueError(
                f"sparsity must be a whole number or {N} of them, one per signal; "
                f"got shape {values.shape} of {values.dtype}"
            )
        values = values.astype(np.int64)
    if N and (values.min() < 0 or values.max() > most):
        bad = values[(values < 0) | (values > most)][0]
        what = "min(n, m)" if labels is None else "min(n, number of groups)"
        raise ValueError(f"sparsity must be from 0 to {what} = {most}, got {bad}")
    return values
