"""The steps around a solver where Φ is an operator or lies on a device: check, split, run, return the result.

The counterpart of :func:`maxsparse.solvers._contract.run`, which is for matrices in memory. Batches hold a
:class:`maxsparse._core.products.Products` in place of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maxsparse._core.prepared import Form
from maxsparse._core.products import MatrixOnDevice, Products, is_elsewhere, is_operator, is_tensor, products_of
from maxsparse._core.progress import track
from maxsparse._core.registry import SOLVERS
from maxsparse._core.structure import Structure
from maxsparse._core.validation import check_array, check_integer, check_number, check_range, check_width
from maxsparse.result import Result

__all__ = ["on_cpu", "run_by_products", "takes_products"]

ENTRIES = 2**23  # of the coefficients that are worked on at a time


def takes_products(Phi: Any, Y: Any) -> bool:
    """Whether Φ is an operator, or Φ or Y lies on a device that compiled kernels do not reach."""
    return is_operator(Phi) or is_elsewhere(Phi) or is_elsewhere(Y)


def on_cpu(solve: Callable[[Any, Any], Result], Phi: Any, Y: Any) -> Result:
    """Solve for tensors of the CPU as for arrays, which share their memory; the answer holds tensors."""
    import torch

    arrays = {"Phi": (Phi, (2,)), "Y": (Y, (2, 3))}
    checked = [check_array(a, name, dimensions=d) if is_tensor(a) else a for name, (a, d) in arrays.items()]
    return solve(*checked).moved(torch.from_numpy)


def run_by_products(
    method: str, Phi: Any, Y: Any, solve_batch: Callable[[Any], Any], options: Any, batch_type: Any, keep: int | None
) -> Result:
    """Solve for every row of Y; see :func:`maxsparse.solvers._contract.run`."""
    SOLVERS.require(method, "operators" if is_operator(Phi) else "devices")
    dictionary, signals = _on_device(Phi, Y) if not is_operator(Phi) else _with_operator(method, Phi, Y)
    xp, (n, m), N = dictionary.xp, dictionary.shape, len(signals)
    _refuse(method, options, "an operator" if is_operator(Phi) else "a dictionary on a device")
    noise = check_number(options.noise, "noise", low=0.0)
    if keep is not None:
        keep = check_integer(keep, "sparsity", low=0, high=min(n, m))
    complex_too = xp.is_complex(signals) if is_tensor(signals) else np.iscomplexobj(signals)
    structure = Structure((n, m), complex=bool(complex_too))
    coef = dictionary.zeros(N, m)
    iterations, converged = dictionary.zeros(N, dtype=xp.int64), dictionary.zeros(N, dtype=xp.bool)
    residual = abs(dictionary.zeros(N))
    size = N if options.callback is not None else dictionary.rows or max(1, ENTRIES // (m + n))
    for start in track(range(0, N, max(1, size)), method, options.progress):
        rows = slice(start, start + size)
        part = batch_type(
            Form(None, None, dictionary), signals[rows], coef[rows], rows, noise, options.callback, structure,
            lambda X, rows: X,
        )  # fmt: skip
        iterations[rows], converged[rows] = solve_batch(part)
        if keep is not None:
            _keep_largest(dictionary, signals[rows], coef[rows], keep)
        residual[rows] = xp.linalg.norm(signals[rows] - dictionary.image(coef[rows]), axis=1)
    return Result(coef, residual, iterations, converged, dictionary.zeros(N, dtype=xp.bool), method)


def _with_operator(method: str, Phi: Any, Y: Any) -> tuple[Products, Any]:
    """Check signals and an operator, and bring both to one dtype."""
    if is_tensor(Y):
        raise ValueError("Phi is an operator of numpy arrays, but Y is a tensor; pass Y.numpy()")
    products = products_of(Phi)
    signals = check_array(Y, "Y", dimensions=(2, 3))
    if signals.ndim == 3:
        raise ValueError("Y of shape (N, L, n), several snapshots per signal, needs a matrix; Phi is an operator")
    check_width((len(signals), signals.shape[1]), products.shape)
    check_range(signals, "Y", "signal")
    dtype = np.result_type(products.dtype, signals)
    if np.issubdtype(dtype, np.complexfloating):
        SOLVERS.require(method, "complex")
    return products_of(products, dtype), np.require(signals, dtype, ("C", "W"))


def _on_device(Phi: Any, Y: Any) -> tuple[Products, Any]:
    """Check tensors, and bring both to one dtype and to the device of the tensor that is given."""
    import torch

    device = Y.device if is_tensor(Y) else Phi.device
    if is_tensor(Phi) and is_tensor(Y) and Phi.device != Y.device:
        raise ValueError(f"Phi is on {Phi.device} and Y on {Y.device}; move one: Y.to(Phi.device)")
    tensors = []
    for array, name in ((Phi, "Phi"), (Y, "Y")):
        if is_tensor(array) and array.requires_grad:
            raise ValueError(f"{name} requires a gradient, which methods do not pass on; pass {name}.detach()")
        tensor = array if is_tensor(array) else torch.as_tensor(check_array(array, name), device=device)
        if tensor.ndim != 2:
            raise ValueError(f"{name} must be 2-D, got shape {tuple(tensor.shape)}")
        if not (tensor.is_floating_point() or tensor.is_complex()):
            tensor = tensor.to(torch.float64)
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{name} holds NaN or Inf; remove or fill such values")
        tensors.append(tensor)
    dictionary, signals = tensors
    check_width(tuple(signals.shape), tuple(dictionary.shape))
    dtype = torch.promote_types(dictionary.dtype, signals.dtype)
    return MatrixOnDevice(dictionary.to(dtype)), signals.to(dtype)


def _refuse(method: str, options: Any, what: str) -> None:
    """Raise an error for options that need a matrix in memory."""
    if options.precondition is not None and options.precondition is not False:
        raise ValueError(f"precondition= needs a matrix; Phi is {what}: omit it")
    if isinstance(options.noise, str):
        raise ValueError(f"noise={options.noise!r} needs a matrix; Phi is {what}: give noise= as a number")
    if options.positive or options.groups is not None:
        which = "positive" if options.positive else "groups"
        raise ValueError(f"{which}= of method {method!r} needs a matrix; Phi is {what}: omit it, or pass a matrix")


def _keep_largest(Phi: Products, Y: Any, X: Any, k: int) -> None:
    """Keep the k largest coefficients of every row and refit them by least squares, in place."""
    for y, x in zip(Y, X, strict=True):
        chosen = Phi.xp.argsort(-abs(x), stable=True)[:k]
        chosen = chosen[abs(x[chosen]) > 0]  # never activate atoms that the solver did not select
        x[:] = 0
        if len(chosen):
            x[chosen] = Phi.xp.linalg.lstsq(Phi.atoms(chosen).T, y[:, None], rcond=None)[0][:, 0]
