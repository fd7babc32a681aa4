"""Compare ways to train a network: losses, presets, structures, one run per process.

python benchmarks/accuracy.py run residual --minutes 30      # train and test one of CONFIGURATIONS; resumes by itself
python benchmarks/accuracy.py budget residual lstm-unit      # number of signals in half an hour on two cores
python benchmarks/accuracy.py solve ista                     # a solver on the same test signals
python benchmarks/accuracy.py table                          # all results so far, as accuracy.json and accuracy.png

The paper's own comparison of methods, over several dictionaries, is ``maxsparse reproduce basic``.

Every result is a file in benchmarks/results/accuracy, with seed, settings, versions and command.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import maxsparse as ms
from maxsparse import networks, training
from maxsparse._core.atomic import atomic_write
from maxsparse.training.budget import Budget
from maxsparse.training.processes import Processes

SEED, TEST_SEED = 0, 1_000_003
N, M, SPARSITIES = 20, 100, range(1, 11)
RESULTS = Path(__file__).parent / "results" / "accuracy"
WORK = Path("accuracy-models")  # models and checkpoints; not part of the project
NEED_SPARSITY = ("iht", "omp")
MEASURED_SIGNALS = 25_600  # of each network, to learn how fast it trains
# What was changed for the long runs: the follow-up's 425 units would see too few signals in half an hour.
SMALLER = {"lstm-unit": {"hidden": 128}}

# name: (network, hyperparameters, loss, amplitudes)
CONFIGURATIONS: dict[str, tuple[str, dict, str, str]] = {
    "residual": ("residual", {}, "softmax", "uniform"),
    "residual-sigmoid": ("residual", {}, "sigmoid", "uniform"),
    "residual-raw": ("residual", {"whiten": False}, "softmax", "uniform"),
    "residual-plain": ("residual", {"residual": False}, "softmax", "uniform"),
    "residual-helu": ("residual", {"activation": "helu"}, "softmax", "uniform"),
    "residual-least-squares": ("residual", {"output": "estimate"}, "least_squares", "uniform"),
    "ista-net": ("ista_net", {}, "least_squares", "uniform"),
    "ista-net-untied": ("ista_net", {"tied": False}, "least_squares", "uniform"),
    "ista-net-whitened": ("ista_net", {"whiten": True}, "least_squares", "uniform"),
    "ista-net-softmax": ("ista_net", {"output": "logits"}, "softmax", "uniform"),
    "iht-net": ("iht_net", {}, "least_squares", "uniform"),
    "iht-net-whitened": ("iht_net", {"whiten": True}, "least_squares", "uniform"),
    "iht-net-softmax": ("iht_net", {"output": "logits"}, "softmax", "uniform"),
    "lstm": ("lstm", {}, "softmax", "uniform"),
    "lstm-unit": ("lstm", {}, "softmax", "unit"),
    "residual-unit": ("residual", {}, "softmax", "unit"),
    "gru": ("lstm", {"cell": "gru"}, "softmax", "uniform"),
    "lstm-feedback": ("lstm", {"feedback": True}, "softmax", "uniform"),
}


def test_signals(amplitudes: str, d: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    return ms.signals.sample(dictionary(), count, sparsity=d, amplitudes=amplitudes, rng=TEST_SEED + d)


def accuracies(
    amplitudes: str, count: int, scores: Callable[[np.ndarray, int], np.ndarray]
) -> tuple[list[float], list[float]]:
    """Return strict and loose accuracy for every d, of `scores` (N, m) given signals (N, n) and d."""
    strict, loose = [], []
    for d in SPARSITIES:
        X, Y = test_signals(amplitudes, d, count)
        found = scores(Y, d)
        strict.append(ms.metrics.strict_accuracy(X, found))
        loose.append(ms.metrics.loose_accuracy(X, found, N))
    return strict, loose


def dictionary() -> np.ndarray:
    return ms.dictionaries.decaying(N, M, rng=SEED)


def prepare(
    configuration: str, preset: str, settings: dict, hyperparameters: dict
) -> tuple[networks.SignalNetwork, training.SupportTask, training.Settings]:
    """Return network, task and settings of a configuration, with changes."""
    name, usual, loss, amplitudes = CONFIGURATIONS[configuration]
    chosen = training.preset_for(name, preset).but(**settings)
    Phi = dictionary()
    task = training.SupportTask(
        Phi, sparsity=(1, 10), amplitudes=amplitudes, loss=loss, set_size=chosen.set_size, rng=SEED
    )
    network = networks.build(name, Phi, Y=task.typical(), rng=SEED, **{**usual, **hyperparameters})
    return network, task, chosen


def budget(arguments: argparse.Namespace) -> None:
    """Measure how many signals some configurations learn from in the given time on a quiet machine."""
    signals = {}
    for configuration in arguments.configurations:
        changes = SMALLER.get(configuration, {})
        network, task, settings = prepare(configuration, "modern", {}, changes)
        with Processes.join("cpu", arguments.threads) as processes:
            endless = training.run.Run(network, task, settings, Budget(None, 10**12), processes, None)
            for batches in (3, round(MEASURED_SIGNALS / settings.batch_size)):  # the first three warm up
                begun = time.perf_counter()
                for _ in range(batches):
                    endless.step(network, 1e-4)
            rate = batches * settings.batch_size / (time.perf_counter() - begun)
        signals[configuration] = {"signals": round(60 * arguments.minutes * rate), "hyperparameters": changes}
        print(f"{configuration:16} {signals[configuration]['signals']:12,} signals in {arguments.minutes:g} minutes")
    result = {"minutes": arguments.minutes, "threads": arguments.threads, "configurations": signals}
    with atomic_write(arguments.results.with_name("budgets.json")) as stream:
        stream.write(json.dumps(result | origin(), indent=1).encode() + b"\n")


def run(arguments: argparse.Namespace) -> None:
    label = arguments.label or arguments.configuration
    WORK.mkdir(exist_ok=True)
    output = WORK / f"{label}.safetensors"
    changes = json.loads(arguments.settings), json.loads(arguments.hyperparameters)
    network, task, settings = prepare(arguments.configuration, arguments.preset, *changes)
    resume = training.checkpoint_path(output).exists()
    if output.exists() and not resume:
        sys.exit(f"{output} is finished; remove it to train again")
    report = training.train(
        network,
        task,
        settings,
        minutes=arguments.minutes,
        samples=arguments.samples,
        output=output,
        resume=resume,
        n_threads=arguments.threads,
        progress=True,
        callback=lambda report: print(
            f"{report.seconds:6.0f} s  {report.samples:9,} signals  loss {report.loss:7.4f}  s-acc",
            *(f"{value:.2f}" for value in report.history[-1]["strict"]),
            flush=True,
        ),
    )
    strict, loose = accuracies(task.settings["amplitudes"], arguments.test, lambda Y, d: network.scores(Y))
    write(
        arguments.results,
        label,
        {
            "network": network.name,
            "hyperparameters": network.hyperparameters,
            "parameters": sum(p.numel() for p in network.parameters()),
            "task": task.settings,
            "settings": settings.to_json(),
            "minutes": arguments.minutes,
            "samples": report.samples,
            "seconds": report.seconds,
            # A resumed run has no figure: what the processes before this one used is not known.
            **({} if resume else {"processor_seconds": time.process_time()}),
            "threads": arguments.threads or torch.get_num_threads(),
            "best_validation_at_samples": report.best["samples"],
            "strict": strict,
            "loose": loose,
            "test_signals_per_sparsity": arguments.test,
        },
    )


def origin() -> dict:
    """Return where a result comes from."""
    return {
        "dictionary": f"decaying({N}, {M}, rng={SEED})",
        "versions": {"maxsparse": ms.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "machine": platform.machine(),
        "command": shlex.join(["python", *sys.argv]),
    }


def write(folder: Path, label: str, result: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    result |= {"label": label, "test_seed": TEST_SEED, **origin()}
    with atomic_write(folder / f"{label}.json") as stream:
        stream.write(json.dumps(result, indent=1).encode() + b"\n")
    print(label, "strict", *(f"{value:.3f}" for value in result["strict"]))


def solve(arguments: argparse.Namespace) -> None:
    """Test a solver on the signals that the networks are tested on; those that need d are given it."""
    Phi, method = dictionary(), arguments.method

    def magnitudes(Y: np.ndarray, d: int) -> np.ndarray:
        told = {"sparsity": d} if method in NEED_SPARSITY else {}
        return np.abs(ms.solve(Phi, Y, method, precondition=arguments.whitened, progress=True, **told).coef)

    for amplitudes in ("uniform", "unit"):
        strict, loose = accuracies(amplitudes, arguments.test, magnitudes)
        words = [arguments.method, *["whitened"] * arguments.whitened, *["unit"] * (amplitudes == "unit")]
        figures = {"method": arguments.method, "task": {"amplitudes": amplitudes}, "strict": strict, "loose": loose}
        write(arguments.results, "-".join(words), figures | {"test_signals_per_sparsity": arguments.test})


def table(arguments: argparse.Namespace) -> None:
    """Print all results, and put them together in one file and one picture."""
    results = [json.loads(path.read_text()) for path in sorted(arguments.results.glob("*.json"))]
    for measure in ("strict", "loose"):
        print(f"\n{measure:24} {'signals':>10} " + " ".join(f"d={d:<3}" for d in SPARSITIES))
        for result in results:
            values = " ".join(f"{value:5.3f}" for value in result[measure])
            print(f"{result['label']:24} {result.get('samples', ''):>10} {values}")
    kept = ("samples", "processor_seconds", "threads", "parameters", "strict", "loose", "command")
    summary = {
        result["label"]: {
            "amplitudes": result["task"]["amplitudes"],
            "test_signals": result["test_signals_per_sparsity"],
        }
        | {name: result[name] for name in kept if name in result}
        for result in results
    }
    target = arguments.results.with_suffix(".json")
    with atomic_write(target) as stream:
        stream.write(json.dumps(summary, indent=1).encode() + b"\n")
    draw(summary, target.with_suffix(".png"))
    print(f"\nWrote {target} and {target.with_suffix('.png')}")


def draw(summary: dict[str, dict], target: Path) -> None:
    """Draw strict and loose accuracy against d, uniform amplitudes above, unit amplitudes below."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(10, 8), sharex=True, layout="constrained")
    names = sorted({label.removesuffix("-unit") for label in summary})
    colours = plt.get_cmap("tab20").colors
    for row, amplitudes in zip(axes, ("uniform", "unit"), strict=True):
        for axis, measure in zip(row, ("strict", "loose"), strict=True):
            for label, result in summary.items():
                if result["amplitudes"] == amplitudes:
                    name = label.removesuffix("-unit")
                    style = {"linestyle": "-" if "samples" in result else "--", "color": colours[names.index(name)]}
                    axis.plot(SPARSITIES, result[measure], marker="o", markersize=3, label=name, **style)
            axis.set(title=f"{measure} accuracy, {amplitudes} amplitudes", xticks=SPARSITIES, ylim=(-0.02, 1.02))
            axis.grid(alpha=0.3)
        if row[0].lines:
            row[0].legend(fontsize=8)  # the same lines stand on the right
    for axis in axes[1]:
        axis.set_xlabel("number of nonzeros d")
    with atomic_write(target) as stream:
        figure.savefig(stream, format="png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.add_argument("configuration", choices=CONFIGURATIONS)
    one.add_argument("--minutes", type=float)
    one.add_argument("--samples", type=int)
    one.add_argument("--threads", type=int)
    one.add_argument("--preset", default="modern", choices=training.PRESETS)
    one.add_argument("--settings", default="{}", help="JSON of changes to the preset")
    one.add_argument("--hyperparameters", default="{}", help="JSON of changes to the configuration")
    one.add_argument("--label", help="name of the result, by default that of the configuration")
    one.add_argument("--test", type=int, default=5000, help="test signals per sparsity")
    one.set_defaults(run=run)
    other = commands.add_parser("solve")
    other.add_argument("method", choices=[*NEED_SPARSITY, "ista", "l1", "sbl"])
    other.add_argument("--test", type=int, default=5000, help="test signals per sparsity")
    other.add_argument("--whitened", action="store_true", help="precondition the dictionary; the paper does not")
    other.set_defaults(run=solve)
    time_it = commands.add_parser("budget")
    time_it.add_argument("configurations", nargs="+", choices=CONFIGURATIONS)
    time_it.add_argument("--minutes", type=float, default=30.0)
    time_it.add_argument("--threads", type=int, default=2)
    time_it.set_defaults(run=budget)
    commands.add_parser("table").set_defaults(run=table)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
