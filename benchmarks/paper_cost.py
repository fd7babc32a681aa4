"""What the preset ``paper`` costs: steps of every network, measured steps per second here, and an estimate for a GPU.

``python benchmarks/paper_cost.py`` times a few steps of every kind of network, or of those named, and writes
results/paper_cost.json. The GPU is an estimate, not a measurement: with batches of 250 its time is that of starting
kernels, so it is the number of tensor operations of a step, which is counted, times LAUNCH.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import maxsparse as ms
from maxsparse import experiments, training
from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments.training_plans import NETWORK_METHODS, PLANS, Training

OUTPUT = Path(__file__).parent / "results" / "paper_cost.json"
LAUNCH = 1e-5  # seconds that a GPU takes to start one kernel: an assumption
SHORT, LONG, LONGER = 3, 11, 153  # steps; differences are timed, the longer one for networks with fast steps


class Count(TorchDispatchMode):
    """Count tensor operations, without those that only look at a tensor in another way."""

    def __init__(self):
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.operations += not function.is_view
        return function(*args, **(kwargs or {}))


def train(recipe, steps):
    settings = recipe.settings.but(rounds=1)
    begun = time.process_time()
    training.fit(
        ms.dictionaries.decaying(20, 100, rng=0),
        recipe.network,
        sparsity=recipe.sparsity,
        loss=recipe.loss,
        set_size=recipe.set_size,
        settings=settings,
        hyperparameters=recipe.hyperparameters,
        samples=steps * settings.batch_size,
        rng=0,
        n_threads=1,
        device="cpu",
    )
    return time.process_time() - begun


def needed():
    """Return how many networks of every method the preset trains, over all experiments, and their steps."""
    found = {}
    for name in (entry.name for entry in EXPERIMENTS.entries() if not entry.outside):
        experiment = experiments.get(name)
        settings = experiment.presets["paper"]
        for task in experiment.tasks(settings, experiment.methods):
            for recipe in experiment.recipes(settings, task):
                found[recipe.key] = (task["method"], recipe.samples // recipe.settings.batch_size)
    counts, steps = Counter(), Counter()
    for method, number in found.values():
        counts[method] += 1
        steps[method] += number
    return counts, steps


def main():
    torch.set_num_threads(1)
    counts, steps = needed()
    rows = json.loads(OUTPUT.read_text())["networks"] if sys.argv[1:] else {}
    for method in sys.argv[1:] or [name for name in NETWORK_METHODS if name in counts]:
        recipe = Training(PLANS["paper"], 20, 100, 0, 3, (1, 10)).recipe(method)
        train(recipe, 1)
        short = train(recipe, SHORT)
        seconds = (train(recipe, LONG) - short) / (LONG - SHORT)
        if seconds < 0.04:
            seconds = (train(recipe, LONGER) - short) / (LONGER - SHORT)
        operations = []
        for number in (2, 4):
            with Count() as counter:
                train(recipe, number)
            operations.append(counter.operations)
        per_step = (operations[1] - operations[0]) // 2
        rows[method] = {
            "networks": counts[method],
            "steps": steps[method],
            "steps per second, one core": 1.0 / seconds,
            "operations of a step": per_step,
            "core days": steps[method] * seconds / 86_400,
            "GPU days": steps[method] * per_step * LAUNCH / 86_400,
        }
        print(method, rows[method], flush=True)
    stereo = experiments.get("stereo").presets["paper"]
    networks = len(stereo["seeds"]) * len(stereo["lights"])
    share = networks * 360_000 / steps["residual"]  # the same network and the same settings, so not timed again
    scaled = {name: share * rows["residual"][name] for name in ("core days", "GPU days")}
    rows["stereo"] = {**rows["residual"], "networks": networks, "steps": networks * 360_000, **scaled}
    result = {"command": "python benchmarks/paper_cost.py", "seconds per operation on a GPU, assumed": LAUNCH}
    OUTPUT.write_text(json.dumps({**result, "networks": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
