"""What a dictionary may be besides a matrix in memory: an operator, or a tensor on its device.

A matrix goes to the compiled kernels, a tensor of the CPU too. Everything else is a :class:`Products`: a Φ that can be
multiplied with, and whose atoms can be looked up. Methods that need no more than that take it; the others name those
that do.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, svds

__all__ = [
    "MatrixOnDevice",
    "Operator",
    "Products",
    "as_numpy",
    "is_elsewhere",
    "is_operator",
    "is_tensor",
    "products_of",
]

ADJOINT_TOLERANCE = 1e-3  # of ⟨Φx, r⟩ = ⟨x, Φᴴr⟩, relative; a wrong adjoint is off by about 1
NORM_MARGIN = 1e-6  # by which the norm may be too small
COMPILED = "cpu"  # device whose tensors go to the compiled kernels, which are faster there


class Products(Protocol):
    """A dictionary Φ (n, m) by its products; rows are signals, as everywhere."""

    shape: tuple[int, int]
    dtype: Any
    xp: Any  # numpy or torch
    rows: int | None  # signals at a time, None for as many as memory allows

    def correlate(self, R: Any) -> Any:
        """Return Φᴴr for every row, (N, m)."""

    def image(self, X: Any) -> Any:
        """Return Φx for every row, (N, n)."""

    def atoms(self, numbers: Any) -> Any:
        """Return some atoms as rows, (K, n)."""

    def zeros(self, *shape: int, dtype: Any = None) -> Any:
        """Return zeros where Φ is."""

    def array(self, values: Any) -> Any:
        """Return numbers where Φ is."""

    @property
    def norm(self) -> float:
        """‖Φ‖₂, not smaller."""


class Operator:
    """A ``scipy.sparse.linalg.LinearOperator`` (pylops operators are such) as Φ.

    Signals are handled one by one, so that an answer does not depend on its batch, whatever the operator does with
    several columns.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse.linalg import aslinearoperator
    >>> from maxsparse._core.products import Operator
    >>> Phi = Operator(aslinearoperator(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]])))
    >>> Phi.correlate(np.ones((1, 2))), Phi.atoms([2])
    (array([[1., 1., 3.]]), array([[2., 1.]]))
    """

    xp: Any = np
    rows: int | None = 1

    def __init__(self, operator: Any, dtype: Any = None) -> None:
        self.operator = operator
        self.shape: tuple[int, int] = (int(operator.shape[0]), int(operator.shape[1]))
        self.dtype = np.result_type(np.float32, operator.dtype or np.float64) if dtype is None else np.dtype(dtype)

    def correlate(self, R: NDArray[Any]) -> NDArray[Any]:
        """Return Φᴴr for every row, (N, m)."""
        return self._each(self.operator.rmatvec, R, self.shape[1])

    def image(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return Φx for every row, (N, n)."""
        return self._each(self.operator.matvec, X, self.shape[0])

    def _each(self, product: Any, rows: NDArray[Any], width: int) -> NDArray[Any]:
        out = np.empty((len(rows), width), dtype=self.dtype)
        for i, row in enumerate(rows):
            out[i] = np.asarray(product(row)).reshape(-1)
        return out

    def atoms(self, numbers: Any) -> NDArray[Any]:
        """Return some atoms as rows, (K, n)."""
        out = np.empty((len(numbers), self.shape[0]), dtype=self.dtype)
        unit = np.zeros(self.shape[1], dtype=self.dtype)
        for i, j in enumerate(numbers):
            unit[j] = 1
            out[i] = np.asarray(self.operator.matvec(unit)).reshape(-1)
            unit[j] = 0
        return out

    def zeros(self, *shape: int, dtype: Any = None) -> NDArray[Any]:
        """Return zeros."""
        return np.zeros(shape, dtype=self.dtype if dtype is None else dtype)

    def array(self, values: Any) -> NDArray[Any]:
        """Return numbers as an array."""
        return np.asarray(values)

    @cached_property
    def norm(self) -> float:
        """‖Φ‖₂, not smaller, by Lanczos steps."""
        n, m = self.shape
        if min(n, m) <= 2:
            return float(np.linalg.norm(self.atoms(range(m)) if m <= n else self.correlate(np.eye(n)), 2))
        start = np.random.default_rng(0).standard_normal(min(n, m))
        largest = svds(self.operator, k=1, tol=1e-5, v0=start, return_singular_vectors=False)
        return float(largest[0]) * (1.0 + NORM_MARGIN)

    @cached_property
    def norms(self) -> NDArray[np.float64]:
        """Norms of the atoms, (m,): from the rows of Φ, which are n products, and never in memory together."""
        squares, unit = np.zeros(self.shape[1]), np.zeros((1, self.shape[0]), dtype=self.dtype)
        for i in range(self.shape[0]):
            unit[0, i] = 1
            squares += np.abs(self.correlate(unit)[0]) ** 2
            unit[0, i] = 0
        return np.sqrt(squares)

    def check(self) -> Operator:
        """Try both products once; raise an error if they are no adjoints of each other."""
        n, m = self.shape
        if min(n, m) == 0:
            raise ValueError(f"Phi is empty: shape {self.shape}; it needs n measurements (rows) by m atoms")
        rng = np.random.default_rng(0)
        x, r = (rng.standard_normal((1, size)).astype(self.dtype) for size in (m, n))
        try:
            forward, back = self.image(x)[0], self.correlate(r)[0]
        except NotImplementedError as error:
            raise ValueError("Phi is an operator without rmatvec; methods need Φᴴr as well: define rmatvec") from error
        if not (np.isfinite(forward).all() and np.isfinite(back).all()):
            raise ValueError("Phi is an operator whose products are not finite; look at its matvec and rmatvec")
        gap = abs(np.vdot(r[0], forward) - np.vdot(back, x[0]))
        size = np.linalg.norm(forward) * np.linalg.norm(r) + np.linalg.norm(back) * np.linalg.norm(x)
        if size == 0:
            raise ValueError("Phi is an operator whose products are zero")
        if gap > ADJOINT_TOLERANCE * size / np.sqrt(max(n, m)):
            raise ValueError(
                "Phi is an operator whose rmatvec is not the adjoint of its matvec: ⟨Φx, r⟩ and ⟨x, Φᴴr⟩ differ by "
                f"{gap / size:.1g} of their size; correct rmatvec"
            )
        return self


class MatrixOnDevice:
    """A torch matrix as Φ, on its device: all signals of a batch at a time.

    Sums on a device depend on the number of signals in their last bits, and so do answers.
    """

    rows: int | None = None

    def __init__(self, matrix: Any) -> None:
        import torch

        self.xp: Any = torch
        self.matrix = matrix
        self.shape: tuple[int, int] = (int(matrix.shape[0]), int(matrix.shape[1]))
        self.dtype = matrix.dtype

    def correlate(self, R: Any) -> Any:
        """Return Φᴴr for every row, (N, m)."""
        return R @ self.matrix.conj()

    def image(self, X: Any) -> Any:
        """Return Φx for every row, (N, n)."""
        return X @ self.matrix.T

    def atoms(self, numbers: Any) -> Any:
        """Return some atoms as rows, (K, n)."""
        return self.matrix.T[numbers]

    def zeros(self, *shape: int, dtype: Any = None) -> Any:
        """Return zeros on the device."""
        return self.xp.zeros(shape, dtype=self.dtype if dtype is None else dtype, device=self.matrix.device)

    def array(self, values: Any) -> Any:
        """Return numbers as a tensor on the device."""
        return self.xp.as_tensor(values, device=self.matrix.device)

    @cached_property
    def norm(self) -> float:
        """‖Φ‖₂, not smaller."""
        return float(self.xp.linalg.matrix_norm(self.matrix, 2)) * (1.0 + NORM_MARGIN)


def is_operator(Phi: Any) -> bool:
    """Whether Φ is known by its products only."""
    return isinstance(Phi, LinearOperator | Operator)


def is_tensor(array: Any) -> bool:
    """Whether something is a torch tensor; torch is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def is_elsewhere(array: Any) -> bool:
    """Whether something is a tensor on a device that compiled kernels do not reach."""
    return is_tensor(array) and array.device.type != COMPILED


def as_numpy(array: Any) -> Any:
    """Return a tensor of any device as a numpy array; anything else as it is."""
    return array.detach().cpu().resolve_conj().numpy() if is_tensor(array) else array


def products_of(operator: Any, dtype: Any = None) -> Operator:
    """Return an operator as a checked Φ that gives numbers of that dtype."""
    if isinstance(operator, Operator):
        return operator if dtype is None or operator.dtype == dtype else Operator(operator.operator, dtype)
    return Operator(operator, dtype).check()
