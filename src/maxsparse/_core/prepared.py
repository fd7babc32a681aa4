r"""Φ prepared once: checked, copied, and everything computed from it, on first use.

:math:`y = \Phi x` becomes :math:`Wy = (W\Phi D)(D^{-1}x)`, with the same support. A :class:`Form` is one such change; a
:class:`Prepared` keeps those in use. This is the only place that whitens: solvers, networks, recovery and export take
their matrices from here.

Everything here is for white noise of one size. Noise of unequal sizes or with a covariance :math:`C = LL^\top` comes
down to it by :math:`L^{-1}\Phi` and :math:`L^{-1}y`. Φ may be complex, except for recovery.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.blocks import changed_norms, fingerprint, is_wide, left_singular
from maxsparse._core.cosines import coherence_sums, column_norms, cosines
from maxsparse._core.forms import Form, Single, Whitened, WideForm, WideWhitened, beyond_single
from maxsparse._core.linalg import residual_norms, wide_residual_norms
from maxsparse._core.unit_atoms import UnitAtoms
from maxsparse._core.validation import Array, FloatArray, check_dictionary, check_matrix

__all__ = [
    "LEVELS",
    "Form",
    "Prepared",
    "Single",
    "Whitened",
    "WideForm",
    "WideWhitened",
    "beyond_single",
    "level_of",
    "noise_levels",
    "whiten",
]

LEVELS = range(-30, 4)  # of noise relative to the signal, as powers of two
LEAST_SIGNAL = 0.01  # of the noise's power: what a signal has at least, however little of y noise leaves to it
STORED_TOLERANCE = 1e-2  # of WΦ(WΦ)ᵀ = I, for a preconditioner from a file: it may be of another Φ by now
FORMS_KEPT = 5  # levels of noise in use at once; more are computed again
MOST_COSINES = 4e10  # n·m², some seconds of work


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
        self._fingerprint = b""  # of a Φ that is shared
        self._problems: dict[float, Whitened | WideWhitened] = {}
        self._changed: dict[bytes, Prepared] = {}

    @classmethod
    def of(cls, Phi: ArrayLike | Prepared, preconditioner: tuple[FloatArray, FloatArray] | None = None) -> Prepared:
        """Check Φ and prepare a float64 copy of it; what is prepared already is returned as it is."""
        if isinstance(Phi, Prepared):
            return Phi
        checked = check_dictionary(Phi)
        shared = checked.dtype == np.float64 and is_wide(checked)  # with the caller
        prepared = cls(checked if shared else np.array(checked, dtype=np.float64, order="C"), preconditioner)
        prepared.dtype, prepared.shared = checked.dtype, shared
        if shared:
            prepared._fingerprint = fingerprint(checked)
        return prepared

    def matches(self, Phi: Any, preconditioner: Any) -> bool:
        """Whether it was made from the current contents of `Phi`, which may have been changed in place."""
        matrix = check_matrix(Phi, "Phi")
        if preconditioner is not self.preconditioner or matrix.dtype != self.dtype or matrix.shape != self.shape:
            return False
        if not self.shared:
            return np.array_equal(matrix, self.Phi)
        return fingerprint(matrix) == self._fingerprint

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
        if is_wide(self.Phi):
            outer, norms = W @ (self.Phi @ self.Phi.T) @ W.T, changed_norms(W, self.Phi)
        else:
            whitened = W @ self.Phi
            outer, norms = whitened @ whitened.T, np.linalg.norm(whitened, axis=0)
        right = np.allclose(outer, np.eye(len(W)), atol=STORED_TOLERANCE)
        right = right and np.allclose(norms * D, 1.0, atol=STORED_TOLERANCE)
        return Form.of(self.Phi, W, D) if right else None

    def cosines(self) -> FloatArray:
        """Return |cosines| between atoms with a zero diagonal, (m, m)."""
        return cosines(self.Phi)

    @cached_property
    def norms(self) -> FloatArray:
        """Norms of the atoms, (m,)."""
        return column_norms(self.Phi)

    @cached_property
    def unit(self) -> UnitAtoms:
        """The atoms scaled to norm 1; of a wide Φ they are not in memory."""
        return UnitAtoms(self.Phi, self.norms) if is_wide(self.Phi) else UnitAtoms(self.Phi / self.norms)

    def atoms(self, chosen: NDArray[np.intp]) -> FloatArray:
        """Return some atoms as rows, (k, n), C-contiguous."""
        return np.ascontiguousarray(np.take(self.Phi, chosen, axis=1).T)

    def residual_norms(self, Y: FloatArray, X: FloatArray) -> FloatArray:
        """Return ‖y − Φx‖₂ for every row; a wide Φ is not copied for it."""
        if is_wide(self.Phi):
            return wide_residual_norms(Y, self.Phi, X)
        return residual_norms(Y, self.plain.columns, X)

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        """Smallest singular value of Φ on its range, and the ratio of the largest to it."""
        W = self.form().W
        assert W is not None
        weakest = float(1.0 / np.linalg.norm(W, 2))
        wide = is_wide(self.Phi)
        largest = np.sqrt(np.linalg.norm(self.Phi @ self.Phi.T, 2)) if wide else np.linalg.norm(self.Phi, 2)
        return weakest, float(largest) / weakest

    def problem(self, rounding: float | None = None) -> Any:
        """Lay Φ out for the kernels of recovery; `rounding` is the relative rounding of the data, by default Φ's.

        Returns
        -------
        problem : Whitened, or WideWhitened of many atoms
        """
        rounding = float(np.finfo(self.dtype).eps) if rounding is None else rounding
        if rounding not in self._problems:
            form, (weakest, condition) = self.form(), self._extremes
            assert form.W is not None
            assert form.D is not None
            zero = max(1e-8, 64.0 * rounding * condition)  # whitening multiplies rounding errors by the condition
            if isinstance(form, WideForm):
                parts = self.Phi, form.W, form.D, self.norms
                self._problems[rounding] = WideWhitened(*parts, weakest, rounding, zero)
            else:
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
        if m < 2 or n * m * m > MOST_COSINES:
            return 2
        form = self.form()
        if isinstance(form, WideForm) and form.D is not None:
            whitened = coherence_sums(self.Phi, min(n, m - 1), changes=(form.W, form.D))
        else:
            whitened = coherence_sums(form.Q, min(n, m - 1))
        best = 2
        for sums in (coherence_sums(self.Phi, min(n, m - 1)), whitened):
            independent = 1 + int(np.count_nonzero(sums < 1.0 - 1e-9))
            best = max(best, min(independent, n) + 1)
        return best


def whiten(Phi: Any, noise: float = 0.0, start: NDArray[np.int64] | None = None) -> tuple[FloatArray, FloatArray]:
    r"""Return W (r, n) and D (m,) for a checked Φ: :math:`W = (\Phi\Phi^\top + \lambda I)^{-1/2}`, up to a rotation.

    See :func:`maxsparse.theory.precondition`. One number of D serves all atoms start[b] to start[b + 1] of a group.
    """
    U, sigma = left_singular(Phi, full=noise > 0)
    if noise == 0:
        kept = sigma > max(Phi.shape) * np.finfo(Phi.dtype).eps * sigma[0]
        W = (U[:, kept] / sigma[kept]).conj().T
    else:
        eigenvalues = np.zeros(U.shape[0], dtype=sigma.dtype)
        eigenvalues[: sigma.size] = sigma**2
        regularisation = noise**2 * eigenvalues.sum() / Phi.shape[0]
        W = (U / np.sqrt(eigenvalues + regularisation)).conj().T
    norms = np.linalg.norm(W @ Phi, axis=0) if not is_wide(Phi) else changed_norms(W, Phi)
    lost = np.flatnonzero(~(norms > np.finfo(Phi.dtype).tiny))
    if lost.size:
        raise ValueError(
            f"atom {lost[0]} is too short relative to the others to be whitened; scale the atoms of Phi to norm 1"
        )
    if start is not None:  # a number for every group keeps the shapes inside the groups
        sizes = np.diff(start)
        norms = np.repeat(np.sqrt(np.add.reduceat(norms**2, start[:-1]) / sizes), sizes)
    return np.ascontiguousarray(W, dtype=Phi.dtype), (1.0 / norms).astype(sigma.dtype)


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
