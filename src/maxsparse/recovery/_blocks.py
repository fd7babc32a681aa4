"""Rule out many supports at once: if y is far from the span of a union of groups, it is far from every support in it.

The atoms are split into groups of s. A support of at most j atoms lies in a union of j groups, so it is enough to look
at all unions of j groups: about s^j fewer least-squares problems than supports. If the span of a union comes within ε
of y, the union is split: its largest block is replaced by the first half, by the second half, or by both, until only
single atoms are left.

Terms: a *block* is a set of atoms of which a support has at least one. A *task* is a list of blocks, the number t of
atoms that a support may have beyond one per block, and the first of the groups that these may come from. The tasks
divide the supports without overlap, so every support is found at most once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import copy_into
from maxsparse.recovery._distances import (
    OVERHEAD,
    LastGroups,
    distances_to_atoms,
    distances_to_groups,
    eliminate,
    enter_cost,
    last_cost,
    length2,
    reflect,
)

TASKS = 2048  # most open tasks; a search that needs more is abandoned
COMPLETE, ABANDONED, UNSURE = 0, 1, 2  # how a search ends


class BlockSearch(NamedTuple):
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
    last: LastGroups
    task_atoms: NDArray[np.int64]  # (TASKS, j·s)
    task_sizes: NDArray[np.int64]  # (TASKS, j)
    task_counts: NDArray[np.int64]  # (TASKS, 3), number of blocks, t, first group
    state: NDArray[np.float64]  # (4,): open tasks, multiply-adds spent, multiply-adds allowed, supports found
    found: NDArray[np.int64]  # (2, j), the first two supports within the limit


OPEN, SPENT, ALLOWED, FOUND = 0, 1, 2, 3  # entries of BlockSearch.state


@kernel()
def make_search(
    atoms: NDArray[Any], y: NDArray[Any], groups: NDArray[Any], limit2: float, j: int, spent: float, allowed: float
) -> BlockSearch:
    """Return a search with fresh scratch."""
    n = y.shape[0]
    G, s = groups.shape
    state = np.zeros(4)
    state[SPENT], state[ALLOWED] = spent, allowed
    return BlockSearch(
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
        LastGroups(np.zeros((s, n, G)), np.zeros((n, G)), np.zeros(G), np.zeros(G), np.zeros(G)),
        np.zeros((TASKS, j * s), np.int64),
        np.zeros((TASKS, j), np.int64),
        np.zeros((TASKS, 3), np.int64),
        state,
        np.full((2, j), -1, np.int64),
    )


@kernel()
def all_supports(search: BlockSearch) -> int:
    """Find supports of at most j atoms within the limit; stop after two. Return how the search ended."""
    search.state[OPEN] = 1
    search.task_counts[0, 0], search.task_counts[0, 1], search.task_counts[0, 2] = 0, search.most, 0
    while search.state[OPEN] > 0:
        outcome = _do_task(search)
        if outcome != COMPLETE or search.state[FOUND] == 2:
            return outcome
    return COMPLETE


@kernel()
def _do_task(search: BlockSearch) -> int:
    """Process the last open task: rule it out and continue with the groups that follow, or split it."""
    top = int(search.state[OPEN]) - 1
    outcome, q = _look(search, search.r[0])
    t, first, G = search.task_counts[top, 1], search.task_counts[top, 2], search.groups.shape[0]
    if outcome != COMPLETE or q < 0 or t == 0 or first == G:
        return outcome
    blocks, total = search.task_counts[top, 0], 0
    for b in range(blocks):
        total += search.task_sizes[top, b]
    n, s = search.y.shape[0], search.groups.shape[1]
    for g in range(first, G):
        for a in range(s):
            atom = search.groups[g, a]
            for i in range(n):
                search.A[0, i, g * s + a] = search.atoms[atom, i] if atom >= 0 else 0.0
    search.state[SPENT] += 2.0 * q * n * (G - first) * s
    reflect(search.U, search.beta, 0, q, search.A[0], search.A[0], first * s, search.w)
    return _descend(search, search.task_atoms[top, :total].copy(), search.task_sizes[top, :blocks].copy(), q, t, first)


@kernel()
def _look(search: BlockSearch, r: NDArray[Any]) -> tuple[int, int]:
    """Rule out the last open task, record it as a support, or split it.

    Return the outcome, and the dimension of the span of its blocks if they are ruled out, else −1. Sets r to y without
    these dimensions.
    """
    top = int(search.state[OPEN]) - 1
    atoms, sizes, blocks = search.task_atoms[top], search.task_sizes[top], search.task_counts[top, 0]
    total = 0
    for b in range(blocks):
        total += sizes[b]
    search.state[SPENT] += OVERHEAD + total * (total + 2.0) * search.y.shape[0]
    if search.state[SPENT] > search.state[ALLOWED]:
        return ABANDONED, -1
    for a in range(total):
        copy_into(search.atoms[atoms[a]], search.V[a])
    copy_into(search.y, r)
    q = eliminate(search.V, total, 0, r, search.U, search.beta)
    if length2(r, q) > search.limit2:
        search.state[OPEN] -= 1
        return COMPLETE, q
    if total > blocks:
        return _split(search, top), -1
    if search.task_counts[top, 1] > 0:  # fewer than j atoms were ruled out before: a contradiction by rounding errors
        return UNSURE, -1
    for b in range(blocks):
        search.found[int(search.state[FOUND]), b] = atoms[b]
    search.state[FOUND] += 1
    search.state[OPEN] -= 1
    return COMPLETE, -1


@kernel()
def _split(search: BlockSearch, top: int) -> int:
    """Replace the task by up to three: with one half of its largest block, with the other half, with both."""
    blocks, t = search.task_counts[top, 0], search.task_counts[top, 1]
    if top + 3 > TASKS:
        return ABANDONED
    atoms, sizes = search.task_atoms[top].copy(), search.task_sizes[top].copy()
    largest, begin, offset = 0, 0, 0
    for b in range(blocks):
        if sizes[b] > sizes[largest]:
            largest, begin = b, offset
        offset += sizes[b]
    size, half, total = sizes[largest], sizes[largest] // 2, offset
    for child in range(3 if t > 0 else 2):
        row = top + child
        copy_into(sizes, search.task_sizes[row])
        copy_into(search.task_counts[top], search.task_counts[row])
        if child == 2:  # both halves: one more block
            copy_into(atoms, search.task_atoms[row])
            for b in range(blocks, largest + 1, -1):
                search.task_sizes[row, b] = sizes[b - 1]
            search.task_sizes[row, largest], search.task_sizes[row, largest + 1] = half, size - half
            search.task_counts[row, 0], search.task_counts[row, 1] = blocks + 1, t - 1
            continue
        skip, kept = (begin + half, half) if child == 0 else (begin, size - half)
        search.task_sizes[row, largest] = kept
        for a in range(total - (size - kept)):
            search.task_atoms[row, a] = atoms[a if a < skip else a + size - kept]
    search.state[OPEN] = top + (3 if t > 0 else 2)
    return COMPLETE


@kernel()
def _descend(search: BlockSearch, atoms: NDArray[Any], sizes: NDArray[Any], q0: int, t: int, first: int) -> int:
    """Add up to t groups, from `first` on, to a task's blocks, depth first; a union close to y becomes a task."""
    n = search.y.shape[0]
    G, s = search.groups.shape
    path, q = np.zeros(t, np.int64), np.zeros(t + 1, np.int64)
    q[0] = q0
    depth, g = 0, first
    while True:
        if search.state[SPENT] > search.state[ALLOWED]:
            return ABANDONED
        if depth == t - 1 or g == G:
            if g < G:
                outcome = _last(search, atoms, sizes, path, depth, q[depth], g)
                if outcome != COMPLETE or search.state[FOUND] == 2:
                    return outcome
            if depth == 0:
                return COMPLETE
            depth -= 1
            g = path[depth] + 1
            continue
        path[depth] = g
        for a in range(s):
            for i in range(q[depth], n):
                search.V[a, i] = search.A[depth, i, g * s + a]
        r = search.r[depth + 1]
        copy_into(search.r[depth], r)
        q[depth + 1] = eliminate(search.V, s, q[depth], r, search.U, search.beta)
        search.state[SPENT] += enter_cost(n - q[depth], s, G - g - 1)
        if length2(r, q[depth + 1]) <= search.limit2:
            if not _open(search, atoms, sizes, path, depth + 1, t - depth - 1):
                return ABANDONED
        elif g + 1 < G:
            A = search.A
            reflect(search.U, search.beta, q[depth], q[depth + 1], A[depth], A[depth + 1], (g + 1) * s, search.w)
            depth += 1
        g += 1


@kernel()
def _open(
    search: BlockSearch, atoms: NDArray[Any], sizes: NDArray[Any], path: NDArray[Any], depth: int, t: int
) -> bool:
    """Add the blocks with the groups of a path as a task to be split; return False if there is no room."""
    row = int(search.state[OPEN])
    if row + 3 > TASKS:
        return False
    total, blocks = len(atoms), len(sizes)
    copy_into(atoms, search.task_atoms[row])
    copy_into(sizes, search.task_sizes[row])
    for l in range(depth):
        size = 0
        for a in range(search.groups.shape[1]):
            if search.groups[path[l], a] >= 0:
                search.task_atoms[row, total + size] = search.groups[path[l], a]
                size += 1
        search.task_sizes[row, blocks + l] = size
        total += size
    search.task_counts[row, 0], search.task_counts[row, 1] = blocks + depth, t
    search.task_counts[row, 2] = path[depth - 1] + 1
    search.state[OPEN] = row + 1
    return True


@kernel()
def _last(
    search: BlockSearch, atoms: NDArray[Any], sizes: NDArray[Any], path: NDArray[Any], depth: int, q: int, first: int
) -> int:
    """Try every group from `first` on as the last one; split those that come close to y at once."""
    n = search.y.shape[0]
    G, s = search.groups.shape
    search.state[SPENT] += last_cost(n - q, s, G - first)
    if s == 1:
        distances_to_atoms(search.A[depth], search.r[depth], q, first, search.last)
    else:
        distances_to_groups(search.A[depth], search.r[depth], q, first, search.last)
    for g in range(first, G):
        if search.last.r2[g] <= search.limit2:
            base = search.state[OPEN]
            path[depth] = g
            if not _open(search, atoms, sizes, path, depth + 1, 0):
                return ABANDONED
            while search.state[OPEN] > base:
                outcome = _look(search, search.r[search.most])[0]  # no path is that deep before its last group
                if outcome != COMPLETE or search.state[FOUND] == 2:
                    return outcome
    return COMPLETE
