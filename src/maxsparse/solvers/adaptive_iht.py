"""Adaptive IHT: hard thresholding with partially known supports and weights that change from layer to layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse import theory
from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import dot, least_squares, residual_into, residual_of, times
from maxsparse._core.prepared import Prepared, noise_levels
from maxsparse._core.registry import SOLVERS
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray, check_integer, check_matrix, check_number
from maxsparse.dictionaries import ClusteredDictionary
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

__all__ = ["Layer", "adaptive_layers", "aiht"]

# A set of coefficients as a mask, (N, size) or (size,) for all signals, or a function of the layer's input x.
Mask = ArrayLike | Callable[[FloatArray], ArrayLike] | None


@dataclass(frozen=True)
class Layer:
    """One layer of Adaptive IHT, x ↦ H_k[Ψx + Γy; Ω_on, Ω_off].

    Attributes
    ----------
    Psi : array-like of shape (size, previous size)
    Gamma : array-like of shape (size, n)
    k : int
        Coefficients to keep outside `on` and `off`.
    on, off : mask of shape (size,) or (N, size), or a function of the layer's input, or None
    """

    Psi: ArrayLike
    Gamma: ArrayLike
    k: int
    on: Mask = None
    off: Mask = None


def adaptive_layers(Y: ArrayLike, layers: Iterable[Layer]) -> FloatArray:
    r"""Run Adaptive IHT with any sequence of layers, from x = 0.

    .. math:: x^{(t+1)} = H_{k^{(t)}}\big[\Psi^{(t)} x^{(t)} + \Gamma^{(t)} y;\,
              \Omega_{on}^{(t)}, \Omega_{off}^{(t)}\big]

    Parameters
    ----------
    Y : array-like of shape (N, n)
        Signals as rows.
    layers : iterable of Layer
        Sizes may change from layer to layer, as in the paper's existence proof.

    Returns
    -------
    X : ndarray of shape (N, size of the last layer)

    See Also
    --------
    aiht : The layers of the existence proof, compiled, for a clustered dictionary.

    Examples
    --------
    Plain IHT is one layer, repeated:

    >>> import numpy as np
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(40, 60, rng=0) / 2
    >>> X, Y = ms.signals.sample(Phi, 5, sparsity=2, rng=1)
    >>> layer = ms.solvers.Layer(np.eye(60) - Phi.T @ Phi, Phi.T, 2)
    >>> same = ms.solvers.iht(Phi, Y, sparsity=2, step=1.0, max_iter=30, tol=0.0).coef
    >>> bool(np.allclose(ms.solvers.adaptive_layers(Y, [layer] * 30), same))
    True
    """
    signals = check_matrix(Y, "Y")
    x: FloatArray | None = None
    for number, layer in enumerate(layers):
        Gamma, Psi = (
            check_matrix(layer.Gamma, f"Gamma of layer {number}"),
            check_matrix(layer.Psi, f"Psi of layer {number}"),
        )
        if Gamma.shape != (Psi.shape[0], signals.shape[1]) or (x is not None and Psi.shape[1] != x.shape[1]):
            raise ValueError(
                f"layer {number} does not fit: Psi {Psi.shape}, Gamma {Gamma.shape}, "
                f"input {None if x is None else x.shape[1]}, signals {signals.shape[1]}"
            )
        before = np.zeros((len(signals), Psi.shape[1]), dtype=signals.dtype) if x is None else x
        on, off = (mask(before) if callable(mask) else mask for mask in (layer.on, layer.off))
        x = theory.hard_threshold(before @ Psi.T + signals @ Gamma.T, layer.k, on=on, off=off)
    if x is None:
        raise ValueError("layers is empty; give at least one layer")
    return x


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
    dictionary: ClusteredDictionary,
    Y: ArrayLike,
    *,
    sparsity: int | ArrayLike,
    cluster_sparsity: int | None = None,
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
    all other clusters are switched off (Ω_off), and phase two runs IHT on [U, A(J)] with k_x details.

    Parameters
    ----------
    dictionary : ClusteredDictionary
        From :func:`maxsparse.dictionaries.clustered`; its parts are needed.
    Y : array-like of shape (N, n)
        Signals as rows.
    sparsity : int or array-like of shape (N,)
        Number k_x of nonzeros.
    cluster_sparsity : int or None, default=None
        Number k_c of active clusters; None means the number of nonzeros.
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
        Coefficients of Φ. ``iterations`` counts both phases.

    See Also
    --------
    adaptive_layers : Any sequence of layers.

    Notes
    -----
    Proposition "existence" of the paper: if the RIP constant δ_{3k_x + k_c} of [U, A(J)] is below 1/√32 for all J and
    ε is small enough, the support is found in finitely many iterations, however coherent Φ is. Steps follow the
    normalised rule, since unit steps need that condition to be stable.

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
    if not isinstance(dictionary, ClusteredDictionary):
        raise ValueError(
            f"aiht needs a ClusteredDictionary with its centers and details, got {type(dictionary).__name__}; "
            "see maxsparse.dictionaries.clustered"
        )
    max_iter = check_integer(max_iter, "max_iter", low=1)
    tol = check_number(tol, "tol", low=0.0)
    clusters = dictionary.centers.shape[1]
    sparsities = check_sparsities(sparsity, dictionary, Y)
    cluster_limits = np.minimum(sparsities, clusters)
    if cluster_sparsity is not None:
        k_c = check_integer(cluster_sparsity, "cluster_sparsity", low=0, high=clusters)
        cluster_limits = np.minimum(cluster_limits, k_c)
    integrated = np.hstack([dictionary.centers, dictionary.details])

    def solve_batch(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        N, dtype = len(batch.Y), batch.Y.dtype
        spent, done = np.zeros(N, dtype=np.int64), np.zeros(N, dtype=bool)
        limits = sparsities[batch.rows], cluster_limits[batch.rows]
        for (W, D), rows in _changes(integrated, batch.Y, batch.noise, precondition):
            floor = batch.noise * float(np.linalg.norm(W))  # expected size of the noise after W; noise·√n for W = I
            parts = np.ascontiguousarray((W @ integrated * D).T, dtype=dtype)  # rows are the columns of W[U, A]D
            Y, X = batch.Y[rows], batch.X[rows]
            Y_changed = times(Y, np.ascontiguousarray(W.T, dtype=dtype))
            back = (D[clusters:] / (dictionary.epsilon * dictionary.norms)).astype(dtype)
            steps, finished = spent[rows], done[rows]
            split = _Split(parts, clusters, dictionary.labels, back, batch.atoms)
            signals = _Signals(Y, Y_changed, limits[0][rows], limits[1][rows])
            answers = _Answers(X, steps, finished)
            over_slices(_aiht_rows, len(Y), split, signals, _Stop(max_iter, tol, floor), answers)
            batch.X[rows], spent[rows], done[rows] = X, steps, finished
        return spent, done

    return run("aiht", dictionary, Y, solve_batch, Options(False, noise, n_threads, progress))


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

    parts: FloatArray  # (clusters + m, n), columns of W[U, A]D
    clusters: int
    labels: NDArray[np.int64]  # (m,), the cluster of every atom
    back: FloatArray  # (m,), from coefficients of details to those of Φ
    atoms: FloatArray  # (m, n), those of Φ


class _Signals(NamedTuple):
    Y: FloatArray  # (N, n)
    Z: FloatArray  # (N, n), after W
    limits: NDArray[np.int64]  # (N,), nonzeros
    cluster_limits: NDArray[np.int64]  # (N,), clusters with nonzeros


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
    """Run both phases for every signal; refit the support on the atoms of Φ."""
    parts, clusters, labels, back, atoms = split
    Y, Z, limits, cluster_limits = signals
    X, spent, done = answers
    N, n = Z.shape
    m, size = labels.shape[0], parts.shape[0]
    packed = np.empty((size, n), dtype=Z.dtype)
    x, work = np.empty(size, dtype=Z.dtype), np.empty((5, size), dtype=Z.dtype)
    index, chosen = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    L = np.empty((min(n, m), min(n, m)), dtype=Z.dtype)
    for row in range(piece, N, pieces):
        x[:] = 0.0
        steps, _ = _phase(parts[:clusters], Z[row], cluster_limits[row], 0, stop, x, work, chosen)
        protected, count = 0, 0
        for j in range(clusters):
            if x[j] != 0.0:
                index[protected], x[protected] = j, x[j]
                protected += 1
        count = protected
        for i in range(m):
            for l in range(protected):
                if labels[i] == index[l]:
                    index[count] = clusters + i
                    count += 1
        for l in range(count):
            packed[l] = parts[index[l]]
        x[protected:] = 0.0
        more, done[row] = _phase(packed[:count], Z[row], limits[row], protected, stop, x, work, chosen)
        spent[row] = steps + more
        for l in range(protected, count):
            X[row, index[l] - clusters] = x[l] * back[index[l] - clusters]
        _refit(Y[row], atoms, X[row], L)


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
