"""Train learned SBL on many dictionaries, to generalise to unseen ones, or fine-tune it to one.

``python -m maxsparse.learned_sbl.train OUTPUT`` keeps the best weights in OUTPUT, from the first validation on, and
next to it a checkpoint until the run is finished. After a kill the same command resumes; the result is bitwise
identical.

``--after 1`` trains the second pass, from the weights of the first; ``--after 2`` the third. The network gets the
logits of the previous pass in addition to the signal, and is trained only on signals whose support no pass so far has
found. So it learns to correct wrong answers, with calibrated confidence: its log odds guide the search.

``--noisy`` trains the network for noisy signals, from the weights of the first pass.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from maxsparse._core.extras import needs

with needs("training"):
    import torch
    from torch import nn

from maxsparse.learned_sbl.model import LearnedSBL
from maxsparse.learned_sbl.noisy_task import NoisySignalsTask
from maxsparse.learned_sbl.spec import Weights, as_arrays
from maxsparse.learned_sbl.tasks import (
    MOST_SIGNALS,
    NOISY_SHARE,
    DictionariesTask,
    OpenSignalsTask,
    signals_per_batch,
)
from maxsparse.learned_sbl.weights import bundled_later, bundled_weights
from maxsparse.training.command import train_from_command_line
from maxsparse.training.loop import InterruptedTraining, train
from maxsparse.training.presets import Settings
from maxsparse.training.run import DivergenceError

__all__ = ["SETTINGS", "TUNING", "InterruptedTuning", "settings_for", "tune", "widen"]

WARMUP_STEPS = 100
# Weights averaged over the last thousand steps vary less than the latest ones.
SETTINGS = Settings(
    learning_rate=3e-3, weight_decay=1e-4, batch_size=MOST_SIGNALS, schedule="hold", clip=1.0, ema=0.999
)
# One validation, at the end: the caller gets the final weights.
TUNING = SETTINGS.but(learning_rate=2e-3, rounds=1)
NEW_WEIGHTS = 0.1  # scale relative to the usual initial weights: small enough to keep the answers


class Plan(NamedTuple):
    """How a pass of the package was trained."""

    steps: int
    rate: float
    sizes: dict[str, int]


FIRST = Plan(40_000, SETTINGS.learning_rate, {})
NOISY = Plan(8_000, 1.5e-3, {})
LATER = Plan(20_000, 2.5e-3, {"state": 16, "hidden": 64, "heads": 4})


class InterruptedTuning(InterruptedTraining):
    """Fine-tuning was interrupted; `weights` are those learned so far."""

    def __init__(self, message: str, weights: dict[str, NDArray[np.float32]]) -> None:
        super().__init__(message)
        self.weights = weights


def tune(
    Phi: NDArray[Any],
    weights: dict[str, NDArray[np.float32]],
    *,
    minutes: float,
    seed: int = 0,
    noise: float = 0.0,
    progress: bool = False,
) -> dict[str, NDArray[np.float32]]:
    """Fine-tune given weights on signals of one dictionary, on one core.

    Parameters
    ----------
    Phi : ndarray of shape (n, m)
    weights : dict
        Arrays by name, as in ``LearnedSBL.state_dict``.
    minutes : float
    seed : int, default=0
    noise : float, default=0.0
        0 trains on noiseless signals only; otherwise some have noise, at levels from 10 to 60 dB.
    progress : bool, default=False
        Show a progress bar on a terminal.

    Returns
    -------
    weights : dict

    Raises
    ------
    InterruptedTuning
        On Ctrl-C or SIGTERM; its ``weights`` are those learned so far.
    DivergenceError
        If the loss or the gradient remains NaN or infinite.
    """
    iterations, hidden = weights["moment"].shape
    with torch.random.fork_rng(devices=[]):  # its random weights are replaced; the caller's generator is not changed
        network = LearnedSBL(iterations=iterations, state=len(weights["last.bias"]) - 2, hidden=hidden)
    network.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
    task = DictionariesTask(Phi, noisy_share=NOISY_SHARE if noise > 0 else 0.0, rng=seed)
    settings = TUNING.but(batch_size=signals_per_batch(Phi.shape[1]))
    begun = time.monotonic()
    try:
        train(network, task, settings, minutes=minutes, device="cpu", n_threads=1, progress=progress)
    except InterruptedTraining:
        spent = (time.monotonic() - begun) / 60.0
        message = f"tuning stopped after {spent:.1f} of {minutes:g} minutes"
        raise InterruptedTuning(message, _arrays(network)) from None
    except DivergenceError as error:
        raise DivergenceError(f"tuning diverged: {error.reason}", error.reason, error.samples) from None
    return _arrays(network)


def _arrays(network: LearnedSBL) -> dict[str, NDArray[np.float32]]:
    return {name: value.numpy() for name, value in network.state_dict().items()}


@torch.no_grad()
def widen(network: LearnedSBL, weights: Weights) -> None:
    """Initialise a network from the weights of a smaller one, so that it starts with nearly the same answers.

    Parameters
    ----------
    network : LearnedSBL
        Changed in place. Additional weights keep a small part of their initial values.
    weights : Weights
        With the same number of iterations, and without heads unless all sizes are equal.
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
    after: Annotated[
        int, typer.Option(min=0, max=2, help="Number of bundled passes before it: 1 for the second pass.")
    ] = 0,
    noisy: Annotated[bool, typer.Option("--noisy", help="Train the network for noisy signals.")] = False,
    steps: Annotated[int | None, typer.Option(min=1, help="Total number of batches.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Stop after this time, if earlier.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, dictionaries and signals.")] = 0,
    rate: Annotated[float | None, typer.Option(min=0.0, help="Learning rate.")] = None,
    state: Annotated[int | None, typer.Option(min=1, help="Size of the state of an atom.")] = None,
    hidden: Annotated[int | None, typer.Option(min=1, help="Width of the perceptron.")] = None,
) -> None:
    """Train on one core; resume if there is a checkpoint next to OUTPUT."""
    if noisy and after:
        raise typer.BadParameter(f"--noisy trains a first pass, without --after, got --after {after}")
    usual = NOISY if noisy else LATER if after else FIRST
    asked = {"state": state, "hidden": hidden}
    sizes = usual.sizes | {name: size for name, size in asked.items() if size is not None}
    steps = usual.steps if steps is None else steps
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = LearnedSBL(**sizes)
        passes = (bundled_weights(), *bundled_later())[: 1 if noisy else after]
        if passes:
            widen(network, passes[-1])
    task = _task(passes, noisy, seed)
    settings = settings_for(steps, usual.rate if rate is None else rate)
    train_from_command_line(network, task, settings, output, "learned_sbl.train", steps=steps, minutes=minutes)


def _task(passes: tuple[Weights, ...], noisy: bool, seed: int) -> DictionariesTask:
    if noisy:
        return NoisySignalsTask(rng=seed)
    return OpenSignalsTask(passes, rng=seed) if passes else DictionariesTask(rng=seed)


def settings_for(steps: int, rate: float) -> Settings:
    """Return the settings for a number of batches and a learning rate."""
    return SETTINGS.but(learning_rate=rate, warmup=min(0.1, WARMUP_STEPS / steps))


if __name__ == "__main__":
    typer.run(main)
