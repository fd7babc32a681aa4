"""Base of the experiments with the paper's two panels: accuracy against the number of nonzeros, per method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from maxsparse import dictionaries, metrics, signals
from maxsparse._core.validation import FloatArray
from maxsparse.experiments import registry
from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.drawing import method_style, two_panels
from maxsparse.experiments.experiment import Experiment, Picture, Table
from maxsparse.experiments.methods import Method, Problem
from maxsparse.experiments.recipes import Recipe
from maxsparse.experiments.training_plans import PLANS, Training

__all__ = ["Curves", "accuracies", "decoded", "reason", "sizes", "test_rng"]


def sizes(preset: str, **more: Any) -> dict[str, Any]:
    """Return the settings that these experiments have in common: the problem of Section 7.2 in four sizes."""
    common = {
        "smoke": {"n": 8, "m": 16, "sparsities": [1, 2], "N": 20, "seeds": [0]},
        "laptop": {"n": 20, "m": 100, "sparsities": list(range(1, 11)), "N": 500, "seeds": [0, 1, 2]},
        "day": {"n": 20, "m": 100, "sparsities": list(range(1, 11)), "N": 2000, "seeds": [0]},
        "paper": {"n": 20, "m": 100, "sparsities": list(range(1, 11)), "N": 100_000, "seeds": [0, 1, 2]},
    }
    return {**common[preset], "training": PLANS[preset], **more}


class Curves(Experiment):
    """Strict and loose accuracy against d. Subclasses define the curves."""

    because = "This is a property of the methods: they ran to their end."

    amplitudes: ClassVar[str] = "uniform"

    def variants(self, settings: dict[str, Any]) -> list[dict[str, Any]]:
        """List what varies apart from the method; each is a part of a task."""
        return [{}]

    def label(self, settings: dict[str, Any], method: Method, variant: dict[str, Any]) -> str:
        """Return the label of a curve."""
        return method.label

    def training(self, settings: dict[str, Any], task: dict[str, Any]) -> Training:
        """Return the training of the networks of a task."""
        found = settings["sparsities"]
        return Training(
            settings["training"],
            settings["n"],
            settings["m"],
            task["seed"],
            task["d"],
            (min(found), max(found)),
            amplitudes=self.amplitudes,
        )

    def test_amplitudes(self, task: dict[str, Any]) -> str:
        """Return the amplitude distribution of the test signals."""
        return self.amplitudes

    def tasks(self, settings: dict[str, Any], methods: Sequence[str]) -> list[dict[str, Any]]:
        """List every method, variant, number of nonzeros and seed."""
        return [
            {"method": method, **variant, "d": d, "seed": seed}
            for seed in settings["seeds"]
            for method in methods
            for variant in self.variants(settings)
            for d in settings["sparsities"]
        ]

    def recipes(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Recipe]:
        """Return the network that the method needs."""
        method = registry.methods()[task["method"]]
        return [method.recipe(self.training(settings, task))] if method.recipe else []

    def measure(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
        """Recover test signals of one dictionary and one number of nonzeros."""
        n, m, d, seed = settings["n"], settings["m"], task["d"], task["seed"]
        problem = Problem(dictionaries.decaying(n, m, rng=seed), d, training=self.training(settings, task))
        method = registry.methods()[task["method"]]
        if not method.applies(problem):
            return []
        law = self.test_amplitudes(task)
        X, Y = signals.sample(problem.Phi, settings["N"], sparsity=d, amplitudes=law, rng=test_rng(seed, d))
        return [Record(task, accuracies(method, problem, X, Y))]

    def curves(self, settings: dict[str, Any], data: Data) -> Iterator[tuple[str, Data, dict[str, Any]]]:
        """Yield label, records and style of every curve."""
        known = registry.methods()
        alone = len(data.unique("method")) == 1
        for method in data.unique("method"):
            for variant in self.variants(settings):
                style = {} if alone else method_style(method)
                yield self.label(settings, known[method], variant), data.select(method=method, **variant), style

    def pictures(self, settings: dict[str, Any], data: Data) -> list[Picture]:
        """Draw the paper's two panels."""
        curves = [curve for curve in self.curves(settings, data) if curve[1].values("strict").size]
        caption = (
            f"Left: strict accuracy. Right: loose accuracy; guessing gives n/m = {settings['n'] / settings['m']:.2f}. "
            f"{_protocol(settings, data)}"
        )
        guess = settings["n"] / settings["m"]
        return [Picture(self.name, caption, lambda figure: two_panels(figure, curves, guess), (10.0, 4.8))]

    def tables(self, settings: dict[str, Any], data: Data) -> list[Table]:
        """Tabulate both accuracies, and recovery after decoding the n largest scores."""
        captions = {
            "strict": "Strict accuracy (s-acc): the d largest scores are the support",
            "loose": "Loose accuracy (l-acc): share of the support among the n largest scores",
            "decoded": "Recovered after decoding the n largest scores (not a figure of the paper)",
        }
        return [self._table(settings, data, measure, caption) for measure, caption in captions.items()]

    def _table(self, settings: dict[str, Any], data: Data, measure: str, caption: str) -> Table:
        positions = settings["sparsities"]
        rows, spread = [], 0.0
        for label, chosen, _ in self.curves(settings, data):
            if chosen.records:
                spread = max(spread, float(chosen.series("d", measure).spread.max(initial=0.0)))
                rows.append([label, *(_cell(chosen.select(d=d), measure) for d in positions)])
        if len(data.unique("seed")) > 1:
            caption += f"; standard deviation over seeds at most {spread:.3f}"
        else:
            caption += f"; one dictionary, standard error of a point at most {_standard_error(settings):.3f}"
        return Table(measure, caption, ["d", *map(str, positions)], rows)


def reason(settings: dict[str, Any], network: str = "residual") -> str:
    """Say why a claim about networks does not hold, as far as their training tells."""
    plan = settings.get("training")
    if plan is None:
        return ""
    if plan == PLANS["laptop"]:
        return "This is the reproduction: small networks, trained for a minute; the day preset judges the claim."
    if plan == PLANS["paper"]:
        return "This is a property: depth, signals and settings are the paper's."
    if plan == PLANS["smoke"]:
        return "This is the reproduction: tiny networks that have hardly been trained."
    seen, paper = (p["networks"][network]["samples"] for p in (plan, PLANS["paper"]))
    raw = plan.get("methods", {}).get(f"{network}-raw", {}).get("samples", seen)
    signals = f"these {raw:,} (raw input) and {seen:,} (whitened)" if raw != seen else f"these {seen:,}"
    return (
        f"This is the reproduction: depth is the paper's, but the paper's networks saw {paper:,} signals of one d, "
        f"{signals} of all; experiment data-size shows that more signals raise the accuracy."
    )


def _cell(data: Data, measure: str) -> str:
    """Return a mean accuracy, or why there is none."""
    if data.unique("diverged"):
        return "diverged"
    return f"{data.mean(measure):.3f}" if data.values(measure).size else "–"


def _protocol(settings: dict[str, Any], data: Data) -> str:
    seeds = len(data.unique("seed"))
    over = f"mean and standard deviation over {seeds} dictionaries" if seeds > 1 else "one dictionary"
    return f"{settings['n']}×{settings['m']}, {settings['N']:,} test signals per point; {over}."


def _standard_error(settings: dict[str, Any]) -> float:
    """Return the largest standard error that a share of the test signals can have."""
    return float(0.5 / np.sqrt(settings["N"]))


def test_rng(seed: int, *where: int) -> np.random.Generator:
    """Return the generator of test signals: the same for every method, different from training."""
    return np.random.default_rng([20_160_501, seed, *where])


def accuracies(method: Method, problem: Problem, X: FloatArray, Y: FloatArray) -> dict[str, float]:
    """Score signals Y (N, n) with true X (N, m) and compute all three measures."""
    scores = method.scores(problem, Y)
    return {
        "strict": metrics.strict_accuracy(X, scores),
        "loose": metrics.loose_accuracy(X, scores, Y.shape[1]),
        "decoded": metrics.exact_recovery(X, decoded(problem.Phi, Y, scores)),
    }


def decoded(Phi: FloatArray, Y: FloatArray, scores: FloatArray) -> FloatArray:
    """Return coefficients (N, m) by solving on the best-scored atoms; zeros if that does not explain the signal."""
    from maxsparse._core.prepared import Prepared
    from maxsparse.recovery.decode import decode_exact

    problem = Prepared(np.asarray(Phi, dtype=np.float64)).problem()
    return decode_exact(problem, np.ascontiguousarray(Y), scores)[0]
