"""What a problem has beyond one real signal with free signs: snapshots, complex numbers, groups, a sign constraint.

One description carries all four. Atoms come in blocks (one atom, or a group of them that come and go together), and all
snapshots of a signal share the blocks in use. Methods see Φ with the atoms of every block side by side, and Y as
(N, L, n).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import (
    Array,
    check_array,
    check_dictionary,
    check_flag,
    check_range,
    check_width,
)

__all__ = ["Structure", "check_groups", "check_structured"]


@dataclass(frozen=True, eq=False)
class Structure:
    """The form of a problem.

    Attributes
    ----------
    shape : (int, int)
        Shape (n, m) of Φ.
    snapshots : int or None
        L of signals (N, L, n) that share one support per row; None for signals (N, n).
    complex : bool
        Whether Φ or Y is complex; coefficients are complex then.
    positive : bool
        Whether coefficients must not be negative.
    labels : ndarray of shape (m,), int, or None
        Number of the group of every atom, 0 to B − 1; None where every atom is on its own.
    """

    shape: tuple[int, int]
    snapshots: int | None = None
    complex: bool = False
    positive: bool = False
    labels: NDArray[np.int64] | None = None

    @property
    def plain(self) -> bool:
        """Whether this is one real signal with free signs per row, of atoms on their own."""
        return not (self.complex or self.positive) and self.labels is None and self.snapshots in (None, 1)

    @property
    def asked(self) -> list[str]:
        """The abilities that a method must have, keys of :data:`maxsparse._core.registry.ABILITIES`."""
        several = self.snapshots not in (None, 1)
        asked = {"positive": self.positive, "groups": self.labels is not None, "complex": self.complex}
        return [ability for ability, needed in {**asked, "snapshots": several}.items() if needed]

    @cached_property
    def order(self) -> NDArray[np.intp] | None:
        """Atoms block by block, (m,): a method's Φ is Phi[:, order]; None where it is Φ itself."""
        if self.labels is None or (np.diff(self.labels) >= 0).all():
            return None
        return np.argsort(self.labels, kind="stable")

    @cached_property
    def start(self) -> NDArray[np.int64]:
        """Atoms start[b] to start[b + 1] of a method's Φ are block b, (B + 1,)."""
        sizes = np.ones(self.shape[1], dtype=np.int64) if self.labels is None else np.bincount(self.labels)
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @property
    def n_blocks(self) -> int:
        """Number B of blocks, which sparsity counts."""
        return len(self.start) - 1

    @property
    def largest(self) -> int:
        """Most blocks that a support may hold: as many as there are, and as many as can be independent."""
        return min(self.shape[0], self.n_blocks)

    def arranged(self, Phi: Any) -> Any:
        """Return Φ with the atoms of every block side by side."""
        return Phi if self.order is None else np.ascontiguousarray(Phi[:, self.order])

    def restored(self, X: Any) -> Any:
        """Return coefficients (…, m) of the arranged Φ in the order of Φ."""
        if self.order is None:
            return X
        out = np.empty_like(X)
        out[..., self.order] = X
        return out

    def compressed(self, Y: Any) -> tuple[Any, Any]:
        r"""Return at most n rows per signal that hold what L snapshots do, and how to go back.

        With :math:`Y = QR`, the rows of R have the same sums of squares as those of Y, for Y itself, for residuals and
        for coefficients, so every method that uses nothing else solves for R; coefficients of Y are Q times those.
        Non-negative coefficients do not rotate.

        Parameters
        ----------
        Y : ndarray of shape (N, L, n)

        Returns
        -------
        rows : ndarray of shape (N, min(L, n), n)
        Q : ndarray of shape (N, L, n) or None
            None where nothing was done.
        """
        if self.positive or Y.shape[1] <= Y.shape[2] or len(Y) == 0:
            return Y, None
        Q, R = np.linalg.qr(Y)
        return np.ascontiguousarray(R), Q


def check_structured(
    Phi: Any, Y: Any, *, positive: Any = False, groups: Any = None, checked: Array | None = None
) -> tuple[Any, Any, Structure]:
    """Check Φ, Y and what is asked of them together, and convert both to one dtype.

    Parameters
    ----------
    Phi : array-like of shape (n, m), real or complex
    Y : array-like of shape (N, n) or (N, L, n), real or complex
    positive : bool
    groups : array-like of shape (m,) or None
        Labels of the atoms.
    checked : ndarray or None
        Φ if it was checked before; `Phi` is not looked at then.

    Returns
    -------
    Phi : ndarray of shape (n, m)
        As it came, not arranged.
    Y : ndarray of shape (N, n) or (N, L, n)
        Both single precision if both are, else double, complex if one of them is; C-contiguous and writable.
    structure : Structure
    """
    dictionary: Any = check_dictionary(Phi, complex_too=True) if checked is None else checked
    n, m = dictionary.shape
    signals = check_array(Y, "Y", dimensions=(2, 3))
    snapshots = signals.shape[1] if signals.ndim == 3 else None
    _check_snapshots(signals.shape, (n, m))
    rows = signals.reshape(-1, signals.shape[-1])
    check_range(rows, "Y", "signal" if snapshots is None else "snapshot")
    dtype = np.result_type(dictionary, signals)
    structure = Structure(
        (n, m),
        snapshots,
        dtype.kind == "c",
        check_flag(positive, "positive"),
        check_groups(groups, m),
    )
    if structure.positive and structure.complex:
        which = "Phi" if np.iscomplexobj(dictionary) else "Y"
        raise ValueError(f"positive=True is for real data, but {which} is complex; omit positive, or pass {which}.real")
    # Compiled code would be compiled again for a readonly or strided array.
    if signals.dtype != dtype or not (signals.flags.c_contiguous and signals.flags.writeable):
        signals = np.require(signals, dtype, ("C", "W"))
    return dictionary.astype(dtype, copy=False), signals, structure


def check_groups(groups: Any, m: int) -> NDArray[np.int64] | None:
    """Return the number of every atom's group, in the order of the labels; None if every atom is on its own."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.shape != (m,):
        raise ValueError(f"groups must be {m} labels, one per atom of Phi, got shape {labels.shape}")
    if labels.dtype.kind not in "biuSU":
        raise ValueError(f"groups must be whole numbers or words, got dtype {labels.dtype}")
    values, numbers = np.unique(labels, return_inverse=True)
    return None if len(values) == m else numbers.astype(np.int64)


def _check_snapshots(signals: tuple[int, ...], shape: tuple[int, int]) -> None:
    """Check the shape of signals against that of Φ (n, m)."""
    if len(signals) == 2:
        check_width((signals[0], signals[1]), shape)
        return
    (N, L, width), n = signals, shape[0]
    if width != n:
        got = f"Y has shape {(N, L, width)} but Phi has shape {shape}"
        if n == L:
            raise ValueError(f"{got}: snapshots are rows, so Y fits transposed; pass Y.transpose(0, 2, 1)")
        raise ValueError(f"{got}: the last axis of Y must have n = {n} measurements, as in (N, L, n)")
    if L == 0:
        raise ValueError(f"Y has no snapshots: shape {(N, L, width)}; it needs N signals by L ≥ 1 snapshots by n")
