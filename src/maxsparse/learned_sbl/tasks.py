"""Tasks of learned SBL: supports of signals, for one dictionary or many, also of signals that earlier passes miss."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.extras import needs

with needs("training"):
    import torch
    from torch import Tensor, nn

from maxsparse import dictionaries, metrics, signals
from maxsparse._core.prepared import Form, Prepared, level_of
from maxsparse._core.validation import (
    DuplicateAtomsWarning,
    RandomState,
    check_dictionary,
    check_integer,
    check_number,
    check_seed,
)
from maxsparse.learned_sbl.draw import Rng, draw_amplitudes, draw_dictionary
from maxsparse.learned_sbl.scores import LearnedScores
from maxsparse.learned_sbl.spec import Weights, as_arrays
from maxsparse.training.processes import share

__all__ = ["DictionariesTask", "Inputs", "OpenSignalsTask", "draw_batch", "draw_signals", "signals_per_batch"]

NOISY_SHARE = 0.3
ATOMS_PER_BATCH = 10_000  # signals × atoms
FEWEST_SIGNALS, MOST_SIGNALS = 32, 256
FAMILY_SHARE = 0.4  # of the batches of a later pass: the paper's kind of dictionary, the hardest one
DRAWN = 3  # times the signals of a batch, after one pass: about a third stays unsolved; once more for every other pass


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
        loss: Tensor = nn.functional.binary_cross_entropy_with_logits(late, support.expand_as(late)) * (m / n)
        return loss

    def validate(self, network: nn.Module) -> dict[str, Any]:
        """Return the strict accuracy without noise, on validation dictionaries and signals.

        If Φ was given, it is that dictionary. ``score`` is the mean.
        """
        names, strict = [], []
        for name, Phi, sparsities in self._problems():
            dictionary = Prepared(Phi).form()
            for d in sparsities:
                X, Y = signals.sample(Phi, self.validation_signals, sparsity=d, rng=d)
                scores = network(dictionary, torch.tensor(Y @ dictionary.back, dtype=torch.float32))[-1].numpy()
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
    dictionary : Form
    Z : Tensor of shape (B, r)
        Whitened signals.
    noise : Tensor of shape (B,) or None
        Standard deviations of the noise before whitening.
    earlier : Tensor of shape (B, m) or None, default=None
        Logits of an earlier pass.
    """

    dictionary: Form
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
    return draw_signals(Phi, B, sparsity, draw_amplitudes(rng), snr_db, rng)


def draw_signals(
    Phi: NDArray[np.float64], B: int, sparsity: tuple[int, int], amplitudes: Any, snr_db: float | None, rng: Rng
) -> tuple[Inputs, Tensor]:
    """Draw B signals of one dictionary: the inputs, and the supports (B, m)."""
    X, Y = signals.sample(Phi, B, sparsity=sparsity, amplitudes=amplitudes, snr_db=snr_db, rng=rng)
    if snr_db is None:
        dictionary, noise = Prepared(Phi).form(), None
    else:
        ratio = 10.0 ** (-snr_db / 20.0)
        dictionary = Prepared(Phi).form(int(level_of(ratio)))
        sigma = np.linalg.norm(X @ Phi.T, axis=1) / math.sqrt(len(Phi)) * ratio
        noise = torch.tensor(sigma, dtype=torch.float32)
    Z = torch.tensor(Y @ dictionary.back, dtype=torch.float32)
    return Inputs(dictionary, Z, noise), torch.tensor(X != 0, dtype=torch.float32)


class OpenSignalsTask(DictionariesTask):
    """Learn the support of signals whose support is not among the n best-scored atoms of any pass so far.

    Parameters
    ----------
    passes : sequence of Weights
        The passes so far.
    validation_signals : int, default=300
        Unsolved signals per dictionary and number of nonzeros in the validation set.
    rng : int, numpy.random.Generator or None, default=None
        Seed of dictionaries and signals.
    """

    def __init__(self, passes: Sequence[Weights], *, validation_signals: int = 300, rng: RandomState = None) -> None:
        super().__init__(noisy_share=0.0, validation_signals=validation_signals, rng=rng)
        self.passes = passes
        self.settings |= {"task": "open signals", "family_share": FAMILY_SHARE}
        named = {f"{number}.{name}": a for number, w in enumerate(passes) for name, a in as_arrays(w).items()}
        self.arrays: dict[str, NDArray[Any]] = dict(named)

    def draw(self, number: int, size: int) -> tuple[Inputs, Tensor]:
        """Draw dictionaries until one leaves enough signals unsolved; return at most `size` of those."""
        attempt = 0
        while (drawn := self._try(np.random.default_rng([self.seed, number, attempt]), size)) is None:
            attempt += 1
        return drawn

    def _try(self, rng: Rng, size: int) -> tuple[Inputs, Tensor] | None:
        Phi = dictionaries.decaying(20, 100, rng=rng) if rng.random() < FAMILY_SHARE else draw_dictionary(rng)
        n, m = Phi.shape
        B = min(size, signals_per_batch(m))
        low, high = max(1, round(0.3 * n)), round(min(0.75, 0.55 + 0.25 * n / m) * n)
        options: dict[str, Any] = {"sparsity": (low, max(low + 1, high)), "amplitudes": draw_amplitudes(rng)}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", DuplicateAtomsWarning)  # they cannot be distinguished
                X, Y = signals.sample(Phi, (DRAWN + len(self.passes) - 1) * B, rng=rng, **options)
        except DuplicateAtomsWarning:
            return None
        logits, rows = self.open_rows(Phi, X, Y)
        if len(rows) < max(1, B // 2):
            return None
        return _inputs(Phi, Y[rows[:B]], logits[rows[:B]]), _support(X[rows[:B]])

    def open_rows(
        self, Phi: NDArray[Any], X: NDArray[Any], Y: NDArray[Any]
    ) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
        """Return the logits (N, m) of a signal's last pass and the rows whose support none of the passes found."""
        scores = LearnedScores(Phi, self.passes[0], tuple(self.passes[1:]))
        logits = scores(Y)
        rows = _missed(logits, X, np.arange(len(X)), len(Phi))
        for number in range(scores.passes):
            logits[rows] = scores.again(Y[rows], logits[rows], number)
            rows = _missed(logits, X, rows, len(Phi))
        return logits, rows

    def validate(self, network: nn.Module) -> dict[str, Any]:
        """Return strict accuracy and cross-entropy on unsolved validation signals.

        ``score`` is minus the cross-entropy: the search needs calibrated log odds, not the best guess.
        """
        names, strict, entropy = [], [], []
        for seed in (10**6, 10**6 + 1):
            Phi = dictionaries.decaying(20, 100, rng=seed)
            for d in (8, 10, 12):
                X, Y = signals.sample(Phi, 4 * self.validation_signals, sparsity=d, rng=d)
                earlier, rows = self.open_rows(Phi, X, Y)
                rows = rows[: self.validation_signals]
                if not len(rows):
                    continue
                logits, support = network(*_inputs(Phi, Y[rows], earlier[rows]))[-1], _support(X[rows])
                if not torch.isfinite(logits).all():
                    raise FloatingPointError("scores became NaN or infinite")
                names.append(f"decaying 20x100, seed {seed}, d={d}")
                strict.append(metrics.strict_accuracy(X[rows], logits.numpy()))
                loss = nn.functional.binary_cross_entropy_with_logits(logits, support, reduction="sum")
                entropy.append(loss.item() / (len(rows) * len(Phi)))
        return {"score": -float(np.mean(entropy)), "problems": names, "strict": strict, "cross_entropy": entropy}


def _missed(logits: NDArray[Any], X: NDArray[Any], rows: NDArray[np.intp], n: int) -> NDArray[np.intp]:
    """Return those of the rows whose support is not among the n atoms with the largest logits."""
    best = np.argsort(-logits[rows], axis=1, kind="stable")[:, :n]
    inside = np.take_along_axis(X[rows] != 0, best, axis=1).sum(axis=1)
    missed: NDArray[np.intp] = rows[inside < (X[rows] != 0).sum(axis=1)]
    return missed


def _inputs(Phi: NDArray[Any], Y: NDArray[Any], logits: NDArray[Any]) -> Inputs:
    dictionary = Prepared(Phi).form()
    Z = torch.tensor(Y @ dictionary.back, dtype=torch.float32)
    return Inputs(dictionary, Z, None, torch.tensor(logits, dtype=torch.float32))


def _support(X: NDArray[Any]) -> Tensor:
    return torch.tensor(X != 0, dtype=torch.float32)
