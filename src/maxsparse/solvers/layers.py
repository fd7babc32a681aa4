"""Adaptive IHT as layers: hard thresholding with partially known supports and weights that change by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from maxsparse import theory
from maxsparse._core.validation import FloatArray, check_matrix

__all__ = ["Layer", "adaptive_layers"]

# A set of coefficients as a mask, (N, size) or (size,) for all signals, or a function of the layer's input x.
Mask = ArrayLike | Callable[[FloatArray], ArrayLike] | None


@dataclass(frozen=True)
class Layer:
    """One layer of Adaptive IHT, x ↦ H_k[Ψx + Γy; Ω_on, Ω_off].

    Attributes
    ----------
    Psi : array-like of shape (size, previous size)
    Gamma : array-like of shape (size, n)
    k : int
        Coefficients to keep outside `on` and `off`.
    on, off : mask of shape (size,) or (N, size), or a function of the layer's input, or None
    """

    Psi: ArrayLike
    Gamma: ArrayLike
    k: int
    on: Mask = None
    off: Mask = None


def adaptive_layers(Y: ArrayLike, layers: Iterable[Layer]) -> FloatArray:
    r"""Run Adaptive IHT with any sequence of layers, from x = 0.

    .. math:: x^{(t+1)} = H_{k^{(t)}}\big[\Psi^{(t)} x^{(t)} + \Gamma^{(t)} y;\,
              \Omega_{on}^{(t)}, \Omega_{off}^{(t)}\big]

    Parameters
    ----------
    Y : array-like of shape (N, n)
        Signals as rows.
    layers : iterable of Layer
        Sizes may change from layer to layer, as in the paper's existence proof.

    Returns
    -------
    X : ndarray of shape (N, size of the last layer)

    See Also
    --------
    aiht : The layers of the existence proof, compiled, for a clustered dictionary.

    Examples
    --------
    Plain IHT is one layer, repeated:

    >>> import numpy as np
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(40, 60, rng=0) / 2
    >>> X, Y = ms.signals.sample(Phi, 5, sparsity=2, rng=1)
    >>> layer = ms.solvers.Layer(np.eye(60) - Phi.T @ Phi, Phi.T, 2)
    >>> same = ms.solvers.iht(Phi, Y, sparsity=2, step=1.0, max_iter=30, tol=0.0).coef
    >>> bool(np.allclose(ms.solvers.adaptive_layers(Y, [layer] * 30), same))
    True
    """
    signals = check_matrix(Y, "Y")
    x: FloatArray | None = None
    for number, layer in enumerate(layers):
        Gamma, Psi = (
            check_matrix(layer.Gamma, f"Gamma of layer {number}"),
            check_matrix(layer.Psi, f"Psi of layer {number}"),
        )
        if Gamma.shape != (Psi.shape[0], signals.shape[1]) or (x is not None and Psi.shape[1] != x.shape[1]):
            raise ValueError(
                f"layer {number} does not fit: Psi {Psi.shape}, Gamma {Gamma.shape}, "
                f"input {None if x is None else x.shape[1]}, signals {signals.shape[1]}"
            )
        before = np.zeros((len(signals), Psi.shape[1]), dtype=signals.dtype) if x is None else x
        on, off = (mask(before) if callable(mask) else mask for mask in (layer.on, layer.off))
        x = theory.hard_threshold(before @ Psi.T + signals @ Gamma.T, layer.k, on=on, off=off)
    if x is None:
        raise ValueError("layers is empty; give at least one layer")
    return x
