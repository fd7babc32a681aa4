"""What all steps for signals with a structure share: the problem, the options, the network and the search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core import joint
from maxsparse._core.prepared import Prepared
from maxsparse._core.structure import Structure
from maxsparse.learned_sbl import Weights
from maxsparse.recovery.block_form import BlockForm, StructuredDictionary
from maxsparse.recovery.block_search import BlockCandidates, block_search
from maxsparse.recovery.law import Law, usual_law
from maxsparse.recovery.noise import Noise
from maxsparse.recovery.noisy_search import climbs_of
from maxsparse.recovery.search import SearchBudget

__all__ = ["CLIP", "LIKELY", "Structured"]

PRINCIPAL = 3  # snapshots, after a rotation that sorts them by size, that the network sees
LIKELY = 0.05  # of the largest coefficient: what SBL suggests
CLIP = 8.0  # of log odds
SLOWER = 4.0  # a climb over blocks than one over atoms
OTHER_SHAPES = 3  # of the usual slabs, the first are gaussian


@dataclass(frozen=True, eq=False)
class Structured:
    """One dictionary, one form of signals and one set of options.

    Attributes
    ----------
    dictionary : StructuredDictionary
    structure : Structure
        Of these signals.
    noise : Noise
        For complex data, σ² is the mean of ``|e|²``.
    weights, later : Weights, tuple of Weights
        Of the network.
    budget : SearchBudget
    seed : int
    rounding : float
        Relative rounding error of the data.
    progress : bool
    law : Law, optional
        What is expected of the coefficients, with noise; by default what is usual.
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
    law: Law | None = None

    @property
    def snapshots(self) -> int:
        """L."""
        return self.structure.snapshots or 1

    def _search(
        self,
        form: BlockForm,
        real: NDArray[np.float64],
        scores: NDArray[Any],
        variance: NDArray[np.float64],
        suggested: NDArray[np.bool_],
        law: Law | None = None,
        **options: Any,
    ) -> BlockCandidates:
        law = self._law(form) if law is None else law
        fixed: dict[str, Any] = {"snapshots": self.snapshots, "positive": self.structure.positive, "seed": self.seed}
        options = {"starts": self._starts(form), **fixed, **options, "suggested": suggested}
        return block_search(form.blocks, real, scores, variance, law, **options)

    def _law(self, form: BlockForm) -> Law:
        """Return what is expected of coefficients; amplitudes of several parts or snapshots are taken as gaussian."""
        narrowest = int(np.diff(form.blocks.start).min())
        most = max(1, min((form.shape[0] - 1) // narrowest, self.structure.n_blocks))
        usual = usual_law(most)
        if self.law is not None and self._fits(self.law, most):
            return self.law
        if self.structure.positive:
            return usual
        shapes = usual.shapes[:OTHER_SHAPES].copy()
        shapes[:, 2] -= np.logaddexp.reduce(shapes[:, 2])
        return Law(0.0, shapes, usual.sizes)

    def _fits(self, law: Law, most: int) -> bool:
        """Return whether a law was learned from signals of this form: sizes up to the same, humps only with signs."""
        return len(law.sizes) == most + 1 and (self.structure.positive or not law.shapes[:, 1].any())

    def _starts(self, form: BlockForm) -> int:
        """Return the number of climbs that the budget allows; with signs each takes longer, most so with many atoms."""
        climbs = climbs_of(self.budget.sets, self.budget.milliseconds, *form.shape)
        return int(climbs / SLOWER / (1.0 + form.shape[0] / 64.0 if self.structure.positive else 1.0))

    @property
    def _block_of_atom(self) -> NDArray[np.int64]:
        labels = self.structure.labels
        return np.arange(self.structure.shape[1]) if labels is None else labels

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

    def _fitted(self, prepared: Prepared, Z: NDArray[Any], support: NDArray[np.bool_]) -> NDArray[Any]:
        """Fit signals (N, L, n) on supports (N, B) by (non-negative) least squares."""
        sizes = np.diff(self.structure.start)
        X = np.repeat(support, sizes, axis=1)[:, None, :].repeat(Z.shape[1], axis=1).astype(Z.dtype)
        structure = replace(self.structure, shape=prepared.shape)
        if len(Z):
            joint.keep_largest(np.ascontiguousarray(Z), prepared.plain.columns, X, structure, self.structure.n_blocks)
        return X


def _principal(real: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Rotate snapshots (N, R, n) so that the first ones hold the most, and return these; the rest of them zero."""
    _, values, V = np.linalg.svd(real, full_matrices=False)
    rows = values[:, :count, None] * V[:, :count]
    kept = values[:, :count] > 1e-10 * np.maximum(values[:, :1], 1e-300)
    return np.asarray(rows * kept[:, :, None])
