"""From signals with a structure to answers: several snapshots, complex numbers, groups, non-negative coefficients.

The same steps as in :mod:`maxsparse.recovery.pipeline`: the network, OMP, SBL and, where coefficients are non-negative,
NNLS suggest supports; a search over blocks finds the most probable one and how probable it is. Without noise,
suggestions are decoded, then certified.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.prepared import Prepared
from maxsparse._core.progress import track
from maxsparse.recovery.answers import Groups, Recovery, blank
from maxsparse.recovery.block_form import BlockForm
from maxsparse.recovery.block_noise import BlockLevels, learn_levels
from maxsparse.recovery.block_search import GAUSSIAN, KEPT, SIGNED, BlockCandidates
from maxsparse.recovery.bounds import noise_radius
from maxsparse.recovery.law import Law, learn_law
from maxsparse.recovery.pipeline import MOST_FOR_NETWORK
from maxsparse.recovery.posterior import Posterior
from maxsparse.recovery.refutation import LEAST_MEASUREMENTS, REFUTED, UNLIKELY
from maxsparse.recovery.search import BUDGETS
from maxsparse.recovery.structured_base import CLIP, LIKELY
from maxsparse.recovery.structured_exact import ExactRoad
from maxsparse.solvers import nnls, omp, sbl

__all__ = ["StructuredPipeline"]

PIECE = 200  # signals at a time
MOST_FOR_SBL = 20_000_000  # n²m; beyond it SBL takes longer than the search
RUNG_STARTS = 4  # climbs on every rung of the ladder of noise levels
TRIED = 16  # supports, most probable first, of which one must have a non-negative fit
CHAIN_STEPS = 15  # times atoms, of a chain over supports with signs, per set of the budget
NEARLY_ALL = 0.995  # probability of the listed supports: less, and a thorough search visits the others
SUSPICIOUS = 2.5  # mean square of what is left over that of the noise, above or below: another level may be right


class StructuredPipeline(ExactRoad):
    """From signals to answers."""

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
            noisy = self._inexact(Y) if learns else np.zeros(len(Y), dtype=bool)
            found, hints = self._decoded(Y, np.flatnonzero(~noisy), out)
            self._without_signs(Y, found, np.flatnonzero(~found & ~noisy), out)
            rest = np.flatnonzero(~found)
            if learns and len(rest):
                levels = self._levels(Y[rest])
                still = ~noisy[rest]
                self._decode_all(Y, rest[still], levels.support[still], hints[-1], found, out)
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
            found_here = self._noisy(Y[rest], rest, levels, out)
            wrong = np.zeros(len(rest), dtype=bool)
            if levels is None:
                wrong, learned = self._refuted(Y[rest], rest, out)
                if wrong.any():
                    posteriors.append(self._noisy(Y[rest[wrong]], rest[wrong], learned, out))
                    order.append(rest[wrong])
            posteriors.append(found_here[~wrong])
            order.append(rest[~wrong])
        back = np.argsort(np.concatenate([*order, np.empty(0, np.intp)]), kind="stable")
        return Posterior.join(posteriors)[back]

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
        options: dict[str, Any] = {"learned": levels is not None}
        if self.structure.positive:
            options["steps"] = CHAIN_STEPS * min(self.budget.sets, BUDGETS["thorough"])
            if self.budget.sets >= BUDGETS["thorough"]:
                options["listed"] = NEARLY_ALL
        found = self._search(form, real, scores, sigma**2 / parts, suggested, **options)
        out.scores[rows], out.noise[rows] = scores[:, self._block_of_atom], sigma
        self._write_noisy(Y, Z, prepared, found, rows, out)
        mean = form.coefficients(found.mean)
        own = mean if rotation is None else rotation @ mean
        assert out.explicit_mean is not None
        assert out.explicit_inclusion is not None
        out.explicit_mean[rows] = self.structure.restored(own)
        out.explicit_inclusion[rows] = found.inclusion[:, self._block_of_atom]
        out.iterations[rows], out.converged[rows] = found.starts, found.starts < max(1, self._starts(form))
        posterior = Posterior.of(found.probability, found.size, found.chosen)
        return posterior.with_draws(found.drawn_size, found.drawn)

    def learn(self, Y: NDArray[Any]) -> Law:
        """Learn from signals (N, L, n) how many nonzero blocks there are, and how large; the noise level is known."""
        L = self.noise.whitener
        prepared, form = self.dictionary.changed(L)
        Z = Y if L is None else Y @ L.T
        real = form.signals(self.structure.compressed(Z)[0])
        sigma = np.full(len(Y), self.noise.sigma)
        scores, suggested = self._suggestions(prepared, form, Z, real, sigma)
        variance = sigma**2 / (2.0 if form.complex else 1.0)
        return learn_law(
            lambda law, evidence: self._search(form, real, scores, variance, suggested, law, evidence=evidence),
            self._law(form),
            SIGNED if self.structure.positive else GAUSSIAN,
        )

    def _refuted(
        self, Y: NDArray[Any], rows: NDArray[np.intp], out: Recovery
    ) -> tuple[NDArray[np.bool_], BlockLevels | None]:
        """Return for which signals a far more probable noise level than the given one was found, and these levels."""
        n, parts = self.structure.shape[0], 2.0 if self.structure.complex else 1.0
        Z = Y if self.noise.whitener is None else Y @ self.noise.whitener.T
        Phi = self.dictionary.changed(self.noise.whitener)[0].Phi
        order = self.structure.order
        X = out.coef[rows] if order is None else out.coef[rows][:, :, order]
        left = np.sum(np.abs(Z - X @ Phi.T) ** 2, axis=(1, 2)) / self.noise.sigma**2
        used = np.count_nonzero(X.any(axis=1), axis=1)
        ratio = left / (self.snapshots * np.maximum(n - used, 1))
        wrong = (ratio > SUSPICIOUS) | (ratio < 1.0 / SUSPICIOUS) | (used > n // 2)
        wrong &= Y.any(axis=(1, 2)) & (n >= LEAST_MEASUREMENTS)
        if not wrong.any():
            return wrong, None
        chosen = np.flatnonzero(wrong)
        levels = self._levels(Z[chosen])
        factor = parts * levels.variance / self.noise.sigma**2
        count = 0.5 * parts * n * self.snapshots
        sure = (np.abs(np.log(factor)) > 2 * UNLIKELY) & (count * (factor - 1.0 - np.log(factor)) > REFUTED)
        wrong[chosen] = sure
        return wrong, levels.of(sure)

    def _levels(self, Y: NDArray[Any]) -> BlockLevels:
        """Learn the noise level of every signal, in coordinates in which the noise is white."""
        prepared, form = self.dictionary.changed(self.noise.whitener)
        real = form.signals(self.structure.compressed(Y)[0])
        guess = 0.1 * np.sqrt(np.mean(np.abs(Y) ** 2, axis=(1, 2)))
        scores, suggested = self._suggestions(prepared, form, Y, real, guess)
        options: dict[str, Any] = {"snapshots": self.snapshots, "positive": self.structure.positive}
        starts = min(RUNG_STARTS, self._starts(form))
        return learn_levels(form, real, scores, suggested, self._law(form), starts=starts, seed=self.seed, **options)

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


def _joined(parts: list[Recovery]) -> Recovery:
    """Put answers behind each other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    arrays: Any = {name: np.concatenate([getattr(part, name) for part in parts]) for name in first._stored()}
    return replace(first, **arrays)
