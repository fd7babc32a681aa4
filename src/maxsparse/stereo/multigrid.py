"""Large Laplace systems: conjugate gradients, preconditioned by aggregation multigrid.

A direct factorisation of a picture of a few million pixels takes several gigabytes; this takes a few hundred bytes per
pixel. Pixels are aggregated in pairs along their strongest weight, twice per level [1]_, so that pixels on two sides of
a jump in depth are not forced to move together. One visit of a level smooths by Gauss-Seidel, forward before and
backward after a correction from the next level, which is solved by two steps of flexible conjugate gradients (the
K-cycle of [1]_): the number of iterations then does not grow with the picture.

References
----------
.. [1] Y. Notay, "An aggregation-based algebraic multigrid method", Electronic Transactions on Numerical Analysis 37,
   2010.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel

if TYPE_CHECKING:
    from scipy import sparse

__all__ = ["solve"]

COARSEST = 400  # unknowns that are solved directly
STRONG = 0.25  # a neighbour is strong from this share of the strongest weight on
ENOUGH = 0.25  # a correction that leaves at most this share of the residual needs no second step
TOLERANCE = 1e-10
ITERATIONS = 200


def solve(A: sparse.csr_matrix, right: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Solve Az = b for a symmetric positive definite A with negative weights off the diagonal.

    Parameters
    ----------
    A : csr_matrix of shape (P, P)
    right : ndarray of shape (P,)

    Returns
    -------
    z : ndarray of shape (P,), or None
        None if the residual is not below 1e-10 of the right side after 200 iterations.

    Examples
    --------
    A chain of three pixels, the first held at zero, with steps of 1 and 2:

    >>> import numpy as np
    >>> from scipy import sparse
    >>> A = sparse.csr_matrix([[2.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])
    >>> solve(A, np.array([-1.0, -1.0, 2.0])).round(6).tolist()
    [0.0, 1.0, 3.0]
    """
    levels = _coarsen(A)
    limit = TOLERANCE * float(np.linalg.norm(right))
    z, residual = np.zeros(len(right)), right.copy()
    direction: NDArray[np.float64] = np.zeros(len(right))
    image: NDArray[np.float64] = np.zeros(len(right))
    curvature = 1.0
    for _ in range(ITERATIONS):
        if float(np.linalg.norm(residual)) <= limit:
            return z
        step = _cycle(levels, 0, residual)
        direction = step - (step @ image) / curvature * direction  # flexible: the cycle is not linear
        image = A @ direction
        curvature = float(direction @ image)
        length = float(direction @ residual) / curvature
        z += length * direction
        residual -= length * image
    return None


@dataclass(frozen=True)
class _Level:
    """One matrix, and the number of every unknown's aggregate on the next level; None on the last one."""

    A: sparse.csr_matrix
    diagonal: NDArray[np.float64]
    aggregate: NDArray[np.int32] | None
    inverse: NDArray[np.float64] | None


def _coarsen(A: sparse.csr_matrix) -> list[_Level]:
    levels = []
    while A.shape[0] > COARSEST:
        first, half = _in_pairs(A)
        second, coarse = _in_pairs(half)
        if coarse.shape[0] > 0.9 * A.shape[0]:  # hardly any neighbours left
            break
        levels.append(_Level(A, A.diagonal(), second[first], None))
        A = coarse
    if A.shape[0] > COARSEST:
        levels.append(_Level(A, A.diagonal(), None, None))  # as good as diagonal: smoothing solves it
    else:
        levels.append(_Level(A, A.diagonal(), None, np.linalg.inv(A.toarray())))
    return levels


def _in_pairs(A: sparse.csr_matrix) -> tuple[NDArray[np.int32], sparse.csr_matrix]:
    """Return the number of every unknown's pair, and the matrix between pairs."""
    from scipy import sparse

    aggregate, count = _pair(A.indptr, A.indices, A.data)
    data, indices, indptr = _add_up(A.indptr, A.indices, A.data, aggregate, count)
    return aggregate, sparse.csr_matrix((data, indices, indptr), shape=(count, count))


def _cycle(levels: list[_Level], k: int, right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an approximate solution of the system of level k."""
    level = levels[k]
    if level.inverse is not None:
        solved: NDArray[np.float64] = level.inverse @ right
        return solved
    z = np.zeros(len(right))
    _smooth(level.A.indptr, level.A.indices, level.A.data, level.diagonal, right, z, False)
    if level.aggregate is not None:
        residual = right - level.A @ z
        coarse: NDArray[np.float64] = np.bincount(level.aggregate, residual, levels[k + 1].A.shape[0])  # type: ignore[assignment]
        z += _correction(levels, k + 1, coarse)[level.aggregate]
    _smooth(level.A.indptr, level.A.indices, level.A.data, level.diagonal, right, z, True)
    return z


def _correction(levels: list[_Level], k: int, right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Take one or two steps of flexible conjugate gradients on level k."""
    first = _cycle(levels, k, right)
    A = levels[k].A
    if levels[k].inverse is not None:
        return first
    image = A @ first
    curvature, gain = float(first @ image), float(first @ right)
    if curvature <= 0.0:  # right is zero
        return first
    residual = right - gain / curvature * image
    if np.linalg.norm(residual) <= ENOUGH * np.linalg.norm(right):
        return gain / curvature * first
    second = _cycle(levels, k, residual)
    image_of_second = A @ second
    common, gain_of_second = float(second @ image), float(second @ residual)
    remaining = float(second @ image_of_second) - common**2 / curvature
    if remaining <= 0.0:  # the same direction again
        return gain / curvature * first
    share = gain_of_second / remaining
    return (gain - common * share) / curvature * first + share * second


@kernel()
def _pair(starts: NDArray[Any], columns: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[np.int32], int]:
    """Pair every unknown with its strongest free neighbour, or add it to the pair of a much stronger one.

    Returns the number of every unknown's pair (P,), and how many there are.
    """
    P = len(starts) - 1
    aggregate = np.full(P, -1, dtype=np.int32)
    count = 0
    for i in range(P):
        if aggregate[i] >= 0:
            continue
        strongest, best, owner, partner = 0.0, 0.0, -1, -1
        for e in range(starts[i], starts[i + 1]):
            j, weight = columns[e], -values[e]
            if j == i:
                continue
            if weight > strongest:
                strongest, owner = weight, j
            if aggregate[j] < 0 and weight > best:
                best, partner = weight, j
        if best >= STRONG * strongest or owner < 0:
            aggregate[i] = count
            if partner >= 0:
                aggregate[partner] = count
            count += 1
        else:
            aggregate[i] = aggregate[owner]
    return aggregate, count


@kernel()
def _add_up(
    starts: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], aggregate: NDArray[np.int32], count: int
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32]]:
    """Return data, columns and row starts of the matrix between aggregates: the sums of the entries between them."""
    P = len(aggregate)
    first = np.zeros(count + 1, dtype=np.int64)  # where the members of an aggregate begin
    for i in range(P):
        first[aggregate[i] + 1] += 1
    for row in range(count):
        first[row + 1] += first[row]
    members = np.empty(P, dtype=np.int32)
    free = first[:-1].copy()
    for i in range(P):
        members[free[aggregate[i]]] = i
        free[aggregate[i]] += 1
    data = np.empty(len(values))
    indices = np.empty(len(values), dtype=np.int32)
    indptr = np.zeros(count + 1, dtype=np.int32)
    place = np.full(count, -1, dtype=np.int64)
    end = 0
    for row in range(count):
        begin = end
        for k in range(first[row], first[row + 1]):
            i = members[k]
            for e in range(starts[i], starts[i + 1]):
                column = aggregate[columns[e]]
                if place[column] < begin:
                    place[column] = end
                    indices[end] = column
                    data[end] = 0.0
                    end += 1
                data[place[column]] += values[e]
        indptr[row + 1] = end
    return data[:end].copy(), indices[:end].copy(), indptr


@kernel()
def _smooth(
    starts: NDArray[Any],
    columns: NDArray[Any],
    values: NDArray[Any],
    diagonal: NDArray[np.float64],
    right: NDArray[np.float64],
    z: NDArray[np.float64],
    backward: bool,
) -> None:
    """Do one Gauss-Seidel sweep, in place."""
    P = len(z)
    for step in range(P):
        i = P - 1 - step if backward else step
        total = right[i]
        for e in range(starts[i], starts[i + 1]):
            if columns[e] != i:
                total -= values[e] * z[columns[e]]
        z[i] = total / diagonal[i]
