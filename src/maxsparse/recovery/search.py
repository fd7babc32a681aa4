r"""Guided search: from scores to the sparsest x, by walking between information sets.

A set A of n − 3 atoms *contains* the answer if at most two atoms of the support are outside it: the tableau of A then
shows them at once (:mod:`maxsparse.recovery._tableau`). The walk is a Markov chain that visits A in proportion to
:math:`\prod_{i \in A} e^{s_i}` for scores s, one swap of atoms at a time, which costs one pivot. This is Stern's
information-set decoding [1]_ over the reals, with a prior.

References
----------
.. [1] J. Stern, "A method for finding codewords of small weight", Coding Theory and Applications, 1989.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.prepared import Whitened, WideWhitened
from maxsparse._core.progress import track
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import check_integer
from maxsparse.recovery._walk import OUTSIDE, walk_rows
from maxsparse.recovery.noisy_search import promising

__all__ = ["BUDGETS", "SearchBudget", "check_budget", "search", "search_promising"]

BUDGETS = {"none": 0, "fast": 2_000, "normal": 150_000, "thorough": 1_000_000}
ROUNDS = (300, 1_000, 3_000)  # sets per signal in the first rounds; LATER in all others
LATER = 10_000
USUAL_SIZE = 20 * 100  # a set takes time in proportion to nm
CALL = 400_000  # sets per compiled call: well under a second, so that Ctrl-C and the clock are checked
CLIP = 8.0
PROMISING = 1_000  # atoms at least, to which a search of a wide dictionary is confined


@dataclass(frozen=True)
class SearchBudget:
    """Search effort for an unsolved signal: a number of sets, and milliseconds on average.

    The first `skipped` rounds are left out: an earlier call made them. `rounds` is the number of rounds at most.
    `named` is True for a name of `BUDGETS`, which stands for a time rather than a number of sets.
    """

    sets: int
    milliseconds: float = np.inf
    skipped: int = 0
    rounds: int | None = None
    named: bool = False

    def fitting(self, n: int, m: int) -> SearchBudget:
        """Return a budget that takes about as long for a dictionary of that size as this one does for 20×100."""
        return replace(self, sets=int(self.sets * min(1.0, USUAL_SIZE / (n * m)))) if self.named else self

    def first_rounds(self, n: int, m: int) -> int:
        """Return the number of rounds, one at least, that a cheap first search makes."""
        sets = np.cumsum(ROUNDS) * max(1.0, n * m / USUAL_SIZE)
        return max(1, int(np.count_nonzero(sets <= sum(ROUNDS))))


def check_budget(budget: Any) -> SearchBudget:
    """Read a budget: a number of sets, a name of `BUDGETS`, or a time such as ``"20ms"``."""
    if isinstance(budget, str):
        if budget in BUDGETS:
            return SearchBudget(BUDGETS[budget], named=True)
        time_match = re.fullmatch(r"(\d+(?:\.\d+)?) ?ms", budget)
        if time_match:
            return SearchBudget(10**12, float(time_match[1]))
        raise ValueError(
            f"budget must be a number of sets, one of {', '.join(BUDGETS)}, or a time such as '20ms'; got {budget!r}"
        )
    return SearchBudget(check_integer(budget, "budget"))


def search(
    problem: Whitened,
    Y: NDArray[np.float64],
    scores: NDArray[Any],
    *,
    budget: SearchBudget,
    seed: int = 0,
    sharpness: float = 1.1,
    progress: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]:
    """Search for the sparsest x of noiseless signals, guided by scores.

    Parameters
    ----------
    problem : Whitened
        From :meth:`maxsparse._core.prepared.Prepared.problem`.
    Y : ndarray of shape (N, n), float64
        Signals as rows.
    scores : ndarray of shape (N, m)
        Log odds of every atom to be in the support; a constant added to a row changes nothing.
    budget : SearchBudget
        Sets per signal, and milliseconds per signal on average. Only a budget in sets is reproducible.
    seed : int, default=0
        Results depend only on the seed, the signal, its scores and the budget.
    sharpness : float, default=1.1
        Factor on the scores: 0 walks blindly, large values never leave the best-scored atoms.
    progress : bool, default=False
        Show a progress bar on a terminal.

    Returns
    -------
    X : ndarray of shape (N, m)
        Coefficients where the search succeeded, else zeros.
    found : ndarray of shape (N,), bool
        True where an answer with at most n − 3 nonzeros explains y to rounding.
    sets : ndarray of shape (N,), int
        Sets that were tested; each tests all m²/2 pairs of atoms.
    """
    n, m = problem.Q.shape
    X = np.zeros((len(Y), m))
    found, spent = np.zeros(len(Y), dtype=bool), np.zeros(len(Y), dtype=np.int64)
    if n < OUTSIDE + 1 or m <= n or budget.sets == 0:
        return X, found, spent
    odds = np.clip(np.asarray(scores, dtype=np.float64), -CLIP, CLIP) * sharpness
    deadline = time.monotonic() + 1e-3 * budget.milliseconds * len(Y)
    open_rows = np.flatnonzero(Y.any(axis=1))
    for number, sets in islice(enumerate(_rounds(budget.sets)), budget.skipped, budget.rounds):
        # Every round starts over, so easy signals never wait for hard ones; the first uses the unchanged scores.
        per_call = max(1, int(CALL / max(1.0, n * m / USUAL_SIZE)) // sets)
        pieces = [open_rows[start : start + per_call] for start in range(0, len(open_rows), per_call)]
        for rows in track(pieces, f"search, round {number + 1}", progress):
            if time.monotonic() > deadline:
                return X, found, spent
            part, hit, tested = np.zeros((len(rows), m)), np.zeros(len(rows), dtype=bool), spent[rows]
            round_seed = np.uint64(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])
            over_slices(
                walk_rows, len(rows), Y[rows], problem, odds[rows], sets, round_seed, number > 0, part, hit, tested
            )
            X[rows], found[rows], spent[rows] = part, hit, tested
        open_rows = open_rows[~found[open_rows]]
        if not len(open_rows):
            break
    return X, found, spent


def search_promising(
    problem: Whitened | WideWhitened,
    Y: NDArray[np.float64],
    scores: NDArray[Any],
    *,
    budget: SearchBudget,
    **options: Any,
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]:
    """Search every signal on the atoms that score or correlate best; see :func:`search`.

    A set of n atoms among many thousands hardly ever holds a support that scores do not show, and every step of a walk
    costs as much as there are atoms.
    """
    n, m = problem.shape
    X = np.zeros((len(Y), m))
    found, spent = np.zeros(len(Y), dtype=bool), np.zeros(len(Y), dtype=np.int64)
    if not list(islice(_rounds(budget.sets), budget.skipped, budget.rounds)):
        return X, found, spent
    count = max(PROMISING, 4 * n)
    for i, y in enumerate(Y):
        odds = np.asarray(scores[i], dtype=np.float64)
        chosen = promising(odds, problem.correlate(y), np.zeros(m, dtype=bool), count)
        own = problem.of(chosen)
        part, hit, tested = search(own, Y[i : i + 1], scores[i : i + 1, chosen], budget=budget, **options)
        X[i, chosen], found[i], spent[i] = part[0], hit[0], tested[0]
    return X, found, spent


def _rounds(total: int) -> Iterator[int]:
    """Split a budget into rounds."""
    number = 0
    while total > 0:
        size = min(total, ROUNDS[number] if number < len(ROUNDS) else LATER)
        yield size
        total -= size
        number += 1
