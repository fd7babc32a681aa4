"""Train the network of ``auto`` on synthetic readings: ``python -m maxsparse.stereo.learned.train OUT.safetensors``."""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from maxsparse.stereo.learned.model import ReadingNetwork, Refined
from maxsparse.stereo.learned.start import first_guess
from maxsparse.stereo.learned.store import load_network, save_network
from maxsparse.stereo.learned.synthesis import Readings, sample_lights, sample_readings

__all__ = ["train"]

RATE = 2e-3
READINGS_PER_STEP = 24_000


def train(seconds: float, *, network: ReadingNetwork | None = None, seed: int = 0, log: bool = False) -> ReadingNetwork:
    """Train for some time on rigs of 6 to 100 lights, a fresh one at every step.

    Parameters
    ----------
    seconds : float
        Time to train; the learning rate falls along a cosine over it.
    network : ReadingNetwork or None, default=None
        Where to go on from; None starts afresh.
    seed : int, default=0
        Seeds the first weights and the data. The number of steps follows from the machine, so the result is not
        the same everywhere.
    log : bool, default=False
        Print the running error in degrees to standard error.

    Returns
    -------
    network : ReadingNetwork
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    network = ReadingNetwork() if network is None else network.train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=1e-4)
    begun, step, running = time.monotonic(), 0, []
    while (done := (time.monotonic() - begun) / seconds) < 1:
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1.0, step / 200 + 0.01) * (0.5 * (1 + math.cos(math.pi * done)) + 1e-3)
        q = int(6 * (100 / 6) ** float(torch.rand(1, generator=generator)))
        lights = sample_lights(q, generator)
        truth = sample_readings(lights, READINGS_PER_STEP // q, generator)
        start, guess = first_guess(truth.values.double().numpy(), lights.double().numpy())
        refined = network(start.tensors())
        loss = training_loss(refined, truth)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        step += 1
        first = torch.from_numpy(guess.normals).float()
        with torch.no_grad():
            running.append([_degrees(n, truth.normals) for n in (first, refined.path[0], refined.normals)])
        if log and step % 100 == 0:
            means = np.mean(running, axis=0)
            running = []
            print(
                f"{step} {done:.0%} start {means[0]:.2f} first round {means[1]:.2f} last {means[2]:.2f}",
                file=sys.stderr,
                flush=True,
            )
    return network


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
