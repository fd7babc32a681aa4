"""Exact answers for signals with a structure: decode what several methods suggest, then search, then certify."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse.recovery.answers import Recovery, blank
from maxsparse.recovery.decode_joint import decode_joint, rank_aware_order
from maxsparse.recovery.joint_certificate import block_spark, certify_joint, largest_tolerance
from maxsparse.recovery.noise import Noise
from maxsparse.recovery.pipeline import MOST_FOR_NETWORK, Pipeline
from maxsparse.recovery.posterior import Posterior
from maxsparse.recovery.search import BUDGETS
from maxsparse.recovery.structured_base import CLIP, LIKELY, Structured
from maxsparse.solvers import nnls, omp, sbl

__all__ = ["ExactRoad"]

EXACT_LEVELS = (3e-2, 3e-3)  # of noise relative to the signal, whitened, at which to look for exact answers
LISTED = 4  # supports of a search that are decoded


class ExactRoad(Structured):
    """The steps without noise."""

    def _inexact(self, Y: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which signals are proven to have no exact answer: non-negative least squares leaves too much."""
        none = np.zeros(len(Y), dtype=bool)
        if not self.structure.positive or self.snapshots > 1 or np.iscomplexobj(Y):
            return none
        Phi = self.dictionary.prepared.Phi
        fitted = nnls(Phi, Y[:, 0])
        sizes = np.linalg.norm(Y[:, 0], axis=1)
        return np.asarray(
            fitted.converged & (fitted.residual > 2.0 * largest_tolerance(len(Phi), sizes, self.rounding))
        )

    def _decoded(
        self, Y: NDArray[Any], rows: NDArray[np.intp], out: Recovery
    ) -> tuple[NDArray[np.bool_], list[NDArray[np.float64]]]:
        """Write exact answers of these rows that a method suggests; return for which, and all suggestions (N, B)."""
        prepared, structure = self.dictionary.prepared, self.structure
        found = np.zeros(len(Y), dtype=bool)
        if not len(rows):
            return found, [np.zeros((len(Y), structure.n_blocks))]
        Y = Y[rows]
        compressed, _ = structure.compressed(Y)
        white = prepared.form()
        assert white.W is not None
        Z = compressed @ white.W.T
        options = {**self._options, "precondition": True}
        hints = [self._blocks(method(prepared.Phi, Y, **options).coef) for method in (omp, sbl)]
        form = self.dictionary.whitened
        if form.shape[0] ** 2 * form.shape[1] <= MOST_FOR_NETWORK:
            hints.append(self._network(form, form.signals(Z), 0.0))
        out.scores[rows] = hints[-1][:, self._block_of_atom]
        for place, i in enumerate(rows):
            orders = [hint[place] for hint in hints]
            if compressed.shape[1] > 1:
                orders.insert(0, rank_aware_order(white.Q, Z[place], structure.start))
            found[i] = self._decode(Y[place], i, orders, out)
        every = np.zeros((len(hints), len(found), structure.n_blocks))
        every[:, rows] = hints
        return found, list(every)

    def _without_signs(self, Y: NDArray[Any], found: NDArray[np.bool_], rest: NDArray[np.intp], out: Recovery) -> None:
        """Write what the search for coefficients of any sign finds, where they turn out to be non-negative."""
        if not self.structure.positive or self.structure.labels is not None or self.snapshots > 1 or not len(rest):
            return
        prepared, budget = self.dictionary.prepared, self.budget
        scorer = self.dictionary.scorer_of_any_sign(self.weights, self.later)
        if self.noise.unknown:  # an exact answer may not exist
            budget = replace(budget, sets=min(budget.sets, BUDGETS["fast"]))
        exact = Pipeline(prepared, prepared.problem(self.rounding), scorer, Noise(0.0), budget, self.seed)
        part = blank(len(rest), prepared.shape[1], np.float64, "")
        exact(np.ascontiguousarray(Y[rest, 0]), part)
        good = part.converged & (part.coef >= 0).all(axis=1)
        found[rest[good]] = True
        out.coef[rest[good], 0] = part.coef[good]

    def _search_exact(
        self, Y: NDArray[Any], hints: list[NDArray[np.float64]], found: NDArray[np.bool_], out: Recovery
    ) -> None:
        """Search for exact answers with next to no noise, whitened; write what is found."""
        form, W = self.dictionary.whitened, self.dictionary.prepared.form().W
        real = form.signals(self.structure.compressed(Y)[0] @ W.T)
        power = np.mean(real**2, axis=(1, 2)) * real.shape[1] / self.snapshots
        suggested = np.stack([hints[0] > 0, hints[1] > LIKELY * hints[1].max(axis=1, keepdims=True)], axis=1)
        scores = hints[2] if len(hints) > 2 else np.zeros_like(hints[0])
        for level in EXACT_LEVELS if self.budget.sets > 0 else ():
            rest = np.flatnonzero(~found)
            if not len(rest):
                break
            some = (real[rest], scores[rest], level**2 * power[rest], suggested[rest])
            starts = self._starts(form) // len(EXACT_LEVELS)
            listed = self._search(form, *some, count=False, starts=starts).supports(LISTED)
            self._decode_all(Y, rest, listed, scores, found, out)

    def _decode_all(
        self,
        Y: NDArray[Any],
        rows: NDArray[np.intp],
        supports: NDArray[np.bool_],
        scores: NDArray[np.float64],
        found: NDArray[np.bool_],
        out: Recovery,
    ) -> None:
        """Decode supports (rows, C, B), filled up by scores (N, B)."""
        for place, i in enumerate(rows):
            orders = [4.0 * CLIP * blocks + np.clip(scores[i], -CLIP, CLIP) for blocks in supports[place]]
            found[i] = self._decode(Y[i], i, orders, out)

    def _decode(self, y: NDArray[Any], i: int, orders: list[NDArray[Any]], out: Recovery) -> bool:
        X = decode_joint(self.dictionary.prepared, self.structure, y, iter(orders), self.rounding)
        if X is not None:
            out.coef[i] = self.structure.restored(X)
        return X is not None

    def _certify(self, Y: NDArray[Any], found: NDArray[np.bool_], out: Recovery) -> None:
        """Write residuals, certificates and bounds of exact answers."""
        prepared, order = self.dictionary.prepared, self.structure.order
        spark = block_spark(prepared)
        assert out.explicit_mean is not None
        assert out.explicit_inclusion is not None
        for i in np.flatnonzero(found):
            X = out.coef[i] if order is None else out.coef[i][:, order]
            out.argument[i] = certify_joint(prepared, Y[i], X, self.rounding, spark)
            out.residual[i] = np.linalg.norm(Y[i] - X @ prepared.Phi.T)
        rows = np.flatnonzero(found)
        out.certified[rows] = out.argument[rows] != ""
        out.converged[rows], out.confidence[rows] = True, out.certified[rows]
        arranged = out.coef[rows] if order is None else out.coef[rows][:, :, order]
        sizes = np.count_nonzero(self._blocks(arranged), axis=1)
        out.upper[rows] = sizes
        out.lower[rows] = np.where(out.certified[rows], sizes, Y[rows].any(axis=(1, 2)))
        out.explicit_mean[rows] = out.coef[rows]
        out.explicit_inclusion[rows] = out.coef[rows].any(axis=1) * out.confidence[rows][:, None]

    def _best_guess(self, Y: NDArray[Any], rows: NDArray[np.intp], out: Recovery) -> None:
        """Write a sparse guess for signals without an exact answer, uncertified."""
        if not len(rows):
            return
        prepared, order = self.dictionary.prepared, self.structure.order
        scores = out.scores[rows] if order is None else out.scores[rows][:, order]
        blocks = np.maximum.reduceat(scores, self.structure.start[:-1], axis=1)
        kept = max(1, prepared.shape[0] // 2 // max(1, int(np.diff(self.structure.start).max())))
        support = np.zeros(blocks.shape, dtype=bool)
        np.put_along_axis(support, np.argsort(-blocks, axis=1, kind="stable")[:, :kept], True, axis=1)
        X = self._fitted(prepared, Y[rows], support)
        assert out.explicit_mean is not None
        out.coef[rows] = out.explicit_mean[rows] = self.structure.restored(X)
        out.residual[rows] = np.linalg.norm(Y[rows] - X @ prepared.Phi.T, axis=(1, 2))
        out.lower[rows] = Y[rows].any(axis=(1, 2))
        out.upper[rows] = self.structure.n_blocks + 1

    def _own(self, out: Recovery, rows: NDArray[np.intp]) -> Posterior:
        """Return the answers themselves as the supports of these signals."""
        order = self.structure.order
        arranged = out.coef[rows] if order is None else out.coef[rows][:, :, order]
        return Posterior.of_supports(self._blocks(arranged) > 0, out.confidence[rows])
