"""Train the network of ``auto`` on synthetic readings for every rig, or fine-tune it to one.

``python -m maxsparse.stereo.reading_network.train OUTPUT`` keeps the best weights in OUTPUT, from the first validation
on, and next to it a checkpoint until the run is finished. After a kill the same command resumes; the result is bitwise
identical.
"""

from __future__ import annotations

import copy
import math
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from maxsparse._core.extras import needs

with needs("training"):
    import torch
    from torch import Tensor, nn

from maxsparse import training
from maxsparse._core.validation import FloatArray, RandomState, check_integer, check_number, check_seed
from maxsparse.stereo.reading_network.model import ReadingNetwork, Refined
from maxsparse.stereo.reading_network.start import Start, first_guess
from maxsparse.stereo.reading_network.store import load_network
from maxsparse.stereo.reading_network.synthesis import Readings, sample_lights, sample_readings
from maxsparse.stereo.scene import check_lights
from maxsparse.training.command import train_from_command_line
from maxsparse.training.processes import share

__all__ = ["SETTINGS", "TUNING", "ReadingsTask", "train_for_rig", "training_loss"]

READINGS = 24_000  # in a batch
# About half an hour of one core.
SETTINGS = training.Settings(
    learning_rate=2e-3, weight_decay=1e-4, batch_size=READINGS, warmup=0.02, clip=1.0, samples=15_000 * READINGS
)
# One validation, at the end: the caller gets the final weights. Tuning is short, and its first steps must not damage
# the pretrained network.
TUNING = SETTINGS.but(warmup=0.3, rounds=1)
VALIDATION_RIGS = (8, 16, 40, 96)  # lights
VALIDATION_SEED = 10**6
FINE = 0.005  # radians: the loss also has the logarithm of larger angles


class ReadingsTask:
    """Learn normals from synthetic readings, with a new rig for every batch, to generalise to unseen rigs.

    Rig and readings of a batch depend only on the seed and its number. The batch size in the settings counts readings:
    a batch under q lights has that number divided by q surface points, so that all batches cost about the same. CPU
    only.

    Parameters
    ----------
    lights : ndarray of shape (q, 3) or None, default=None
        The one rig of all batches; None draws rigs of 6 to 100 lights.
    validation_readings : int, default=24000
        Readings per rig in the validation set.
    rng : int, numpy.random.Generator or None, default=None
        Seed of rigs and readings.
    """

    def __init__(
        self,
        lights: FloatArray | None = None,
        *,
        validation_readings: int = READINGS,
        rng: RandomState = None,
    ) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.rig: Tensor | None = None
        if lights is not None:
            self.arrays["lights"] = check_lights(lights, len(lights))
            self.rig = torch.from_numpy(self.arrays["lights"].astype(np.float32))
        self.validation_readings = check_integer(validation_readings, "validation_readings", low=1, high=10**7)
        self.seed = check_seed(rng)
        self.settings: dict[str, Any] = {
            "task": "readings",
            "validation_readings": validation_readings,
            "rng": self.seed,
        }

    def batch(self, number: int, size: int, rows: slice, device: torch.device) -> tuple[Start, Readings]:
        """Return inputs and true normals; all processes get equally many points."""
        if device.type != "cpu":
            raise ValueError(f"device must be 'cpu' for readings, got {str(device)!r}; train with device=\"cpu\"")
        generator = torch.Generator().manual_seed(int(np.random.default_rng([self.seed, number]).integers(2**63)))
        lights = _draw_rig(generator) if self.rig is None else self.rig
        truth = _sample(lights, size, generator)
        own = share(len(truth.values), size, rows)
        truth = Readings(truth.values[own], truth.normals[own], truth.inliers[own])
        return _start(truth, lights), truth

    def loss(self, network: nn.Module, start: Start, truth: Readings) -> Tensor:
        """Return :func:`training_loss`."""
        return training_loss(network(start), truth)

    def validate(self, network: nn.Module) -> dict[str, Any]:
        """Return the mean angular error under validation rigs, or under the given one.

        ``score`` is minus its mean over the rigs.
        """
        degrees = []
        for start, truth in self._held_out:
            degrees.append(math.degrees(_angle(network(start).normals, truth.normals).mean()))
        if not np.isfinite(degrees).all():
            raise FloatingPointError("normals became NaN")
        return {"score": -float(np.mean(degrees)), "degrees": degrees}

    @cached_property
    def _held_out(self) -> list[tuple[Start, Readings]]:
        generator = torch.Generator().manual_seed(VALIDATION_SEED)
        rigs = [sample_lights(q, generator) for q in VALIDATION_RIGS] if self.rig is None else [self.rig]
        truths = [_sample(lights, self.validation_readings, generator) for lights in rigs]
        return [(_start(truth, lights), truth) for truth, lights in zip(truths, rigs, strict=True)]


def _draw_rig(generator: torch.Generator) -> Tensor:
    return sample_lights(int(6 * (100 / 6) ** float(torch.rand(1, generator=generator))), generator)


def _sample(lights: Tensor, readings: int, generator: torch.Generator) -> Readings:
    return sample_readings(lights, max(1, readings // len(lights)), generator)


def _start(truth: Readings, lights: Tensor) -> Start:
    return first_guess(truth.values.double().numpy(), lights.double().numpy())[0].tensors()


def training_loss(refined: Refined, truth: Readings) -> Tensor:
    """Sum of three losses: angles of every round (the last counts most), inlier labels, expected error."""
    total = refined.normals.new_zeros(())
    for number, normals in enumerate(refined.path):
        angle = _angle(normals, truth.normals)
        weight = 0.3 if number < len(refined.path) - 1 else 1.0
        # Never below zero: the loop detects divergence by the ratio of the loss to its first value.
        total = total + weight * (angle.mean() + 0.02 * torch.log1p(angle / FINE).mean())
    labels = nn.functional.binary_cross_entropy_with_logits(refined.logits, truth.inliers.float())
    target = torch.log(_angle(refined.normals, truth.normals).detach() + 0.003)
    return total + 0.03 * labels + 0.02 * (refined.log_error - target).abs().mean()


def _angle(a: Tensor, b: Tensor) -> Tensor:
    """Angle in radians between unit rows; atan2 has a gradient where arccos has none."""
    return 2 * torch.atan2((a - b).norm(dim=1) + 1e-7, (a + b).norm(dim=1) + 1e-7)


def train_for_rig(
    seconds: float | None = None,
    *,
    steps: int | None = None,
    network: ReadingNetwork | None = None,
    lights: FloatArray | None = None,
    seed: int = 0,
    progress: bool = False,
) -> ReadingNetwork:
    """Train on synthetic readings for a given time or number of steps, with the settings for fine-tuning.

    Parameters
    ----------
    seconds : float or None, default=None
        Time to train, with cosine decay of the learning rate. The number of steps depends on the machine, so the result
        is not reproducible.
    steps : int or None, default=None
        Steps to train, instead of `seconds`; reproducible for a given seed.
    network : ReadingNetwork or None, default=None
        Network to start from; it is not changed. None starts from scratch.
    lights : ndarray of shape (q, 3) or None, default=None
        Rig of every step. None draws a new one of 6 to 100 lights for every step.
    seed : int, default=0
        Seeds the first weights and the data.
    progress : bool, default=False
        Show a progress bar on a terminal.

    Returns
    -------
    network : ReadingNetwork
        In evaluation mode.

    Raises
    ------
    InterruptedTraining
        On Ctrl-C or SIGTERM.
    DivergenceError
        If the loss or the gradient remains NaN or infinite.
    """
    if (seconds is None) == (steps is None):
        raise ValueError("give either seconds or steps")
    minutes = None if seconds is None else check_number(seconds, "seconds", low=1e-3) / 60
    samples = None if steps is None else check_integer(steps, "steps", low=1) * TUNING.batch_size
    task = ReadingsTask(lights, rng=check_integer(seed, "seed"))
    network = _new_network(seed) if network is None else copy.deepcopy(network)
    training.train(network, task, TUNING, minutes=minutes, samples=samples, device="cpu", progress=progress)
    return network


def _new_network(seed: int, width: int | None = None, start: ReadingNetwork | None = None) -> ReadingNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if start is None:
            return ReadingNetwork() if width is None else ReadingNetwork(width=width)
        return start if width is None else start.widened(width)


def main(
    output: Annotated[Path, typer.Argument(help="Model file for the best weights (.safetensors).")],
    steps: Annotated[int | None, typer.Option(min=1, help="Total number of batches, 15,000 by default.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Time to train; with --steps, the shorter.")] = None,
    start_from: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Weights to start from (.safetensors).")
    ] = None,
    width: Annotated[
        int | None, typer.Option(min=1, help="Units of a layer: 64 by default, or those of the weights to start from.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, rigs and readings.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Threads to use.")] = 1,
) -> None:
    """Train on the CPU; resume if there is a checkpoint next to OUTPUT."""
    try:
        network = _new_network(seed, width, None if start_from is None else load_network(start_from))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    task = ReadingsTask(rng=seed)
    train_from_command_line(
        network, task, SETTINGS, output, "stereo.reading_network.train", steps=steps, minutes=minutes, n_threads=threads
    )


if __name__ == "__main__":
    typer.run(main)
