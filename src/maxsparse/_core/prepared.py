r"""Φ prepared once: checked, copied, and everything computed from it, on first use.

:math:`y = \Phi x` becomes :math:`Wy = (W\Phi D)(D^{-1}x)`, with the same support. A :class:`Form` is one such change; a
:class:`Prepared` keeps those in use. This is the only place that whitens: solvers, networks, recovery and export take
their matrices from here.

Everything here is for white noise of one size. Noise of unequal sizes or with a covariance :math:`C = LL^\top` comes
down to it by :math:`L^{-1}\Phi` and :math:`L^{-1}y`. Φ may be complex, except for recovery.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.cosines import coherence_sums, column_norms, cosines
from maxsparse._core.threads import threads
from maxsparse._core.validation import Array, FloatArray, check_dictionary, check_matrix

__all__ = ["LEVELS", "Form", "Prepared", "Single", "Whitened", "level_of", "noise_levels", "whiten"]

LEVELS = range(-30, 4)  # of noise relative to the signal, as powers of two
LEAST_SIGNAL = 0.01  # of the noise's power: what a signal has at least, however little of y noise leaves to it
STORED_TOLERANCE = 1e-2  # of WΦ(WΦ)ᵀ = I, for a preconditioner from a file: it may be of another Φ by now
FORMS_KEPT = 5  # levels of noise in use at once; more are computed again
ILL_CONDITIONED = 1e4  # ratio of singular values
MOST_COSINES = 4e10  # n·m², some seconds of work
WIDE = 5_000  # atoms of a dictionary that is copied as seldom as possible
ATOMS_AT_ONCE, OUTER_AT_ONCE = 1_000, 100  # atoms that are changed, and whose outer products are made, at a time


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
        """Change Φ by W and D."""
        if Phi.shape[1] <= WIDE:
            return cls(W, D, np.ascontiguousarray(W @ Phi * D))
        Q = np.empty((len(W), Phi.shape[1]), dtype=np.result_type(W, Phi))
        for some in _blocks(Phi):
            Q[:, some] = W @ Phi[:, some] * D[some]
        return cls(W, D, Q)

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
        if Q.shape[1] > WIDE:
            U, s = _left_singular(Q, full=False)
            if s[-1] * ILL_CONDITIONED > s[0]:  # so that V follows from U
                Vt = np.empty((len(s), Q.shape[1]))
                for some in _blocks(Q):
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
        for some in _blocks(self.Q, OUTER_AT_ONCE):
            packed[some] = self.Q[rows, some].T * self.Q[columns, some].T
        unit = beyond_single(np.abs(self.W).max())
        W = self.W / unit
        variance = (W**2).sum(axis=1).astype(np.float32)
        return Single(np.ascontiguousarray(W.T), variance, np.ascontiguousarray(self.Q, dtype=np.float32), packed)


class Prepared:
    """One dictionary and what is computed from it.

    Parameters
    ----------
    Phi : ndarray of shape (n, m)
        Checked, C-contiguous, and not to be changed by anybody; :meth:`of` checks and copies.
    preconditioner : (W, D) or None, default=None
        Used instead of whitening, without noise: from a model file, so that its answers stay bitwise identical.
    start : ndarray of shape (B + 1,), int, or None, default=None
        Atoms start[b] to start[b + 1] come and go together; None for single atoms.

    Examples
    --------
    >>> import maxsparse as ms
    >>> from maxsparse._core.prepared import Prepared
    >>> prepared = Prepared.of(ms.dictionaries.gaussian(20, 100, rng=0))
    >>> prepared.form().Q.shape, prepared.form() is prepared.form()
    ((20, 100), True)
    """

    def __init__(
        self,
        Phi: Any,
        preconditioner: tuple[FloatArray, FloatArray] | None = None,
        start: NDArray[np.int64] | None = None,
    ) -> None:
        self.Phi: FloatArray = Phi
        self.start = start
        self.shared = False  # whether Φ is the caller's array, and not a copy
        self.dtype: Any = Phi.dtype  # of the caller's Φ
        self.preconditioner = preconditioner
        self._forms: dict[int | None, Form] = {}
        self._problems: dict[float, Whitened] = {}
        self._changed: dict[bytes, Prepared] = {}

    @classmethod
    def of(cls, Phi: ArrayLike | Prepared, preconditioner: tuple[FloatArray, FloatArray] | None = None) -> Prepared:
        """Check Φ and prepare a float64 copy of it; what is prepared already is returned as it is."""
        if isinstance(Phi, Prepared):
            return Phi
        checked = check_dictionary(Phi)
        shared = checked.dtype == np.float64 and checked.shape[1] > WIDE  # with the caller: `columns` are the copy then
        prepared = cls(checked if shared else np.array(checked, dtype=np.float64, order="C"), preconditioner)
        prepared.dtype, prepared.shared = checked.dtype, shared
        if shared:
            _ = prepared.plain.columns
        return prepared

    def matches(self, Phi: Any, preconditioner: Any) -> bool:
        """Whether it was made from the current contents of `Phi`, which may have been changed in place."""
        matrix = check_matrix(Phi, "Phi")
        if preconditioner is not self.preconditioner or matrix.dtype != self.dtype or matrix.shape != self.shape:
            return False
        if not self.shared:
            return np.array_equal(matrix, self.Phi)
        return all(np.array_equal(matrix[:, some].T, self.plain.columns[some]) for some in _blocks(matrix))

    def changed(self, L: NDArray[np.float64]) -> Prepared:
        """Return LΦ prepared, for signals Ly: how noise that is not white comes down to white noise."""
        key = L.tobytes()
        if key not in self._changed:
            self._changed.clear()  # one noise at a time
            self._changed[key] = Prepared(np.ascontiguousarray(L @ self.Phi))
        return self._changed[key]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, m) of Φ."""
        n, m = self.Phi.shape
        return n, m

    @property
    def given(self) -> FloatArray:
        """Φ in the dtype in which it came."""
        return self.Phi.astype(self.dtype, copy=False)

    @cached_property
    def plain(self) -> Form:
        """Φ as it is."""
        return Form(None, None, self.Phi)

    def form(self, level: int | None = None) -> Form:
        """Whiten Φ for noise of 2^level relative to the signal, for no noise by default."""
        if level not in self._forms:
            if len(self._forms) >= FORMS_KEPT:
                self._forms.clear()
            stored = self._stored_form() if level is None else None
            pair = () if stored else whiten(self.Phi, 0.0 if level is None else 2.0**level, self.start)
            self._forms[level] = stored or Form.of(self.Phi, *pair)
        return self._forms[level]

    def _stored_form(self) -> Form | None:
        """Return the form of the given preconditioner, if it whitens this Φ."""
        if self.preconditioner is None or self.preconditioner[0].shape[1] != self.shape[0]:
            return None
        W, D = self.preconditioner
        whitened = W @ self.Phi
        right = np.allclose(whitened @ whitened.T, np.eye(len(W)), atol=STORED_TOLERANCE)
        right = right and np.allclose(np.linalg.norm(whitened, axis=0) * D, 1.0, atol=STORED_TOLERANCE)
        return Form.of(self.Phi, W, D) if right else None

    def cosines(self) -> FloatArray:
        """Return |cosines| between atoms with a zero diagonal, (m, m)."""
        return cosines(self.Phi)

    @cached_property
    def norms(self) -> FloatArray:
        """Norms of the atoms, (m,)."""
        return column_norms(self.Phi)

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        """Smallest singular value of Φ on its range, and the ratio of the largest to it."""
        W = self.form().W
        assert W is not None
        weakest = float(1.0 / np.linalg.norm(W, 2))
        wide = self.shape[1] > WIDE
        largest = np.sqrt(np.linalg.norm(self.Phi @ self.Phi.T, 2)) if wide else np.linalg.norm(self.Phi, 2)
        return weakest, float(largest) / weakest

    def problem(self, rounding: float | None = None) -> Whitened:
        """Lay Φ out for the kernels of recovery; `rounding` is the relative rounding of the data, by default Φ's."""
        rounding = float(np.finfo(self.dtype).eps) if rounding is None else rounding
        if rounding not in self._problems:
            form, (weakest, condition) = self.form(), self._extremes
            assert form.W is not None
            assert form.D is not None
            zero = max(1e-8, 64.0 * rounding * condition)  # whitening multiplies rounding errors by the condition
            arrays = (self.plain.columns, form.W, form.D, form.Q, form.columns, self.norms)
            self._problems[rounding] = Whitened(*arrays, weakest, rounding, zero)
        return self._problems[rounding]

    @cached_property
    def spark(self) -> int:
        """Lower bound of the spark: any fewer atoms are independent.

        If μ₁(k − 1) < 1, any k atoms are independent (Tropp 2004). Whitening changes no dependence, so its coherence
        may be used as well, and is usually smaller. Of more than `MOST_COSINES` this is not tried.
        """
        n, m = self.shape
        best = 2
        for matrix in (self.Phi, self.form().Q) if m > 1 and n * m * m <= MOST_COSINES else ():
            sums = coherence_sums(matrix, min(n, m - 1))
            independent = 1 + int(np.count_nonzero(sums < 1.0 - 1e-9))
            best = max(best, min(independent, n) + 1)
        return best


def whiten(Phi: Any, noise: float = 0.0, start: NDArray[np.int64] | None = None) -> tuple[FloatArray, FloatArray]:
    r"""Return W (r, n) and D (m,) for a checked Φ: :math:`W = (\Phi\Phi^\top + \lambda I)^{-1/2}`, up to a rotation.

    See :func:`maxsparse.theory.precondition`. One number of D serves all atoms start[b] to start[b + 1] of a group.
    """
    U, sigma = _left_singular(Phi, full=noise > 0)
    if noise == 0:
        kept = sigma > max(Phi.shape) * np.finfo(Phi.dtype).eps * sigma[0]
        W = (U[:, kept] / sigma[kept]).conj().T
    else:
        eigenvalues = np.zeros(U.shape[0], dtype=sigma.dtype)
        eigenvalues[: sigma.size] = sigma**2
        regularisation = noise**2 * eigenvalues.sum() / Phi.shape[0]
        W = (U / np.sqrt(eigenvalues + regularisation)).conj().T
    norms = np.linalg.norm(W @ Phi, axis=0) if Phi.shape[1] <= WIDE else _changed_norms(W, Phi)
    lost = np.flatnonzero(~(norms > np.finfo(Phi.dtype).tiny))
    if lost.size:
        raise ValueError(
            f"atom {lost[0]} is too short relative to the others to be whitened; scale the atoms of Phi to norm 1"
        )
    if start is not None:  # a number for every group keeps the shapes inside the groups
        sizes = np.diff(start)
        norms = np.repeat(np.sqrt(np.add.reduceat(norms**2, start[:-1]) / sizes), sizes)
    return np.ascontiguousarray(W, dtype=Phi.dtype), (1.0 / norms).astype(sigma.dtype)


def _left_singular(Phi: Any, *, full: bool) -> tuple[Any, Any]:
    """Return left singular vectors and singular values of Φ; of a wide Φ by way of Φᵀ = QR, without Q."""
    if Phi.shape[1] > max(WIDE, len(Phi)):
        R: Any = np.linalg.qr(Phi.T, mode="r")
        U, sigma, _ = np.linalg.svd(R.T)
        return U, sigma
    U, sigma, _ = np.linalg.svd(Phi, full_matrices=full)
    return U, sigma


def _changed_norms(W: Any, Phi: Any) -> Any:
    """Return the norms of the atoms of WΦ, (m,), without that matrix."""
    return np.concatenate([np.linalg.norm(W @ Phi[:, some], axis=0) for some in _blocks(Phi)])


def _blocks(Phi: Any, size: int = ATOMS_AT_ONCE) -> list[slice]:
    """Return slices of the atoms."""
    return [slice(first, first + size) for first in range(0, Phi.shape[1], size)]


def level_of(ratio: Any) -> NDArray[np.int64]:
    """Round noise relative to the signal to a power of two; return its exponent, one of `LEVELS`."""
    return np.asarray(np.clip(np.rint(np.log2(ratio)), LEVELS.start, LEVELS.stop - 1), dtype=np.int64)


def noise_levels(Y: Array, noise: Any) -> list[tuple[int | None, NDArray[np.intp]]]:
    """Group signals by their noise, one σ or one each, relative to their size, rounded to powers of two.

    So a signal's answer does not depend on its batch, and few preconditioners are needed. None is for no noise.
    """
    if len(Y) == 0:
        return [(None, np.arange(0))]
    sigma = np.broadcast_to(np.asarray(noise, dtype=np.float64), len(Y))
    rows = np.reshape(Y, (len(Y), -1))
    squares = np.asarray(rows, dtype=np.float64) ** 2 if np.isrealobj(rows) else np.abs(rows) ** 2
    noisy = np.flatnonzero(sigma > 0)
    own = sigma[noisy]
    power = np.mean(squares[noisy], axis=1) - own**2  # of the signal without its noise
    level = level_of(own / np.sqrt(np.maximum(power, LEAST_SIGNAL * own**2)))
    groups: list[tuple[int | None, NDArray[np.intp]]] = [(int(v), noisy[level == v]) for v in np.unique(level)]
    exact = np.flatnonzero(sigma == 0)
    return [(None, exact), *groups] if len(exact) or not groups else groups


def beyond_single(sizes: Any) -> NDArray[np.float64]:
    """Return powers of two by which to divide, so that squares of numbers of these sizes fit into float32.

    They are 1 if no scaling is needed, so that ordinary signals do not change.
    """
    exponents = np.frexp(sizes)[1]
    return np.where(np.abs(exponents) > 40, np.ldexp(1.0, exponents), 1.0)
