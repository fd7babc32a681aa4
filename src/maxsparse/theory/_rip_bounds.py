"""Bounds on the extreme eigenvalues over all k×k blocks of a symmetric matrix: by search, and by proof."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Matrix = NDArray[np.float64]
Support = NDArray[np.intp]
CANDIDATES = 60  # most promising atoms tried in a greedy step or a swap
PAIRS_AT_ONCE = 200  # rows of the matrix: larger temporary arrays take longer to get than to fill
MANY_STARTS, FEW_STARTS = 200, 40  # of the search, from single atoms; few for more than MOST_ATOMS atoms
POLISHED = 4  # subsets of the search improved by swaps
MOST_ATOMS = 1500  # for more, bounds from eigenvalues of the whole Gram matrix take minutes
SHRUNK = 3e9  # work that finding the best ρ may take, in m³


def search_extremes(
    G: Matrix, k: int, trials: int, rng: np.random.Generator
) -> tuple[tuple[float, Support], tuple[float, Support]]:
    """Find blocks of k atoms with a large λ_max and with a small λ_min, each as (value, support)."""
    high, high_support = _search_largest(G, k, trials, rng)
    # λ_min of G is λ_max of cI − G; the smallest c that keeps the visited blocks positive converges fastest.
    shift = max(high, float(np.abs(np.diag(G)).max()))
    low, low_support = _search_largest(shift * np.eye(len(G)) - G, k, trials, rng)
    return (high, high_support), (shift - low, low_support)


def _search_largest(M: Matrix, k: int, trials: int, rng: np.random.Generator) -> tuple[float, Support]:
    m = len(M)
    if k == m:
        return float(np.linalg.eigvalsh(M)[-1]), np.arange(m)
    trials, single = (trials, MANY_STARTS) if m <= MOST_ATOMS else (min(trials, FEW_STARTS), FEW_STARTS)
    starts = np.zeros((trials + min(m, single), m))
    for row in starts[:trials]:
        row[rng.choice(m, k, replace=False)] = rng.standard_normal(k)
    atoms = rng.permutation(m)[: len(starts) - trials]  # from one atom: its k nearest
    starts[np.arange(trials, len(starts)), atoms] = 1.0
    supports = np.concatenate([_truncated_power(M, k, starts), _greedy(M, k)[None, :]])
    supports = np.unique(np.sort(supports, axis=1), axis=0)
    order = np.argsort(-_block_eigenvalues(M, supports))
    best, best_support = -math.inf, supports[0]
    for support in supports[order[:POLISHED]]:
        value, swapped = _swap(M, support)
        if value > best:
            best, best_support = value, swapped
    return best, best_support


def _truncated_power(M: Matrix, k: int, X: Matrix, iterations: int = 25) -> Support:
    """Power iterations that keep the k largest entries of every row; returns the supports."""
    chosen = np.zeros((len(X), k), dtype=np.intp)
    ends = np.arange(0, len(X) * k + 1, k)
    sparse = csr_array(X)
    for _ in range(iterations):
        Z: Matrix = np.asarray(sparse @ M)  # k·m products a row, not m²
        chosen = np.argpartition(-np.abs(Z), k - 1, axis=1)[:, :k]
        values = np.take_along_axis(Z, chosen, axis=1)
        values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        sparse = csr_array((values.ravel(), chosen.ravel(), ends), shape=X.shape)
    return chosen


def _greedy(M: Matrix, k: int) -> Support:
    """Grow a subset from the pair with the largest eigenvalue, by the atom that raises it most."""
    support = np.array([np.diag(M).argmax()] if k == 1 else _largest_pair(M), dtype=np.intp)
    while support.size < k:
        new = _promising(M, support, support)
        trials = np.column_stack([np.broadcast_to(support, (new.size, support.size)), new])
        support = trials[_block_eigenvalues(M, trials).argmax()]
    return support


def _largest_pair(M: Matrix) -> tuple[int, int]:
    """Return the pair of atoms with the largest eigenvalue, the first one among equals."""
    d = np.diag(M)
    best, pair = -math.inf, (0, 1)
    for first in range(0, len(M), PAIRS_AT_ONCE):
        some = np.arange(first, min(len(M), first + PAIRS_AT_ONCE))
        own = d[some, None]
        values = (own + d) / 2 + np.sqrt(((own - d) / 2) ** 2 + M[some] ** 2)
        values[some - first, some] = -math.inf
        at = int(values.argmax())
        if values.flat[at] > best:
            best, pair = float(values.flat[at]), (first + at // len(M), at % len(M))
    return pair


def _swap(M: Matrix, support: Support) -> tuple[float, Support]:
    """Exchange single atoms as long as the largest eigenvalue grows."""
    value = float(_block_eigenvalues(M, support[None, :])[0])
    while True:
        trials = []
        for position in range(support.size):
            new = _promising(M, np.delete(support, position), support)
            replaced = np.repeat(support[None, :], new.size, axis=0)
            replaced[:, position] = new
            trials.append(replaced)
        tried = np.concatenate(trials)
        values = _block_eigenvalues(M, tried)
        if not tried.size or values.max() <= value + 1e-12 * abs(value):
            return value, support
        value, support = float(values.max()), tried[values.argmax()]


def _promising(M: Matrix, kept: Support, taken: Support) -> Support:
    """Atoms outside `taken` that add most to the top eigenvector of the block `kept`."""
    if kept.size:
        _, vectors = np.linalg.eigh(M[np.ix_(kept, kept)])
        score = np.abs(M[:, kept] @ vectors[:, -1])
    else:
        score = np.diag(M).copy()
    score[taken] = -math.inf
    count = min(CANDIDATES, len(M) - taken.size)
    return np.argpartition(-score, count - 1)[:count] if count > 0 else np.empty(0, dtype=np.intp)


def _block_eigenvalues(M: Matrix, supports: Support) -> Matrix:
    return np.linalg.eigvalsh(M[supports[:, :, None], supports[:, None, :]])[:, -1].astype(np.float64, copy=False)


def upper_bounds(
    G: Matrix,
    k: int,
    limit: int,
    rng: np.random.Generator,
    exact_extremes: Callable[[Matrix, int, np.random.Generator], tuple[float, float]],
) -> tuple[float, float, str]:
    """Bound λ_max from above and λ_min from below over all blocks of k atoms of a Gram matrix.

    Returns
    -------
    top, bottom : the bounds.
    how : the argument that gave the bound on δ_k.
    """
    off = G.copy()
    np.fill_diagonal(off, 0.0)
    d = np.diag(G)
    if k == 1:
        return float(d.max()), float(d.min()), "column norms"
    tops, bottoms = {}, {}
    # Gershgorin: a circle around d_i with the k − 1 largest |G_ij| as radius.
    radius = -np.sort(-np.abs(off), axis=1)[:, : k - 1].sum(axis=1)
    tops["cumulative coherence"], bottoms["cumulative coherence"] = float((d + radius).max()), float((d - radius).min())
    bottoms["λ ≥ 0"] = 0.0
    if len(G) <= MOST_ATOMS:
        whole = np.linalg.eigvalsh(G)
        tops["norm of Φ"], bottoms["norm of Φ"] = float(whole[-1]), float(whole[0])
        name = "soft-thresholded Gram matrix"
        tops[name] = float(d.max()) + _thresholded(off, k)
        bottoms[name] = float(d.min()) - _thresholded(-off, k)
    # Every pair of a k-subset lies in the same number of its j-subsets, hence the factor (k − 1)/(j − 1).
    order = max((j for j in range(2, k) if math.comb(len(G), j) <= limit), default=0)
    if order > 2:
        high, low = exact_extremes(off, order, rng)
        name, factor = f"exact constant of order {order}", (k - 1) / (order - 1)
        tops[name], bottoms[name] = float(d.max()) + factor * high, float(d.min()) + factor * low
    top, bottom = min(tops.values()), max(bottoms.values())
    decisive = min(tops, key=tops.__getitem__) if top - 1 >= 1 - bottom else max(bottoms, key=bottoms.__getitem__)
    return top, bottom, f"search below, {decisive} above"


def _thresholded(off: Matrix, k: int) -> float:
    """Min over ρ of λ_max(S_ρ(O)) + (k − 1)ρ, since x'Ux ≤ ρ(‖x‖₁² − ‖x‖₂²) ≤ (k − 1)ρ for |U_ij| ≤ ρ."""
    largest = float(np.abs(off).max())
    best = math.inf
    for rho in np.linspace(0.0, largest, int(np.clip(SHRUNK / len(off) ** 3, 2, 12))):
        shrunk = np.sign(off) * np.maximum(np.abs(off) - rho, 0.0)
        best = min(best, float(np.linalg.eigvalsh(shrunk)[-1]) + (k - 1) * float(rho))
    return best


def hard_supports(G: Matrix, k: int, trials: int, rng: np.random.Generator) -> Support:
    """Supports on which a Gram matrix is far from the identity, (≤ 2·trials, k): ends of truncated power iterations."""
    if k == len(G):
        return np.arange(k)[None, :]
    shift = float(np.linalg.norm(G, 1))
    found = []
    for M in (G, shift * np.eye(len(G)) - G):
        starts = np.zeros((trials, len(G)))
        for row in starts:
            row[rng.choice(len(G), k, replace=False)] = rng.standard_normal(k)
        found.append(np.sort(_truncated_power(M, k, starts, iterations=10), axis=1))
    return np.unique(np.concatenate(found), axis=0)


def deviations(B: Matrix, supports: Support) -> Matrix:
    """Return max |λ − 1| of the Gram block of every support; the largest over all of them is δ_k."""
    G = B.T @ B
    deviation: Matrix = np.abs(np.linalg.eigvalsh(G[supports[:, :, None], supports[:, None, :]]) - 1.0).max(axis=1)
    return deviation
