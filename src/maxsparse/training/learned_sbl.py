"""Train learned SBL on many dictionaries, so that it serves those it never saw.

``python -m maxsparse.training.learned_sbl OUTPUT`` writes the weights to OUTPUT, and beside it what a later run
needs to go on. Every batch has its own dictionary, a function of the seed and of the batch's number alone.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from torch import Tensor

from maxsparse import dictionaries, metrics, signals
from maxsparse._progress import bar
from maxsparse.files import atomic_write
from maxsparse.networks.learned_sbl import LearnedSBL, Shape, Whitened, whiten
from maxsparse.training.interrupt import Interrupt
from maxsparse.training.loop import InterruptedTraining
from maxsparse.training.run import DivergenceError

Rng = np.random.Generator
EMA = 0.999  # weights averaged over the last thousand steps are steadier than the latest ones
NOISY_SHARE = 0.3
TUNING_RATE = 2e-3
MOST_SKIPPED = 100  # batches in a row whose gradient is not finite
ATOMS_PER_BATCH = 10_000  # signals × atoms


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


def _amplitudes(rng: Rng) -> Callable[[Rng, int], NDArray[np.float64]] | str:
    def tenfold(generator: Rng, size: int) -> NDArray[np.float64]:
        return 10.0 ** generator.uniform(-1.0, 0.0, size) * generator.choice([-1.0, 1.0], size)

    laws: list[Callable[[Rng, int], NDArray[np.float64]] | str] = ["uniform", "gaussian", "unit", tenfold]
    return laws[int(rng.choice(4, p=[0.55, 0.15, 0.15, 0.15]))]


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """One dictionary with signals, whitened."""

    dictionary: Whitened
    Z: Tensor
    target: Tensor
    noise: Tensor | None


def draw_batch(
    seed: int, number: int, Phi: NDArray[np.float64] | None = None, noisy_share: float = NOISY_SHARE
) -> TrainingBatch:
    """Draw batch `number` of the run with that seed; with Φ given, only the signals are drawn."""
    rng = np.random.default_rng([seed, number])
    if Phi is None:
        Phi = draw_dictionary(rng)
    n, m = Phi.shape
    B = int(np.clip(ATOMS_PER_BATCH // m, 32, 256))
    # Around and past the transition; it lies lower where there are many atoms to choose from, or noise.
    high = min(0.75, 0.5 + 0.25 * n / m) * n
    noisy = rng.random() < noisy_share
    snr_db = rng.uniform(10.0, 60.0) if noisy else None
    if snr_db is not None:
        high *= 0.4 + 0.4 * snr_db / 60.0
    low = max(1, round(0.15 * n * (0.5 if noisy else 1.0)))
    X, Y = signals.sample(
        Phi, B, sparsity=(low, max(low + 1, round(high))), amplitudes=_amplitudes(rng), snr_db=snr_db, rng=rng
    )
    if snr_db is None:
        dictionary, noise = whiten(Phi), None
    else:
        ratio = 10.0 ** (-snr_db / 20.0)
        dictionary = whiten(Phi, 2.0 ** round(math.log2(ratio)))
        sigma = np.linalg.norm(X @ Phi.T, axis=1) / math.sqrt(n) * ratio
        noise = torch.tensor(sigma, dtype=torch.float32)
    Z = torch.tensor(Y @ dictionary.W.T, dtype=torch.float32)
    return TrainingBatch(dictionary, Z, torch.tensor(X != 0, dtype=torch.float32), noise)


def batch_loss(net: LearnedSBL, batch: TrainingBatch) -> Tensor:
    """Cross-entropy of the support, summed over atoms, per measurement; mean over the second half of the iterations."""
    logits = net(batch.dictionary, batch.Z, batch.noise)
    late = torch.stack(logits[len(logits) // 2 :])
    target = batch.target.expand_as(late)
    n, m = batch.dictionary.Q.shape
    return torch.nn.functional.binary_cross_entropy_with_logits(late, target) * (m / n)


class InterruptedTuning(InterruptedTraining):
    """Tuning was stopped; `weights` are those learned so far."""

    def __init__(self, message: str, weights: dict[str, NDArray[np.float32]]) -> None:
        super().__init__(message)
        self.weights = weights


class Trainer:
    """Weights, their running mean and the optimiser; can be written to a file and read back."""

    def __init__(self, shape: Shape, seed: int, rate: float) -> None:
        torch.manual_seed(seed)
        self.seed, self.rate, self.step_number, self.skipped = seed, rate, 0, 0
        self.net, self.mean = LearnedSBL(shape), LearnedSBL(shape)
        self.mean.load_state_dict(self.net.state_dict())
        self.optimiser = torch.optim.AdamW(self.net.parameters(), lr=rate, weight_decay=1e-4)

    def step(self, batch: TrainingBatch, factor: float) -> float:
        """Take one step at `factor` times the learning rate; return the loss."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate * factor
        loss = batch_loss(self.net, batch)
        self.optimiser.zero_grad()
        loss.backward()
        size = torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        if torch.isfinite(size):
            self.optimiser.step()
            self.skipped = 0
        else:  # now and then a batch has signals whose S is all but singular
            self.skipped += 1
            if self.skipped == MOST_SKIPPED:
                raise DivergenceError(f"the gradient was not finite {MOST_SKIPPED} times in a row")
        decay = min(EMA, (self.step_number + 1) / (self.step_number + 10))
        with torch.no_grad():
            for mean, weight in zip(self.mean.parameters(), self.net.parameters(), strict=True):
                mean.lerp_(weight, 1.0 - decay)
        self.step_number += 1
        return loss.item()

    def save(self, path: Path) -> None:
        """Write everything that a later run needs."""
        from safetensors.torch import save

        tensors = {f"net.{name}": value for name, value in self.net.state_dict().items()}
        tensors |= {f"mean.{name}": value for name, value in self.mean.state_dict().items()}
        for index, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"adam.{index}.{name}": value for name, value in state.items()}
        metadata = {"step": self.step_number, "seed": self.seed, "shape": self.net.describe()}
        with atomic_write(path) as stream:
            stream.write(save(tensors, {"training": json.dumps(metadata)}))

    def load(self, path: Path) -> None:
        """Go on where `save` stopped."""
        from safetensors import safe_open

        with safe_open(path, "pt") as file:
            metadata = json.loads(file.metadata()["training"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata["shape"] != self.net.describe():
            raise ValueError(f"{str(path)!r} holds a network of shape {metadata['shape']}, not {self.net.describe()}")
        for module, prefix in ((self.net, "net."), (self.mean, "mean.")):
            module.load_state_dict({k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)})
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("adam."):
                _, index, field = name.split(".", 2)
                state.setdefault(int(index), {})[field] = value
        if state:  # a file without them starts the optimiser anew
            self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
        self.step_number, self.seed = int(metadata["step"]), int(metadata["seed"])


def evaluate(net: LearnedSBL, N: int = 200) -> dict[str, float]:
    """Strict accuracy on dictionaries of other seeds, as "kind n×m d" → accuracy."""
    problems: list[tuple[str, NDArray[np.float64], tuple[int, ...]]] = [
        ("decaying 20x100", dictionaries.decaying(20, 100, rng=10**6), (5, 6, 7, 8, 9, 10)),
        ("gaussian 30x60", dictionaries.gaussian(30, 60, rng=10**6), (10, 14)),
        ("decaying 48x192", dictionaries.decaying(48, 192, rng=10**6), (14, 18)),
    ]
    figures = {}
    for name, Phi, sparsities in problems:
        dictionary = whiten(Phi)
        for d in sparsities:
            X, Y = signals.sample(Phi, N, sparsity=d, rng=d)
            with torch.no_grad():
                scores = net(dictionary, torch.tensor(Y @ dictionary.W.T, dtype=torch.float32))[-1].numpy()
            figures[f"{name} d={d}"] = round(metrics.strict_accuracy(X, scores), 4)
    return figures


def tune(
    Phi: NDArray[Any],
    weights: dict[str, NDArray[np.float32]],
    *,
    minutes: float,
    seed: int = 0,
    noise: float = 0.0,
    progress: bool = False,
) -> dict[str, NDArray[np.float32]]:
    """Go on training given weights on signals of one dictionary, for so many minutes on one core.

    Parameters
    ----------
    Phi : ndarray of shape (n, m)
    weights : dict
        Arrays by name, as in ``LearnedSBL.state_dict``.
    minutes : float
    seed : int, default=0
    noise : float, default=0.0
        0 tunes on noiseless signals alone; otherwise some have noise, at levels from 10 to 60 dB.
    progress : bool, default=False
        Show a progress bar on a terminal.

    Returns
    -------
    weights : dict

    Raises
    ------
    InterruptedTuning
        Ctrl-C or SIGTERM came; its ``weights`` are those learned so far.
    DivergenceError
        The gradient stayed NaN or infinite.
    """
    state = len(weights["last.bias"]) - 2
    iterations, hidden = weights["moment"].shape
    trainer = Trainer(Shape(iterations=iterations, state=state, hidden=hidden), seed, TUNING_RATE)
    start = {name: torch.tensor(value) for name, value in weights.items()}
    trainer.net.load_state_dict(start)
    trainer.mean.load_state_dict(start)
    exact = np.asarray(Phi, dtype=np.float64)
    begun, threads, shown = time.monotonic(), torch.get_num_threads(), 0
    torch.set_num_threads(1)
    try:
        with Interrupt() as interrupt, bar(round(60 * minutes), 0, "tuning", progress) as show:
            while (spent := (time.monotonic() - begun) / (60 * minutes)) < 1.0 and not interrupt.asked:
                factor = min(1.0, (trainer.step_number + 1) / 50.0) * min(1.0, 1.5 * (1.0 - spent))
                batch = draw_batch(seed, trainer.step_number, exact, NOISY_SHARE if noise > 0 else 0.0)
                trainer.step(batch, factor)
                show(int(60 * minutes * spent) - shown)
                shown = int(60 * minutes * spent)
    finally:
        torch.set_num_threads(threads)
    tuned = {name: value.numpy() for name, value in trainer.mean.state_dict().items()}
    if interrupt.asked:
        raise InterruptedTuning(f"tuning stopped after {minutes * spent:.1f} of {minutes:g} minutes", tuned)
    return tuned


def train(
    output: Annotated[Path, typer.Argument(help="File for the weights (.safetensors).")],
    steps: Annotated[int, typer.Option(help="Batches in the whole run, those of earlier runs included.")] = 40_000,
    minutes: Annotated[float, typer.Option(help="Stop after so long; run again to go on.")] = 1e9,
    seed: int = 0,
    rate: float = 3e-3,
    state: int = Shape.state,
    hidden: int = Shape.hidden,
    every: Annotated[float, typer.Option(help="Minutes between two checkpoints.")] = 4.0,
) -> None:
    """Train, or go on training where OUTPUT's checkpoint stands."""
    torch.set_num_threads(1)
    trainer = Trainer(Shape(state=state, hidden=hidden), seed, rate)
    checkpoint, log = output.with_suffix(".checkpoint"), output.with_suffix(".jsonl")
    if checkpoint.exists():
        trainer.load(checkpoint)
    begun = last = time.monotonic()
    running = math.nan
    while trainer.step_number < steps and time.monotonic() - begun < 60 * minutes:
        now = trainer.step_number
        # Warm up, hold, and go down linearly over the last third: a longer run resumes from what a shorter one held.
        factor = min(1.0, (now + 1) / 100.0, (steps - now) / (0.33 * steps))
        loss = trainer.step(draw_batch(trainer.seed, now), factor)
        running = loss if math.isnan(running) else 0.99 * running + 0.01 * loss
        if time.monotonic() - last > 60 * every:
            _report(trainer, running, begun, checkpoint, log, output)
            last = time.monotonic()
    _report(trainer, running, begun, checkpoint, log, output)


def _report(trainer: Trainer, loss: float, begun: float, checkpoint: Path, log: Path, output: Path) -> None:
    from safetensors.torch import save

    trainer.save(checkpoint)
    with atomic_write(output) as stream:
        metadata = {"learned_sbl": json.dumps(trainer.mean.describe())}
        stream.write(save(trainer.mean.state_dict(), metadata))
    line: dict[str, Any] = {"step": trainer.step_number, "minutes": round((time.monotonic() - begun) / 60, 1)}
    line |= {"loss": round(loss, 4)} | evaluate(trainer.mean)
    with log.open("a") as stream_text:
        stream_text.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    typer.run(train)
