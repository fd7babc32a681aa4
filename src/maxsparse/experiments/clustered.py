"""Experiment ``clustered``: where shared weights break and Adaptive IHT does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxsparse import dictionaries, metrics, theory
from maxsparse._core.registry import EXPERIMENTS
from maxsparse.dictionaries import ClusteredDictionary
from maxsparse.experiments import registry
from maxsparse.experiments.clustered_problems import longest, problem_of, signs_agree
from maxsparse.experiments.clustered_verdicts import judge, special_cases
from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.drawing import accuracy_axes, draw_series
from maxsparse.experiments.experiment import Claim, Experiment, Picture, Table, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OTHERS = ("iht", "iht-whitened", "l1", "l1-whitened", "sbl", "sbl-whitened")
DROPPED = {"iht", "l1-whitened", "sbl"}  # in the sweep over clusters: shown by their better variants
LAPTOP = {
    "n": 100,
    "m": 300,
    "clusters": 100,
    "sparsities": [[3, 3], [4, 3]],
    "pairs": [[2, 2], [3, 3], [6, 3], [12, 6]],
    "epsilons": [1.0, 0.3, 0.1, 0.01, 0.001, 0.0001],
    "counts": [10, 25, 50, 75, 90, 100, 150],
    "count_epsilon": 0.001,
    "N": 60,
    "seeds": [0, 1, 2],
    "nested": {"n": 100, "m": 300, "clusters": [25, 100], "counts": [2, 3, 6], "epsilon": 0.001},
    "proved": {"n": 1024, "k_x": 2, "k_c": 2, "epsilons": [0.01, 0.0001, 0.000001], "N": 20},
}


@EXPERIMENTS.register(
    "clustered", summary="Clustered dictionaries: shared weights break, Adaptive IHT does not", order=90
)
class Clustered(Experiment):
    """Clustered dictionaries as ε goes to zero and as the number of clusters passes n."""

    paper = "Section 4, Definitions 2 and 3, Proposition 3"
    about = (
        "Φ = [u_j v_jᵀ + εA_j]N with random centres, details and scales. Signals have k_x nonzeros in k_c clusters, "
        "and every method is given k_x (A-IHT also k_c and the parts of Φ). With k_x > k_c some cluster holds two "
        "nonzeros. The sweep over the number c of clusters keeps m and ε; removing c directions, as in the "
        "corollary, is possible only for c < n. The proposition's condition δ < 1/√32 on [U, A] is bounded from below "
        "for these random dictionaries; on three mutually unbiased bases (U = I) it is met and proved, and A-IHT is "
        "run there as well, also with x = (1, −1) within one cluster. Without N the atoms are as long as v makes them. "
        "Nested: clusters within clusters, φ = n(v(u + εw) + ε²a)."
    )
    because = "This is a property: nothing was trained."
    claims = (
        Claim("rip", "δ_3k[Φ] is arbitrarily bad as ε → 0, and W and D cannot lower it once c ≥ n.", "Section 4"),
        Claim("iht", "IHT fails there.", "Section 4"),
        Claim("l1", "ℓ1 minimisation will likely fail there: several nonzeros in a cluster.", "Section 4"),
        Claim("l1-alone", "ℓ1 minimisation will likely fail there: one nonzero in a cluster.", "Section 4"),
        Claim(
            "sbl", "Existing algorithms in general fail on such dictionaries (tested here: SBL).", "Sections 1 and 4"
        ),
        Claim(
            "aiht",
            "A-IHT finds the support of such x* for small ε if the condition holds: random signs and sizes.",
            "Proposition 3",
        ),
        Claim(
            "cancelled", "It finds the support of any x*, also where a cluster's coefficients cancel.", "Proposition 3"
        ),
        Claim("beyond", "The condition is sufficient, not necessary.", "Section 4, footnote"),
        Claim("unscaled", "Without N IHT still fails, as long atoms dominate what it keeps.", "Section 4"),
        Claim("nested", "A-IHT can be extended to clusters within clusters.", "Section 5"),
    )
    methods = (*OTHERS, "iht-nulled", "aiht")
    presets = {  # noqa: RUF012  # read only
        "smoke": {
            "n": 16,
            "m": 32,
            "clusters": 16,
            "sparsities": [[2, 1]],
            "pairs": [[1, 1], [2, 1]],
            "epsilons": [0.1, 0.001],
            "counts": [4, 16],
            "count_epsilon": 0.001,
            "N": 20,
            "seeds": [0],
            "nested": {"n": 16, "m": 32, "clusters": [4, 16], "counts": [1, 1, 2], "epsilon": 0.01},
            "proved": {"n": 64, "k_x": 1, "k_c": 1, "epsilons": [0.0001], "N": 20},
        },
        "laptop": LAPTOP,
        "day": {**LAPTOP, "N": 200},
        "paper": {
            "n": 200,
            "m": 800,
            "clusters": 250,
            "sparsities": [[4, 4], [6, 4]],
            "pairs": [[2, 2], [4, 4], [8, 4], [16, 8]],
            "epsilons": [1.0, 0.3, 0.1, 0.03, 0.01, 0.001, 0.0001, 0.00001],
            "counts": [25, 50, 100, 150, 180, 200, 250, 400],
            "count_epsilon": 0.001,
            "N": 1000,
            "seeds": list(range(10)),
            "nested": {"n": 200, "m": 800, "clusters": [50, 250], "counts": [2, 4, 8], "epsilon": 0.001},
            "proved": {"n": 4096, "k_x": 4, "k_c": 4, "epsilons": [0.01, 0.0001, 0.000001], "N": 50},
        },
    }

    def tasks(self, settings: dict[str, Any], methods: Sequence[str]) -> list[dict[str, Any]]:
        """List one task per (ε, c or pair of sparsities, method, seed), and those of the special cases."""
        found: list[dict[str, Any]] = []
        small = min(settings["epsilons"])
        k_x, k_c = settings["sparsities"][-1]
        for seed in settings["seeds"]:
            found += [{"kind": "constants", "epsilon": epsilon, "seed": seed} for epsilon in settings["epsilons"]]
            for method in methods:
                own = {"method": method, "seed": seed}
                if method != "iht-nulled":  # c ≥ n in these: the directions cannot be removed
                    found += [
                        {"kind": "epsilon", "epsilon": e, "k_x": x, "k_c": c, **own}
                        for x, c in settings["sparsities"]
                        for e in settings["epsilons"]
                    ]
                    found += [
                        {"kind": "pairs", "epsilon": small, "k_x": x, "k_c": c, **own} for x, c in settings["pairs"]
                    ]
                    found += [{"kind": "unscaled", "epsilon": small, "k_x": k_x, "k_c": k_c, **own}]
                    found += [{"kind": "nested", **own}]
                if method not in DROPPED:
                    found += [
                        {"kind": "count", "clusters": c, "k_x": k_x, "k_c": k_c, **own} for c in settings["counts"]
                    ]
                if method == "aiht":
                    found += [
                        {"kind": kind, "epsilon": e, **own}
                        for kind in ("proved", "cancelled")
                        for e in settings["proved"]["epsilons"]
                    ]
        return found

    def measure(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
        """Run one task."""
        if task["kind"] == "constants":
            return _constants(settings, task)
        problem, X, Y = problem_of(settings, task)
        method = registry.methods()[task["method"]]
        if not method.applies(problem):
            return []
        scores = method.scores(problem, Y)
        values = {"strict": metrics.strict_accuracy(X, scores)}
        dictionary = problem.dictionary
        if isinstance(dictionary, ClusteredDictionary):
            agree = signs_agree(X, dictionary.labels)
            values["strict_one_sign"] = metrics.strict_accuracy(X[agree], scores[agree])
            values["strict_two_signs"] = metrics.strict_accuracy(X[~agree], scores[~agree])
            if task["kind"] == "unscaled":
                values["longest"] = longest(dictionary, scores, problem.sparsity)
        return [Record(task, values)]

    def pictures(self, settings: dict[str, Any], data: Data) -> list[Picture]:
        """Draw accuracy against ε, for every sparsity, and against the number of clusters."""
        size, proved = f"{settings['n']}×{settings['m']}", settings["proved"]
        return [
            Picture(
                "clustered-epsilon",
                f"Strict accuracy against ε, {size}, {settings['clusters']} clusters; mean and standard deviation over "
                f"dictionaries. Dashed: A-IHT where the condition of Proposition 3 is proved (n = {proved['n']}, "
                f"k_x = {proved['k_x']}, k_c = {proved['k_c']}).",
                lambda figure: _draw_epsilon(figure, settings, data),
                (5.5 * len(settings["sparsities"]), 5.0),
            ),
            Picture(
                "clustered-count",
                f"Strict accuracy against the number c of clusters, {size}, ε = {settings['count_epsilon']:g}.",
                lambda figure: _draw_count(figure, settings, data),
                (7.0, 5.0),
            ),
        ]

    def tables(self, settings: dict[str, Any], data: Data) -> list[Table]:
        """Tabulate accuracy against ε and over (k_x, k_c), without N, and for nested clusters."""
        known = registry.methods()
        epsilons = sorted(settings["epsilons"], reverse=True)
        header = ["ε", *(f"{e:g}" for e in epsilons)]
        tables = []
        for k_x, k_c in settings["sparsities"]:
            chosen = data.select(kind="epsilon", k_x=k_x, k_c=k_c)
            rows = [
                [known[m].label, *(f"{chosen.mean('strict', method=m, epsilon=e):.2f}" for e in epsilons)]
                for m in chosen.unique("method")
            ]
            tables.append(Table(f"epsilon-{k_x}-{k_c}", f"Strict accuracy, k_x = {k_x}, k_c = {k_c}", header, rows))
        return [*tables, special_cases(settings, data)]

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare at the smallest ε, with shared clusters and without."""
        return judge(self, settings, data)


def _constants(settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
    """Exact δ_2 of Φ and of Φ whitened, which is the coherence, and the condition's constant from below."""
    parts = dictionaries.clustered(
        settings["n"], settings["m"], clusters=settings["clusters"], epsilon=task["epsilon"], rng=task["seed"]
    )
    W, D = theory.precondition(parts.matrix)
    k_x, k_c = settings["sparsities"][-1]
    both = np.hstack([parts.centers, parts.details])
    order = min(3 * k_x + k_c, both.shape[1])
    condition = theory.rip_constant(both, order, method="bounds", limit=1, trials=20, rng=task["seed"])
    values = {
        "delta_2": theory.coherence(parts.matrix),
        "delta_2_whitened": theory.coherence(W @ parts.matrix * D),
        "condition_lower": condition.lower,
        "condition_order": order,
    }
    return [Record(task, values)]


def _draw_epsilon(figure: Figure, settings: dict[str, Any], data: Data) -> None:
    known = registry.methods()
    panels = np.atleast_1d(figure.subplots(1, len(settings["sparsities"])))
    for axes, (k_x, k_c) in zip(panels, settings["sparsities"], strict=True):
        chosen = data.select(kind="epsilon", k_x=k_x, k_c=k_c)
        for method in chosen.unique("method"):
            draw_series(axes, chosen.series("epsilon", "strict", method=method), known[method].label)
        proved = data.series("epsilon", "strict", kind="proved", method="aiht")
        axes.plot(proved.x, proved.mean, "k--x", markersize=6, label="A-IHT, condition proved")
        accuracy_axes(axes, "ε", log=True)
        axes.set_title(f"strict accuracy, k_x = {k_x} nonzeros in k_c = {k_c} clusters")
        axes.invert_xaxis()
        axes.grid(alpha=0.3)


def _draw_count(figure: Figure, settings: dict[str, Any], data: Data) -> None:
    axes = figure.subplots()
    known = registry.methods()
    chosen = data.select(kind="count")
    for method in chosen.unique("method"):
        label = "IHT, c directions removed" if method == "iht-nulled" else known[method].label
        draw_series(axes, chosen.series("clusters", "strict", method=method), label)
    axes.axvline(settings["n"], color="black", linestyle="--", linewidth=1, label="c = n")
    accuracy_axes(axes, "number c of clusters")
    axes.grid(alpha=0.3)
