"""The task of the paper: learn supports from signals that are generated from Φ."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from maxsparse import metrics, signals
from maxsparse._core.validation import (
    FloatArray,
    RandomState,
    check_choice,
    check_dictionary,
    check_integer,
    check_seed,
)
from maxsparse.files import MEMORY_LIMIT
from maxsparse.networks import SignalNetwork
from maxsparse.training.losses import LOSSES, OUTPUT_FOR

__all__ = ["SupportTask"]

BLOCK = 1024  # signals generated at once: large enough for low overhead, small enough to divide among processes
TRAINING, VALIDATION, ORDER = 0, 1, 2  # independent random streams of one seed


class SupportTask:
    """Learn the support of x* from y = Φx*.

    Signals are numbered. Signal k depends only on the seed and on ``k // BLOCK``, so any process can generate any part
    of any batch at any time, bitwise identically.

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary.
    sparsity : int or (int, int), default=(1, 10)
        Number of nonzeros, or the range it is drawn from.
    amplitudes, noise, snr_db
        As for :func:`maxsparse.signals.sample`.
    loss : {"softmax", "sigmoid", "least_squares"}, default="softmax"
        See :mod:`maxsparse.training.losses`.
    set_size : int or None, default=None
        Train on this many signals, in a new order every epoch; None for an infinite stream of new ones. At most 8 GB.
    validation_signals : int, default=1000
        Signals per number of nonzeros in the validation set.
    rng : int, numpy.random.Generator or None, default=None
        Seed of all signals.
    """

    def __init__(
        self,
        Phi: ArrayLike,
        *,
        sparsity: int | tuple[int, int] = (1, 10),
        amplitudes: str | signals.AmplitudeLaw = "uniform",
        noise: float = 0.0,
        snr_db: float | None = None,
        loss: str = "softmax",
        set_size: int | None = None,
        validation_signals: int = 1000,
        rng: RandomState = None,
    ) -> None:
        self.Phi = check_dictionary(Phi)
        self.loss_name = check_choice(loss, "loss", tuple(LOSSES))
        self.seed = check_seed(rng)
        self._law: dict[str, Any] = {"amplitudes": amplitudes, "noise": noise, "snr_db": snr_db}
        low, high = signals.check_sparsity(sparsity, self.Phi.shape[1])
        if high == 0:
            raise ValueError("sparsity must be at least 1, got 0: nothing can be learned from zero signals")
        self.validation_signals = check_integer(validation_signals, "validation_signals", low=1, high=10**6)
        self.settings: dict[str, Any] = {
            "task": "support",
            "sparsity": [low, high],
            "amplitudes": amplitudes if isinstance(amplitudes, str) else "custom",
            "noise": noise,
            "snr_db": snr_db,
            "loss": loss,
            "set_size": set_size,
            "validation_signals": validation_signals,
            "rng": self.seed,
        }
        self.arrays: dict[str, NDArray[Any]] = {"Phi": self.Phi}
        self._dictionary = self.Phi.astype(np.float32)
        self._position, self._stream = 0, self._stream_from(0)  # the first block is generated on demand
        self.sparsities = range(low, high + 1)
        self._block = lru_cache(maxsize=4)(self._make_block)
        most = MEMORY_LIMIT // (4 * self.Phi.shape[0])
        self._set_size = None if set_size is None else check_integer(set_size, "set_size", low=1, high=most)

    def batch(self, number: int, size: int, rows: slice, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return signals (B, n) and their true coefficients (B, m), float32, of some rows of a batch."""
        first, last = number * size + rows.start, number * size + rows.stop
        Y, X = self.signals(first, last) if self._set_size is None else self._set.signals(first, last)
        return torch.from_numpy(Y).to(device), torch.from_numpy(X).to(device)

    def loss(self, network: nn.Module, Y: Tensor, X: Tensor) -> Tensor:
        """Return the mean loss of the network's outputs."""
        output = getattr(getattr(network, "module", network), "output", None)
        if output != OUTPUT_FOR[self.loss_name]:
            wanted = OUTPUT_FOR[self.loss_name]
            raise ValueError(f"the loss {self.loss_name!r} needs a network with output={wanted!r}, not {output!r}")
        return LOSSES[self.loss_name](network(Y), X)

    def validate(self, network: nn.Module) -> dict[str, Any]:
        """Return strict and loose accuracy for every number of nonzeros, on validation signals.

        ``score`` is the mean of all of them: the strict accuracy alone is not informative while it is still zero.
        """
        assert isinstance(network, SignalNetwork)
        n = self.Phi.shape[0]
        strict, loose = [], []
        for d in self.sparsities:
            X, Y = self._validation_set(d)
            scores = network.scores(Y)
            if not np.isfinite(scores).all():
                raise FloatingPointError("scores became NaN or infinite")
            strict.append(metrics.strict_accuracy(X, scores))
            loose.append(metrics.loose_accuracy(X, scores, n))
        score = float(np.mean(strict + loose))
        return {"score": score, "d": list(self.sparsities), "strict": strict, "loose": loose}

    def typical(self) -> FloatArray:
        """Return some training signals Y (N, n), for a network to scale its inputs by."""
        return self.signals(0, BLOCK)[0]

    def signals(self, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """Return Y (N, n) and X (N, m) of the signals numbered first..last-1, float32."""
        pieces = []
        for block in range(first // BLOCK, (last - 1) // BLOCK + 1):
            X, Y = self._block(block)
            rows = slice(max(first - block * BLOCK, 0), last - block * BLOCK)
            pieces.append((Y[rows], X[rows]))
        return np.concatenate([Y for Y, _ in pieces]), np.concatenate([X for _, X in pieces])

    @cached_property
    def _set(self) -> FixedSet:
        # Generated when training starts, not when an untrusted checkpoint is read.
        assert self._set_size is not None
        return FixedSet(self, self._set_size)

    def _make_block(self, block: int) -> tuple[FloatArray, FloatArray]:
        if block != self._position:  # blocks are mostly requested in order
            self._stream = self._stream_from(block)
        self._position = block + 1
        return next(self._stream)

    def _stream_from(self, block: int) -> Iterator[tuple[FloatArray, FloatArray]]:
        sparsity, rng = tuple(self.settings["sparsity"]), self._seed_of(TRAINING)
        return signals.stream(self._dictionary, BLOCK, sparsity=sparsity, rng=rng, start=block, **self._law)

    def _validation_set(self, d: int) -> tuple[FloatArray, FloatArray]:
        rng = self._seed_of(VALIDATION, d)
        return signals.sample(self._dictionary, self.validation_signals, sparsity=d, rng=rng, **self._law)

    def _seed_of(self, *stream: int) -> int:
        return int(np.random.SeedSequence(self.seed, spawn_key=stream).generate_state(1, np.uint64)[0])


class FixedSet:
    """The first `size` signals of a task, in a new order every epoch.

    The order of epoch e depends only on the seed and e. X is stored sparsely: dense, 600,000 signals of 100 atoms would
    take 240 MB.
    """

    def __init__(self, task: SupportTask, size: int) -> None:
        from scipy.sparse import csr_array, vstack

        self.seed, self.size = task.seed, size
        blocks = [task.signals(k, min(k + BLOCK, size)) for k in range(0, size, BLOCK)]
        self.Y = np.concatenate([Y for Y, _ in blocks])
        self.X = vstack([csr_array(X) for _, X in blocks], format="csr")
        self._order = lru_cache(maxsize=2)(self._make_order)

    def signals(self, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """Return Y and X of the positions first..last-1 of the infinite sequence of epochs."""
        positions = np.arange(first, last)
        epochs = positions // self.size
        rows = np.concatenate([self._order(int(e))[positions[epochs == e] % self.size] for e in np.unique(epochs)])
        return self.Y[rows], self.X[rows].toarray()

    def _make_order(self, epoch: int) -> NDArray[np.intp]:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(ORDER, epoch))).permutation(self.size)
