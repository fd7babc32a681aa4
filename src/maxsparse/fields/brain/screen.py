r"""Few of many places: those that any good explanation of the measurements could use.

With the r strongest time courses of the measurements, :math:`Z = U_r` of their singular value decomposition, and noise
whose covariance in time is not known, the log likelihood of a set S of places is :math:`-\frac{n}{2}\log\det R_S`,
:math:`R_S = Z^\top P_S^\perp Z`. Places are added one at a time where it rises most, and after each addition every
place is moved to where it is best with the others held: alternating projections. What any of these moves could as well
have chosen is kept.

A. Adler, M. Wax, D. Pantazis, "Brain source localization by alternating projection", IEEE ISBI 2022.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse.fields.brain.gain import SILENT, Gain

__all__ = ["Screen"]

MOST_COURSES = 10  # time courses that are looked at
ABOVE = 1.05  # of the largest singular value that white noise has
SWEEPS = 4  # rounds of moves after an addition, at most
DETOURS, EXTRA = 3, 2  # ways out of a local optimum, and the places that they add first
WITHIN, MOST_EACH = 12.0, 40  # log likelihood below the best place, and number of places, that are kept per source
CLEAR = 1.5  # times what chance gains: a source that is there
CROWDED = 0.6  # of the measurements: more columns explain anything
EXACT = 1e-12  # of a time course: what is left without noise
SAME = 1e-9  # gain that is none


class Screen:
    """Log likelihoods of sets of places, all places at once.

    Parameters
    ----------
    M : ndarray of shape (n, T)
        Measurements with noise that is white between sensors.
    gain : Gain
        Of n sensors, o columns for each of B places.
    """

    def __init__(self, M: NDArray[np.float64], gain: Gain) -> None:
        self.gain, self.n, self.o, self.B = gain, gain.n, gain.o, gain.B
        self.M, self.G = M, gain.G
        U, sizes, _ = np.linalg.svd(M, full_matrices=False)
        self.r = _courses(sizes, *M.shape)
        self.Z, self.sizes = U[:, : self.r], sizes[: self.r]
        self.most = max(1, int(CROWDED * (self.n - self.r) / self.o))
        self.seen = self.Z.T @ gain.columns  # (r, o·B)
        self.products: dict[int, NDArray[np.float64]] = {}
        self.known: dict[tuple[int, ...], NDArray[np.float64]] = {}  # gains
        self.factors: dict[tuple[int, ...], tuple[NDArray[Any], NDArray[Any], NDArray[Any], float]] = {}

    def gains(self, S: list[int]) -> NDArray[np.float64]:
        """Return by how much every place raises the log likelihood next to those of S, (B,)."""
        key = tuple(sorted(S))
        if key not in self.known:
            self.known[key] = self._gains(list(key))
        return self.known[key]

    def _gains(self, S: list[int]) -> NDArray[np.float64]:
        o, B, gram = self.o, self.B, self.gain.gram
        inverse, Y, R, _ = self._factors(S)
        T = inverse @ np.concatenate([self._products(b) for b in S]) if S else np.empty((0, o * B))
        seen = (np.linalg.inv(np.linalg.cholesky(R)) @ (self.seen - Y.T @ T)).reshape(-1, o, B)
        T = T.reshape(-1, o, B)
        before, after = {}, {}
        for i, j in gram:
            before[i, j] = gram[i, j] - np.einsum("kb,kb->b", T[:, i], T[:, j])
            after[i, j] = before[i, j] - np.einsum("kb,kb->b", seen[:, i], seen[:, j])
        gain: NDArray[np.float64] = 0.5 * self.n * (_log_det(before, o) - _log_det(after, o))
        gain[S] = 0.0
        return gain

    def value(self, S: list[int]) -> float:
        """Return the log likelihood of S."""
        return -0.5 * self.n * self._factors(S)[3]

    def own_gains(self, S: list[int]) -> NDArray[np.float64]:
        """Return what every place of S adds to the others."""
        whole = self.value(S)
        return np.array([whole - self.value([b for b in S if b != a]) for a in S])

    def rivals(self, S: list[int], within: float = WITHIN) -> NDArray[np.intp]:
        """Return the places of S, those that could replace one of them, and those that could be one more."""
        near = [_near(self.gains([b for b in S if b != a]), within) for a in S]
        gains = self.gains(S)
        if gains.max() > self.chance() - within:
            near.append(_near(gains, within))
        return np.unique(np.concatenate([*near, np.array(S, dtype=np.intp)]))

    def chance(self) -> float:
        """Return what the best of all places gains where there is only noise."""
        count, choices = self.o * self.r, math.log(self.B)
        return float(0.5 * count + choices + math.sqrt(count * choices))

    def beyond_chance(self, S: list[int]) -> list[int]:
        """Return S without the places that noise could explain: what they take away still counts as noise."""
        S = list(S)
        while S:
            gains = self.own_gains(S)
            if gains.min() > CLEAR * self.chance():
                break
            S.pop(int(np.argmin(gains)))
        return S

    def rows(self, S: list[int], noise: float | None) -> tuple[NDArray[np.float64], float]:
        """Return time courses of the measurements, mixed such that noise is white with unit variance, and its level.

        Parameters
        ----------
        S : list of int
            Active places: what they leave is noise. Courses that they have no part in are left out.
        noise : float or None
            Standard deviation of the noise on the measurements; None: that of what S leaves.

        Returns
        -------
        rows : ndarray of shape (≤ r, n)
        level : float
        """
        A, free = self._columns(S), max(self.n - self.o * len(S), 1)
        if noise is None:
            left = self.M - A @ np.linalg.lstsq(A, self.M, rcond=math.sqrt(SILENT))[0] if S else self.M
            level = math.sqrt(float(np.sum(left**2)) / (free * self.M.shape[1]))
            white = np.linalg.solve(np.linalg.cholesky(self._factors(S)[2] / free), self.Z.T)
        else:
            level, white = noise, self.Z.T * (self.sizes / noise)[:, None]
        if not S:
            return white, level
        U, sizes, _ = np.linalg.svd(A, full_matrices=False)
        inside = white @ U[:, sizes > math.sqrt(SILENT) * sizes[0]]
        count = inside.shape[1]
        turn, heights, _ = np.linalg.svd(inside, full_matrices=False)
        signal = heights**2 > count + 3.0 * math.sqrt(2.0 * count)  # more than the χ² of noise
        signal[0] = True
        return np.ascontiguousarray(turn[:, signal].T @ white), level

    def similar(self, b: int, X: NDArray[np.float64], count: int) -> NDArray[np.intp]:
        """Return the places whose fields come closest to that of b with coefficients X, (o, r); the closest first."""
        o, B = self.o, self.B
        seen = (X.T @ self._products(b)).reshape(-1, o, B)  # inner products of all columns with the field
        left, before = seen, dict(self.gain.gram)
        energy = np.zeros(B)
        for k in range(o):  # Cholesky, all places at once
            pivot = np.maximum(before[k, k], 1e-300)
            energy += np.sum(left[:, k] ** 2, axis=0) / pivot
            left = left.copy()
            for i in range(k + 1, o):
                ratio = before[i, k] / pivot
                left[:, i] -= ratio * left[:, k]
                for j in range(k + 1, i + 1):
                    before[i, j] = before[i, j] - ratio * before[j, k]
        energy[b] = -1.0
        count = min(count, B - 1)
        if count == 0:
            return np.empty(0, np.intp)
        best = np.argpartition(-energy, count)[:count]
        return np.asarray(best[np.argsort(-energy[best], kind="stable")])

    def _products(self, b: int) -> NDArray[np.float64]:
        """Return the inner products (o, o·B) of the columns of place b with all."""
        if b not in self.products:
            self.products[b] = self.G[:, self.o * b : self.o * (b + 1)].T @ self.gain.columns
        return self.products[b]

    def _columns(self, S: list[int]) -> NDArray[np.float64]:
        return self.G[:, [self.o * b + i for b in S for i in range(self.o)]]

    def _factors(self, S: list[int]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], float]:
        """Return L⁻¹ for the Gram matrix LLᵀ of S, L⁻¹ times the inner products of S and Z, R_S, and log det R_S.

        Places are taken in ascending order.
        """
        key = tuple(sorted(S))
        if key not in self.factors:
            A = self._columns(list(key))
            K = A.T @ A
            power = np.diag(K).reshape(-1, self.o).mean(axis=1).repeat(self.o)
            K[np.diag_indices(len(K))] += SILENT * power + 1e-300
            inverse = np.linalg.inv(np.linalg.cholesky(K))
            Y = inverse @ (A.T @ self.Z)
            R = np.eye(self.r) * (1.0 + EXACT) - Y.T @ Y
            self.factors[key] = inverse, Y, R, float(np.linalg.slogdet(R)[1])
        return self.factors[key]

    def projected(self) -> list[int]:
        """Return the places that alternating projections choose, one more as long as it gains more than by chance."""
        S: list[int] = []
        gains = self.gains(S)
        while len(S) < self.most and (not S or gains.max() > self.chance()):
            S = self._moved([*S, int(np.argmax(gains))])
            gains = self.gains(S)
        return S

    def chosen(self) -> tuple[list[int], NDArray[np.intp]]:
        """Return the places that alternating projections and detours choose, and all that could replace one of them."""
        S = self.projected()
        kept = self.rivals(S)
        for _ in range(DETOURS):
            other = self._detour(S)
            if sorted(other) == sorted(S):
                break
            kept = np.union1d(kept, self.rivals(other))
            if not self.value(other) > self.value(S) + SAME:
                break
            S = other
        return S, kept

    def _moved(self, S: list[int]) -> list[int]:
        """Move every place to where it is best with the others held, until none moves."""
        S = list(S)
        for _ in range(SWEEPS if len(S) > 1 else 0):
            before = list(S)
            for place in range(len(S)):
                own = self.gains(S[:place] + S[place + 1 :])
                better = int(np.argmax(own))
                if own[better] > own[S[place]] + SAME:
                    S[place] = better
            if before == S:
                break
        return S

    def _detour(self, S: list[int]) -> list[int]:
        """Add places too many, then take the least useful ones away: one place between two sources becomes both."""
        T = list(S)
        for _ in range(EXTRA):
            if len(T) < self.most:
                T = self._moved([*T, int(np.argmax(self.gains(T)))])
        while len(T) > len(S):
            T.pop(int(np.argmin(self.own_gains(T))))
            T = self._moved(T)
        return T


def _courses(sizes: NDArray[np.float64], n: int, T: int) -> int:
    """Return the number of time courses above the noise, of the singular values of the measurements.

    Those of white noise are distributed as Marchenko and Pastur say, so that their median tells where they end. Noise
    that is not white in time has fewer large ones and more small ones; then the most are taken.
    """
    most = max(1, min(MOST_COURSES, n // 4, T, int(np.count_nonzero(sizes > EXACT * sizes[0]))))
    if T < 4:
        return most
    ratio = min(n, T) / max(n, T)
    low, high = (1.0 - math.sqrt(ratio)) ** 2, (1.0 + math.sqrt(ratio)) ** 2
    grid = np.linspace(low, high, 2001)[1:-1]
    mass = np.cumsum(np.sqrt((high - grid) * (grid - low)) / grid)
    middle = float(grid[np.searchsorted(mass, 0.5 * mass[-1])])
    edge = float(np.median(sizes)) * math.sqrt(high / middle)
    return max(1, min(most, int(np.count_nonzero(sizes > ABOVE * edge))))


def _log_det(parts: dict[tuple[int, int], NDArray[Any]], o: int) -> NDArray[np.float64]:
    """Return log determinants of symmetric matrices o×o, given by their lower triangles, by elimination."""
    parts, total = dict(parts), np.zeros(())
    for k in range(o):
        pivot = np.maximum(parts[k, k], 1e-300)
        total = total + np.log(pivot)
        for i in range(k + 1, o):
            for j in range(k + 1, i + 1):
                parts[i, j] = parts[i, j] - parts[i, k] * parts[j, k] / pivot
    return total


def _near(gains: NDArray[np.float64], within: float) -> NDArray[np.intp]:
    """Return the places whose gains are close to the largest."""
    count = min(MOST_EACH, len(gains))
    best = np.argpartition(-gains, count - 1)[:count]
    return np.asarray(best[gains[best] > gains[best].max() - within])
