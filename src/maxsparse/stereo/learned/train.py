"""Train the network of ``auto`` on synthetic readings: ``python -m maxsparse.stereo.learned.train OUT.safetensors``."""

from __future__ import annotations

import argparse
import copy
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from maxsparse._progress import bar
from maxsparse._validation import FloatArray, check_integer, check_number
from maxsparse.stereo.learned.model import ReadingNetwork, Refined
from maxsparse.stereo.learned.start import first_guess
from maxsparse.stereo.learned.store import load_network, save_network
from maxsparse.stereo.learned.synthesis import Readings, sample_lights, sample_readings
from maxsparse.stereo.scene import check_lights

__all__ = ["train"]

RATE = 2e-3
READINGS_PER_STEP = 24_000


def train(
    seconds: float | None = None,
    *,
    steps: int | None = None,
    network: ReadingNetwork | None = None,
    lights: FloatArray | None = None,
    seed: int = 0,
    log: bool = False,
    progress: bool = False,
) -> ReadingNetwork:
    """Train on synthetic readings, for some time or for a number of steps.

    Parameters
    ----------
    seconds : float or None, default=None
        Time to train; the learning rate falls along a cosine over it. How many steps that makes follows from the
        machine, so the result is not the same everywhere.
    steps : int or None, default=None
        Steps to train, instead of `seconds`: a seed then gives the same weights every time.
    network : ReadingNetwork or None, default=None
        Where to go on from; it is left as it is. None starts afresh.
    lights : ndarray of shape (q, 3) or None, default=None
        Rig that every step uses. None draws a fresh one of 6 to 100 lights at every step.
    seed : int, default=0
        Seeds the first weights and the data.
    log : bool, default=False
        Print the running error in degrees to standard error.
    progress : bool, default=False
        Show a progress bar on a terminal.

    Returns
    -------
    network : ReadingNetwork
        In evaluation mode.
    """
    schedule = _Schedule(seconds, steps)
    rig = None if lights is None else torch.from_numpy(check_lights(lights, len(lights)).astype(np.float32))
    generator = torch.Generator().manual_seed(check_integer(seed, "seed"))
    if network is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = ReadingNetwork()
    else:
        network = copy.deepcopy(network)
    network.train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=1e-4)
    running = []
    label = "training on lights drawn at random" if lights is None else f"training for these {len(lights)} lights"
    with bar(schedule.total, 0, label, progress) as advance:
        for step, done in schedule.run(advance):
            for group in optimiser.param_groups:
                group["lr"] = RATE * min(1.0, step / 200 + 0.01) * (0.5 * (1 + math.cos(math.pi * done)) + 1e-3)
            chosen = _draw_rig(generator) if rig is None else rig
            running.append(_step(network, optimiser, chosen, generator))
            if log and step % 100 == 99:
                means = np.mean(running, axis=0)
                running = []
                said = f"start {means[0]:.2f} first round {means[1]:.2f} last {means[2]:.2f}"
                print(f"{step + 1} {done:.0%} {said}", file=sys.stderr, flush=True)
    return network.eval()


class _Schedule:
    """How long to train: seconds by the clock, or steps."""

    def __init__(self, seconds: float | None, steps: int | None) -> None:
        if (seconds is None) == (steps is None):
            raise ValueError("give either seconds or steps")
        self.steps = None if steps is None else check_integer(steps, "steps", low=1)
        self.seconds = 0.0 if seconds is None else check_number(seconds, "seconds", low=0.0)

    @property
    def total(self) -> int:
        """What a progress bar counts to."""
        return self.steps or math.ceil(self.seconds)

    def run(self, advance: Callable[[int], None]) -> Iterator[tuple[int, float]]:
        """Yield the number of every step and the share of the training that is done before it."""
        begun, shown = time.monotonic(), 0
        for step in itertools.count():
            passed = step if self.steps is not None else time.monotonic() - begun
            advance(int(passed) - shown)
            shown = int(passed)
            if passed >= (self.steps or self.seconds):
                return
            yield step, passed / (self.steps or self.seconds)


def _draw_rig(generator: torch.Generator) -> Tensor:
    return sample_lights(int(6 * (100 / 6) ** float(torch.rand(1, generator=generator))), generator)


def _step(
    network: ReadingNetwork, optimiser: torch.optim.Optimizer, lights: Tensor, generator: torch.Generator
) -> list[float]:
    """Take one step on fresh readings; return the mean errors of start, first and last round, in degrees."""
    truth = sample_readings(lights, max(1, READINGS_PER_STEP // len(lights)), generator)
    start, guess = first_guess(truth.values.double().numpy(), lights.double().numpy())
    refined = network(start.tensors())
    loss = training_loss(refined, truth)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimiser.step()
    first = torch.from_numpy(guess.normals).float()
    with torch.no_grad():
        return [_degrees(n, truth.normals) for n in (first, refined.path[0], refined.normals)]


def training_loss(refined: Refined, truth: Readings) -> Tensor:
    """Angles of every round, the last one counting most, with the logarithm for small ones; labels; own error."""
    total = refined.normals.new_zeros(())
    for number, normals in enumerate(refined.path):
        angle = _angle(normals, truth.normals)
        share = 0.3 if number < len(refined.path) - 1 else 1.0
        total = total + share * (angle.mean() + 0.02 * torch.log(angle + 0.005).mean())
    labels = torch.nn.functional.binary_cross_entropy_with_logits(refined.logits, truth.inliers.float())
    target = torch.log(_angle(refined.normals, truth.normals).detach() + 0.003)
    return total + 0.03 * labels + 0.02 * (refined.log_error - target).abs().mean()


def _angle(a: Tensor, b: Tensor) -> Tensor:
    """Angle in radians between unit rows; atan2 has a gradient where arccos has none."""
    return 2 * torch.atan2((a - b).norm(dim=1) + 1e-7, (a + b).norm(dim=1) + 1e-7)


def _degrees(a: Tensor, b: Tensor) -> float:
    return math.degrees(float(_angle(a, b).mean()))


def main() -> None:
    """Train and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="file to write, ending in .safetensors")
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--go-on-from", type=Path, help="weights to start from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    earlier = None if arguments.go_on_from is None else load_network(arguments.go_on_from)
    network = train(60 * arguments.minutes, network=earlier, seed=arguments.seed, log=True)
    save_network(network, arguments.output)


if __name__ == "__main__":
    main()
