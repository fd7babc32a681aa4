"""All input checks, in one place; solvers and networks do not repeat them.

Messages name the argument, the value, and what to do.
"""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

RandomState = int | np.random.Generator | None
FloatArray = NDArray[np.floating[Any]]
Array = NDArray[np.inexact[Any]]  # real or complex

ATOMS_AT_ONCE = 1024  # of which copies are made
SMALL = 2**16  # entries of an array that may be copied without a thought
# Two unit atoms closer than this (up to sign) count as equal.
DUPLICATE_TOLERANCE = 1e-12


# Atoms and signals must have their largest entry within 1/LARGEST..LARGEST: methods square products of two.
LARGEST = {np.dtype(np.float64): 1e60, np.dtype(np.float32): 1e15}


class DuplicateAtomsWarning(UserWarning):
    """Some atoms of Φ are multiples of each other: no method can distinguish them."""


def check_matrix(array: Any, name: str) -> FloatArray:
    """Return `array` as a finite 2-D float array, keeping float32; copy only if needed."""
    matrix: FloatArray = check_array(array, name, complex_too=False)
    return matrix


def is_complex(array: Any) -> bool:
    """Return whether something that may be an array, a tensor or a list holds complex numbers; False if unreadable."""
    dtype = getattr(array, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype.kind == "c"
    if dtype is not None:
        return "complex" in str(dtype)
    try:
        return bool(np.iscomplexobj(np.asarray(array)))
    except (TypeError, ValueError, RuntimeError):
        return False


def check_array(array: Any, name: str, *, dimensions: tuple[int, ...] = (2,), complex_too: bool = True) -> Any:
    """Return `array` as a finite float or complex array, keeping single precision; copy only if needed."""
    if hasattr(array, "toarray"):  # scipy.sparse
        array = array.toarray()
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise ValueError(f"{name} has masked entries; fill them with {name}.filled(value), or remove those rows")
    try:
        matrix = np.asarray(array)
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a tensor with a gradient, or on a GPU
        if "inhomogeneous" in str(error):
            raise ValueError(f"{name} cannot be read as an array: all rows must have the same length") from error
        raise ValueError(f"{name} cannot be read as an array: {error}") from error
    if np.iscomplexobj(matrix) and not complex_too:
        raise ValueError(
            f"Complex data not supported: {name} is complex; stack real and imaginary parts, with "
            "maxsparse.complex_data.stack_dictionary for a dictionary and stack_signals for signals"
        )
    if matrix.dtype.kind not in "biufc":
        raise ValueError(f"{name} must hold numbers, got dtype {matrix.dtype}; convert it with {name}.astype(float)")
    if matrix.dtype not in (np.float32, np.float64, np.complex64, np.complex128):
        matrix = matrix.astype(np.complex128 if np.iscomplexobj(matrix) else np.float64)
    if matrix.ndim not in dimensions:
        hint = f"; for a single row pass {_code(name, '[None, :]')}" if matrix.ndim == 1 else ""
        raise ValueError(f"{name} must be {' or '.join(f'{d}-D' for d in dimensions)}, got shape {matrix.shape}{hint}")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} holds {first_not_finite(matrix)}; remove or fill such values")
    return matrix


def first_not_finite(array: Array, start: int = 0) -> str:
    """Return value and position of the first entry of an array that is not finite, counting rows from `start`."""
    row, *snapshot, column = place = np.argwhere(~np.isfinite(array))[0]
    value = "NaN" if np.isnan(array[tuple(place)]) else array[tuple(place)]
    return f"{value} at row {start + row}, {f'snapshot {snapshot[0]}, ' if snapshot else ''}column {column}"


def shape_of(array: Any, name: str) -> tuple[int, int]:
    """Return the first and last length of an array without checking its entries; they are checked later."""
    shape = getattr(array, "shape", None)
    if shape is None or len(shape) not in (2, 3):
        shape = check_array(array, name, dimensions=(2, 3)).shape  # raises the right error
    return int(shape[0]), int(shape[-1])


def check_dictionary(Phi: Any, name: str = "Phi", *, complex_too: bool = False) -> FloatArray:
    """Check a dictionary: finite, 2-D, not empty, no zero atom; warn about duplicate atoms.

    Returns
    -------
    Phi : ndarray of shape (n, m), float32 or float64, or complex where that is allowed
        C-contiguous and writable, copied if needed: kernels would be compiled again for any other layout.
    """
    checked: FloatArray = _check_dictionary(Phi, name, complex_too)[0]
    return checked


def check_clean_dictionary(Phi: Any) -> tuple[Any, bool]:
    """Check a dictionary that may be complex; return it, and whether there was nothing to warn about."""
    return _check_dictionary(Phi, "Phi", True)


def _check_dictionary(Phi: Any, name: str, complex_too: bool) -> tuple[Any, bool]:
    matrix: Any = np.require(check_array(Phi, name, complex_too=complex_too), requirements=("C", "W"))
    if 0 in matrix.shape:
        raise ValueError(f"{name} is empty: shape {matrix.shape}; it needs n measurements (rows) by m atoms")
    zero = np.flatnonzero(~matrix.any(axis=0))
    if zero.size:
        raise ValueError(f"{name} has zero atoms (columns {_some(zero)}); remove them")
    check_range(matrix.T, name, "atom")
    pairs = duplicate_atoms(matrix)
    if pairs:
        listed = ", ".join(f"{i} and {j}" for i, j in pairs[:5]) + (", …" if len(pairs) > 5 else "")
        warnings.warn(
            f"{name} has {len(pairs)} duplicate atoms (columns {listed}); a support with one of them is not unique",
            DuplicateAtomsWarning,
            stacklevel=4,
        )
    return matrix, not pairs


def check_problem(Phi: Any, Y: Any) -> tuple[FloatArray, FloatArray]:
    """Check Φ and Y together and convert them to one dtype.

    Returns
    -------
    Phi : ndarray of shape (n, m)
    Y : ndarray of shape (N, n)
        Both float32 if both are float32, else float64, and C-contiguous.
    """
    Phi_checked = check_dictionary(Phi)
    Y_checked = check_signals(Y, Phi_checked.shape)
    dtype = np.result_type(Phi_checked, Y_checked)
    return Phi_checked.astype(dtype, copy=False), np.ascontiguousarray(Y_checked, dtype=dtype)


def check_signals(Y: Any, shape: tuple[int, int], name: str = "Y") -> FloatArray:
    """Check signals (N, n) against a dictionary of the given shape (n, m); report transposed input."""
    signals = check_matrix(Y, name)
    check_width((len(signals), signals.shape[1]), shape, name)
    check_range(signals, name, "signal")
    return signals


def check_width(signals: tuple[int, int], shape: tuple[int, int], name: str = "Y") -> None:
    """Check the shape (N, n) of signals that need not be in memory against that of a dictionary (n, m)."""
    (N, width), (n, m) = signals, shape
    if width == n:
        return
    got = f"{name} has shape {signals} but Phi has shape {(n, m)}"
    if n == N:
        raise ValueError(f"{got}: signals are rows, so {name} fits transposed; pass {_code(name, '.T')}")
    if m == width:
        raise ValueError(f"{got}: Phi is (measurements, atoms), so Phi fits transposed; pass Phi.T")
    raise ValueError(f"{got}: {name} must have n = {n} columns, one row per signal")


def check_range(rows: Array, name: str, what: str) -> None:
    """Raise an error for rows whose squares would overflow or underflow."""
    most = LARGEST[rows.real.dtype]
    sizes = np.abs(rows) if np.iscomplexobj(rows) or rows.size <= SMALL else rows
    if 0 < sizes.size <= SMALL and 1.0 / most <= sizes.min() and sizes.max() <= most:  # mostly so, and soon seen
        return
    largest = np.maximum(sizes.max(axis=1, initial=0.0), -sizes.min(axis=1, initial=0.0))
    bad = np.flatnonzero((largest > most) | ((largest > 0) & (largest < 1.0 / most)))
    if bad.size:
        raise ValueError(
            f"{name} has a largest entry of {largest[bad[0]]:.3g} in {what} {bad[0]}; {sizes.dtype} needs it between "
            f"{1.0 / most:.0e} and {most:.0e}: multiply {name} by a constant, and divide the answer by it"
        )


def check_pair(a: Any, b: Any, names: tuple[str, str]) -> tuple[FloatArray, FloatArray]:
    """Check two matrices that must have the same shape."""
    first, second = check_matrix(a, names[0]), check_matrix(b, names[1])
    if first.shape != second.shape:
        hint = f"; {names[1]} fits transposed" if first.shape == second.shape[::-1] else ""
        raise ValueError(
            f"{names[0]} and {names[1]} must have the same shape, got {first.shape} and {second.shape}{hint}"
        )
    return first, second


def check_integer(value: Any, name: str, *, low: int = 0, high: int | None = None) -> int:
    """Return `value` as an int within [low, high]."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    number = int(value)
    if number < low or (high is not None and number > high):
        bounds = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name} must be {bounds}, got {number}")
    return number


def check_number(value: Any, name: str, *, low: float = -math.inf, high: float = math.inf) -> float:
    """Return `value` as a finite float within [low, high]."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    number = float(value)
    if not low <= number <= high:
        bounds = f"at least {low}" if high == math.inf else f"from {low} to {high}"
        raise ValueError(f"{name} must be {bounds}, got {number}")
    return number


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return str(value)


def check_flag(value: Any, name: str) -> bool:
    """Return `value` if it is a bool; a string such as "false" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_seed(rng: RandomState) -> int:
    """Return an int seed unchanged, else one from a Generator or from new entropy."""
    if rng is None or isinstance(rng, np.random.Generator):
        return int(np.random.default_rng(rng).integers(2**63))
    return check_integer(rng, "rng")


def check_rng(rng: RandomState) -> np.random.Generator:
    """Return a Generator for an int seed, a Generator (unchanged) or None (new entropy)."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    return np.random.default_rng(check_integer(rng, "rng"))


def duplicate_atoms(Phi: Array) -> list[tuple[int, int]]:
    """List pairs (i, j), i < j, of atoms that are multiples of each other.

    Atoms are scaled to norm 1 and to a positive real projection on one random direction. Equal atoms have equal
    projections, so it is enough to compare neighbours in the order of the projections: O(nm + m log m).
    """
    n, m = Phi.shape
    direction = np.random.default_rng(0).standard_normal(n)

    def unit(columns: Any) -> Any:
        """Return atoms of norm 1 and of a positive projection on the direction, (n, K)."""
        some = Phi[:, columns]
        # Scaling by the largest entry first keeps tiny and huge atoms from under- or overflowing.
        some = some / np.abs(some).max(axis=0)
        some = some.astype(np.result_type(np.float64, Phi)) / np.linalg.norm(some, axis=0)
        projection = direction @ some
        if np.iscomplexobj(Phi):
            return some * np.exp(-1j * np.angle(projection))
        return some * np.where(projection < 0, -1.0, 1.0)

    blocks = [slice(start, start + ATOMS_AT_ONCE) for start in range(0, m, ATOMS_AT_ONCE)]
    projection = np.concatenate([np.abs(direction @ unit(block)) for block in blocks])
    tolerance = DUPLICATE_TOLERANCE if Phi.real.dtype == np.float64 else 1e-6
    order = np.argsort(projection, kind="stable")
    pairs = []
    for lag in range(1, m):
        left, right = order[:-lag], order[lag:]
        near = projection[right] - projection[left] <= tolerance * np.linalg.norm(direction)
        if not near.any():
            break
        left, right = left[near], right[near]
        same = np.linalg.norm(unit(left) - unit(right), axis=0) <= tolerance
        pairs += [(min(i, j), max(i, j)) for i, j in zip(left[same].tolist(), right[same].tolist(), strict=True)]
    return sorted(pairs)


def _code(name: str, change: str) -> str:
    """Return how to change an array: as code if its name is a variable, else (for a file) in words."""
    if name.isidentifier():
        return f"{name}{change}"
    return {".T": "its transpose", "[None, :]": "an array of one row"}[change]


def _some(indices: NDArray[np.intp], most: int = 5) -> str:
    shown = ", ".join(map(str, indices[:most]))
    return shown + (", …" if indices.size > most else "")
