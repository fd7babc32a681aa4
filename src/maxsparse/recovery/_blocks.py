"""Exclude many supports at once: if y is far from the span of a union of blocks of atoms, so it is from every part.

The atoms are split into groups. A support of at most j atoms touches at most j groups, so the unions of j groups cover
all of them: about s^j fewer least-squares problems than supports for groups of s atoms. A union whose span comes within
ε of y is split: its largest block is replaced by either half, or by both, until only single atoms are left.

Symbols: a *block* is a set of atoms of which a support has at least one; a *task* is a list of blocks, the number t of
atoms that a support may have beyond one per block, and the first of the groups that these may come from. Every support
belongs to exactly one way of choosing and splitting, so it is found at most once.

All projections are by Householder reflections or by modified Gram–Schmidt with y as the last column. Both are backward
stable (Higham 2002, §19): a computed distance is that of atoms perturbed by a few rounding errors each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel

DEPENDENT2 = 1e-28  # squared length of what is left of a unit atom below which it is rounding, and no direction
TASKS = 2048  # open tasks that a walk keeps; one that needs more is given up
OVERHEAD = 250.0  # multiply-adds that entering a node costs beyond those done
COMPLETE, GIVEN_UP, UNSURE = 0, 1, 2  # how a walk ends


class Walk(NamedTuple):
    """One signal, its groups of atoms, and scratch for all supports of at most j atoms."""

    atoms: NDArray[np.float64]  # (m, n), of unit length
    y: NDArray[np.float64]  # (n,)
    groups: NDArray[np.int64]  # (G, s), atoms of every group, −1 where it has fewer
    limit2: float  # squared distance up to which a span counts as explaining y
    most: int  # j, atoms of a support at most
    A: NDArray[np.float64]  # (j, n, G·s), atoms of all groups, reflected, per depth
    r: NDArray[np.float64]  # (j + 1, n), y, reflected, per depth
    V: NDArray[np.float64]  # (j·s, n), atoms that are being eliminated
    U: NDArray[np.float64]  # (n, n), Householder vectors by the dimension that they eliminate
    beta: NDArray[np.float64]  # (n,), 2/‖u‖²
    w: NDArray[np.float64]  # (G·s,)
    B: NDArray[np.float64]  # (s, n, G), the last groups under Gram–Schmidt
    R: NDArray[np.float64]  # (n, G), y modulo each of them
    r2: NDArray[np.float64]  # (G,)
    inverse: NDArray[np.float64]  # (G,)
    task_atoms: NDArray[np.int64]  # (TASKS, j·s)
    task_sizes: NDArray[np.int64]  # (TASKS, j)
    task_counts: NDArray[np.int64]  # (TASKS, 3), number of blocks, t, first group
    state: NDArray[np.float64]  # (4,): open tasks, multiply-adds spent, multiply-adds allowed, supports found
    found: NDArray[np.int64]  # (2, j), the first two supports within the limit


OPEN, SPENT, ALLOWED, FOUND = 0, 1, 2, 3  # entries of Walk.state


@kernel()
def make_walk(
    atoms: NDArray[Any], y: NDArray[Any], groups: NDArray[Any], limit2: float, j: int, spent: float, allowed: float
) -> Walk:
    """Return a walk with fresh scratch."""
    n = y.shape[0]
    G, s = groups.shape
    state = np.zeros(4)
    state[SPENT], state[ALLOWED] = spent, allowed
    return Walk(
        atoms,
        y,
        groups,
        limit2,
        j,
        np.zeros((j, n, G * s)),
        np.zeros((j + 1, n)),
        np.zeros((max(j * s, 1), n)),
        np.zeros((n, n)),
        np.zeros(n),
        np.zeros(G * s),
        np.zeros((s, n, G)),
        np.zeros((n, G)),
        np.zeros(G),
        np.zeros(G),
        np.zeros((TASKS, j * s), np.int64),
        np.zeros((TASKS, j), np.int64),
        np.zeros((TASKS, 3), np.int64),
        state,
        np.full((2, j), -1, np.int64),
    )


@kernel()
def all_supports(walk: Walk) -> int:
    """Look for supports of at most j atoms within the limit; two are enough. Return how the walk ended."""
    walk.state[OPEN] = 1
    walk.task_counts[0, 0], walk.task_counts[0, 1], walk.task_counts[0, 2] = 0, walk.most, 0
    while walk.state[OPEN] > 0:
        outcome = _do_task(walk)
        if outcome != COMPLETE or walk.state[FOUND] == 2:
            return outcome
    return COMPLETE


@kernel()
def _do_task(walk: Walk) -> int:
    """Do the last open task: exclude it and go on to the groups that follow, or split it."""
    top = int(walk.state[OPEN]) - 1
    outcome, q = _look(walk, walk.r[0])
    t, first, G = walk.task_counts[top, 1], walk.task_counts[top, 2], walk.groups.shape[0]
    if outcome != COMPLETE or q < 0 or t == 0 or first == G:
        return outcome
    blocks, total = walk.task_counts[top, 0], 0
    for b in range(blocks):
        total += walk.task_sizes[top, b]
    n, s = walk.y.shape[0], walk.groups.shape[1]
    for g in range(first, G):
        for a in range(s):
            atom = walk.groups[g, a]
            for i in range(n):
                walk.A[0, i, g * s + a] = walk.atoms[atom, i] if atom >= 0 else 0.0
    walk.state[SPENT] += 2.0 * q * n * (G - first) * s
    _reflect(walk.U, walk.beta, 0, q, walk.A[0], walk.A[0], first * s, walk.w)
    return _descend(walk, walk.task_atoms[top, :total].copy(), walk.task_sizes[top, :blocks].copy(), q, t, first)


@kernel()
def _look(walk: Walk, r: NDArray[Any]) -> tuple[int, int]:
    """Exclude the last open task, note it as a support, or split it.

    Return how that went, and the number of dimensions that its blocks span where they are excluded, else −1. r becomes
    y without these dimensions.
    """
    top = int(walk.state[OPEN]) - 1
    atoms, sizes, blocks = walk.task_atoms[top], walk.task_sizes[top], walk.task_counts[top, 0]
    total = 0
    for b in range(blocks):
        total += sizes[b]
    walk.state[SPENT] += OVERHEAD + total * (total + 2.0) * walk.y.shape[0]
    if walk.state[SPENT] > walk.state[ALLOWED]:
        return GIVEN_UP, -1
    for a in range(total):
        _copy(walk.atoms[atoms[a]], walk.V[a])
    _copy(walk.y, r)
    q = _eliminate(walk.V, total, 0, r, walk.U, walk.beta)
    if _length2(r, q) > walk.limit2:
        walk.state[OPEN] -= 1
        return COMPLETE, q
    if total > blocks:
        return _split(walk, top), -1
    if walk.task_counts[top, 1] > 0:  # fewer than j atoms, excluded before: the two differ by rounding errors
        return UNSURE, -1
    for b in range(blocks):
        walk.found[int(walk.state[FOUND]), b] = atoms[b]
    walk.state[FOUND] += 1
    walk.state[OPEN] -= 1
    return COMPLETE, -1


@kernel()
def _split(walk: Walk, top: int) -> int:
    """Replace the task by those with one half of its largest block, the other half, and both."""
    blocks, t = walk.task_counts[top, 0], walk.task_counts[top, 1]
    if top + 3 > TASKS:
        return GIVEN_UP
    atoms, sizes = walk.task_atoms[top].copy(), walk.task_sizes[top].copy()
    largest, begin, offset = 0, 0, 0
    for b in range(blocks):
        if sizes[b] > sizes[largest]:
            largest, begin = b, offset
        offset += sizes[b]
    size, half, total = sizes[largest], sizes[largest] // 2, offset
    for child in range(3 if t > 0 else 2):
        row = top + child
        _copy(sizes, walk.task_sizes[row])
        _copy(walk.task_counts[top], walk.task_counts[row])
        if child == 2:  # both halves: one more block
            _copy(atoms, walk.task_atoms[row])
            for b in range(blocks, largest + 1, -1):
                walk.task_sizes[row, b] = sizes[b - 1]
            walk.task_sizes[row, largest], walk.task_sizes[row, largest + 1] = half, size - half
            walk.task_counts[row, 0], walk.task_counts[row, 1] = blocks + 1, t - 1
            continue
        skip, kept = (begin + half, half) if child == 0 else (begin, size - half)
        walk.task_sizes[row, largest] = kept
        for a in range(total - (size - kept)):
            walk.task_atoms[row, a] = atoms[a if a < skip else a + size - kept]
    walk.state[OPEN] = top + (3 if t > 0 else 2)
    return COMPLETE


@kernel()
def _descend(walk: Walk, atoms: NDArray[Any], sizes: NDArray[Any], q0: int, t: int, first: int) -> int:
    """Add up to t groups, from `first` on, to a task's blocks, depth first; what comes close to y becomes a task."""
    n = walk.y.shape[0]
    G, s = walk.groups.shape
    path, q = np.zeros(t, np.int64), np.zeros(t + 1, np.int64)
    q[0] = q0
    depth, g = 0, first
    while True:
        if walk.state[SPENT] > walk.state[ALLOWED]:
            return GIVEN_UP
        if depth == t - 1 or g == G:
            if g < G:
                outcome = _last(walk, atoms, sizes, path, depth, q[depth], g)
                if outcome != COMPLETE or walk.state[FOUND] == 2:
                    return outcome
            if depth == 0:
                return COMPLETE
            depth -= 1
            g = path[depth] + 1
            continue
        path[depth] = g
        for a in range(s):
            for i in range(q[depth], n):
                walk.V[a, i] = walk.A[depth, i, g * s + a]
        r = walk.r[depth + 1]
        _copy(walk.r[depth], r)
        q[depth + 1] = _eliminate(walk.V, s, q[depth], r, walk.U, walk.beta)
        walk.state[SPENT] += enter_cost(n - q[depth], s, G - g - 1)
        if _length2(r, q[depth + 1]) <= walk.limit2:
            if not _open(walk, atoms, sizes, path, depth + 1, t - depth - 1):
                return GIVEN_UP
        elif g + 1 < G:
            _reflect(walk.U, walk.beta, q[depth], q[depth + 1], walk.A[depth], walk.A[depth + 1], (g + 1) * s, walk.w)
            depth += 1
        g += 1


@kernel()
def _open(walk: Walk, atoms: NDArray[Any], sizes: NDArray[Any], path: NDArray[Any], depth: int, t: int) -> bool:
    """Note the blocks with the groups of a path as a task to be split; False where there is no room."""
    row = int(walk.state[OPEN])
    if row + 3 > TASKS:
        return False
    total, blocks = len(atoms), len(sizes)
    _copy(atoms, walk.task_atoms[row])
    _copy(sizes, walk.task_sizes[row])
    for l in range(depth):
        size = 0
        for a in range(walk.groups.shape[1]):
            if walk.groups[path[l], a] >= 0:
                walk.task_atoms[row, total + size] = walk.groups[path[l], a]
                size += 1
        walk.task_sizes[row, blocks + l] = size
        total += size
    walk.task_counts[row, 0], walk.task_counts[row, 1] = blocks + depth, t
    walk.task_counts[row, 2] = path[depth - 1] + 1
    walk.state[OPEN] = row + 1
    return True


@kernel()
def _last(
    walk: Walk, atoms: NDArray[Any], sizes: NDArray[Any], path: NDArray[Any], depth: int, q: int, first: int
) -> int:
    """Try every group from `first` on as the last one; those that come close to y are split at once."""
    n = walk.y.shape[0]
    G, s = walk.groups.shape
    walk.state[SPENT] += last_cost(n - q, s, G - first)
    if s == 1:
        _distances_to_atoms(walk.A[depth], walk.r[depth], q, first, walk.R, walk.inverse, walk.r2)
    else:
        _distances_to_groups(walk.A[depth], walk.r[depth], q, first, walk.B, walk.R, walk.inverse, walk.w, walk.r2)
    for g in range(first, G):
        if walk.r2[g] <= walk.limit2:
            base = walk.state[OPEN]
            path[depth] = g
            if not _open(walk, atoms, sizes, path, depth + 1, 0):
                return GIVEN_UP
            while walk.state[OPEN] > base:
                outcome = _look(walk, walk.r[walk.most])[0]  # no path is that deep before its last group
                if outcome != COMPLETE or walk.state[FOUND] == 2:
                    return outcome
    return COMPLETE


@kernel()
def distance2(atoms: NDArray[Any], y: NDArray[Any]) -> float:
    """Return the squared distance of y from the span of the rows of `atoms`."""
    n = len(y)
    r = y.copy()
    q = _eliminate(atoms.copy(), len(atoms), 0, r, np.empty((n, n)), np.empty(n))
    return _length2(r, q)


@kernel(inline=True)
def enter_cost(d: float, s: float, later: float) -> float:
    """Return the multiply-adds of eliminating a group of s atoms in d dimensions from the `later` groups."""
    return OVERHEAD + 2.0 * s * max(d - 0.5 * s, 1.0) * (later + 0.5) * s


@kernel(inline=True)
def last_cost(d: float, s: float, later: float) -> float:
    """Return the multiply-adds of trying each of `later` groups as the last one."""
    return OVERHEAD + later * d * (2.0 if s == 1 else s * s + 3.0 * s)


@kernel(inline=True)
def _copy(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy to the beginning of `target`; an assignment to a slice takes many times as long to compile."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@kernel(fast=True)
def _length2(r: NDArray[Any], q: int) -> float:
    total = 0.0
    for i in range(q, r.shape[0]):
        total += r[i] * r[i]
    return total


@kernel(fast=True)
def _eliminate(V: NDArray[Any], count: int, q: int, r: NDArray[Any], U: NDArray[Any], beta: NDArray[Any]) -> int:
    """Reflect the first `count` rows of V, one after the other, onto coordinates q, q + 1, …, and r with them.

    Coordinates before the returned one are those of their span; those that they are eliminated from are not kept.
    """
    n = r.shape[0]
    for a in range(count):
        if q == n:
            break
        size2 = 0.0
        for i in range(q, n):
            size2 += V[a, i] * V[a, i]
        if size2 <= DEPENDENT2:
            continue
        size = np.sqrt(size2)
        alpha = -size if V[a, q] > 0.0 else size
        factor = 1.0 / (size2 - alpha * V[a, q])
        for i in range(q, n):
            U[q, i] = V[a, i]
        U[q, q] -= alpha
        beta[q] = factor
        for c in range(a + 1, count):
            share = 0.0
            for i in range(q, n):
                share += U[q, i] * V[c, i]
            share *= factor
            for i in range(q + 1, n):
                V[c, i] -= share * U[q, i]
        share = 0.0
        for i in range(q, n):
            share += U[q, i] * r[i]
        share *= factor
        for i in range(q + 1, n):
            r[i] -= share * U[q, i]
        q += 1
    return q


@kernel(fast=True)
def _reflect(
    U: NDArray[Any],
    beta: NDArray[Any],
    first: int,
    last: int,
    source: NDArray[Any],
    target: NDArray[Any],
    start: int,
    w: NDArray[Any],
) -> None:
    """Set target to source after reflections first … last − 1, in columns from `start` and rows from `last`."""
    n, width = source.shape
    if first == last:
        for i in range(first, n):
            for c in range(start, width):
                target[i, c] = source[i, c]
    for p in range(first, last):
        u = U[p]
        head = u[p] * beta[p]
        for c in range(start, width):
            w[c] = head * source[p, c]
        for i in range(p + 1, n):
            value, row = u[i] * beta[p], source[i]
            for c in range(start, width):
                w[c] += value * row[c]
        for i in range(p + 1, n):
            value, row, out = u[i], source[i], target[i]
            for c in range(start, width):
                out[c] = row[c] - value * w[c]
        source = target


@kernel(fast=True)
def _distances_to_atoms(
    A: NDArray[Any],
    r: NDArray[Any],
    q: int,
    first: int,
    sums: NDArray[Any],
    lengths: NDArray[Any],
    r2: NDArray[Any],
) -> None:
    """Set r2[g] = ‖r modulo column g of A‖², rows from q: ‖r‖² − (aᵀr)²/‖a‖²."""
    n, G = A.shape
    c, total = sums[0], 0.0
    for g in range(first, G):
        c[g] = 0.0
        lengths[g] = 0.0
    for i in range(q, n):
        value, row = r[i], A[i]
        total += value * value
        for g in range(first, G):
            c[g] += value * row[g]
            lengths[g] += row[g] * row[g]
    for g in range(first, G):
        r2[g] = total - (c[g] * c[g] / lengths[g] if lengths[g] > DEPENDENT2 else 0.0)


@kernel(fast=True)
def _distances_to_groups(
    A: NDArray[Any],
    r: NDArray[Any],
    q: int,
    first: int,
    B: NDArray[Any],
    R: NDArray[Any],
    inverse: NDArray[Any],
    c: NDArray[Any],
    r2: NDArray[Any],
) -> None:
    """Set r2[g] = ‖r modulo the s columns of group g‖², by modified Gram–Schmidt side by side in all groups."""
    s, n, G = B.shape
    for i in range(q, n):
        for a in range(s):
            for g in range(first, G):
                B[a, i, g] = A[i, g * s + a]
        for g in range(first, G):
            R[i, g] = r[i]
    for a in range(s):
        for g in range(first, G):
            inverse[g] = 0.0
            c[g] = 0.0
        for i in range(q, n):
            row, rest = B[a, i], R[i]
            for g in range(first, G):
                inverse[g] += row[g] * row[g]
                c[g] += row[g] * rest[g]
        for g in range(first, G):
            inverse[g] = 1.0 / inverse[g] if inverse[g] > DEPENDENT2 else 0.0
            c[g] *= inverse[g]
        for i in range(q, n):
            row, rest = B[a, i], R[i]
            for g in range(first, G):
                rest[g] -= c[g] * row[g]
        for b in range(a + 1, s):
            for g in range(first, G):
                c[g] = 0.0
            for i in range(q, n):
                row, other = B[a, i], B[b, i]
                for g in range(first, G):
                    c[g] += row[g] * other[g]
            for g in range(first, G):
                c[g] *= inverse[g]
            for i in range(q, n):
                row, other = B[a, i], B[b, i]
                for g in range(first, G):
                    other[g] -= c[g] * row[g]
    for g in range(first, G):
        r2[g] = 0.0
    for i in range(q, n):
        for g in range(first, G):
            r2[g] += R[i, g] * R[i, g]
