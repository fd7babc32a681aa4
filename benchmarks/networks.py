"""Speed of the networks: share of the matrix-multiplication rate of this machine, and the paper's runtime table.

python benchmarks/networks.py [--threads 1] [--output benchmarks/results/networks.json]

Rates count floating-point operations of the matrix products only, divided by the rate of one large single-precision
product measured right before, so that the figure does not depend on the machine. With one thread the clock counts the
processor time of that thread, so that other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from machine import describe

import maxsparse as ms
from maxsparse import networks, training
from maxsparse._core.atomic import atomic_write
from maxsparse.training.processes import Processes

N, M = 20, 100
WIDTHS = (100, 400, 1000)
INFERENCE_BATCH = 4096
INFERENCE_SIGNALS = 32_768  # of a call whose rate is measured: one of a few thousand is slower right after other work
TRAINING_BATCHES = (training.PRESETS["modern"].batch_size, 1024)
PHI = ms.dictionaries.decaying(N, M, rng=0)
RESULTS = Path(__file__).parent / "results" / "networks.json"
PAPER_SECONDS = {"ista": 0.7393, "iht": 0.288, "ista_net": 8.17e-7, "iht_net": 8.68e-7, "residual": 9.71e-7}


class Clock:
    """Seconds of a call: the calling thread's processor time where one thread works, else wall time."""

    def __init__(self, threads: int) -> None:
        self.now = time.thread_time if threads == 1 else time.perf_counter

    def seconds(self, function: Callable[[], object]) -> float:
        """Call once and return the seconds it took."""
        begun = self.now()
        function()
        return self.now() - begun


def product_rate(clock: Clock, size: int = 1024) -> float:
    a, b = torch.randn(size, size), torch.randn(size, size)
    a @ b
    return 2.0 * size**3 / min(clock.seconds(lambda: a @ b) for _ in range(5))


def share(clock: Clock, flops: float, function: Callable[[], object], repeats: int) -> dict[str, float]:
    """Median over interleaved measurements of (rate of the function) / (rate of a product)."""
    function()
    shares, rates = [], []
    for _ in range(repeats):
        peak = product_rate(clock)
        rates.append(flops / clock.seconds(function))
        shares.append(rates[-1] / peak)
    return {"share": float(np.median(shares)), "gflops": float(np.median(rates)) / 1e9}


def flops_per_signal(network: torch.nn.Module) -> float:
    linear = [module for module in network.modules() if isinstance(module, torch.nn.Linear)]
    return float(sum(2 * layer.in_features * layer.out_features for layer in linear) + 2 * N * N)


def one_step(network: networks.SignalNetwork, batch: int) -> Callable[[], object]:
    """Return a training step of the modern preset, data included."""
    task = training.SupportTask(PHI, rng=0)
    settings = training.PRESETS["modern"].but(batch_size=batch)
    run = training.run.Run(
        network, task, settings, training.budget.Budget(None, 10**9), Processes(torch.device("cpu")), None
    )
    return lambda: run.step(network, 1e-4)


def efficiency(clock: Clock, widths: Sequence[int], repeats: int) -> list[dict]:
    rows = []
    _, Y = ms.signals.sample(PHI.astype(np.float32), INFERENCE_SIGNALS, sparsity=(1, 10), rng=0)
    for width in widths:
        network = networks.build("residual", PHI, Y=Y, width=width, rng=0)
        flops = flops_per_signal(network)
        inference = share(clock, flops * INFERENCE_SIGNALS, lambda: network.scores(Y), repeats)  # noqa: B023
        steps = {size: share(clock, 3 * flops * size, one_step(network, size), repeats) for size in TRAINING_BATCHES}
        rows.append({"width": width, "inference": inference, "training": steps})
        said = ", ".join(f"in batches of {size:,} {step['share']:.2f}" for size, step in steps.items())
        print(f"width {width:4}: inference {inference['share']:.2f}, training {said} of the product rate")
    return rows


def data_making(clock: Clock) -> float:
    task = training.SupportTask(PHI, rng=0)
    task.signals(0, 1024)
    microseconds = 1e6 * clock.seconds(lambda: task.signals(1024, 1024 * 41)) / (1024 * 40)
    print(f"making signals: {microseconds:.2f} µs each")
    return microseconds


def runtime_table(clock: Clock, repeats: int) -> dict[str, float]:
    """Seconds per signal of every method in the paper's table, in batches of 4096, all with 5 nonzeros."""
    _, Y = ms.signals.sample(PHI, INFERENCE_BATCH, sparsity=5, rng=0)
    methods: dict[str, Callable[[], object]] = {}
    # Networks first: the solvers' compiled loops start threads that torch then shares, whatever it was told.
    for name in ("ista_net", "iht_net", "residual", "lstm"):
        network = networks.build(name, PHI, Y=Y, rng=0)
        methods[name] = lambda network=network: network.scores(Y.astype(np.float32))
    for method, options in {"ista": {}, "iht": {"sparsity": 5}}.items():
        if method in ms.solvers.METHODS:
            solver = ms.solvers.METHODS[method]
            methods[method] = lambda solver=solver, options=options: solver(PHI, Y[:256], n_threads=THREADS, **options)
    seconds = {}
    for name, function in methods.items():
        function()
        signals = 256 if name in ("ista", "iht") else INFERENCE_BATCH
        seconds[name] = float(np.median([clock.seconds(function) for _ in range(repeats)])) / signals
    slowest = seconds.get("ista")
    for name, value in seconds.items():
        ratio = "" if slowest is None else f"  {slowest / value:10.0f} times as fast as ISTA"
        print(f"{name:10} {value:.3e} s per signal{ratio}")
    return seconds


def main() -> None:
    global THREADS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    THREADS = arguments.threads
    clock = Clock(THREADS)
    with Processes.join("cpu", THREADS):
        result = {
            "threads": THREADS,
            "clock": "processor" if THREADS == 1 else "wall",
            "product_gflops": product_rate(clock) / 1e9,
            "efficiency": efficiency(clock, arguments.widths, arguments.repeats),
            "data_microseconds_per_signal": data_making(clock),
            "seconds_per_signal": runtime_table(clock, 3),
            "paper_seconds_per_signal": PAPER_SECONDS,
            **describe(("maxsparse", "torch", "numpy")),
            "load_average": os.getloadavg(),
            "command": shlex.join(["python", *sys.argv]),
        }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(arguments.output) as stream:
        stream.write(json.dumps(result, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
