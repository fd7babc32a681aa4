"""The work on every chunk of signals: recovery by a model, or a solver with its options."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse import __version__
from maxsparse._core.validation import (
    FloatArray,
    check_dictionary,
    first_not_finite,
)
from maxsparse.recovery import SparseRecoverer
from maxsparse.result import Result
from maxsparse.solvers import METHODS, solve
from maxsparse.streaming.chunk import Chunk

__all__ = ["Recover", "Solve", "Work", "answer"]


@dataclass(frozen=True, eq=False)
class Recover:
    """Recover with a model.

    Attributes
    ----------
    model : SparseRecoverer
    easy_first : bool
        Without noise, try whitened OMP first; the model gets the signals whose OMP answer fails the same certificate.
    """

    model: SparseRecoverer
    easy_first: bool = True
    # The same model for other numbers of threads: one for all chunks, so that it is prepared once.
    _others: dict[int, SparseRecoverer] = field(default_factory=dict, init=False, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, m) of the dictionary."""
        n, m = np.shape(self.model.Phi)
        return n, m

    @property
    def identity(self) -> dict[str, Any]:
        """Plain JSON on which the answers depend; the number of threads is not part of it."""
        options = self.model.get_params(deep=False) | {"easy_first": self.easy_first}
        del options["n_threads"]
        if options["groups"] is not None:
            options["groups"] = np.asarray(options["groups"]).tolist()
        dictionary, network = _digest(options.pop("Phi")), _describe(options.pop("network"))
        if self.model.network == "learned_sbl":
            network |= {f".{name}": _digest(array) for name, array in self.model.network_arrays().items()}
        elif hasattr(self.model, "trained_"):
            network |= {f"trained_{key}": text for key, text in _describe(self.model.trained_).items()}
        return {"maxsparse": __version__, "dictionary": dictionary, "network": network, "options": options}

    def __call__(self, Y: FloatArray, n_threads: int | None = None) -> Result:
        """Recover signals (N, n)."""
        model = self.model
        if n_threads is not None and n_threads != model.n_threads:
            model = self._others.setdefault(n_threads, copy.copy(model))
            model.n_threads = n_threads
        return model.recover(Y, easy_first=self.easy_first)


@dataclass(frozen=True, eq=False)
class Solve:
    """Recover with a classical method."""

    Phi: FloatArray
    method: str
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        METHODS.check(self.method)
        object.__setattr__(self, "Phi", check_dictionary(self.Phi))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, m) of the dictionary."""
        n, m = self.Phi.shape
        return n, m

    @property
    def identity(self) -> dict[str, Any]:
        """Plain JSON on which the answers depend."""
        options = {"method": self.method, **self.options}
        options.pop("n_threads", None)
        return {"maxsparse": __version__, "dictionary": _digest(self.Phi), "options": options}

    def __call__(self, Y: FloatArray, n_threads: int | None = None) -> Result:
        """Recover signals (N, n)."""
        options = self.options if n_threads is None else {**self.options, "n_threads": n_threads}
        return solve(self.Phi, Y, self.method, **options)


Work = Recover | Solve


def answer(work: Work, Y: NDArray[Any], start: int, name: str, skip_bad: bool, n_threads: int | None = None) -> Chunk:
    """Recover one chunk of signals.

    Parameters
    ----------
    work : Work
    Y : ndarray of shape (N, n)
        Signals as stored.
    start : int
        Index of the first signal, for messages.
    name : str
        Name of the source, for messages.
    skip_bad : bool
        Give no answer for signals with NaN or infinite numbers, instead of raising ValueError.
    n_threads : int or None
        Replaces the number of threads of the work.

    Returns
    -------
    chunk : Chunk
    """
    signals = Y if Y.dtype in (np.float32, np.float64) else Y.astype(np.float64)
    bad = ~np.isfinite(signals).all(axis=1)
    if bad.any():
        if not skip_bad:
            raise ValueError(
                f"{name} holds {first_not_finite(signals, start)}; "
                "remove or fill such values, or skip such signals with --skip-bad (skip_bad=True)"
            )
        signals = np.where(bad[:, None], 0, signals).astype(signals.dtype)
    return Chunk.of(work(signals, n_threads), bad)


def _digest(array: Any) -> str:
    matrix = np.ascontiguousarray(array)
    return hashlib.sha256(f"{matrix.shape} {matrix.dtype}".encode() + matrix.tobytes()).hexdigest()


def _describe(value: Any) -> dict[str, str]:
    """Describe a network or weights by names and hashes of their arrays."""
    if isinstance(value, str):
        return {"": value}
    if hasattr(value, "state_dict"):
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in value.state_dict().items()}
        return {"": type(value).__name__} | {f".{name}": _digest(array) for name, array in arrays.items()}
    if hasattr(value, "arrays") and hasattr(value, "header"):  # a trained network with its calibration
        return {"": str(value.header())} | {f".{name}": _digest(array) for name, array in value.arrays().items()}
    # An object of the caller: only its class is known.
    return {"": f"{type(value).__module__}.{type(value).__qualname__}"}
