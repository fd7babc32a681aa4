"""A dictionary with a structure in the form that the search over blocks takes: real columns, block by block.

A complex atom φ is the two columns (Re φ, Im φ) and (−Im φ, Re φ), whose coefficients are the two parts of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.cosines import group_cosines
from maxsparse._core.prepared import Prepared
from maxsparse._core.structure import Structure
from maxsparse.learned_sbl import LearnedScores, Weights
from maxsparse.recovery._block_sweep import Blocks
from maxsparse.recovery.block_search import blocks_of

__all__ = ["BlockForm", "StructuredDictionary"]


@dataclass(frozen=True, eq=False)
class BlockForm:
    """Real columns of a dictionary (n, m), real or complex.

    Attributes
    ----------
    blocks : Blocks
        Columns are divided by `scale`, one number per block: the root mean square of their norms. Coefficients of these
        columns are expected to be of one size.
    scale : ndarray of shape (M,)
    complex : bool
    """

    blocks: Blocks
    scale: NDArray[np.float64]
    complex: bool

    @classmethod
    def of(cls, Phi: NDArray[Any], start: NDArray[np.int64], *, one_scale: bool = False) -> BlockForm:
        """Lay out Φ; atoms start[b] to start[b + 1] are block b. `one_scale`: one number for all blocks."""
        sizes = np.diff(start)
        norms2 = np.add.reduceat(np.sum(np.abs(Phi) ** 2, axis=0), start[:-1])
        scale = np.repeat(np.sqrt(norms2 / sizes), sizes)
        if one_scale:
            scale[:] = np.sqrt(norms2.sum() / sizes.sum())
        if not np.iscomplexobj(Phi):
            return cls(blocks_of(np.ascontiguousarray(Phi / scale), start), scale, False)
        n, m = Phi.shape
        columns = np.empty((2 * n, m, 2))
        columns[:n, :, 0], columns[n:, :, 0] = Phi.real, Phi.imag
        columns[:n, :, 1], columns[n:, :, 1] = -Phi.imag, Phi.real
        scale = np.repeat(scale, 2)
        return cls(blocks_of(columns.reshape(2 * n, 2 * m) / scale, 2 * start), scale, True)

    @property
    def shape(self) -> tuple[int, int]:
        """Real measurements and columns."""
        M, n = self.blocks.atoms.shape
        return n, M

    def signals(self, Y: NDArray[Any]) -> NDArray[np.float64]:
        """Return signals (N, R, n) as real ones."""
        return np.ascontiguousarray(np.concatenate([Y.real, Y.imag], axis=2) if self.complex else Y)

    def coefficients(self, X: NDArray[np.float64]) -> NDArray[Any]:
        """Return coefficients (N, R, M) of the columns as those of Φ, (N, R, m)."""
        own = X / self.scale
        return own[..., 0::2] + 1j * own[..., 1::2] if self.complex else own

    def by_block(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the largest of the values (…, M) in every block, (…, B)."""
        return np.maximum.reduceat(values, self.blocks.start[:-1], axis=-1)


class StructuredDictionary:
    """Φ with the atoms of every block side by side, and what is computed from it, on first use.

    Parameters
    ----------
    Phi : ndarray of shape (n, m), float64 or complex128
        As the caller gave it.
    structure : Structure
        Of any signals: the number of snapshots does not matter.
    """

    def __init__(self, Phi: NDArray[Any], structure: Structure) -> None:
        self.given, self.structure = Phi, structure
        start = None if structure.labels is None else structure.start
        self.prepared = Prepared(structure.arranged(Phi), start=start)
        self._forms: dict[bytes, tuple[Prepared, BlockForm]] = {}
        self._scorers: dict[bytes, LearnedScores] = {}

    def matches(self, Phi: NDArray[Any], structure: Structure) -> bool:
        """Whether it was made from the same Φ and groups."""
        mine, other = self.structure.labels, structure.labels
        same = np.array_equal(mine, other) if mine is not None and other is not None else mine is other
        same = same and self.structure.positive == structure.positive
        return same and self.given.dtype == Phi.dtype and np.array_equal(self.given, Phi)

    def changed(self, L: NDArray[Any] | None) -> tuple[Prepared, BlockForm]:
        """Return LΦ, in which noise is white, prepared and as real columns."""
        key = b"" if L is None else L.tobytes()
        if key not in self._forms:
            if len(self._forms) > 1:
                self._forms.clear()
            prepared = self.prepared
            if L is not None:
                prepared = Prepared(np.ascontiguousarray(L @ prepared.Phi), start=prepared.start)
            self._forms[key] = prepared, self._form(prepared.Phi)
        return self._forms[key]

    def _form(self, Phi: NDArray[Any]) -> BlockForm:
        """Lay out Φ; non-negative coefficients, such as abundances, are of one size themselves, not times the norms."""
        return BlockForm.of(Phi, self.structure.start, one_scale=self.structure.positive)

    @cached_property
    def whitened(self) -> BlockForm:
        """Φ whitened, for exact answers: WΦD as real columns."""
        return BlockForm.of(self.prepared.form().Q, self.structure.start)

    def cosines(self) -> NDArray[np.float64]:
        """Return |cosines| between blocks, of the smallest angle between two groups, with a zero diagonal, (B, B)."""
        prepared = self.prepared
        return np.asarray(prepared.cosines() if prepared.start is None else group_cosines(prepared.Phi, prepared.start))

    def scorer_of_any_sign(self, weights: Weights, later: tuple[Weights, ...]) -> LearnedScores:
        """Return the network for Φ itself."""
        if b"" not in self._scorers:
            self._scorers[b""] = LearnedScores(self.prepared, weights, later)
        return self._scorers[b""]

    def scorer(self, form: BlockForm, weights: Weights, later: tuple[Weights, ...]) -> LearnedScores:
        """Return the network for the real columns of a form."""
        key = form.blocks.atoms.tobytes()[:4096] + str(form.shape).encode()
        if key not in self._scorers:
            self._scorers[key] = LearnedScores(Prepared(np.ascontiguousarray(form.blocks.atoms.T)), weights, later)
        return self._scorers[key]
