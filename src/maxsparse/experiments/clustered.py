"""Experiment ``clustered``: where shared weights break and Adaptive IHT does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxsparse import dictionaries, metrics, theory
from maxsparse._core.registry import EXPERIMENTS
from maxsparse._core.validation import FloatArray
from maxsparse.dictionaries import ClusteredDictionary
from maxsparse.experiments import registry
from maxsparse.experiments.bases import clustered_bases
from maxsparse.experiments.clustered_verdicts import judge
from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.drawing import accuracy_axes, draw_series
from maxsparse.experiments.experiment import Claim, Experiment, Picture, Table, Verdict
from maxsparse.experiments.methods import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OTHERS = ("iht", "iht-whitened", "l1", "l1-whitened", "sbl", "sbl-whitened")
DROPPED = {"iht", "l1-whitened", "sbl"}  # in the sweep over clusters: shown by their better variants
LAPTOP = {
    "n": 100,
    "m": 300,
    "clusters": 100,
    "sparsities": [[3, 3], [4, 3]],
    "epsilons": [1.0, 0.3, 0.1, 0.01, 0.001, 0.0001],
    "counts": [10, 25, 50, 75, 90, 100, 150],
    "count_epsilon": 0.001,
    "N": 60,
    "seeds": [0, 1, 2],
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
        "run there as well."
    )
    claims = (
        Claim("rip", "δ_3k[Φ] is arbitrarily bad as ε → 0, and W and D cannot lower it once c ≥ n.", "Section 4"),
        Claim("iht", "IHT fails there.", "Section 4"),
        Claim("l1", "ℓ1 minimisation will likely fail there.", "Section 4"),
        Claim(
            "sbl", "Existing algorithms in general fail on such dictionaries (tested here: SBL).", "Sections 1 and 4"
        ),
        Claim("aiht", "A-IHT finds the support of every such x* for small ε if the condition holds.", "Proposition 3"),
        Claim("beyond", "The condition is sufficient, not necessary.", "Section 4, footnote"),
    )
    methods = (*OTHERS, "iht-nulled", "aiht")
    presets = {  # noqa: RUF012  # read only
        "smoke": {
            "n": 16,
            "m": 32,
            "clusters": 16,
            "sparsities": [[2, 1]],
            "epsilons": [0.1, 0.001],
            "counts": [4, 16],
            "count_epsilon": 0.001,
            "N": 20,
            "seeds": [0],
            "proved": {"n": 64, "k_x": 1, "k_c": 1, "epsilons": [0.0001], "N": 20},
        },
        "laptop": LAPTOP,
        "day": {**LAPTOP, "N": 200},
        "paper": {
            "n": 200,
            "m": 800,
            "clusters": 250,
            "sparsities": [[4, 4], [6, 4]],
            "epsilons": [1.0, 0.3, 0.1, 0.03, 0.01, 0.001, 0.0001, 0.00001],
            "counts": [25, 50, 100, 150, 180, 200, 250, 400],
            "count_epsilon": 0.001,
            "N": 1000,
            "seeds": list(range(10)),
            "proved": {"n": 4096, "k_x": 4, "k_c": 4, "epsilons": [0.01, 0.0001, 0.000001], "N": 50},
        },
    }

    def tasks(self, settings: dict[str, Any], methods: Sequence[str]) -> list[dict[str, Any]]:
        """List one task per (ε or c, sparsity, method, seed), the constants, and the runs where the condition holds."""
        found: list[dict[str, Any]] = []
        shared = settings["sparsities"][-1]
        for seed in settings["seeds"]:
            for epsilon in settings["epsilons"]:
                found.append({"kind": "constants", "epsilon": epsilon, "seed": seed})
            for method in methods:
                found += [
                    {"kind": "epsilon", "epsilon": e, "k_x": k_x, "k_c": k_c, "method": method, "seed": seed}
                    for k_x, k_c in settings["sparsities"]
                    for e in settings["epsilons"]
                    if method != "iht-nulled"  # c ≥ n here: the directions cannot be removed
                ]
                found += [
                    {"kind": "count", "clusters": c, "k_x": shared[0], "k_c": shared[1], "method": method, "seed": seed}
                    for c in settings["counts"]
                    if method not in DROPPED
                ]
            if "aiht" in methods:
                found += [
                    {"kind": "proved", "epsilon": e, "method": "aiht", "seed": seed}
                    for e in settings["proved"]["epsilons"]
                ]
        return found

    def measure(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
        """Run one task."""
        if task["kind"] == "constants":
            return _constants(settings, task)
        dictionary, k_x, k_c, N = _problem(settings, task)
        rank = task.get("clusters")
        n = dictionary.shape[0]
        problem = Problem(dictionary, k_x, rank if rank is not None and rank < n else None, k_c)
        method = registry.methods()[task["method"]]
        if not method.applies(problem):
            return []
        X, Y = clustered_signals(dictionary, N, k_x, k_c, np.random.default_rng(1000 + task["seed"]))
        scores = method.scores(problem, Y)
        agree = signs_agree(X, dictionary.labels)
        values = {
            "strict": metrics.strict_accuracy(X, scores),
            "strict_one_sign": metrics.strict_accuracy(X[agree], scores[agree]),
            "strict_two_signs": metrics.strict_accuracy(X[~agree], scores[~agree]),
        }
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
        """Tabulate accuracy against ε."""
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
        return tables

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare at the smallest ε, with a shared cluster and without."""
        return judge(self, settings, data)


def clustered_signals(
    dictionary: ClusteredDictionary, N: int, k_x: int, k_c: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw signals with k_x nonzeros in exactly k_c clusters, amplitudes ±U[0.1, 0.5]; X (N, m) and Y (N, n)."""
    X = np.zeros((N, dictionary.shape[1]))
    members = [np.flatnonzero(dictionary.labels == j) for j in range(dictionary.centers.shape[1])]
    for x in X:
        chosen = rng.choice(len(members), k_c, replace=False)
        support = [rng.choice(members[j]) for j in chosen]
        others = np.setdiff1d(np.concatenate([members[j] for j in chosen]), support)
        support += list(rng.choice(others, k_x - k_c, replace=False))
        x[support] = rng.uniform(0.1, 0.5, k_x) * rng.choice([-1.0, 1.0], k_x)
    return X, X @ dictionary.matrix.T


def signs_agree(X: FloatArray, labels: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return for every signal whether the nonzeros within each cluster have one sign, (N,)."""
    clusters = np.eye(labels.max() + 1)[labels]
    agree: NDArray[np.bool_] = ((X > 0) @ clusters * ((X < 0) @ clusters) == 0).all(axis=1)
    return agree


def _problem(settings: dict[str, Any], task: dict[str, Any]) -> tuple[ClusteredDictionary, int, int, int]:
    n, m, seed = settings["n"], settings["m"], task["seed"]
    if task["kind"] == "proved":
        proved = settings["proved"]
        dictionary = clustered_bases(proved["n"], task["epsilon"], np.random.default_rng(seed))
        return dictionary, proved["k_x"], proved["k_c"], proved["N"]
    clusters = task.get("clusters", settings["clusters"])
    epsilon = task.get("epsilon", settings["count_epsilon"])
    dictionary = dictionaries.clustered(n, m, clusters=clusters, epsilon=epsilon, rng=seed)
    return dictionary, task["k_x"], task["k_c"], settings["N"]


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
