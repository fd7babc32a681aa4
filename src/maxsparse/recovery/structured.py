"""From signals with a structure to answers: several snapshots, complex numbers, groups, non-negative coefficients.

The same steps as in :mod:`maxsparse.recovery.pipeline`: the network, OMP, SBL and, where coefficients are non-negative,
NNLS suggest supports; a search over blocks finds the most probable one and how probable it is. Without noise,
suggestions are decoded, then certified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core import joint
from maxsparse._core.prepared import Prepared
from maxsparse._core.progress import track
from maxsparse._core.structure import Structure
from maxsparse.learned_sbl import Weights
from maxsparse.recovery.answers import Groups, Recovery, blank
from maxsparse.recovery.block_form import BlockForm, StructuredDictionary
from maxsparse.recovery.block_noise import BlockLevels, learn_levels
from maxsparse.recovery.block_search import KEPT, BlockCandidates, block_search
from maxsparse.recovery.bounds import noise_radius
from maxsparse.recovery.joint_certificate import block_spark, certify_joint
from maxsparse.recovery.law import Law, usual_law
from maxsparse.recovery.noise import Noise
from maxsparse.recovery.noisy_search import climbs_of
from maxsparse.recovery.pipeline import LEAST_MEASUREMENTS, MOST_FOR_NETWORK, Pipeline
from maxsparse.recovery.posterior import Posterior
from maxsparse.recovery.search import BUDGETS, SearchBudget
from maxsparse.recovery.structured_exact import decode_joint, rank_aware_order
from maxsparse.solvers import nnls, omp, sbl

__all__ = ["StructuredPipeline"]

PIECE = 200  # signals at a time
PRINCIPAL = 3  # snapshots, after a rotation that sorts them by size, that the network sees
MOST_FOR_SBL = 20_000_000  # n²m; beyond it SBL takes longer than the search
LIKELY = 0.05  # of the largest coefficient: what SBL suggests
CLIP = 8.0
SLOWER = 4.0  # a climb over blocks than one over atoms
RUNG_STARTS = 4  # climbs on every rung of the ladder of noise levels
EXACT_LEVELS = (3e-2, 3e-3)  # of noise relative to the signal, whitened, at which to look for exact answers
LISTED = 4  # supports of a search that are decoded
TRIED = 16  # supports, most probable first, of which one must have a non-negative fit
OTHER_SHAPES = 3  # of the usual slabs, the first are gaussian


@dataclass(frozen=True, eq=False)
class StructuredPipeline:
    """From signals to answers, for one dictionary, one form of signals and one set of options.

    Attributes
    ----------
    dictionary : StructuredDictionary
    structure : Structure
        Of these signals.
    noise : Noise
        For complex data, σ² is the mean of |e|².
    weights, later : Weights, tuple of Weights
        Of the network.
    budget : SearchBudget
    seed : int
    rounding : float
        Relative rounding error of the data.
    progress : bool
    """

    dictionary: StructuredDictionary
    structure: Structure
    noise: Noise
    weights: Weights
    later: tuple[Weights, ...]
    budget: SearchBudget
    seed: int
    rounding: float
    progress: bool = False

    @property
    def snapshots(self) -> int:
        """L."""
        return self.structure.snapshots or 1

    def __call__(self, Y: NDArray[Any], name: str) -> Recovery:
        """Recover signals (N, L, n), float64 or complex128; coefficients are (N, L, m)."""
        N, m = len(Y), self.structure.shape[1]
        parts = []
        for start in track(range(0, max(N, 1), PIECE), "recover", self.progress):
            piece = Y[start : start + PIECE]
            out = blank(len(piece), m, Y.dtype, name, snapshots=self.snapshots)
            out = replace(out, explicit_inclusion=np.zeros((len(piece), m)), explicit_mean=np.zeros_like(out.coef))
            parts.append((out, self._piece(piece, out)))
        whole = _joined([out for out, _ in parts])
        return replace(
            whole,
            posterior=Posterior.join([posterior for _, posterior in parts]),
            _cosines=self.dictionary.cosines,
            _groups=None if self.structure.labels is None else Groups(self.structure.labels),
        )

    def _piece(self, Y: NDArray[Any], out: Recovery) -> Posterior:
        """Recover some signals; write to `out`, and return their supports."""
        rest, levels = np.arange(len(Y)), None
        posteriors, order = [], []
        if self.noise.sigma == 0 and len(Y):
            learns = self.noise.unknown and self.structure.shape[0] >= LEAST_MEASUREMENTS
            found, hints = self._decoded(Y, out)
            self._without_signs(Y, found, out)
            rest = np.flatnonzero(~found)
            if learns and len(rest):
                levels = self._levels(Y[rest])
                self._decode_all(Y, rest, levels.support, hints[-1], found, out)
                levels, rest = levels.of(~found[rest]), rest[~found[rest]]
            elif len(rest):
                self._search_exact(Y, hints, found, out)
            self._certify(Y, found, out)
            if not learns:
                rest = np.flatnonzero(~found)
                self._best_guess(Y, rest, out)
                found[:], rest = True, rest[:0]
            done = np.flatnonzero(found)
            posteriors.append(self._own(out, done))
            order.append(done)
        if len(rest):
            posteriors.append(self._noisy(Y[rest], rest, levels, out))
            order.append(rest)
        back = np.argsort(np.concatenate([*order, np.empty(0, np.intp)]), kind="stable")
        return Posterior.join(posteriors)[back]

    # With noise.

    def _noisy(self, Y: NDArray[Any], rows: NDArray[np.intp], levels: BlockLevels | None, out: Recovery) -> Posterior:
        """Find the most probable support of every signal, at the given or learned levels; write to rows of `out`."""
        L = self.noise.whitener
        prepared, form = self.dictionary.changed(L)
        Z = Y if L is None else Y @ L.T
        compressed, rotation = self.structure.compressed(Z)
        real = form.signals(compressed)
        parts = 2.0 if form.complex else 1.0
        sigma = np.full(len(Y), self.noise.sigma)
        if levels is not None:
            sigma = np.sqrt(parts * levels.variance)
        scores, suggested = self._suggestions(prepared, form, Z, real, sigma)
        if levels is not None:
            suggested = np.concatenate([suggested, levels.support[:, :2]], axis=1)
        found = self._search(form, real, scores, sigma**2 / parts, suggested, learned=levels is not None)
        out.scores[rows], out.noise[rows] = scores[:, self._block_of_atom], sigma
        self._write_noisy(Y, Z, prepared, found, rows, out)
        mean = form.coefficients(found.mean)
        own = mean if rotation is None else rotation @ mean
        assert out.explicit_mean is not None
        assert out.explicit_inclusion is not None
        out.explicit_mean[rows] = self.structure.restored(own)
        out.explicit_inclusion[rows] = found.inclusion[:, self._block_of_atom]
        out.iterations[rows], out.converged[rows] = found.starts, found.starts < max(1, self._starts(form))
        return Posterior.of(found.probability, found.size, found.chosen)

    def _levels(self, Y: NDArray[Any]) -> BlockLevels:
        """Learn the noise level of every signal."""
        prepared, form = self.dictionary.changed(None)
        real = form.signals(self.structure.compressed(Y)[0])
        guess = 0.1 * np.sqrt(np.mean(np.abs(Y) ** 2, axis=(1, 2)))
        scores, suggested = self._suggestions(prepared, form, Y, real, guess)
        options: dict[str, Any] = {"snapshots": self.snapshots, "positive": self.structure.positive}
        starts = min(RUNG_STARTS, self._starts(form))
        return learn_levels(form, real, scores, suggested, self._law(form), starts=starts, seed=self.seed, **options)

    def _search(
        self,
        form: BlockForm,
        real: NDArray[np.float64],
        scores: NDArray[Any],
        variance: NDArray[np.float64],
        suggested: NDArray[np.bool_],
        **options: Any,
    ) -> BlockCandidates:
        fixed: dict[str, Any] = {"snapshots": self.snapshots, "positive": self.structure.positive, "seed": self.seed}
        options = {"starts": self._starts(form), **fixed, **options, "suggested": suggested}
        return block_search(form.blocks, real, scores, variance, self._law(form), **options)

    def _law(self, form: BlockForm) -> Law:
        """Return what is expected of coefficients; amplitudes of several parts or snapshots are taken as gaussian."""
        narrowest = int(np.diff(form.blocks.start).min())
        most = max(1, min((form.shape[0] - 1) // narrowest, self.structure.n_blocks))
        usual = usual_law(most)
        if self.structure.positive:
            return usual
        shapes = usual.shapes[:OTHER_SHAPES].copy()
        shapes[:, 2] -= np.logaddexp.reduce(shapes[:, 2])
        return Law(0.0, shapes, usual.sizes)

    def _starts(self, form: BlockForm) -> int:
        """Return the number of climbs that the budget allows; with signs each takes longer, most so with many atoms."""
        climbs = climbs_of(self.budget.sets, self.budget.milliseconds, *form.shape)
        return int(climbs / SLOWER / (1.0 + form.shape[0] / 64.0 if self.structure.positive else 1.0))

    @property
    def _block_of_atom(self) -> NDArray[np.int64]:
        labels = self.structure.labels
        return np.arange(self.structure.shape[1]) if labels is None else labels

    def _suggestions(
        self,
        prepared: Prepared,
        form: BlockForm,
        Z: NDArray[Any],
        real: NDArray[np.float64],
        sigma: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return log odds (N, B) of the blocks, and supports (N, C, B) of several methods."""
        (n, m), N, B = prepared.shape, len(Z), self.structure.n_blocks
        magnitudes, supports = np.zeros((N, B)), [np.zeros((N, B), dtype=bool)]
        options = self._options
        for level in np.unique(sigma):
            rows = np.flatnonzero(sigma == level)
            supports[0][rows] = self._blocks(omp(prepared.Phi, Z[rows], noise=level, **options).coef) > 0
            if n * n * m <= MOST_FOR_SBL:
                fitted = sbl(prepared.Phi, Z[rows], noise=level, update="mackay", max_iter=200, **options)
                magnitudes[rows] = self._blocks(fitted.coef)
        largest = magnitudes.max(axis=1, keepdims=True)
        supports.append(magnitudes > LIKELY * largest)
        if self.structure.positive and self.structure.labels is None and self.snapshots == 1:
            supports.append(nnls(prepared.Phi, Z[:, 0]).coef > 0)
        relative = np.log(np.maximum(magnitudes, 1e-30) / np.maximum(largest, 1e-30))
        odds = np.clip(2.0 * relative + 4.0, -CLIP, CLIP) if n * n * m <= MOST_FOR_SBL else np.zeros((N, B))
        rows_n, columns = form.shape
        if rows_n**2 * columns <= MOST_FOR_NETWORK:
            network = self._network(form, real, sigma / math.sqrt(2.0 if form.complex else 1.0))
            supports.append(network > 0)
            odds = np.clip(network, -CLIP, CLIP)
        return odds, np.stack(supports, axis=1)

    @property
    def _options(self) -> dict[str, Any]:
        """What every solver is told of the structure; atoms are arranged already."""
        start = self.structure.start
        labels = None if self.structure.labels is None else np.repeat(np.arange(len(start) - 1), np.diff(start))
        return {"positive": self.structure.positive, "groups": labels}

    def _blocks(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the sizes (N, B) of blocks of coefficients (N, L, m)."""
        power = np.sum(np.abs(X) ** 2, axis=1) * self.dictionary.prepared.norms**2
        return np.sqrt(np.add.reduceat(power, self.structure.start[:-1], axis=1))

    def _network(self, form: BlockForm, real: NDArray[np.float64], sigma: Any) -> NDArray[np.float64]:
        """Return the network's log odds (N, B) for the principal snapshots together."""
        N, R, _ = real.shape
        scorer = self.dictionary.scorer(form, self.weights, self.later)
        if R > 1:
            real = _principal(real, PRINCIPAL)
        total = np.zeros((N, self.structure.n_blocks))
        for r in range(real.shape[1]):
            used = np.flatnonzero(real[:, r].any(axis=1))
            logits = scorer(np.ascontiguousarray(real[used, r]), np.broadcast_to(sigma, N)[used])
            total[used] += form.by_block(np.clip(logits.astype(np.float64), -CLIP, CLIP))
        return total

    def _write_noisy(
        self,
        Y: NDArray[Any],
        Z: NDArray[Any],
        prepared: Prepared,
        found: BlockCandidates,
        rows: NDArray[np.intp],
        out: Recovery,
    ) -> None:
        """Write the answers: the most probable supports, with a non-negative fit where it is asked for."""
        n = prepared.shape[0]
        parts = 2.0 if np.iscomplexobj(Z) else 1.0
        support, place = found.support(), np.zeros(len(Z), dtype=np.intp)
        X = self._fitted(prepared, Z, support)
        if self.structure.positive:
            listed = found.supports(min(TRIED, KEPT))
            for c in range(1, listed.shape[1]):
                lost = ((self._blocks(X) > 0) != support).any(axis=1) & (found.probability[:, c] > 0)
                tried = np.flatnonzero(lost)
                if not len(tried):
                    break
                other = self._fitted(prepared, Z[tried], listed[tried, c])
                whole = ((self._blocks(other) > 0) == listed[tried, c]).all(axis=1)
                good = tried[whole]
                X[good], support[good], place[good] = other[whole], listed[good, c], c
        residual = np.linalg.norm(Z - X @ prepared.Phi.T, axis=(1, 2))
        out.coef[rows] = self.structure.restored(X)
        given = self.dictionary.prepared.Phi
        out.residual[rows] = np.linalg.norm(Y - X @ given.T, axis=(1, 2))
        out.confidence[rows] = found.probability[np.arange(len(Z)), place]
        count = int(parts) * n * self.snapshots
        radius = noise_radius(count, 1.0) * out.noise[rows] / math.sqrt(parts)
        inside = residual <= radius
        fewest = np.count_nonzero(support, axis=1)
        out.upper[rows] = np.where(inside, fewest, self.structure.n_blocks + 1)
        out.lower[rows] = np.linalg.norm(Z, axis=(1, 2)) > radius

    def _fitted(self, prepared: Prepared, Z: NDArray[Any], support: NDArray[np.bool_]) -> NDArray[Any]:
        """Fit signals (N, L, n) on supports (N, B) by (non-negative) least squares."""
        sizes = np.diff(self.structure.start)
        X = np.repeat(support, sizes, axis=1)[:, None, :].repeat(Z.shape[1], axis=1).astype(Z.dtype)
        structure = replace(self.structure, shape=prepared.shape)
        if len(Z):
            joint.keep_largest(np.ascontiguousarray(Z), prepared.plain.columns, X, structure, self.structure.n_blocks)
        return X

    # Without noise.

    def _decoded(self, Y: NDArray[Any], out: Recovery) -> tuple[NDArray[np.bool_], list[NDArray[np.float64]]]:
        """Write exact answers that a method suggests; return for which signals, and all suggestions (N, B)."""
        prepared, structure = self.dictionary.prepared, self.structure
        found = np.zeros(len(Y), dtype=bool)
        compressed, _ = structure.compressed(Y)
        white = prepared.form()
        assert white.W is not None
        Z = compressed @ white.W.T
        options = {**self._options, "precondition": True}
        hints = [self._blocks(method(prepared.Phi, Y, **options).coef) for method in (omp, sbl)]
        form = self.dictionary.whitened
        if form.shape[0] ** 2 * form.shape[1] <= MOST_FOR_NETWORK:
            hints.append(self._network(form, form.signals(Z), 0.0))
        out.scores[:] = hints[-1][:, self._block_of_atom]
        for i in range(len(Y)):
            orders = [hint[i] for hint in hints]
            if compressed.shape[1] > 1:
                orders.insert(0, rank_aware_order(white.Q, Z[i], structure.start))
            found[i] = self._decode(Y, i, orders, out)
        return found, hints

    def _without_signs(self, Y: NDArray[Any], found: NDArray[np.bool_], out: Recovery) -> None:
        """Write what the search for coefficients of any sign finds, where they turn out to be non-negative."""
        rest = np.flatnonzero(~found)
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
            found[i] = self._decode(Y, i, orders, out)

    def _decode(self, Y: NDArray[Any], i: int, orders: list[NDArray[Any]], out: Recovery) -> bool:
        X = decode_joint(self.dictionary.prepared, self.structure, Y[i], iter(orders), self.rounding)
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


def _principal(real: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Rotate snapshots (N, R, n) so that the first ones hold the most, and return these; the rest of them zero."""
    _, values, V = np.linalg.svd(real, full_matrices=False)
    rows = values[:, :count, None] * V[:, :count]
    kept = values[:, :count] > 1e-10 * np.maximum(values[:, :1], 1e-300)
    return np.asarray(rows * kept[:, :, None])


def _joined(parts: list[Recovery]) -> Recovery:
    """Put answers behind each other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    arrays: Any = {name: np.concatenate([getattr(part, name) for part in parts]) for name in first._stored()}
    return replace(first, **arrays)
