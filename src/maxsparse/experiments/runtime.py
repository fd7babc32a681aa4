"""Experiment ``runtime``: processor time per signal, the paper's table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from maxsparse import dictionaries, metrics, signals
from maxsparse._core.extras import needs
from maxsparse._core.registry import EXPERIMENTS
from maxsparse._core.validation import FloatArray
from maxsparse.experiments import registry
from maxsparse.experiments.curves import sizes, test_rng
from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.experiment import Claim, Experiment, Picture, Table, Verdict
from maxsparse.experiments.methods import Method, Problem
from maxsparse.experiments.recipes import Recipe
from maxsparse.experiments.training_plans import Training

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = {"ista": 0.7393, "iht": 0.288, "ista-net": 8.17e-7, "iht-net": 8.68e-7, "residual": 9.71e-7}
NETWORKS = ("ista-net", "iht-net", "residual")


@EXPERIMENTS.register("runtime", summary="Time per signal", order=20)
class Runtime(Experiment):
    """Time per signal of every method, with the ratio to ISTA."""

    paper = "Section 7.2, Table 1"
    about = (
        "Signals of experiment basic in one batch, for the LSTM those of experiment lstm: processor time of one thread "
        "divided by the number of signals, the median of some runs, after one run that compiles and warms up. ISTA is "
        "timed right before every other method, "
        "so that the ratio does not depend on other load of the machine. The paper does not name the hardware of its "
        "networks; its 10⁻⁶ s cannot be reached on one core."
    )
    because = "This is hardware and code: everything ran on one core."
    claims = (
        Claim("fast", "Networks are dramatically faster than ISTA and IHT.", "Section 7.2"),
        Claim("ratio", "The residual network is 760,000 times as fast as ISTA.", "Table 1"),
        Claim("alike", "The three networks take about the same time (8.2e-7 to 9.7e-7 s).", "Table 1"),
    )
    methods = (
        "ista",
        "iht",
        *NETWORKS,
        "lstm",
        "omp",
        "l1",
        "sbl",
        "omp-whitened",
        "sbl-whitened",
        "learned-sbl",
        "recoverer",
    )
    presets = {  # noqa: RUF012  # read only
        "smoke": sizes("smoke", d=2, batch=64, slow_batch=16, repeats=1),
        "laptop": sizes("laptop", d=5, batch=4096, slow_batch=100, repeats=3),
        "day": sizes("day", d=5, batch=4096, slow_batch=100, repeats=5),
        "paper": sizes("paper", d=5, batch=4096, slow_batch=1000, repeats=9),
    }

    def tasks(self, settings: dict[str, Any], methods: Sequence[str]) -> list[dict[str, Any]]:
        """List every method and seed."""
        return [{"method": method, "seed": seed} for seed in settings["seeds"] for method in methods]

    def recipes(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Recipe]:
        """Return the network that the method needs."""
        method = registry.methods()[task["method"]]
        return [method.recipe(_training(settings, task))] if method.recipe else []

    def measure(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
        """Time one method and ISTA in turns."""
        n, m, d, seed = settings["n"], settings["m"], settings["d"], task["seed"]
        training = _training(settings, task)
        problem = Problem(dictionaries.decaying(n, m, rng=seed), d, training=training)
        known = registry.methods()
        method = known[task["method"]]
        if not method.applies(problem):
            return []
        count = settings["batch" if method.recipe else "slow_batch"]
        law = training.amplitudes
        X, Y = signals.sample(problem.Phi, count, sparsity=d, amplitudes=law, rng=test_rng(seed, d))
        few = Y[: settings["slow_batch"]]
        with _one_thread():
            scores = method.scores(problem, Y)
            known["ista"].scores(problem, few)
            pairs = [
                (_seconds(known["ista"], problem, few), _seconds(method, problem, Y))
                for _ in range(settings["repeats"])
            ]
        ista, own = np.median(pairs, axis=0)
        values = {"seconds": own, "ratio": ista / own, "strict": metrics.strict_accuracy(X, scores)}
        return [Record(task, values)]

    def pictures(self, settings: dict[str, Any], data: Data) -> list[Picture]:
        """Draw seconds per signal as bars."""
        caption = (
            f"Processor time of one thread per signal at d = {settings['d']} ({settings['n']}×{settings['m']}), mean "
            "over seeds; dots are the paper's figures, on hardware it does not name."
        )
        return [Picture("runtime", caption, lambda figure: _draw(figure, data), (8.0, 4.5))]

    def tables(self, settings: dict[str, Any], data: Data) -> list[Table]:
        """Tabulate seconds, ratio to ISTA, the paper's figures and the accuracy of the method."""
        rows = []
        for name in data.unique("method"):
            label = registry.methods()[name].label
            seconds, ratio, strict = (data.mean(v, method=name) for v in ("seconds", "ratio", "strict"))
            paper = f"{PAPER[name]:.3g}" if name in PAPER else ""
            paper_ratio = f"{PAPER['ista'] / PAPER[name]:,.0f}" if name in PAPER else ""
            rows.append([label, f"{seconds:.2e}", f"{ratio:,.2f}", paper, paper_ratio, f"{strict:.3f}"])
        header = [
            "",
            "s per signal",
            "times as fast as ISTA",
            "paper, s",
            "paper, times",
            f"s-acc at d = {settings['d']}",
        ]
        return [Table("runtime", "Processor time per signal, one thread", header, rows)]

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare ratios with the paper's."""
        seconds = {name: data.mean("seconds", method=name) for name in PAPER}
        if any(np.isnan(value) for value in seconds.values()):
            return [self.verdict(claim.key, "Not all of the methods were run.", None) for claim in self.claims]
        slowest = max(NETWORKS, key=seconds.__getitem__)
        ratios = {name: data.mean("ratio", method=name) for name in PAPER}  # to ISTA, which is timed beside each
        gains = [ratios[b] / ratios[a] for a in ("ista", "iht") for b in NETWORKS]
        ratio = ratios["residual"]
        spread = seconds[slowest] / min(seconds[name] for name in NETWORKS)
        times = ", ".join(f"{name} {seconds[name]:.1e} s" for name in PAPER)
        return [
            self.verdict(
                "fast", f"{times}: {min(gains):.0f} to {max(gains):.0f} times as fast.", bool(min(gains) > 10)
            ),
            self.verdict(
                "ratio",
                f"{ratio:,.0f} times on the same core. ISTA takes {seconds['ista']:.1e} s here, 0.74 s in the paper.",
                bool(ratio > 1e5),
                because="This is hardware and code: ISTA is compiled here, and 10⁻⁶ s are out of reach of one core.",
            ),
            self.verdict(
                "alike",
                f"The slowest ({slowest}) takes {spread:.1f} times as long as the fastest.",
                bool(spread < 1.5),
                because="This is a property: layers of 400 units cost more than layers of 100.",
            ),
        ]


def _training(settings: dict[str, Any], task: dict[str, Any]) -> Training:
    found = settings["sparsities"]
    # The LSTM is that of experiment lstm: time does not depend on the amplitudes.
    amplitudes = "unit" if task["method"] == "lstm" else "uniform"
    return Training(
        settings["training"],
        settings["n"],
        settings["m"],
        task["seed"],
        settings["d"],
        (min(found), max(found)),
        amplitudes=amplitudes,
    )


def _seconds(method: Method, problem: Problem, Y: FloatArray) -> float:
    begun = time.process_time()
    method.scores(problem, Y)
    return (time.process_time() - begun) / len(Y)


@contextmanager
def _one_thread() -> Iterator[None]:
    with needs("the experiment runtime"):
        import torch

    from maxsparse._core.threads import threads

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threads(1):
            yield
    finally:
        torch.set_num_threads(before)


def _draw(figure: Figure, data: Data) -> None:
    axes = figure.subplots()
    names = data.unique("method")
    known = registry.methods()
    axes.barh([known[name].label for name in names], [data.mean("seconds", method=name) for name in names], color="C0")
    shown = [name for name in names if name in PAPER]
    axes.plot([PAPER[name] for name in shown], [known[name].label for name in shown], "ko", label="paper")
    axes.set(xscale="log", xlabel="seconds per signal")
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8, loc="lower right")
