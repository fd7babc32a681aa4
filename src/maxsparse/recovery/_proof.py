"""Bounds of one signal: rule out supports of 1, 2, … atoms, with the group size that costs least for each number."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import dot, least_squares, residual_into
from maxsparse.recovery._blocks import COMPLETE, FOUND, SPENT, all_supports, make_search
from maxsparse.recovery._distances import DEPENDENT2, OVERHEAD, distance2, enter_cost, last_cost

ROUNDING = 2.0**-53
WORTH = 0.2  # largest share of a level's work to spend on trying a group size
SAMPLES = 48  # random unions to test per group size
REFINEMENT = 3.0  # tasks per block and halving when a union is split


class Limits(NamedTuple):
    """What bounds a proof, for all signals."""

    cancellation: float  # largest Σ|x_j|‖φ_j‖ / ‖y‖
    allowed: float  # multiply-adds per signal
    cheap: float  # levels of at most that many use groups of one atom, without searching for a better group size


class Proven(NamedTuple):
    """What is proven, per signal."""

    support: NDArray[np.bool_]  # (N, m), at first a guess, then the smallest support known to be within epsilon
    lower: NDArray[np.int64]  # (N,), m + 1 if no support of any size is within epsilon
    upper: NDArray[np.int64]  # (N,), m + 1 if no support is known to be within epsilon
    unique: NDArray[np.bool_]  # (N,)
    spent: NDArray[np.float64]  # (N,), multiply-adds


def nothing_proven(support: NDArray[np.bool_]) -> Proven:
    """Return what is known before a proof: a guess (N, m)."""
    N = len(support)
    return Proven(support, np.zeros(N, np.int64), np.zeros(N, np.int64), np.zeros(N, bool), np.zeros(N))


@kernel()
def prove_rows(
    piece: int,
    pieces: int,
    atoms: NDArray[Any],
    order: NDArray[Any],
    Y: NDArray[Any],
    epsilon: NDArray[Any],
    limits: Limits,
    proven: Proven,
) -> None:
    """Bound the fewest atoms within epsilon of every row of Y; neighbours in `order` form groups."""
    for row in range(piece, len(Y), pieces):
        result = _prove(atoms, order, Y[row], epsilon[row], limits, proven.support[row])
        proven.lower[row], proven.upper[row], proven.unique[row], proven.spent[row] = result


@kernel()
def _prove(
    atoms: NDArray[Any], order: NDArray[Any], y: NDArray[Any], epsilon: float, limits: Limits, support: NDArray[Any]
) -> tuple[int, int, bool, float]:
    """Return lower, upper, whether the support of that size is unique, and the multiply-adds spent."""
    m, n = atoms.shape
    cancellation, allowed, cheap = limits
    size = np.sqrt(dot(y, y))
    # Atoms perturbed by γ move Φx by at most γ Σ|x_j|‖φ_j‖; γ for n reflections in n dimensions (Higham 2002, §19.3).
    perturbed = cancellation * size * (8.0 * n * n * ROUNDING + 2.0 * np.sqrt(DEPENDENT2))
    # The second term: a squared distance that is computed as ‖r‖² − (aᵀr)²/‖a‖².
    limit2 = (epsilon + perturbed) ** 2 + 16.0 * n * ROUNDING * size * size
    upper = _explanation(atoms, y, epsilon, cancellation, support)
    spent = OVERHEAD + 1.0 * m * n * min(m, n)
    if size * size <= limit2 or spent > allowed:
        return (0 if size * size <= limit2 else 1), upper, upper == 0, 0.0
    if distance2(atoms, y) > limit2:
        return m + 1, m + 1, False, spent
    for j in range(1, upper + 1):
        if j >= min(n, m):  # any n atoms explain y, and all m together were tried above
            return j, upper, j == upper and j == m, spent
        groups, spent, cost = _choose_groups(atoms, order, y, limit2, j, cheap, spent, allowed)
        if spent + cost > allowed:
            return j, upper, False, spent
        search = make_search(atoms, y, groups, limit2, j, spent, allowed)
        outcome = all_supports(search)
        spent = search.state[SPENT]
        count = int(search.state[FOUND])
        for f in range(count):
            if upper > j and _within(atoms, y, search.found[f], epsilon, cancellation, np.empty(j), y.copy()):
                for a in range(m):
                    support[a] = False
                for a in range(j):
                    support[search.found[f, a]] = True
                upper = j
        if outcome != COMPLETE or count > 0:
            return j, upper, outcome == COMPLETE and count == 1 and upper == j, spent
    return upper, upper, False, spent  # our own support was not found: rounding errors


@kernel()
def _explanation(
    atoms: NDArray[Any], y: NDArray[Any], epsilon: float, cancellation: float, support: NDArray[Any]
) -> int:
    """Add atoms to a guess, as OMP does, until it is within epsilon. Return its size, m + 1 if that fails.

    Atoms that depend linearly on others are dropped.
    """
    m, n = atoms.shape
    chosen, x, r = np.empty(m, np.int64), np.zeros(m), y.copy()
    k = 0
    if not np.sqrt(dot(y, y)) * (1.0 + n * ROUNDING) <= epsilon:
        for j in range(m):
            if support[j]:
                chosen[k] = j
                k += 1
        most = min(k + n, m)  # the guess may span fewer dimensions than it has atoms
        while not _within(atoms, y, chosen[:k], epsilon, cancellation, x, r):
            if k == most:
                return int(m + 1)
            best, atom = -1.0, 0
            for j in range(m):
                c = abs(dot(atoms[j], r))
                if not support[j] and c > best:
                    best, atom = c, j
            support[atom] = True
            chosen[k] = atom
            k += 1
    for j in range(m):
        support[j] = False
    kept = 0
    for a in range(k):
        if x[a] != 0.0:
            support[chosen[a]] = True
            chosen[kept] = chosen[a]
            kept += 1
    return kept


@kernel()
def _within(
    atoms: NDArray[Any],
    y: NDArray[Any],
    support: NDArray[Any],
    epsilon: float,
    cancellation: float,
    x: NDArray[Any],
    r: NDArray[Any],
) -> bool:
    """Return whether least squares on the support is proven to be within epsilon; r becomes its residual."""
    k, n = len(support), len(y)
    least_squares(y, atoms, support, k, np.empty((k, k)), x, r)
    residual = np.sqrt(residual_into(y, atoms, support, x, k, r))
    size, terms = np.sqrt(dot(y, y)), 0.0
    for a in range(k):
        terms += abs(x[a])
    fits: bool = terms <= cancellation * size and residual + 4.0 * (n + k) * ROUNDING * (size + terms) <= epsilon
    return fits


@kernel()
def _choose_groups(
    atoms: NDArray[Any],
    order: NDArray[Any],
    y: NDArray[Any],
    limit2: float,
    j: int,
    cheap: float,
    spent: float,
    allowed: float,
) -> tuple[NDArray[Any], float, float]:
    """Return the groups with the least expected work for supports of j atoms, the work so far and the work ahead."""
    m, n = atoms.shape
    best = _groups(order, 1)
    least = search_cost(n, m, 1, j)
    s = 2
    while least > cheap and s * j < n:
        groups = _groups(order, s)
        G = len(groups)
        cost, task = search_cost(n, G, s, j), OVERHEAD + s * j * (s * j + 2.0) * n
        if cost < least and j < G:
            if spent + SAMPLES * task > allowed or (SAMPLES * task > WORTH * least and cheap > 0.0):
                break
            spent += SAMPLES * task
            share = _share_to_split(atoms, y, groups, limit2, j)
            cost += share * binomial(G, j) * task * REFINEMENT * j * np.log2(s)
            if cost < least:
                best, least = groups, cost
            if share > 0.5:
                break
        s += max(1, s // 3)
    return best, spent, least


@kernel()
def _groups(order: NDArray[Any], s: int) -> NDArray[Any]:
    """Return groups (G, s) of consecutive atoms in `order`; the last one is filled with −1."""
    m = len(order)
    groups = np.full(((m + s - 1) // s, s), -1, np.int64)
    for l in range(m):
        groups[l // s, l % s] = order[l]
    return groups


@kernel()
def _share_to_split(atoms: NDArray[Any], y: NDArray[Any], groups: NDArray[Any], limit2: float, j: int) -> float:
    """Estimate the share of unions of j groups within the limit, from a random sample.

    If it is too small to count, extrapolate: the lower tail of the distances is close to a power law.
    """
    G, s = groups.shape
    n = len(y)
    ratios = np.empty(SAMPLES)
    V, used = np.empty((j * s, n)), np.zeros(G, np.int64)
    seed = np.uint64(1)
    for sample in range(SAMPLES):
        count, total = 0, 0
        while count < j:
            seed = seed * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            g = int((seed >> np.uint64(33)) % np.uint64(G))
            if used[g] != sample + 1:
                used[g] = sample + 1
                count += 1
                for a in range(s):
                    if groups[g, a] >= 0:
                        for i in range(n):
                            V[total, i] = atoms[groups[g, a], i]
                        total += 1
        ratios[sample] = max(distance2(V[:total], y) / limit2, 1e-300)
    for i in range(1, SAMPLES):
        value, l = ratios[i], i
        while l > 0 and ratios[l - 1] > value:
            ratios[l] = ratios[l - 1]
            l -= 1
        ratios[l] = value
    low, middle = SAMPLES // 10, SAMPLES // 2
    if ratios[low] <= 1.0:
        within = 0
        for i in range(SAMPLES):
            within += ratios[i] <= 1.0
        return within / SAMPLES
    power = np.log((middle + 1.0) / (low + 1.0)) / max(np.log(ratios[middle] / ratios[low]), 1e-3)
    share: float = (low + 1.0) / SAMPLES * ratios[low] ** -power
    return share


@kernel()
def search_cost(n: int, G: int, s: int, j: int) -> float:
    """Return the multiply-adds of a search over all unions of j of G groups of s atoms, if no union is split."""
    total = last_cost(n, s, G) if j == 1 else 0.0
    for depth in range(1, j):
        d = max(n - (depth - 1) * s, 1)
        ways = 1.0  # g choose depth − 1
        for g in range(depth - 1, G):
            total += ways * enter_cost(d, s, G - g - 1)
            if depth == j - 1:
                total += ways * last_cost(max(d - s, 1), s, G - g - 1)
            ways *= (g + 1.0) / (g + 2.0 - depth)
    return total


@kernel()
def binomial(G: int, j: int) -> float:
    """Return the binomial coefficient "G choose j"."""
    value = 1.0
    for l in range(j):
        value *= (G - l) / (l + 1.0)
    return value
