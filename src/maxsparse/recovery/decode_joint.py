"""Exact answers for signals with a structure: candidates of several methods, decoded, then a search.

Whatever suggests an order of the blocks, the first n columns of it determine the coefficients of all snapshots, and
those that are zero are left out. What is left is fitted and checked on the caller's own data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.prepared import Prepared
from maxsparse._core.structure import Structure
from maxsparse.recovery.joint_certificate import joint_tolerance

__all__ = ["decode_joint", "rank_aware_order"]

ZERO = 1e-8  # relative size of a coefficient, whitened, that may be zero


def rank_aware_order(Q: NDArray[Any], Z: NDArray[Any], start: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return scores (B,) of blocks for snapshots Z (R, n), earlier ones first in greedy rank-aware pursuit.

    Each step takes the block with the smallest angle to the span of what is left of the snapshots, after both were
    projected off the blocks before. If the snapshots have the rank of the support, that is MUSIC and finds it
    (Davies and Eldar 2012).
    """
    n, B = len(Q), len(start) - 1
    sizes = np.diff(start)
    scores = np.full(B, -1.0)
    atoms, left = Q.copy(), Z.T.copy()
    scale = np.linalg.norm(left)
    spent = 0
    for step in range(B):
        U, values, _ = np.linalg.svd(left, full_matrices=False)
        basis = U[:, values > 1e-10 * scale]
        if basis.shape[1] == 0 or spent >= n:
            break
        lengths2 = np.add.reduceat(np.sum(np.abs(atoms) ** 2, axis=0), start[:-1])
        inside2 = np.add.reduceat(np.sum(np.abs(basis.conj().T @ atoms) ** 2, axis=0), start[:-1])
        cosines2 = np.where((scores < 0) & (lengths2 > 1e-12 * sizes), inside2 / np.maximum(lengths2, 1e-300), -1.0)
        best = int(np.argmax(cosines2))
        if cosines2[best] <= 0:
            break
        scores[best] = B - step
        spent += sizes[best]
        own = np.linalg.qr(atoms[:, start[best] : start[best + 1]])[0]
        atoms = atoms - own @ (own.conj().T @ atoms)
        left = left - own @ (own.conj().T @ left)
    return scores


def decode_joint(
    prepared: Prepared, structure: Structure, Y: NDArray[Any], orders: Iterator[NDArray[Any]], rounding: float
) -> NDArray[Any] | None:
    """Return the first exact coefficients (L, m) of snapshots Y (L, n) among those that scores (B,) suggest.

    Parameters
    ----------
    prepared : Prepared
        Φ with the atoms of every block side by side.
    structure : Structure
    Y : ndarray of shape (L, n)
    orders : iterator of ndarray of shape (B,)
        Larger for blocks that go first.
    rounding : float
        Relative rounding error of the data.
    """
    form = prepared.form()
    assert form.W is not None
    Z = Y @ form.W.T
    tried: set[bytes] = set()
    for order in orders:
        columns = _first_columns(order, structure.start, len(form.Q))
        zero = np.linalg.lstsq(form.Q[:, columns], Z.T, rcond=None)[0]
        sizes = np.zeros(prepared.shape[1])
        sizes[columns] = np.linalg.norm(zero, axis=1)
        blocks = np.sqrt(np.add.reduceat(sizes**2, structure.start[:-1]))
        used = blocks > ZERO * blocks.max(initial=0.0)
        count = int(np.diff(structure.start)[used].sum())
        if used.tobytes() in tried or count >= len(form.Q):
            continue
        tried.add(used.tobytes())
        X = _fit(prepared, Y, np.repeat(used, np.diff(structure.start)))
        left = np.linalg.norm(Y - X @ prepared.Phi.T)
        if left <= joint_tolerance(prepared.Phi, Y, X, rounding) and not (structure.positive and (X < 0).any()):
            return X
    return None


def _first_columns(order: NDArray[Any], start: NDArray[np.int64], most: int) -> NDArray[np.intp]:
    """Return the columns of the first blocks, at most so many."""
    chosen: list[int] = []
    for b in np.argsort(-order, kind="stable"):
        if len(chosen) + start[b + 1] - start[b] > most:
            break
        chosen.extend(range(start[b], start[b + 1]))
    return np.array(chosen, dtype=np.intp)


def _fit(prepared: Prepared, Y: NDArray[Any], used: NDArray[np.bool_]) -> NDArray[Any]:
    """Fit all snapshots on these columns, with iterative refinement."""
    columns = np.flatnonzero(used)
    X = np.zeros((len(Y), prepared.shape[1]), dtype=Y.dtype)
    if not len(columns):
        return X
    Q, R = np.linalg.qr(prepared.Phi[:, columns])
    if np.abs(np.diagonal(R)).min() <= 1e-13 * np.abs(np.diagonal(R)).max():
        return X
    for _ in range(3):
        left = Y - X @ prepared.Phi.T
        X[:, columns] += np.linalg.solve(R, Q.conj().T @ left.T).T
    return X
