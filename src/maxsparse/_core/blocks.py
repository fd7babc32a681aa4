"""Φ of many atoms in blocks of them: what is computed from it without a second matrix of its size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.validation import FloatArray

__all__ = ["blocks", "changed_norms", "fingerprint", "is_wide", "left_singular"]

WIDE = 5_000  # atoms of a dictionary that is copied as seldom as possible
ATOMS_AT_ONCE = 1_000  # atoms that are changed at a time
LANES = 4  # independent sums of a fingerprint, so that one does not wait for the other
PRIME = np.uint64(0x100000001B3)  # of FNV-1a


def is_wide(Phi: Any) -> bool:
    """Whether Φ (n, m) has so many atoms that copies of it are avoided."""
    return bool(Phi.shape[1] > WIDE)


def blocks(Phi: Any, size: int = ATOMS_AT_ONCE) -> list[slice]:
    """Return slices of the atoms."""
    return [slice(first, first + size) for first in range(0, Phi.shape[1], size)]


def left_singular(Phi: Any, *, full: bool) -> tuple[Any, Any]:
    """Return left singular vectors and singular values of Φ; of a wide Φ from R of Φᵀ = QR, block after block."""
    if not is_wide(Phi) or Phi.shape[1] <= len(Phi):
        U, sigma, _ = np.linalg.svd(Phi, full_matrices=full)
        return U, sigma
    R: Any = np.empty((0, len(Phi)), dtype=Phi.dtype)
    for some in blocks(Phi):
        R = np.linalg.qr(np.vstack([R, Phi[:, some].T]), mode="r")
    U, sigma, _ = np.linalg.svd(R.T)
    return U, sigma


def changed_norms(W: Any, Phi: Any) -> Any:
    """Return the norms of the atoms of WΦ, (m,), without that matrix."""
    return np.concatenate([np.linalg.norm(W @ Phi[:, some], axis=0) for some in blocks(Phi)])


def fingerprint(Phi: FloatArray) -> bytes:
    """Return a number of a float64 matrix that is another one, but for a chance of 2⁻⁶⁴, where an entry has changed."""
    state = np.full(LANES, 0xCBF29CE484222325, dtype=np.uint64)
    for row in Phi:
        _absorb(np.ascontiguousarray(row).view(np.uint64), state)
    return state.tobytes()


@kernel()
def _absorb(words: NDArray[Any], state: NDArray[Any]) -> None:
    """Take some words into a fingerprint: every step is one-to-one, so that one changed word always changes it."""
    a, b, c, d = state[0], state[1], state[2], state[3]
    whole = words.shape[0] - words.shape[0] % 4
    for i in range(0, whole, 4):
        a = (a ^ (a >> np.uint64(29)) ^ words[i]) * PRIME
        b = (b ^ (b >> np.uint64(29)) ^ words[i + 1]) * PRIME
        c = (c ^ (c >> np.uint64(29)) ^ words[i + 2]) * PRIME
        d = (d ^ (d >> np.uint64(29)) ^ words[i + 3]) * PRIME
    for i in range(whole, words.shape[0]):
        a = (a ^ (a >> np.uint64(29)) ^ words[i]) * PRIME
    state[0], state[1], state[2], state[3] = a, b, c, d
