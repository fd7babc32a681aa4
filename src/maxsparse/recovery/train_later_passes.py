"""Train a later pass: learned SBL for signals that decoding leaves open after the passes before.

``python -m maxsparse.recovery.train_later_passes OUTPUT --after 1`` trains the second pass, from the weights of the
first and in the same loop as ``maxsparse.training.learned_sbl``; ``--after 2`` the third. The network sees the logits
of the pass before beside the signal, and only signals whose support no pass so far has found. So it learns what to do
when the obvious answer is wrong, and how sure to be of it: its log odds guide the search.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from maxsparse._core.extras import needs

with needs("training"):
    import torch
    from torch import Tensor, nn

from maxsparse import dictionaries, metrics, signals
from maxsparse._core.validation import DuplicateAtomsWarning, RandomState
from maxsparse.networks.learned_sbl import LearnedSBL, whiten
from maxsparse.recovery._float32 import Weights
from maxsparse.recovery.scores import LearnedScores, as_arrays, bundled_later, bundled_weights
from maxsparse.training.command import run
from maxsparse.training.data_dictionaries import (
    DictionariesTask,
    Inputs,
    draw_amplitudes,
    draw_dictionary,
    signals_per_batch,
)
from maxsparse.training.learned_sbl import settings_for

__all__ = ["OpenSignalsTask", "widen"]

Rng = np.random.Generator
FAMILY_SHARE = 0.4  # of the batches: the paper's kind of dictionary, where few other methods find anything
DRAWN = 3  # times as many signals as a batch wants, after one pass: about a third stays open; once more for every other
SIZES = {"state": 16, "hidden": 64, "heads": 4}
NEW_WEIGHTS = 0.1  # their size relative to that of the usual initial weights: enough to learn from, no harm


class OpenSignalsTask(DictionariesTask):
    """Learn the support of signals whose support is not among the n best-scored atoms of any pass so far.

    Parameters
    ----------
    passes : sequence of Weights
        The passes so far.
    validation_signals : int, default=300
        Open signals per dictionary and number of nonzeros in the validation set.
    rng : int, numpy.random.Generator or None, default=None
        Seed of everything that is drawn.
    """

    def __init__(self, passes: Sequence[Weights], *, validation_signals: int = 300, rng: RandomState = None) -> None:
        super().__init__(noisy_share=0.0, validation_signals=validation_signals, rng=rng)
        self.passes = passes
        self.settings |= {"task": "open signals", "family_share": FAMILY_SHARE}
        named = {f"{number}.{name}": a for number, w in enumerate(passes) for name, a in as_arrays(w).items()}
        self.arrays: dict[str, NDArray[Any]] = dict(named)

    def draw(self, number: int, size: int) -> tuple[Inputs, Tensor]:
        """Draw dictionaries until one leaves enough signals open; return at most `size` of those."""
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
                warnings.simplefilter("error", DuplicateAtomsWarning)  # nobody can tell them apart
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
        logits = scores(Y)[0]
        rows = _missed(logits, X, np.arange(len(X)), len(Phi))
        for number in range(scores.passes):
            logits[rows] = scores.again(Y[rows], logits[rows], number)
            rows = _missed(logits, X, rows, len(Phi))
        return logits, rows

    def validate(self, network: nn.Module) -> dict[str, Any]:
        """Return strict accuracy and cross-entropy on open signals that are never trained on.

        ``score`` is minus the cross-entropy: the search lives on log odds that are right, not on the best guess.
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
    return rows[inside < (X[rows] != 0).sum(axis=1)]


def _inputs(Phi: NDArray[Any], Y: NDArray[Any], logits: NDArray[Any]) -> Inputs:
    dictionary = whiten(Phi)
    Z = torch.tensor(Y @ dictionary.W.T, dtype=torch.float32)
    return Inputs(dictionary, Z, None, torch.tensor(logits, dtype=torch.float32))


def _support(X: NDArray[Any]) -> Tensor:
    return torch.tensor(X != 0, dtype=torch.float32)


@torch.no_grad()
def widen(network: LearnedSBL, weights: Weights) -> None:
    """Start a network from the weights of a smaller one, of which it first gives all but the same answers.

    Parameters
    ----------
    network : LearnedSBL
        Changed in place. What it has beyond the smaller one keeps a small part of its initial weights.
    weights : Weights
        With as many iterations, and without heads unless all sizes are the same.
    """
    small = {name: torch.from_numpy(array) for name, array in as_arrays(weights).items()}
    if all(value.shape == small[name].shape for name, value in network.state_dict().items()):
        network.load_state_dict(small)
        return
    (hidden, seen), outputs = small["first.weight"].shape, len(small["last.bias"])
    network.first.weight[:hidden, seen:] *= NEW_WEIGHTS
    network.first.weight[:hidden, :seen] = small["first.weight"]
    network.context.weight[:hidden, seen:-1] *= NEW_WEIGHTS
    network.context.weight[:hidden, :seen] = small["context.weight"][:, :-1]
    network.context.weight[:hidden, -1] = small["context.weight"][:, -1]
    network.moment[:, :hidden] = small["moment"]
    nn.init.normal_(network.last.weight[outputs:], std=NEW_WEIGHTS * network.last.in_features**-0.5)
    network.last.weight[:outputs, :hidden] = small["last.weight"]
    network.last.bias[:outputs] = small["last.bias"]
    network.log_lambda.copy_(small["log_lambda"])


def main(
    output: Annotated[Path, typer.Argument(help="Model file for the best weights (.safetensors).")],
    after: Annotated[int, typer.Option(min=1, max=2, help="Bundled passes before it: 1 for the second pass.")] = 1,
    steps: Annotated[int, typer.Option(min=1, help="Batches in the whole run.")] = 20_000,
    minutes: Annotated[float | None, typer.Option(min=0.0, help="End earlier, after so long.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, dictionaries and signals.")] = 0,
    rate: Annotated[float, typer.Option(min=0.0, help="Learning rate.")] = 2.5e-3,
) -> None:
    """Train on one core; where OUTPUT has a checkpoint beside it, go on from there."""
    passes = (bundled_weights(), *bundled_later())[:after]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = LearnedSBL(**SIZES)
        widen(network, passes[-1])
    task, settings = OpenSignalsTask(passes, rng=seed), settings_for(steps, rate)
    run(network, task, settings, output, "recovery.train_later_passes", steps=steps, minutes=minutes)


if __name__ == "__main__":
    typer.run(main)
