"""Layers with shared weights, x ← H_k[Ψx + Γy], and the form Ψ = I − ΓΦ that keeps every x* fixed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import FloatArray, check_dictionary, check_integer, check_matrix, check_signals

__all__ = ["GeneralisedIhtLayer", "generalised_iht_layer", "hard_threshold"]


def hard_threshold(X: ArrayLike, k: int, *, on: ArrayLike | None = None, off: ArrayLike | None = None) -> FloatArray:
    r"""Hard threshold with partially known support, :math:`H_k[x;\, \Omega_{on}, \Omega_{off}]`.

    Parameters
    ----------
    X : array-like of shape (N, m)
        Vectors as rows.
    k : int
        Number of largest magnitudes outside Ω_on and Ω_off to keep; among equal ones, the lower indices.
    on : array-like of bool, shape (m,) or (N, m), or None
        Entries that are always kept.
    off : array-like of bool, shape (m,) or (N, m), or None
        Entries that are always set to zero.

    Returns
    -------
    thresholded : ndarray of shape (N, m)

    Examples
    --------
    >>> import maxsparse as ms
    >>> ms.theory.hard_threshold([[5.0, -4.0, 3.0, 1.0]], 1, on=[0, 0, 0, 1], off=[1, 0, 0, 0]).tolist()
    [[0.0, -4.0, 0.0, 1.0]]
    """
    rows = check_matrix(X, "X")
    k = check_integer(k, "k")
    keep, zero = _mask(on, rows.shape, "on"), _mask(off, rows.shape, "off")
    if (keep & zero).any():
        raise ValueError("on and off overlap: an entry cannot be both kept and set to zero")
    magnitude = np.where(keep | zero, -1.0, np.abs(rows))
    order = np.argsort(-magnitude, axis=1, kind="stable")[:, :k]
    chosen = keep.copy()
    np.put_along_axis(chosen, order, True, axis=1)
    return np.where(chosen & ~zero, rows, rows.dtype.type(0))


@dataclass(frozen=True, eq=False)
class GeneralisedIhtLayer:
    r"""One layer :math:`x^{(t+1)} = H_k[\Psi x^{(t)} + \Gamma y]`; call it with rows of X and Y.

    Attributes
    ----------
    Psi : ndarray of shape (m, m)
    Gamma : ndarray of shape (m, n)
    sparsity : int
    D : ndarray of shape (m,)
        Scales: the layer works on :math:`D^{-1}x`; ones without a preconditioner.
    """

    Psi: FloatArray
    Gamma: FloatArray
    sparsity: int
    D: FloatArray

    def __call__(self, X: ArrayLike, Y: ArrayLike) -> FloatArray:
        """Apply the layer to signals X (N, m) with measurements Y (N, n); both and the answer in the scale of Φ."""
        signals = check_matrix(X, "X")
        measured = check_signals(Y, (self.Gamma.shape[1], self.Gamma.shape[0]))
        if signals.shape != (len(measured), len(self.Psi)):
            raise ValueError(f"X must have shape {(len(measured), len(self.Psi))} for these Y, got {signals.shape}")
        return hard_threshold(signals / self.D @ self.Psi.T + measured @ self.Gamma.T, self.sparsity) * self.D

    def iterate(self, Y: ArrayLike, layers: int) -> list[FloatArray]:
        """Run from x = 0 through that many layers; return the signals (N, m) after 0, 1, …, layers of them."""
        measured = check_signals(Y, (self.Gamma.shape[1], self.Gamma.shape[0]))
        path = [np.zeros((measured.shape[0], self.Psi.shape[0]), dtype=measured.dtype)]
        for _ in range(check_integer(layers, "layers")):
            path.append(self(path[-1], measured))
        return path


def generalised_iht_layer(
    Phi: ArrayLike,
    sparsity: int,
    *,
    Gamma: ArrayLike | None = None,
    Psi: ArrayLike | None = None,
    precondition: tuple[ArrayLike, ArrayLike] | None = None,
) -> GeneralisedIhtLayer:
    r"""Build the layer of the paper's Section 3, which IHT repeats with shared weights.

    .. math:: x^{(t+1)} = H_k\big[\Psi x^{(t)} + \Gamma y\big], \qquad \Psi = I - \Gamma\Phi

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary.
    sparsity : int
        Number k of entries that :math:`H_k` keeps.
    Gamma : array-like of shape (m, n) or None, default=None
        Γ; None is :math:`\Phi^\top`, which gives IHT with step 1.
    Psi : array-like of shape (m, m) or None, default=None
        Ψ; None is :math:`I - \Gamma\Phi`. With any other choice some x* is not a fixed point: the proposition below.
    precondition : (W, D) or None, default=None
        Instead of Γ: the layer of the second proposition, :math:`\Gamma = D\Phi^\top W^\top W` on the dictionary ΦD.

    Returns
    -------
    layer : GeneralisedIhtLayer
        ``layer(X, Y)`` is one iteration, ``layer.iterate(Y, t)`` runs t of them from zero.

    Notes
    -----
    Proposition "constrained IHT layer": for every x* with at most k nonzeros to be a fixed point, Ψ must be
    :math:`I - \Gamma\Phi`. Proposition "constant layer improvement": with :math:`\delta_{3k}[W\Phi D] < 1/\sqrt{32}`,
    :math:`\|D^{-1}(x^{(t)} - x^*)\|_2 \le 2^{-t}\|D^{-1}x^*\|_2`. The paper prints :math:`WW^\top` in Γ, which fits
    its objective :math:`\|Wy - W\Phi Dx\|^2` only if W is symmetric: :math:`W^\top W` is meant.

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.decaying(20, 100, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 50, sparsity=3, rng=1)
    >>> layer = ms.theory.generalised_iht_layer(Phi, 3)
    >>> bool(np.allclose(layer(X, Y), X))
    True
    """
    matrix = check_dictionary(Phi)
    n, m = matrix.shape
    sparsity = check_integer(sparsity, "sparsity", low=0, high=m)
    D: FloatArray = np.ones(m, dtype=matrix.dtype)
    gain: FloatArray
    if precondition is not None:
        if Gamma is not None:
            raise ValueError("give Gamma or precondition, not both: (W, D) sets Γ = DΦᵀWᵀW")
        W = check_matrix(precondition[0], "W of precondition")
        D = np.asarray(precondition[1], dtype=matrix.dtype)
        if W.shape[1] != n or D.shape != (m,):
            raise ValueError(f"W and D of precondition must be (·, {n}) and ({m},), got {W.shape} and {D.shape}")
        matrix = matrix * D
        gain = matrix.T @ W.T @ W
    else:
        gain = matrix.T if Gamma is None else _shaped(Gamma, "Gamma", (m, n))
    filters = np.eye(m, dtype=matrix.dtype) - gain @ matrix if Psi is None else _shaped(Psi, "Psi", (m, m))
    return GeneralisedIhtLayer(filters, gain, sparsity, D)


def _shaped(array: ArrayLike, name: str, shape: tuple[int, int]) -> FloatArray:
    matrix = check_matrix(array, name)
    if matrix.shape != shape:
        hint = f"; it fits transposed, pass {name}.T" if matrix.shape == shape[::-1] else ""
        raise ValueError(f"{name} must have shape {shape}, got {matrix.shape}{hint}")
    return matrix


def _mask(mask: ArrayLike | None, shape: tuple[int, ...], name: str) -> NDArray[np.bool_]:
    if mask is None:
        return np.zeros(shape, dtype=bool)
    try:
        return np.broadcast_to(np.asarray(mask, dtype=bool), shape)
    except ValueError as error:
        raise ValueError(f"{name} must have shape {shape[1:]} or {shape}, got {np.shape(mask)}") from error
