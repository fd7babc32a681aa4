"""Networks as scorers: trained for one dictionary, outputs calibrated to log odds."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxsparse import signals
from maxsparse._core.extras import needs
from maxsparse._core.registry import NETWORKS, unknown
from maxsparse._core.validation import FloatArray, check_number

if TYPE_CHECKING:
    from maxsparse.networks import SignalNetwork

__all__ = ["TrainedScores", "check_name", "rebuild", "train_scores"]

CALIBRATION_SIGNALS = 1000
# Parameters of training.fit and training.train that callers may not set.
NOT_GIVEN = {"Phi", "network", "task", "options", "noise", "rng", "resume", "resume_command"}
LEAST_GAIN = 1e-3  # keeps the order of the scores of a network that learned nothing


@dataclass(frozen=True, eq=False)
class TrainedScores:
    """A network for one dictionary, calibrated for decoding and search.

    Attributes
    ----------
    network : SignalNetwork
    gain, offset : float
        Scores are gain · output + offset, the log odds of an atom to be in the support.
    """

    network: SignalNetwork
    gain: float = 1.0
    offset: float = 0.0

    def __call__(self, Y: NDArray[np.float64], noise: float = 0.0) -> NDArray[np.float32]:
        """Score signals (N, n); the noise is the one of training."""
        return np.asarray(np.float32(self.gain) * self.network.scores(Y) + np.float32(self.offset))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the weights as numpy arrays by name."""
        return {name: tensor.detach().cpu().numpy() for name, tensor in self.network.state_dict().items()}

    def header(self) -> dict[str, Any]:
        """Return plain JSON from which, with the arrays, :func:`rebuild` recreates it."""
        return {
            "name": self.network.name,
            "hyperparameters": self.network.hyperparameters,
            "gain": self.gain,
            "offset": self.offset,
        }


def check_name(name: str) -> str:
    """Return `name` if it is that of a network made for one dictionary."""
    try:
        network = NETWORKS.find(name)
    except ValueError as error:
        raise ValueError(f"{error}; or give an object with scores(Y)") from error
    from maxsparse.networks import SignalNetwork

    if not issubclass(network, SignalNetwork):
        raise ValueError(f"network {name!r} is not for one dictionary; it cannot be trained for Phi")
    return name


def train_scores(Phi: FloatArray, name: str, *, noise: float, seed: int, **options: Any) -> TrainedScores:
    """Train a network for Φ and calibrate it on held-out signals.

    Parameters
    ----------
    Phi : ndarray of shape (n, m)
    name : str
        A name in ``maxsparse.networks.NETWORKS``.
    noise : float
        Standard deviation of the noise on every measurement.
    seed : int
    **options
        For :func:`maxsparse.training.fit`: ``minutes=``, ``samples=``, ``sparsity=``, ``hyperparameters=``, …

    Returns
    -------
    scores : TrainedScores
    """
    from maxsparse import training

    if options.get("minutes") is None and options.get("samples") is None:
        raise ValueError(
            f"network {name!r} is trained for Phi: set the training budget, fit(minutes=…) or fit(samples=…)"
        )
    # With the logistic loss outputs are log odds; softmax leaves a constant per signal undetermined.
    options.setdefault("loss", "sigmoid")
    known = {*inspect.signature(training.fit).parameters, *inspect.signature(training.train).parameters} - NOT_GIVEN
    for option in sorted(options.keys() - known):
        raise ValueError(unknown("option of fit", option, sorted(known)))
    network, _ = training.fit(Phi, check_name(name), noise=noise, rng=seed, **options)
    law = {key: options[key] for key in ("amplitudes", "snr_db") if key in options}
    sparsity = options.get("sparsity") or (1, max(1, Phi.shape[0] // 2))
    rng = np.random.default_rng([seed, 1])
    X, Y = signals.sample(Phi, CALIBRATION_SIGNALS, sparsity=sparsity, noise=noise, rng=rng, **law)
    return TrainedScores(network, *_log_odds(network.scores(Y), X != 0))


def rebuild(header: Any, arrays: Mapping[str, NDArray[Any]], shape: tuple[int, int], source: str) -> TrainedScores:
    """Recreate scores from :meth:`TrainedScores.header` and ``arrays``, checking everything."""
    with needs("a trained network"):
        import torch

    from maxsparse.networks import SignalNetwork, storage

    if not isinstance(header, dict) or set(header) != {"name", "hyperparameters", "gain", "offset"}:
        raise ValueError(f"{source!r}: the description of its network is damaged")
    tensors = {f"weights/{name}": torch.from_numpy(array) for name, array in arrays.items()}
    description = {"network": header["name"], "hyperparameters": header["hyperparameters"]}
    network = storage.rebuild(source, tensors, description)
    if not isinstance(network, SignalNetwork) or (network.n, network.m) != shape:
        raise ValueError(f"{source!r}: its network does not fit Phi of shape {shape}")
    gain = check_number(header["gain"], f"gain in {source!r}", low=0.0)
    return TrainedScores(network, gain, check_number(header["offset"], f"offset in {source!r}"))


def _log_odds(outputs: NDArray[Any], support: NDArray[np.bool_]) -> tuple[float, float]:
    """Fit the logistic regression of the support on the outputs: a gain and an offset for all atoms."""
    from sklearn.linear_model import LogisticRegression

    # In units of their own spread: least-squares outputs are a few hundredths, logits a few units.
    spread = float(outputs.std()) or 1.0
    fitted = LogisticRegression(C=1e6).fit(outputs.reshape(-1, 1) / spread, support.ravel())
    return max(float(fitted.coef_[0, 0]) / spread, LEAST_GAIN), float(fitted.intercept_[0])
