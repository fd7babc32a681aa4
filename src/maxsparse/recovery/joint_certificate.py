r"""Certificates of answers with a structure: several snapshots, complex numbers, groups, signs.

The checks are those of :mod:`maxsparse.recovery.certificate`, with all snapshots together and a block in place of an
atom. With snapshots of rank r, :math:`2k < \mathrm{spark}\,\Phi + r - 1` makes a support of k atoms unique (Chen and
Huo 2006); for groups, 2k below the number of groups that can be dependent. An answer that is unique among all x is so
among the non-negative ones.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.cosines import coherence_sums
from maxsparse._core.prepared import Prepared
from maxsparse.recovery.certificate import CHANCE, LARGEST_DENOMINATOR, MARGIN, PROPORTION
from maxsparse.recovery.refit import CANCELLATION, SLACK

__all__ = ["block_spark", "certify_joint", "joint_tolerance", "largest_tolerance"]

COHERENT = 1e-4  # of the largest singular value of the coefficients: what is below does not count in their rank
PHASES = 24  # a phase at one of so many even steps is no accident


def block_spark(prepared: Prepared) -> int:
    """Return a lower bound of the smallest number of dependent blocks, single atoms or groups."""
    start = prepared.start
    if start is None:
        return prepared.spark
    n, B = prepared.shape[0], len(start) - 1
    for first, stop in pairwise(start):
        if np.linalg.matrix_rank(prepared.Phi[:, first:stop]) < stop - first:
            return 1
    best = 2
    for matrix in (prepared.Phi, prepared.form().Q) if B > 1 else ():
        sums = coherence_sums(matrix, min(n, B - 1), start)
        best = max(best, 2 + int(np.count_nonzero(sums < 1.0 - 1e-9)))
    return best


def joint_tolerance(Phi: NDArray[Any], Y: NDArray[Any], X: NDArray[Any], rounding: float) -> float:
    """Return the largest ‖Y − XΦᵀ‖ due to rounding errors, relative to every term of the sum; Y (L, n), X (L, m)."""
    own = float(np.linalg.norm(Y))
    used = np.flatnonzero(X.any(axis=0))
    size = own + float(np.linalg.norm(X[:, used], axis=0) @ np.linalg.norm(Phi[:, used], axis=0))
    return min(SLACK * rounding * math.sqrt(Phi.shape[0]) * size, float(largest_tolerance(len(Phi), own, rounding)))


def largest_tolerance(n: int, size: Any, rounding: float) -> Any:
    """Return the largest :func:`joint_tolerance` that any X has, for n measurements of norm `size`."""
    return SLACK * rounding * math.sqrt(n) * CANCELLATION * size


def certify_joint(prepared: Prepared, Y: NDArray[Any], X: NDArray[Any], rounding: float, spark: int) -> str:
    """Return the argument that makes an answer the only sparsest one, "" if there is none.

    Parameters
    ----------
    prepared : Prepared
        Φ (n, m), with the atoms of every group side by side.
    Y : ndarray of shape (L, n)
        Snapshots.
    X : ndarray of shape (L, m)
        Coefficients, refitted on their support.
    rounding : float
        Relative rounding error of the data.
    spark : int
        From :func:`block_spark`.
    """
    form, m = prepared.form(), prepared.shape[1]
    assert form.W is not None
    assert form.D is not None
    start = np.arange(m + 1) if prepared.start is None else prepared.start
    support = np.flatnonzero(np.add.reduceat(X.any(axis=0), start[:-1]))
    columns = np.concatenate([np.arange(start[b], start[b + 1]) for b in support] or [np.empty(0, int)])
    allowed = joint_tolerance(prepared.Phi, Y, X, rounding)
    rank = len(form.Q)
    if len(columns) >= rank or not np.linalg.norm(Y - X @ prepared.Phi.T) <= allowed:
        return ""
    if not len(support):
        return "spark"
    weakest = 1.0 / float(np.linalg.norm(form.W, 2))
    own, gap = _separation(form.Q, Y @ form.W.T, start, support)
    if not gap * weakest > MARGIN * allowed:
        return ""
    sigma = np.sort(1.0 / np.linalg.norm(form.W, axis=1))
    parts = 2 if np.iscomplexobj(prepared.Phi) else 1
    terms = X[:, columns] / form.D[columns]
    sizes = np.linalg.svd(terms, compute_uv=False)
    independent = int(np.count_nonzero(sizes > COHERENT * sizes[0]))
    counts = (rank - len(columns), parts, independent, len(start) - 1)
    if not _log_chance(own, allowed * math.sqrt(rank) / sigma, *counts) < math.log(CHANCE):
        return ""
    values = np.linalg.svd(Y, compute_uv=False)
    snapshots = int(np.count_nonzero(values > MARGIN * max(allowed, COHERENT * 1e-4 * values[0])))
    if 2 * len(support) < spark + (max(snapshots, 1) - 1 if prepared.start is None else 0):
        return "spark"
    largest = LARGEST_DENOMINATOR if 2 * len(columns) >= rank else 1
    within = min(max(allowed / (weakest * own.min()), PROPORTION[0]), PROPORTION[1])
    norms = np.linalg.norm(prepared.Phi[:, columns], axis=0)
    both = (X[:, columns], X[:, columns] * norms)
    together = tuple(np.linalg.norm(values, axis=0)[None] for values in both) if len(X) > 1 else ()
    if any(_in_proportion(x, largest, within) for values in (*both, *together) for x in values):
        return ""
    return "generic"


def _separation(
    Q: NDArray[Any], Z: NDArray[Any], start: NDArray[np.int64], support: NDArray[np.intp]
) -> tuple[NDArray[np.float64], float]:
    """Return what every block of the support explains alone, (k,), and the smallest residual after an exchange."""
    own, smallest = np.zeros(len(support)), np.inf
    others = np.setdiff1d(np.arange(len(start) - 1), support)
    sizes = np.diff(start)[others]
    for place in range(len(support)):
        kept = np.delete(support, place)
        columns = np.concatenate([np.arange(start[b], start[b + 1]) for b in kept] or [np.empty(0, int)])
        E = np.linalg.qr(Q[:, columns])[0]
        left = _without(E, Z.T)  # (r, L)
        own[place] = np.linalg.norm(left)
        smallest = min(smallest, float(own[place]))
        for size in np.unique(sizes):
            members = start[others[sizes == size]][:, None] + np.arange(size)  # (blocks, size)
            atoms = _without(E, Q[:, members.ravel()])
            if size == 1:
                lengths = np.linalg.norm(atoms, axis=0)
                basis = (atoms / np.maximum(lengths, 1e-300)).T[:, :, None]
                if (lengths < 1e-13).any():  # in the span of what is kept
                    return own, 0.0
            else:
                basis = np.linalg.qr(atoms.reshape(len(Q), -1, size).transpose(1, 0, 2))[0]
            inside = np.sum(np.abs(basis.conj().transpose(0, 2, 1) @ left) ** 2, axis=(1, 2))
            if len(inside):
                closest = int(np.argmax(inside))
                rest = left - basis[closest] @ (basis[closest].conj().T @ left)
                smallest = min(smallest, float(np.linalg.norm(rest)))
    return own, smallest


def _without(E: NDArray[Any], A: NDArray[Any]) -> NDArray[Any]:
    """Take the span of orthonormal columns off, twice, which is enough."""
    for _ in range(2):
        A = A - E @ (E.conj().T @ A)
    return A


def _log_chance(
    own: NDArray[np.float64], allowed: NDArray[np.float64], free: int, parts: int, independent: int, blocks: int
) -> float:
    """Bound the log probability that a support which shares all but s blocks explains Y too, the largest over s.

    As for one snapshot; what s exchanged blocks leave has as many independent directions among the snapshots as there
    are blocks or snapshots, the later ones at least `COHERENT` times as large.
    """
    sizes, highest = np.sort(own), -np.inf
    for s in range(1, len(own) + 1):
        total = math.lgamma(blocks + 1.0) - math.lgamma(s + 1.0) - math.lgamma(blocks - s + 1.0)
        first = np.minimum(0.0, np.log(allowed[:free] / sizes[s - 1])).sum()
        later = np.minimum(0.0, np.log(allowed[:free] / (COHERENT * sizes[s - 1]))).sum()
        total += parts * (first + (min(s, independent) - 1) * later)
        highest = max(highest, total)
    return highest


def _in_proportion(x: NDArray[Any], largest: int, within: float) -> bool:
    """Return whether the ratio of two numbers is a fraction with a denominator up to `largest`, of an even phase."""
    used = x[x != 0]
    if len(used) < 2:
        return False
    a, b = np.triu_indices(len(used), 1)
    small, large = np.minimum(np.abs(used[a]), np.abs(used[b])), np.maximum(np.abs(used[a]), np.abs(used[b]))
    ratio = (small / large)[:, None] * np.arange(1, largest + 1)
    whole = np.rint(ratio)
    hit = ((whole > 0) & (np.abs(ratio - whole) <= within * np.arange(1, largest + 1))).any(axis=1)
    if np.iscomplexobj(used):
        steps = np.angle(used[a] / used[b]) * PHASES / (2 * math.pi)
        hit &= np.abs(steps - np.rint(steps)) <= max(within, PROPORTION[0]) * PHASES
    return bool(hit.any())
