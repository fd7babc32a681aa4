"""The task of learned SBL: learn supports, with a new dictionary for every batch or one for all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from maxsparse import dictionaries, metrics, signals
from maxsparse._core.validation import RandomState, check_dictionary, check_integer, check_number, check_seed
from maxsparse.networks.learned_sbl import Whitened, whiten
from maxsparse.training.processes import share

__all__ = ["DictionariesTask", "Inputs", "draw_amplitudes", "draw_batch", "draw_dictionary", "signals_per_batch"]

Rng = np.random.Generator
NOISY_SHARE = 0.3
ATOMS_PER_BATCH = 10_000  # signals × atoms
FEWEST_SIGNALS, MOST_SIGNALS = 32, 256


class DictionariesTask:
    """Learn the support of x* from y = Φx*, with a new Φ for every batch, to generalise to unseen dictionaries.

    Dictionary and signals of a batch depend only on the seed and its number. A batch has
    :func:`signals_per_batch` signals, so that all cost about the same, but at most the batch size of the settings. CPU
    only. Learned SBL limits the gradients of outlying signals within each process, so several processes do not give the
    same result as one.

    Parameters
    ----------
    Phi : array-like of shape (n, m) or None, default=None
        The one dictionary of all batches; None draws them.
    noisy_share : float, default=0.3
        Share of the batches with noise, at levels from 10 to 60 dB.
    validation_signals : int, default=200
        Signals per dictionary and number of nonzeros in the validation set.
    rng : int, numpy.random.Generator or None, default=None
        Seed of dictionaries and signals.
    """

    def __init__(
        self,
        Phi: ArrayLike | None = None,
        *,
        noisy_share: float = NOISY_SHARE,
        validation_signals: int = 200,
        rng: RandomState = None,
    ) -> None:
        self.Phi = None if Phi is None else check_dictionary(Phi).astype(np.float64)
        self.noisy_share = check_number(noisy_share, "noisy_share", low=0.0, high=1.0)
        self.validation_signals = check_integer(validation_signals, "validation_signals", low=1, high=10**6)
        self.seed = check_seed(rng)
        self.settings: dict[str, Any] = {
            "task": "dictionaries",
            "noisy_share": noisy_share,
            "atoms_per_batch": ATOMS_PER_BATCH,
            "validation_signals": validation_signals,
            "rng": self.seed,
        }
        self.arrays: dict[str, NDArray[Any]] = {} if self.Phi is None else {"Phi": self.Phi}

    def batch(self, number: int, size: int, rows: slice, device: torch.device) -> tuple[Inputs, Tensor]:
        """Return the inputs and the supports (B, m); all processes get equally many of the B signals."""
        if device.type != "cpu":
            raise ValueError(f"device must be 'cpu' for learned SBL, got {str(device)!r}; train with device=\"cpu\"")
        inputs, support = self.draw(number, size)
        own = share(len(support), size, rows)
        noise, earlier = (None if a is None else a[own] for a in (inputs.noise, inputs.earlier))
        return Inputs(inputs.dictionary, inputs.Z[own], noise, earlier), support[own]

    def draw(self, number: int, size: int) -> tuple[Inputs, Tensor]:
        """Draw a whole batch, of at most `size` signals."""
        return draw_batch(self.seed, number, self.Phi, self.noisy_share, size)

    def loss(self, network: nn.Module, inputs: Inputs, support: Tensor) -> Tensor:
        """Return the cross-entropy of the support, summed over atoms, per measurement.

        It is the mean over the second half of the iterations.
        """
        logits = network(*inputs)
        late = torch.stack(logits[len(logits) // 2 :])
        n, m = inputs.dictionary.Q.shape
        return nn.functional.binary_cross_entropy_with_logits(late, support.expand_as(late)) * (m / n)

    def validate(self, network: nn.Module) -> dict[str, Any]:
        """Return the strict accuracy without noise, on validation dictionaries and signals.

        If Φ was given, it is that dictionary. ``score`` is the mean.
        """
        names, strict = [], []
        for name, Phi, sparsities in self._problems():
            dictionary = whiten(Phi)
            for d in sparsities:
                X, Y = signals.sample(Phi, self.validation_signals, sparsity=d, rng=d)
                scores = network(dictionary, torch.tensor(Y @ dictionary.W.T, dtype=torch.float32))[-1].numpy()
                if not np.isfinite(scores).all():
                    raise FloatingPointError("scores became NaN or infinite")
                names.append(f"{name} d={d}")
                strict.append(metrics.strict_accuracy(X, scores))
        return {"score": float(np.mean(strict)), "problems": names, "strict": strict}

    def _problems(self) -> list[tuple[str, NDArray[np.float64], list[int]]]:
        if self.Phi is not None:
            n, m = self.Phi.shape
            sparsities = sorted({max(1, round(share * min(n, m))) for share in (0.2, 0.3, 0.4)})
            return [(f"given {n}x{m}", self.Phi, sparsities)]
        return [
            ("decaying 20x100", dictionaries.decaying(20, 100, rng=10**6), [5, 6, 7, 8, 9, 10]),
            ("gaussian 30x60", dictionaries.gaussian(30, 60, rng=10**6), [10, 14]),
            ("decaying 48x192", dictionaries.decaying(48, 192, rng=10**6), [14, 18]),
        ]


class Inputs(NamedTuple):
    """Inputs of the network.

    Attributes
    ----------
    dictionary : Whitened
    Z : Tensor of shape (B, r)
        Whitened signals.
    noise : Tensor of shape (B,) or None
        Standard deviations of the noise before whitening.
    earlier : Tensor of shape (B, m) or None, default=None
        Logits of an earlier pass.
    """

    dictionary: Whitened
    Z: Tensor
    noise: Tensor | None
    earlier: Tensor | None = None


def signals_per_batch(m: int) -> int:
    """Return the number of signals in a batch for a dictionary of m atoms."""
    return min(MOST_SIGNALS, max(FEWEST_SIGNALS, ATOMS_PER_BATCH // m))


def draw_batch(
    seed: int,
    number: int,
    Phi: NDArray[np.float64] | None = None,
    noisy_share: float = NOISY_SHARE,
    most: int = MOST_SIGNALS,
) -> tuple[Inputs, Tensor]:
    """Draw batch `number` of the run with that seed; with Φ given, only the signals are drawn.

    Parameters
    ----------
    seed, number : int
    Phi : ndarray of shape (n, m) or None, default=None
    noisy_share : float, default=0.3
        Share of the batches with noise.
    most : int, default=256
        Upper bound on the number of signals; :func:`signals_per_batch` may give fewer.

    Returns
    -------
    inputs : Inputs
    support : Tensor of shape (B, m), float32
        1 where x* is not zero.
    """
    rng = np.random.default_rng([seed, number])
    if Phi is None:
        Phi = draw_dictionary(rng)
    n, m = Phi.shape
    B = min(most, signals_per_batch(m))
    # Around and above the phase transition, which is lower with many atoms or noise.
    rank = min(n, m)
    high = min(0.75, 0.5 + 0.25 * n / m) * rank
    noisy = rng.random() < noisy_share
    snr_db = rng.uniform(10.0, 60.0) if noisy else None
    if snr_db is not None:
        high *= 0.4 + 0.4 * snr_db / 60.0
    low = max(1, round(0.15 * rank * (0.5 if noisy else 1.0)))
    sparsity = (low, min(m, max(low + 1, round(high))))
    X, Y = signals.sample(Phi, B, sparsity=sparsity, amplitudes=draw_amplitudes(rng), snr_db=snr_db, rng=rng)
    if snr_db is None:
        dictionary, noise = whiten(Phi), None
    else:
        ratio = 10.0 ** (-snr_db / 20.0)
        dictionary = whiten(Phi, 2.0 ** round(math.log2(ratio)))
        sigma = np.linalg.norm(X @ Phi.T, axis=1) / math.sqrt(n) * ratio
        noise = torch.tensor(sigma, dtype=torch.float32)
    Z = torch.tensor(Y @ dictionary.W.T, dtype=torch.float32)
    return Inputs(dictionary, Z, noise), torch.tensor(X != 0, dtype=torch.float32)


def draw_dictionary(rng: Rng, largest: int = 40, most_atoms: int = 200) -> NDArray[np.float64]:
    """Draw a kind, a size and a dictionary."""
    n = round(8.0 * (largest / 8.0) ** rng.random())
    m = min(most_atoms, max(n + 2, round(n * 1.2 * (8.0 / 1.2) ** rng.random())))
    kinds = list(KINDS)
    kind = rng.choice(kinds, p=[KINDS[kind][0] for kind in kinds])
    return KINDS[kind][1](rng, n, m)


def _decaying(rng: Rng, n: int, m: int) -> NDArray[np.float64]:
    return dictionaries.decaying(n, m, power=rng.uniform(1.0, 2.5), rng=rng)


def _gaussian(rng: Rng, n: int, m: int) -> NDArray[np.float64]:
    return dictionaries.gaussian(n, m, rng=rng)


def _low_rank_plus(rng: Rng, n: int, m: int) -> NDArray[np.float64]:
    rank = int(rng.integers(1, n // 2))
    return dictionaries.low_rank_plus(n, m, rank=rank, epsilon=10.0 ** rng.uniform(-2, 0), rng=rng)


def _clustered(rng: Rng, n: int, m: int) -> NDArray[np.float64]:
    clusters = int(rng.integers(max(2, m // 8), m // 2 + 1))
    return dictionaries.clustered(n, m, clusters=clusters, epsilon=10.0 ** rng.uniform(-1.5, 0), rng=rng).matrix


def _lighting(rng: Rng, n: int, m: int) -> NDArray[np.float64]:
    """Draw a rig of n + 3 lights; m is ignored, since such a dictionary has one atom per light."""
    lights = rng.standard_normal((n + 3, 3)) * [0.5, 0.5, 0.2] + [0.0, 0.0, 1.0]
    return np.asarray(dictionaries.lighting(lights / np.linalg.norm(lights, axis=1, keepdims=True)), dtype=np.float64)


def _trigonometric(rng: Rng, n: int, m: int) -> NDArray[np.float64]:
    """Draw rows of the real Fourier or cosine transform of length m."""
    place = np.arange(m) + 0.5
    if rng.random() < 0.5:
        rows = rng.choice(m, n, replace=False)
        Phi = np.cos(np.pi / m * rows[:, None] * place)
    else:
        waves = rng.choice(np.arange(1, m // 2 + 1), min((n + 1) // 2, m // 2), replace=False)
        angles = 2 * np.pi / m * waves[:, None] * place
        Phi = np.concatenate([np.cos(angles), np.sin(angles)])[:n]
    return Phi / np.linalg.norm(Phi, axis=0)


KINDS: dict[str, tuple[float, Callable[[Rng, int, int], NDArray[np.float64]]]] = {
    "decaying": (0.4, _decaying),
    "gaussian": (0.2, _gaussian),
    "low_rank_plus": (0.1, _low_rank_plus),
    "clustered": (0.1, _clustered),
    "lighting": (0.1, _lighting),
    "trigonometric": (0.1, _trigonometric),
}


def draw_amplitudes(rng: Rng) -> Callable[[Rng, int], NDArray[np.float64]] | str:
    """Draw an amplitude distribution."""

    def tenfold(generator: Rng, size: int) -> NDArray[np.float64]:
        return 10.0 ** generator.uniform(-1.0, 0.0, size) * generator.choice([-1.0, 1.0], size)

    laws: list[Callable[[Rng, int], NDArray[np.float64]] | str] = ["uniform", "gaussian", "unit", tenfold]
    return laws[int(rng.choice(4, p=[0.55, 0.15, 0.15, 0.15]))]
