"""Base of the experiments with the paper's two panels: accuracy against the number of nonzeros, per method."""

from __future__ import annotations

import math
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

__all__ = [
    "RULE",
    "Curves",
    "Duel",
    "accuracies",
    "all_higher",
    "decoded",
    "duel",
    "sizes",
    "standard_error",
    "test_rng",
]

FLOOR, CEILING = 0.005, 0.995
RULE = (
    "Higher means: behind at no d ≥ 2, ahead at more than half. Level means within two standard errors. Left out: "
    f"both at most {FLOOR} or at least {CEILING}."
)


def sizes(preset: str, **more: Any) -> dict[str, Any]:
    """Return the settings that these experiments have in common: the problem of Section 7.2 in three sizes."""
    common = {
        "smoke": {"n": 8, "m": 16, "sparsities": [1, 2], "N": 20, "seeds": [0]},
        "laptop": {"n": 20, "m": 100, "sparsities": list(range(1, 11)), "N": 500, "seeds": [0, 1, 2]},
        "paper": {"n": 20, "m": 100, "sparsities": list(range(1, 11)), "N": 100_000, "seeds": [0, 1, 2]},
    }
    return {**common[preset], "training": PLANS[preset], **more}


class Curves(Experiment):
    """Strict and loose accuracy against d. Subclasses define the curves."""

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
        caption += f"; standard deviation over seeds at most {spread:.3f}"
        return Table(measure, caption, ["d", *map(str, positions)], rows)


def _cell(data: Data, measure: str) -> str:
    """Return a mean accuracy, or why there is none."""
    if data.unique("diverged"):
        return "diverged"
    return f"{data.mean(measure):.3f}" if data.values(measure).size else "–"


def _protocol(settings: dict[str, Any], data: Data) -> str:
    seeds = len(data.unique("seed"))
    return (
        f"{settings['n']}×{settings['m']}, {settings['N']:,} test signals per point; mean and standard deviation over "
        f"{seeds} dictionar{'y' if seeds == 1 else 'ies'}."
    )


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
    from maxsparse.recovery.decode import decode_exact
    from maxsparse.recovery.refit import prepare

    return decode_exact(prepare(Phi, float(np.finfo(np.float64).eps)), np.ascontiguousarray(Y), scores)[0]


class Duel:
    """Where one curve is ahead of another by more than the statistical error of the test signals.

    If both recover almost nothing or almost everything, they are neither ahead nor level nor behind.
    """

    def __init__(self, cells: list[tuple[int, float, float, float]]) -> None:
        self.cells = cells  # d, first, second, standard error of the difference
        self.telling = [cell for cell in cells if max(cell[1:3]) > FLOOR and min(cell[1:3]) < CEILING]
        self.ahead = [d for d, a, b, error in self.telling if a - b > 2.0 * error]
        self.behind = [d for d, a, b, error in self.telling if b - a > 2.0 * error]

    @property
    def higher(self) -> bool | None:
        """Whether the first is behind nowhere and ahead at more than half of the d that count; None if none does."""
        return not self.behind and 2 * len(self.ahead) > len(self.telling) if self.telling else None

    @property
    def means(self) -> tuple[float, float]:
        """Means of both over d; NaN if nothing was compared."""
        if not self.cells:
            return math.nan, math.nan
        return float(np.mean([a for _, a, _, _ in self.cells])), float(np.mean([b for _, _, b, _ in self.cells]))

    @property
    def mean(self) -> float:
        """Mean difference over d; NaN if nothing was compared."""
        first, second = self.means
        return first - second

    def __str__(self) -> str:
        even = len(self.telling) - len(self.ahead) - len(self.behind)
        left_out = len(self.cells) - len(self.telling)
        more = f", {left_out} left out" if left_out else ""
        return (
            f"ahead at {len(self.ahead)}, level at {even}, behind at {len(self.behind)} of {len(self.telling)} d{more}"
        )


def duel(first: Data, second: Data, measure: str, signals_per_point: int, *, start: int = 2) -> Duel:
    """Compare two curves at every d from `start` on."""
    cells = []
    for d in sorted(set(first.unique("d")) & set(second.unique("d"))):
        a, b = first.values(measure, d=d), second.values(measure, d=d)
        if d >= start and a.size and b.size:
            cells.append((d, float(a.mean()), float(b.mean()), standard_error(a, b, signals_per_point)))
    return Duel(cells)


def all_higher(duels: Sequence[Duel]) -> bool | None:
    """Return whether the first curve is higher in every comparison that counts; None if none does."""
    found = [duel.higher for duel in duels if duel.higher is not None]
    return all(found) if found else None


def standard_error(a: FloatArray, b: FloatArray, signals_per_point: int) -> float:
    """Return the standard error of the difference of two mean accuracies, one value per seed each.

    A share p of N signals has variance p(1 − p)/N at most, also for loose accuracy, whose terms lie in [0, 1].
    """
    variances = (mean * (1.0 - mean) / values.size for values in (a, b) for mean in [values.mean()])
    return math.sqrt(sum(variances) / signals_per_point)
