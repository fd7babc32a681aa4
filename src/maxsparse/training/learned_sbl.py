"""Train learned SBL on many dictionaries, to generalise to unseen ones, or fine-tune it to one.

``python -m maxsparse.training.learned_sbl OUTPUT`` keeps the best weights in OUTPUT, from the first validation on, and
next to it a checkpoint until the run is finished. After a kill the same command resumes; the result is bitwise
identical.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from maxsparse.networks import create
from maxsparse.networks.learned_sbl import LearnedSBL
from maxsparse.training.command import run
from maxsparse.training.data_dictionaries import MOST_SIGNALS, NOISY_SHARE, DictionariesTask, signals_per_batch
from maxsparse.training.loop import InterruptedTraining, train
from maxsparse.training.presets import Settings
from maxsparse.training.run import DivergenceError

__all__ = ["SETTINGS", "TUNING", "InterruptedTuning", "settings_for", "tune"]

WARMUP_STEPS = 100
# Weights averaged over the last thousand steps vary less than the latest ones.
SETTINGS = Settings(
    learning_rate=3e-3, weight_decay=1e-4, batch_size=MOST_SIGNALS, schedule="hold", clip=1.0, ema=0.999
)
# One validation, at the end: the caller gets the final weights.
TUNING = SETTINGS.but(learning_rate=2e-3, rounds=1)


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


def main(
    output: Annotated[Path, typer.Argument(help="Model file for the best weights (.safetensors).")],
    steps: Annotated[int, typer.Option(min=1, help="Total number of batches.")] = 40_000,
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Stop after this time, if earlier.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, dictionaries and signals.")] = 0,
    rate: Annotated[float, typer.Option(min=0.0, help="Learning rate.")] = SETTINGS.learning_rate,
    state: Annotated[int, typer.Option(min=1, help="Size of the state of an atom.")] = 12,
    hidden: Annotated[int, typer.Option(min=1, help="Width of the perceptron.")] = 48,
) -> None:
    """Train on one core; resume if there is a checkpoint next to OUTPUT."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = create("learned_sbl", state=state, hidden=hidden)
    task = DictionariesTask(rng=seed)
    run(network, task, settings_for(steps, rate), output, "training.learned_sbl", steps=steps, minutes=minutes)


def settings_for(steps: int, rate: float) -> Settings:
    """Return the settings for a number of batches and a learning rate."""
    return SETTINGS.but(learning_rate=rate, warmup=min(0.1, WARMUP_STEPS / steps))


if __name__ == "__main__":
    typer.run(main)
