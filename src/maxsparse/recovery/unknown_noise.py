"""Signals of which nobody says whether they are noisy: exact answers where there are any, else the noise is learned.

A cheap look for an exact answer goes first. Then the noise level is learned; where a sparse explanation with noise is
far better than chance, it is the answer, and no time is spent on an exact one that does not exist. All other signals
get the search for an exact answer, and those that it does not solve the most probable noisy one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.progress import track
from maxsparse.recovery._noisy_rows import BEYOND_CHANCE
from maxsparse.recovery.answers import Recovery
from maxsparse.recovery.decode import decode_exact
from maxsparse.recovery.noise_level import LISTED, Levels, noise_level
from maxsparse.recovery.noisy_search import climbs_of
from maxsparse.recovery.pipeline import LEAST_FOR_VAMP, Pipeline
from maxsparse.recovery.refutation import LEAST_MEASUREMENTS
from maxsparse.recovery.steps import Found, Look
from maxsparse.solvers import vamp

__all__ = ["UnknownNoise"]

MORE_ROUNDS = 2  # of the exact search, before the second look at the noise
CLEAR = 5.0  # nats by which a noisy explanation must beat a dense one to end the search for an exact one
LOOK_MILLISECONDS, MORE_MILLISECONDS = 1.5, 8.0  # of learning the noise level for the first and the second time
PIECE = 1_000  # signals at a time
FIRST = 100.0  # a score above all others


class UnknownNoise(Pipeline):
    """The pipeline for signals that are exact or noisy, one by one."""

    def __call__(self, Y: NDArray[np.float64], out: Recovery) -> Found | None:
        """Recover signals (N, n); write to the arrays of `out`, and return what is known beyond them of noisy ones."""
        if self.prepared.shape[0] < LEAST_MEASUREMENTS:
            return super().__call__(Y, out)
        hard = self.easy(Y, out)
        parts = []
        for start in track(range(0, len(hard), PIECE), "recover", self.progress):
            rows = hard[start : start + PIECE]
            found = self._hard(Y[rows], rows, out)
            if found is not None:
                parts.append(found)
        noisy = np.concatenate([part.rows for part in parts] or [np.empty(0, np.intp)])
        exact = np.delete(np.arange(len(Y)), noisy)
        self.bound_exact(Y, out, exact)
        if self.prove > 0 and len(noisy):
            self.bound_noisy(self.prepared, Y[noisy], noisy, out)
        return Found.join(parts)

    def _hard(self, Y: NDArray[np.float64], rows: NDArray[np.intp], out: Recovery) -> Found | None:
        """Recover signals that OMP does not solve."""
        n, m = self.prepared.shape
        wait = np.ones(len(Y), dtype=bool)  # signals that are not known to be noisy
        levels = Levels(
            np.zeros(len(Y)), np.zeros((len(Y), LISTED, m), bool), np.full(len(Y), -np.inf), np.zeros(len(Y), int)
        )
        look = Look(
            np.zeros((len(Y), m), np.float32),
            np.zeros((len(Y), m)),
            np.zeros(len(Y), bool),
            np.zeros(len(Y), np.int64),
        )
        passed: NDArray[Any] | None = None
        if n >= LEAST_FOR_VAMP:  # where message passing and climbs cost less than the network
            passed = vamp(self._any_prepared, Y).scores
            look.scores[:] = passed
            self._learn(Y, look, levels, wait, LOOK_MILLISECONDS)
        rest = np.flatnonzero(wait & ~look.found)
        part = self.look(Y[rest], None if passed is None else passed[rest])
        for whole, piece in zip(look, part, strict=True):
            whole[rest] = piece
        budget = self.after_glance().fitting(n, m)
        first, skipped = budget.first_rounds(n, m), 0
        if n < LEAST_FOR_VAMP:
            skipped = 1
            self.search(Y, look, replace(budget, rounds=skipped), wait)
            self._learn(Y, look, levels, wait, LOOK_MILLISECONDS)
        self.search(Y, look, replace(budget, skipped=skipped, rounds=first), wait)
        self.search(Y, look, replace(budget, skipped=first, rounds=first + MORE_ROUNDS), wait)
        if not self._quick:  # there, no better scores have been found, and what was not learned is learned at the end
            self._learn(Y, look, levels, wait, MORE_MILLISECONDS)
        self.search(Y, look, replace(budget, skipped=first + MORE_ROUNDS), wait & (levels.margin < CLEAR))
        found = np.flatnonzero(look.found)
        exact = Look(look.scores[found], look.X[found], look.found[found], look.sets[found])
        self.write_exact(Y[found], exact, rows[found], out)
        noisy = np.flatnonzero(~look.found)
        if not len(noisy):
            return None
        known = None if passed is None else passed[noisy]
        return self.weigh_learned(self.prepared, Y[noisy], Y[noisy], levels.of(noisy), rows[noisy], out, known)

    @property
    def _any_prepared(self) -> Any:
        return self.prepared  # which solvers take, though they do not say so

    def _learn(
        self, Y: NDArray[np.float64], look: Look, levels: Levels, wait: NDArray[np.bool_], milliseconds: float
    ) -> None:
        """Learn the noise level of signals that wait; an explanation without noise is an exact answer."""
        rows = np.flatnonzero(wait & ~look.found)
        if not len(rows):
            return
        starts = climbs_of(self.budget.sets, min(milliseconds, self.budget.milliseconds), *self.prepared.shape)
        options: dict[str, Any] = {"suggested": levels.support[rows], "seed": self.seed + starts}
        learned = noise_level(self.prepared.unit, Y[rows], look.scores[rows], starts=starts, **options)
        for whole, part in zip(levels, learned, strict=True):
            whole[rows] = part
        order = np.where(learned.support[:, 0], FIRST, np.clip(look.scores[rows], -FIRST / 2, FIRST / 2))
        look.X[rows], look.found[rows] = decode_exact(self.problem, Y[rows], order)
        wait[rows] = learned.margin <= BEYOND_CHANCE
