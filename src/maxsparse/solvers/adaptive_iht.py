"""Adaptive IHT for clustered dictionaries, compiled: coarse levels first, whose supports are then known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import dot, least_squares, residual_into, residual_of, times
from maxsparse._core.prepared import Prepared, noise_levels
from maxsparse._core.registry import SOLVERS
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray, check_integer, check_number
from maxsparse.dictionaries import ClusteredDictionary, NestedDictionary
from maxsparse.result import Result
from maxsparse.solvers._contract import (
    Batch,
    Options,
    Precondition,
    Rows,
    check_preconditioner,
    check_sparsities,
    run,
)
from maxsparse.solvers.iht import Scratch, iht_step

__all__ = ["aiht"]


@SOLVERS.register(
    "aiht",
    summary="Adaptive IHT on [U, A]: first the clusters, then the atoms in them",
    label="A-IHT",
    needs=["sparsity", "clusters"],
    can=["noise"],
    good_for="tight clusters of atoms whose centres you know",
    order=21,
)
def aiht(
    dictionary: ClusteredDictionary | NestedDictionary,
    Y: ArrayLike,
    *,
    sparsity: int | ArrayLike,
    cluster_sparsity: int | Sequence[int] | None = None,
    max_iter: int = 1000,
    tol: float = 1e-12,
    precondition: Precondition = False,
    noise: float | str = 0.0,
    n_threads: int | None = None,
    progress: bool = False,
) -> Result:
    r"""Adaptive IHT for a clustered dictionary: first which clusters, then which atoms in them.

    Cluster j holds :math:`\phi_i = n_i(v_i u_j + \epsilon a_i)`, so that y is sparse both in U, up to O(ε), and in
    [U, A] exactly. Phase one runs IHT on U with k_c nonzeros; its support J is then protected (Ω_on), the details of
    all other clusters are switched off (Ω_off), and phase two runs IHT on [U, A(J)] with k_x details. Clusters within
    clusters take one phase per level, from coarse to fine.

    Parameters
    ----------
    dictionary : ClusteredDictionary or NestedDictionary
        From :func:`maxsparse.dictionaries.clustered` or :func:`maxsparse.dictionaries.nested`; its parts are needed.
    Y : array-like of shape (N, n)
        Signals as rows.
    sparsity : int or array-like of shape (N,)
        Number k_x of nonzeros.
    cluster_sparsity : int, sequence of int or None, default=None
        Number k_c of active clusters, one per level of clusters; None means the number of nonzeros.
    max_iter : int, default=1000
        Most iterations per signal and phase.
    tol : float, default=1e-12
        Stop a phase when the residual is below tol·‖y‖₂ (or at the noise level), or x moves by less than tol·‖x‖₂.
    precondition : bool or (W, D), default=False
        True whitens [U, A], not Φ, regularised for the noise of every signal; a pair must fit [U, A].
    noise, n_threads, progress
        As for :func:`maxsparse.solvers.iht`.

    Returns
    -------
    result : Result
        Coefficients of Φ. ``iterations`` counts all phases.

    See Also
    --------
    adaptive_layers : Any sequence of layers.

    Notes
    -----
    Proposition "existence" of the paper: if the RIP constant δ_{3k_x + k_c} of [U, A(J)] is below 1/√32 for all J and
    ε is small enough, the support is found in finitely many iterations, however coherent Φ is. It needs one condition
    more, which the paper does not state: the coefficients within a cluster must not cancel. Section 5 of the paper
    mentions nested clusters. Steps follow the normalised rule, since unit steps need that condition to be stable.

    Examples
    --------
    >>> import maxsparse as ms
    >>> dictionary = ms.dictionaries.clustered(60, 90, clusters=30, epsilon=1e-4, rng=0)
    >>> X, Y = ms.signals.sample(dictionary, 50, sparsity=2, rng=1)
    >>> adaptive = ms.solvers.aiht(dictionary, Y, sparsity=2)
    >>> plain = ms.solvers.iht(dictionary, Y, sparsity=2)
    >>> ms.metrics.strict_accuracy(X, adaptive.scores) > 0.9 > 0.2 > ms.metrics.strict_accuracy(X, plain.scores)
    True
    """
    levels = _levels(dictionary)
    max_iter = check_integer(max_iter, "max_iter", low=1)
    tol = check_number(tol, "tol", low=0.0)
    limits = _limits(cluster_sparsity, check_sparsities(sparsity, dictionary, Y), levels.starts)
    integrated = levels.columns

    def solve_batch(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        N, dtype = len(batch.Y), batch.Y.dtype
        spent, done = np.zeros(N, dtype=np.int64), np.zeros(N, dtype=bool)
        of_batch = limits[batch.rows]
        for (W, D), rows in _changes(integrated, batch.Y, batch.noise, precondition):
            floor = batch.noise * float(np.linalg.norm(W))  # expected size of the noise after W; noise·√n for W = I
            parts = np.ascontiguousarray((W @ integrated * D).T, dtype=dtype)  # rows are the columns of W[U, A]D
            Y, X = batch.Y[rows], batch.X[rows]
            Y_changed = times(Y, np.ascontiguousarray(W.T, dtype=dtype))
            back = (D[levels.starts[-2] :] / levels.weights).astype(dtype)
            steps, finished = spent[rows], done[rows]
            split = _Split(parts, levels.starts, levels.parents, back, batch.atoms)
            answers = _Answers(X, steps, finished)
            over_slices(
                _aiht_rows, len(Y), split, _Signals(Y, Y_changed, of_batch[rows]), _Stop(max_iter, tol, floor), answers
            )
            batch.X[rows], spent[rows], done[rows] = X, steps, finished
        return spent, done

    return run("aiht", dictionary, Y, solve_batch, Options(False, noise, n_threads, progress))


class _Levels(NamedTuple):
    """The parts of a dictionary from coarse to fine: centres of clusters, perhaps of clusters in them, and details."""

    columns: FloatArray  # (n, size), all parts side by side
    starts: NDArray[np.int64]  # (levels + 1,), first column of every level
    parents: NDArray[np.int64]  # (size,), the column of the coarser level that a column belongs to; -1 for the coarsest
    weights: FloatArray  # (m,), factor of its detail in every atom


def _levels(dictionary: ClusteredDictionary | NestedDictionary) -> _Levels:
    parts: tuple[FloatArray, ...]
    parents: tuple[NDArray[np.intp], ...]
    if isinstance(dictionary, ClusteredDictionary):
        parts, parents = (dictionary.centers, dictionary.details), (dictionary.labels,)
        weights = dictionary.epsilon * dictionary.norms
    elif isinstance(dictionary, NestedDictionary):
        parts, parents, weights = dictionary.parts, dictionary.parents, dictionary.weights
    else:
        raise ValueError(
            f"aiht needs a ClusteredDictionary with its centers and details, got {type(dictionary).__name__}; "
            "see maxsparse.dictionaries.clustered"
        )
    starts = np.cumsum([0, *(part.shape[1] for part in parts)])
    none = np.full(parts[0].shape[1], -1)
    above = np.concatenate([none, *(starts[level] + labels for level, labels in enumerate(parents))])
    return _Levels(np.hstack(parts), starts.astype(np.int64), above.astype(np.int64), weights)


def _limits(
    cluster_sparsity: int | Sequence[int] | None, sparsities: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the number of columns to choose at every level, (N, levels)."""
    sizes = np.diff(starts)
    given = [cluster_sparsity] if isinstance(cluster_sparsity, int | np.integer) else cluster_sparsity
    if given is not None and len(given) != len(sizes) - 1:
        raise ValueError(f"cluster_sparsity needs {len(sizes) - 1} numbers, one per level of clusters, got {given}")
    counts = (
        []
        if given is None
        else [
            check_integer(k, "cluster_sparsity", low=0, high=int(size))
            for k, size in zip(given, sizes[:-1], strict=True)
        ]
    )
    most = np.array([*(counts or sizes[:-1]), sizes[-1]])
    limits: NDArray[np.int64] = np.minimum(sparsities[:, None], most).astype(np.int64)
    return limits


def _changes(
    integrated: FloatArray, Y: FloatArray, noise: float, precondition: Precondition
) -> Iterator[tuple[tuple[FloatArray, FloatArray], Rows]]:
    """Yield every (W, D) for [U, A] with the signals that it is for."""
    everything = slice(None)
    if precondition is None or precondition is False:
        yield (np.eye(integrated.shape[0]), np.ones(integrated.shape[1])), everything
    elif precondition is not True:
        yield check_preconditioner(precondition, integrated), everything
    else:
        prepared = Prepared(np.ascontiguousarray(integrated))
        for level, rows in noise_levels(Y, noise):
            form = prepared.form(level)
            assert form.W is not None
            assert form.D is not None
            yield (form.W, form.D), rows


class _Split(NamedTuple):
    """A dictionary Φ as centres U and details A."""

    parts: FloatArray  # (size, n), columns of W[U, A]D
    starts: NDArray[np.int64]  # (levels + 1,)
    parents: NDArray[np.int64]  # (size,)
    back: FloatArray  # (m,), from coefficients of details to those of Φ
    atoms: FloatArray  # (m, n), those of Φ


class _Signals(NamedTuple):
    Y: FloatArray  # (N, n)
    Z: FloatArray  # (N, n), after W
    limits: NDArray[np.int64]  # (N, levels)


class _Stop(NamedTuple):
    max_iter: int
    tol: float
    floor: float  # residual that noise explains


class _Answers(NamedTuple):
    X: FloatArray  # (N, m)
    spent: NDArray[np.int64]  # (N,)
    done: NDArray[np.bool_]  # (N,)


@kernel()
def _aiht_rows(piece: int, pieces: int, split: _Split, signals: _Signals, stop: _Stop, answers: _Answers) -> None:
    """Run one phase per level for every signal; refit the support on the atoms of Φ."""
    parts, starts, parents, back, atoms = split
    Y, Z, limits = signals
    X, spent, done = answers
    N, n = Z.shape
    levels, m, size = starts.shape[0] - 1, atoms.shape[0], parts.shape[0]
    packed = np.empty((size, n), dtype=Z.dtype)
    x, work = np.empty(size, dtype=Z.dtype), np.empty((5, size), dtype=Z.dtype)
    index, chosen = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    L = np.empty((min(n, m), min(n, m)), dtype=Z.dtype)
    for row in range(piece, N, pieces):
        kept = 0  # columns of coarser levels that stay
        for level in range(levels):
            count = _candidates(parents, starts[level], starts[level + 1], index, kept)
            for l in range(count):
                packed[l] = parts[index[l]]
            x[kept:count] = 0.0
            more, done[row] = _phase(packed[:count], Z[row], limits[row, level], kept, stop, x, work, chosen)
            spent[row] += more
            if level < levels - 1:
                found = kept
                for l in range(kept, count):
                    if x[l] != 0.0:
                        index[found], x[found] = index[l], x[l]
                        found += 1
                kept = found
        for l in range(kept, count):
            X[row, index[l] - starts[levels - 1]] = x[l] * back[index[l] - starts[levels - 1]]
        _refit(Y[row], atoms, X[row], L)


@kernel()
def _candidates(parents: NDArray[Any], first: int, last: int, index: NDArray[Any], kept: int) -> int:
    """Append to index[:kept] the columns of a level that lie in a kept cluster; return how many there are in all."""
    count = kept
    for i in range(first, last):
        inside = parents[i] < 0
        for l in range(kept):
            inside = inside or parents[i] == index[l]
        if inside:
            index[count] = i
            count += 1
    return count


@kernel()
def _phase(
    atoms: NDArray[Any],
    y: NDArray[Any],
    k: int,
    protected: int,
    stop: _Stop,
    x: NDArray[Any],
    work: NDArray[Any],
    chosen: NDArray[Any],
) -> tuple[int, bool]:
    """Run normalised IHT on the rows of `atoms` from x, with the first `protected` of them never thresholded."""
    max_iter, tol, floor = stop
    size, n = atoms.shape
    narrow = np.ascontiguousarray(atoms.T)
    r, scratch = np.empty(n, dtype=y.dtype), Scratch(np.empty(n, dtype=y.dtype), work[:, :size], chosen)
    goal = max(tol * np.sqrt(dot(y, y)), floor)
    for t in range(max_iter):
        # Centres alone are not an answer, however well they fit: the second phase has to choose details.
        if residual_of(y, atoms, x[:size], r) <= goal and (t > 0 or protected == 0):
            return t, True
        moved = iht_step(narrow, atoms, x[:size], k, protected, 0.0, r, scratch)
        if moved <= tol * np.sqrt(dot(x[:size], x[:size])):
            return t + 1, True
    return max_iter, False


@kernel()
def _refit(y: NDArray[Any], atoms: NDArray[Any], x: NDArray[Any], L: NDArray[Any]) -> None:
    """Replace the nonzeros of x by their least-squares fit, if that lowers the residual."""
    n, m = y.shape[0], x.shape[0]
    indices, values, r = np.empty(m, dtype=np.int64), np.empty(m, dtype=y.dtype), np.empty(n, dtype=y.dtype)
    count = 0
    for j in range(m):
        if x[j] != 0.0:
            indices[count] = j
            count += 1
    if count == 0 or count > L.shape[0]:
        return
    before = residual_of(y, atoms, x, r)
    least_squares(y, atoms, indices, count, L, values, r)
    if residual_into(y, atoms, indices, values, count, r) < before**2:
        for l in range(count):
            x[indices[l]] = values[l]
