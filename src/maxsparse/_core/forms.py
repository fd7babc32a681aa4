"""The forms in which methods take Φ: as it is or whitened, whole, or by its parts where it has many atoms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.blocks import blocks, is_wide, left_singular
from maxsparse._core.threads import threads
from maxsparse._core.validation import Array, FloatArray

__all__ = ["Form", "Single", "Whitened", "WideForm", "WideWhitened", "beyond_single", "well_conditioned"]

ILL_CONDITIONED = 1e4  # ratio of singular values
OUTER_AT_ONCE = 100  # atoms whose outer products are made at a time
COPIED_AT_ONCE = 128  # atoms that are taken from Φ at a time


class Whitened(NamedTuple):
    """A dictionary prepared for the compiled kernels of recovery; all arrays float64 and C-contiguous."""

    atoms: FloatArray  # (m, n), Φᵀ
    W: FloatArray  # (r, n)
    D: FloatArray  # (m,)
    Q: FloatArray  # (r, m), WΦD
    columns: FloatArray  # (m, r), Qᵀ
    norms: FloatArray  # (m,), of the atoms
    weakest: float  # smallest singular value of Φ, 1/‖W‖
    rounding: float  # relative rounding of the data that y and Φ came in
    zero: float  # relative size of a whitened coefficient that may be zero; the refit has the last word

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (r, m) of Q."""
        r, m = self.Q.shape
        return r, m

    def of(self, chosen: NDArray[np.intp]) -> Whitened:
        """Return some of the atoms."""
        return self._replace(
            atoms=self.atoms[chosen],
            D=self.D[chosen],
            Q=np.ascontiguousarray(self.Q[:, chosen]),
            columns=self.columns[chosen],
            norms=self.norms[chosen],
        )

    def correlate(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Qᵀ Wy of one signal, (m,)."""
        return np.asarray((self.W @ y) @ self.Q)


class WideWhitened(NamedTuple):
    """The same of a dictionary of many atoms: those that a signal needs are looked up in Φ, and whitened then."""

    Phi: FloatArray  # (n, m)
    W: FloatArray  # (r, n)
    D: FloatArray  # (m,)
    norms: FloatArray  # (m,)
    weakest: float
    rounding: float
    zero: float

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (r, m) of WΦD."""
        return len(self.W), self.Phi.shape[1]

    def of(self, chosen: NDArray[np.intp]) -> Whitened:
        """Return some of the atoms, without copies that are not needed: a search does this for every signal."""
        atoms, D = np.empty((len(chosen), len(self.Phi)), self.Phi.dtype), self.D[chosen]
        for start in range(0, len(chosen), COPIED_AT_ONCE):
            atoms[start : start + COPIED_AT_ONCE] = np.take(self.Phi, chosen[start : start + COPIED_AT_ONCE], axis=1).T
        Q = self.W @ atoms.T
        Q *= D
        scalars = self.weakest, self.rounding, self.zero
        return Whitened(atoms, self.W, D, Q, np.ascontiguousarray(Q.T), self.norms[chosen], *scalars)

    def correlate(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return D Φᵀ WᵀWy of one signal, (m,)."""
        return np.asarray((self.W.T @ (self.W @ y)) @ self.Phi * self.D)


class Single(NamedTuple):
    """A whitened dictionary in float32, for learned SBL.

    W and the variances are in a unit, a power of two: 1, unless Φ is too small or large for float32.
    """

    back: NDArray[np.float64]  # (n, r), Wᵀ
    variance: NDArray[np.float32]  # (r,), diag WWᵀ: of white noise of variance 1 after W. WWᵀ is diagonal.
    Q: NDArray[np.float32]  # (r, m)
    outer: NDArray[np.float32]  # (m, r(r + 1)/2), lower triangle of qqᵀ for every atom q


@dataclass(frozen=True, eq=False)
class Form:
    """A dictionary as a method works on it: WΦD, or Φ itself where W and D are None.

    Attributes
    ----------
    W : ndarray of shape (r, n) or None
    D : ndarray of shape (m,) or None
        Coefficients of Φ are D times those of Q.
    Q : ndarray of shape (r, m)
        C-contiguous.
    """

    W: Any
    D: FloatArray | None
    Q: Any

    @classmethod
    def of(cls, Phi: Array, W: Array, D: FloatArray) -> Form:
        """Change Φ by W and D; a wide Φ only where its product is asked for."""
        return WideForm(Phi, W, D) if is_wide(Phi) else cls(W, D, np.ascontiguousarray(W @ Phi * D))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (r, m) of Q."""
        r, m = self.Q.shape
        return r, m

    @property
    def in_memory(self) -> bool:
        """Whether the dictionary is an array, and not known by its products or on another device."""
        return isinstance(self.Q, np.ndarray)

    @cached_property
    def columns(self) -> FloatArray:
        """Atoms as rows, (m, r), C-contiguous."""
        return np.require(self.Q.T, requirements=("C", "W"))

    @cached_property
    def gram(self) -> FloatArray:
        """Inner products of the atoms, (m, m); by one thread, so that they are the same for every number of them."""
        with threads(None):
            return np.asarray(self.Q.conj().T @ self.Q)

    @property
    def svd(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Thin singular value decomposition of Q, in float64."""
        Q = np.asarray(self.Q, dtype=np.float64)
        if is_wide(Q):
            U, s = left_singular(Q, full=False)
            if well_conditioned(s):  # so that V follows from U
                Vt = np.empty((len(s), Q.shape[1]))
                for some in blocks(Q):
                    Vt[:, some] = (U / s).T @ Q[:, some]
                return U, s, Vt
        U, s, Vt = np.linalg.svd(Q, full_matrices=False)
        return U, s, Vt

    @cached_property
    def back(self) -> FloatArray:
        """Wᵀ, (n, r), C-contiguous: signals are changed by Y @ Wᵀ."""
        assert self.W is not None
        return np.ascontiguousarray(self.W.T)

    def noise(self, sigma: float) -> float:
        """Return the standard deviation of the noise after W: that of its mean variance, since it is not white."""
        return sigma if self.W is None else sigma * float(np.linalg.norm(self.W)) / float(np.sqrt(self.W.shape[0]))

    @cached_property
    def variance(self) -> FloatArray:
        """Diagonal of WWᵀ, (r,)."""
        assert self.W is not None
        return np.asarray((self.W**2).sum(axis=1))

    @cached_property
    def single(self) -> Single:
        """The same in float32."""
        assert self.W is not None
        rows, columns = np.tril_indices(len(self.Q))
        packed = np.empty((self.Q.shape[1], len(rows)), dtype=np.float32)
        for some in blocks(self.Q, OUTER_AT_ONCE):
            packed[some] = self.Q[rows, some].T * self.Q[columns, some].T
        unit = beyond_single(np.abs(self.W).max())
        W = self.W / unit
        variance = (W**2).sum(axis=1).astype(np.float32)
        return Single(np.ascontiguousarray(W.T), variance, np.ascontiguousarray(self.Q, dtype=np.float32), packed)


class WideForm(Form):
    """WΦD of many atoms, which is computed only where a method needs all of it in memory."""

    def __init__(self, Phi: Array, W: Array, D: FloatArray) -> None:
        for name, value in (("Phi", Phi), ("W", W), ("D", D)):
            object.__setattr__(self, name, value)  # the class is frozen

    Phi: Any  # (n, m)

    @cached_property
    def Q(self) -> Any:
        """WΦD, (r, m)."""
        Q = np.empty(self.shape, dtype=np.result_type(self.W, self.Phi))
        for some in blocks(self.Phi):
            Q[:, some] = self.W @ self.Phi[:, some] * self.D[some]  # type: ignore[index]
        return Q

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (r, m)."""
        return len(self.W), self.Phi.shape[1]

    @property
    def in_memory(self) -> bool:
        """Whether the dictionary is an array: as its factors."""
        return True


def well_conditioned(s: FloatArray) -> bool:
    """Whether singular values are so alike that right singular vectors follow from the left ones."""
    return bool(s[-1] * ILL_CONDITIONED > s[0])


def beyond_single(sizes: Any) -> NDArray[np.float64]:
    """Return powers of two by which to divide, so that squares of numbers of these sizes fit into float32.

    They are 1 if no scaling is needed, so that ordinary signals do not change.
    """
    exponents = np.frexp(sizes)[1]
    return np.where(np.abs(exponents) > 40, np.ldexp(1.0, exponents), 1.0)
