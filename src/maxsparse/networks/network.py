"""Base classes of networks: torch modules created from plain JSON that map signals to scores."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from maxsparse import theory
from maxsparse._core.validation import (
    FloatArray,
    check_choice,
    check_dictionary,
    check_flag,
    check_integer,
    check_signals,
)

__all__ = ["Network", "SignalNetwork"]

OUTPUTS = ("logits", "estimate")
# Batches are padded to a multiple of this many rows: products of few rows, and the ends of arrays that do not fill a
# vector register, are computed by other code with different rounding, and scores would depend on the batch.
ROWS = 64
LARGEST_INPUT = 1e30  # layers compute sums of products, and the largest float32 is 3e38


class Network(nn.Module):
    """A module that :func:`maxsparse.networks.create` can recreate from its name and `hyperparameters`.

    The constructor takes JSON-serialisable keyword arguments and passes all of them to this class. Everything else
    (weights, buffers) is in ``state_dict()``, with shapes determined by the hyperparameters.

    Attributes
    ----------
    name : str
        Name in :data:`maxsparse.networks.NETWORKS`.
    hyperparameters : dict
        Keyword arguments of the constructor.
    learning_rate : float
        Of AdamW, in the preset ``"modern"``.
    training_precision : torch.dtype
        Of the products of hidden layers in training, for networks that can lower it; set by the training loop.
    """

    name: ClassVar[str]
    learning_rate: ClassVar[float] = 3e-3
    training_precision: torch.dtype = torch.float32

    def __init__(self, **hyperparameters: Any) -> None:
        super().__init__()
        self.hyperparameters = hyperparameters


class SignalNetwork(Network):
    r"""A network for one dictionary: signals (B, n) in, one number per atom (B, m) out.

    Subclasses implement ``respond(inputs)``, which maps prepared signals (B, n) to (B, m). Preparation is linear:

    .. math:: y \mapsto s\,W y

    with W the identity, or the whitening of :func:`maxsparse.theory.precondition`, and s such that the prepared
    signals have root mean square 1.

    Parameters
    ----------
    n, m : int
        Measurements and atoms.
    whiten : bool
        Whiten the signals first.
    output : {"logits", "estimate"}
        Whether the outputs are support scores, for a classification loss, or estimates of x*, for least squares. The
        scores of an estimate are its magnitudes.
    """

    W: Tensor
    D: Tensor
    scale: Tensor

    def __init__(self, *, n: int, m: int, whiten: bool, output: str, **hyperparameters: Any) -> None:
        super().__init__(n=n, m=m, whiten=whiten, output=output, **hyperparameters)
        self.n = check_integer(n, "n", low=1, high=10**6)
        self.m = check_integer(m, "m", low=1, high=10**6)
        self.whiten = check_flag(whiten, "whiten")
        self.output = check_choice(output, "output", OUTPUTS)
        # Double precision: whitening multiplies rounding errors of y by the condition number of Φ.
        self.register_buffer("W", torch.eye(n, dtype=torch.float64))
        self.register_buffer("D", torch.ones(m, dtype=torch.float64))
        self.register_buffer("scale", torch.ones((), dtype=torch.float64))
        self._fast: tuple[Any, nn.Module] | None = None

    def start_from(self, Phi: ArrayLike, Y: ArrayLike | None = None, *, noise: float = 0.0) -> None:
        """Set whitening, scale, and the initial weights of unrolled algorithms from the dictionary.

        Parameters
        ----------
        Phi : array-like of shape (n, m)
            Dictionary.
        Y : array-like of shape (N, n) or None
            Typical signals, for the scale; None keeps it at 1.
        noise : float
            As for :func:`maxsparse.theory.precondition`, if the network whitens.
        """
        dictionary = check_dictionary(Phi).astype(np.float64)
        if dictionary.shape != (self.n, self.m):
            raise ValueError(f"Phi has shape {dictionary.shape}, but the network was made for {(self.n, self.m)}")
        if self.whiten:
            W, D = theory.precondition(dictionary, noise=noise)
            self.W.zero_()
            self.W[: W.shape[0]] = torch.from_numpy(W)  # fewer rows than n if Φ has lower rank
            self.D.copy_(torch.from_numpy(D))
        if Y is not None:
            prepared = check_signals(Y, dictionary.shape) @ self.W.cpu().numpy().T
            self.scale.fill_(1.0 / max(float(np.sqrt(np.mean(prepared**2))), 1e-30))
        with torch.no_grad():
            self.start_weights(self.W.cpu().numpy() @ dictionary * self.D.cpu().numpy())

    def start_weights(self, Phi: FloatArray) -> None:
        """Set initial weights from the (whitened) dictionary; by default none."""

    def prepare(self, Y: Tensor) -> Tensor:
        """Return the inputs of the first layer, (B, n) in the precision of the weights."""
        inputs = Y @ (self.scale * self.W).to(Y.dtype).T if self.whiten else Y * self.scale.to(Y.dtype)
        return inputs.to(torch.get_default_dtype())

    def forward(self, Y: Tensor) -> Tensor:
        """Return logits, or estimates of x*, (B, m)."""
        response: Tensor = self.respond(self.prepare(Y))
        return response

    def respond(self, inputs: Tensor) -> Tensor:
        """Map prepared signals (B, n) to (B, m)."""
        raise NotImplementedError

    def inference(self) -> nn.Module:
        """Return a module with the outputs of this one in evaluation mode, rearranged for speed."""
        return self

    def scores(self, Y: ArrayLike, *, batch_size: int = 1024) -> NDArray[np.float32]:
        """Score every atom for every signal, without gradients.

        A network of the paper is accurate only for signals of the scale it was trained on: for other amplitudes, train
        it on such signals, or scale the signals.

        Parameters
        ----------
        Y : array-like of shape (N, n)
            Signals as rows.
        batch_size : int, default=1024
            Signals in one batch: few enough for the cache, many enough for the threads. It changes speed, not scores.

        Returns
        -------
        scores : ndarray of shape (N, m), float32
            Larger for atoms more likely to be in the support.
        """
        signals = check_signals(Y, (self.n, self.m))
        self._check_size(signals)
        batch_size = check_integer(batch_size, "batch_size", low=1)
        fast = self._inference()
        out = np.empty((len(signals), self.m), dtype=np.float32)
        device = self.W.device
        training = self.training
        self.eval()  # `fast` may be this network
        try:
            with torch.inference_mode():
                for start in range(0, len(signals), batch_size):
                    rows = signals[start : start + batch_size]
                    padded = np.zeros((len(rows) + -len(rows) % ROWS, self.n), dtype=signals.dtype)
                    padded[: len(rows)] = rows
                    outputs = fast(torch.from_numpy(padded).to(device))[: len(rows)]
                    found = outputs.abs() if self.output == "estimate" else outputs
                    out[start : start + len(rows)] = found.cpu().numpy()
        finally:
            self.train(training)
        return out

    def _check_size(self, signals: FloatArray) -> None:
        """Refuse signals that are too large for the precision of the weights."""
        gain = float(self.scale) * (float(torch.linalg.matrix_norm(self.W)) if self.whiten else 1.0)
        largest = float(np.abs(signals).max(initial=0.0))
        if largest * gain > LARGEST_INPUT:
            raise ValueError(f"Y has a largest entry of {largest:.3g}, far too large for this network; scale it")

    def _inference(self) -> nn.Module:
        """Return :meth:`inference`, cached until a weight changes."""
        version = [(id(tensor), tensor._version) for tensor in self.state_dict(keep_vars=True).values()]
        if self._fast is None or self._fast[0] != version:
            training = self.training
            self.eval()
            try:
                with torch.no_grad():
                    # A tuple hides it from nn.Module, which would otherwise list it as a submodule.
                    self._fast = (version, self.inference())
            finally:
                self.train(training)
        return self._fast[1]
