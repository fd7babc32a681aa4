"""Train the network of ``auto``: ``python -m maxsparse.stereo.learned.train OUTPUT`` writes its weights to OUTPUT.

Everything follows from the seed and the number of readings, both of which stand in the file. A run that was stopped
goes on with ``--resume``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from torch import Tensor, nn

from maxsparse.stereo.learned.model import ReadingNetwork, Refined
from maxsparse.stereo.learned.start import Start, first_guess
from maxsparse.stereo.learned.store import load_network
from maxsparse.stereo.learned.synthesis import Readings, sample_lights, sample_readings
from maxsparse.training import Report, Settings, train

__all__ = ["SETTINGS", "ReadingTask", "training_loss"]

READINGS = 50_000_000  # that the bundled weights were trained on
SETTINGS = Settings(learning_rate=2e-3, weight_decay=1e-4, batch_size=8_000, warmup=0.02, ema=0.999, rounds=20)
BANKS, PIECES = 8, 4  # batches are dealt from this many rigs at a time, each of which makes this many batches,
TURNS = 2  # all of them this often: making points costs a quarter of the time of learning from them
FEW, MANY = 5, 100  # lights of a rig
VALIDATION_LIGHTS, VALIDATION_POINTS = (10, 20, 40, 96), 400


@dataclass(frozen=True)
class Piece:
    """Points of one rig with the fit they start from."""

    start: Start
    truth: Readings

    def rows(self, part: slice) -> Piece:
        """Return some of the points, as tensors."""
        per_point = ("values", "normals", "logits", "scale", "lit")
        cut = {name: getattr(self.start, name)[part] for name in per_point}
        truth = Readings(self.truth.values[part], self.truth.normals[part], self.truth.inliers[part])
        return Piece(Start(lights=self.start.lights, **cut).tensors(), truth)


class ReadingTask:
    """Synthetic readings of rigs of 5 to 100 lights; the size of a batch is a number of readings.

    Parameters
    ----------
    seed : int, default=0
    lights : ndarray of shape (q, 3) or None, default=None
        One rig to train for; None draws a fresh one again and again.
    """

    def __init__(self, seed: int = 0, lights: NDArray[np.float64] | None = None) -> None:
        self.settings: dict[str, Any] = {"task": "readings", "seed": seed}
        self.arrays = {} if lights is None else {"lights": np.asarray(lights)}
        self._seed, self._lights = seed, None if lights is None else torch.as_tensor(lights, dtype=torch.float32)
        self._banks: dict[int, Piece] = {}
        counts = VALIDATION_LIGHTS if lights is None else (len(lights),) * len(VALIDATION_LIGHTS)
        self._validation = [self._draw(-1 - place, q, VALIDATION_POINTS) for place, q in enumerate(counts)]

    def batch(self, number: int, size: int, rows: slice, device: torch.device) -> tuple[Start, Readings]:
        """Return the fits to start from and the truth."""
        window, place = divmod(number, BANKS * PIECES * TURNS)
        bank, piece = window * BANKS + place % BANKS, place // BANKS % PIECES
        if bank not in self._banks:
            self._banks = {key: value for key, value in self._banks.items() if key >= window * BANKS}
            self._banks[bank] = self._draw(bank, None, PIECES * size)
        points = len(self._banks[bank].start.values) // PIECES
        share = slice(points * rows.start // size, max(points * rows.stop // size, 1))
        part = self._banks[bank].rows(slice(piece * points + share.start, piece * points + share.stop))
        return part.start, part.truth

    def loss(self, network: nn.Module, inputs: Start, targets: Readings) -> Tensor:
        """Return the mean loss over the points."""
        return training_loss(network(inputs), targets)

    def validate(self, network: ReadingNetwork) -> dict[str, Any]:
        """Return the mean angular errors in degrees on fixed rigs."""
        errors = []
        for piece in self._validation:
            whole = piece.rows(slice(None))
            errors.append(math.degrees(float(_angle(network(whole.start).normals, whole.truth.normals).mean())))
        if not np.isfinite(errors).all():
            raise FloatingPointError("the network answers with NaN")
        return {"score": -float(np.mean(errors)), "lights": list(VALIDATION_LIGHTS), "degrees": errors}

    def _draw(self, bank: int, q: int | None, size: int) -> Piece:
        """Draw a rig and its points: `size` points for a given q, else as many as make `size` readings."""
        generator = torch.Generator().manual_seed(1_000_003 * self._seed + bank + 1000)
        drawn = int(FEW * (MANY / FEW) ** float(torch.rand(1, generator=generator))) if q is None else q
        lights = sample_lights(drawn, generator) if self._lights is None else self._lights
        truth = sample_readings(lights, size if q is not None else size // len(lights), generator)
        return Piece(first_guess(truth.values.double().numpy(), lights.double().numpy())[0], truth)


def training_loss(refined: Refined, truth: Readings) -> Tensor:
    """Angles of every round, the last one counting most, with the logarithm for small ones; labels; own error.

    Every term is positive, since the loop takes a loss far above the first one for divergence.
    """
    total = refined.normals.new_zeros(())
    for number, normals in enumerate(refined.path):
        angle = _angle(normals, truth.normals)
        share = 0.3 if number < len(refined.path) - 1 else 1.0
        total = total + share * (angle.mean() + 0.03 * torch.log1p(angle / 0.004).mean())
    labels = nn.functional.binary_cross_entropy_with_logits(refined.logits, truth.inliers.float())
    target = torch.log(_angle(refined.normals, truth.normals).detach() + 0.003)
    return total + 0.03 * labels + 0.02 * (refined.log_error - target).abs().mean()


def _angle(a: Tensor, b: Tensor) -> Tensor:
    """Angle in radians between unit rows; atan2 has a gradient where arccos has none."""
    return 2 * torch.atan2((a - b).norm(dim=1) + 1e-7, (a + b).norm(dim=1) + 1e-7)


def main(
    output: Annotated[Path, typer.Argument(help="File to write.")],
    readings: Annotated[int, typer.Option(help="Readings to train on.")] = READINGS,
    minutes: Annotated[float | None, typer.Option(help="Stop after this time even if readings are left.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first weights and of the data.")] = 0,
    begin: Annotated[Path | None, typer.Option(help="Weights to begin with instead of random ones.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint beside OUTPUT.")] = False,
    threads: Annotated[int, typer.Option(help="Threads of the processor.")] = 1,
) -> None:
    """Train the network and write it."""
    torch.manual_seed(seed)

    def tell(report: Report) -> None:
        degrees = ", ".join(f"{value:.2f}" for value in report.history[-1]["degrees"])
        typer.echo(f"{report.samples:,} readings, {report.seconds:.0f} s, loss {report.loss:.4f}: {degrees} degrees")

    train(
        ReadingNetwork() if begin is None else load_network(begin),
        ReadingTask(seed),
        SETTINGS,
        samples=readings,
        minutes=minutes,
        output=output,
        resume=resume,
        n_threads=threads,
        callback=tell,
        resume_command=f"python -m maxsparse.stereo.learned.train {output} --seed {seed} --resume",
    )


if __name__ == "__main__":
    typer.run(main)
