"""Experiment ``shared-weights``: fixed points of a layer with shared weights, and what the direction BBᵀ adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxsparse import dictionaries, metrics, signals, theory
from maxsparse._core.registry import EXPERIMENTS
from maxsparse._core.validation import FloatArray
from maxsparse.experiments import registry
from maxsparse.experiments.curves import test_rng
from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.direction import Change, best_step, learned_direction, recovered
from maxsparse.experiments.drawing import accuracy_axes, draw_series
from maxsparse.experiments.experiment import Claim, Experiment, Picture, Table, Verdict, all_below
from maxsparse.experiments.methods import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAMILIES = {
    "decaying": lambda n, m, seed: dictionaries.decaying(n, m, rng=seed),
    "rank one": lambda n, m, seed: dictionaries.low_rank_plus(n, m, rank=1, epsilon=0.1, rng=seed),
}
VARIANTS = ("μ", "BBᵀ", "W, D and μ", "W, D and BBᵀ")
CLOSED = "BBᵀ = (ΦᵀΦ + λI)⁻¹"  # nothing is learned: BBᵀΦᵀ = Φᵀ(ΦΦᵀ + λI)⁻¹, which whitens as W does, without D
ADAPTIVE = "W, D, adaptive step"
RIDGE = 1e-8  # λ relative to ‖Φ‖²
TOLERANCE = 1e-9  # relative distance to x* at which it counts as a fixed point


@EXPERIMENTS.register("shared-weights", summary="Shared weights: their fixed points, and what BBᵀ adds", order=75)
class SharedWeights(Experiment):
    """Proposition 1, and the direction that the paper leaves open."""

    paper = "Section 3, Proposition 1"
    about = (
        "Fixed points: layers H_k[Ψx + Γy] with random Γ on a random Φ. With Ψ = I − ΓΦ random x* with k nonzeros must "
        "stay; with Ψ = I − ΓΦ + E, E small and random with a zero diagonal, the x* of the proof, 1 at one atom and a "
        "tenth of E's size at k − 1 others, must not, for each atom. Direction: Γ = BBᵀDΦᵀWᵀW, with W and D whitening "
        "or without them, in layers with hard thresholds that share it; IHT has BBᵀ = μI. μ is the best of a grid. B "
        "is learned by gradient descent through the layers from that μ, and its length is chosen like μ. A closed form "
        "needs no learning. Accuracy after many layers on other signals."
    )
    because = "This is a property: it was counted, and nothing was trained."
    claims = (
        Claim("fixed", "Every x* is a fixed point only if Ψ = I − ΓΦ: k ≥ 2.", "Proposition 1"),
        Claim("alone", "Every x* is a fixed point only if Ψ = I − ΓΦ: k = 1.", "Proposition 1"),
        Claim("added", "BBᵀ on top of W and D could improve performance (left open).", "Section 3"),
        Claim("instead", "BBᵀ without W and D improves performance.", "beyond the paper"),
    )
    presets = {  # noqa: RUF012  # read only
        "smoke": {
            "n": 8,
            "m": 16,
            "orders": [1, 2],
            "N": 20,
            "seeds": [0],
            "sparsities": [1, 2],
            "direction": {"steps": 3, "batch": 16, "layers": 4},
            "layers": 5,
        },
        "laptop": {
            "n": 20,
            "m": 100,
            "orders": [1, 2, 3, 5],
            "N": 500,
            "seeds": [0, 1, 2],
            "sparsities": [2, 3, 4, 5],
            "direction": {"steps": 400, "batch": 128, "layers": 12},
            "layers": 100,
        },
        "day": {
            "n": 20,
            "m": 100,
            "orders": [1, 2, 3, 5],
            "N": 2000,
            "seeds": [0, 1, 2, 3, 4],
            "sparsities": [2, 3, 4, 5],
            "direction": {"steps": 5000, "batch": 128, "layers": 12},
            "layers": 200,
        },
        "paper": {
            "n": 20,
            "m": 100,
            "orders": list(range(1, 11)),
            "N": 10_000,
            "seeds": list(range(10)),
            "sparsities": list(range(2, 11)),
            "direction": {"steps": 50_000, "batch": 250, "layers": 20},
            "layers": 500,
        },
    }

    def tasks(self, settings: dict[str, Any], methods: Sequence[str]) -> list[dict[str, Any]]:
        """List one task per number of nonzeros, and one per dictionary and form of Γ."""
        found: list[dict[str, Any]] = []
        for seed in settings["seeds"]:
            found += [{"kind": "fixed", "k": k, "seed": seed} for k in settings["orders"]]
            found += [
                {"kind": "direction", "family": family, "variant": variant, "seed": seed}
                for family in FAMILIES
                for variant in (*VARIANTS, CLOSED, ADAPTIVE)
            ]
        return found

    def measure(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
        """Run one task."""
        return _fixed(settings, task) if task["kind"] == "fixed" else _direction(settings, task)

    def pictures(self, settings: dict[str, Any], data: Data) -> list[Picture]:
        """Draw accuracy against d with every form of Γ."""
        caption = (
            f"Strict accuracy of shared layers, {settings['n']}×{settings['m']}, {settings['layers']} layers, "
            f"{settings['N']} signals per point; mean and standard deviation over dictionaries."
        )
        return [Picture("shared-weights", caption, lambda figure: _draw(figure, data), (10.0, 4.8))]

    def tables(self, settings: dict[str, Any], data: Data) -> list[Table]:
        """Tabulate accuracy against d."""
        return [
            Table(
                f"direction-{number}",
                f"Strict accuracy with Γ learned, {family} dictionary; W and D whiten",
                ["d", *map(str, settings["sparsities"])],
                [
                    [variant, *(f"{data.mean('strict', family=family, variant=variant, d=d):.3f}" for d in at)]
                    for variant in data.select(family=family).unique("variant")
                ],
            )
            for number, family in enumerate(FAMILIES)
            for at in [settings["sparsities"]]
        ]

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Count fixed points; compare BBᵀ with a step."""
        fixed = data.select(kind="fixed")
        rows = [[str(k), *(f"{fixed.mean(name, k=k):.3f}" for name in ("right", "other"))] for k in settings["orders"]]
        table = Table(
            "fixed", "Share of x* that are fixed points", ["k", "Ψ = I − ΓΦ", "Ψ = I − ΓΦ + E, x* of the proof"], rows
        )
        verdicts = []
        for key, orders in (("fixed", [k for k in settings["orders"] if k > 1]), ("alone", [1])):
            right, other = min(fixed.mean("right", k=k) for k in orders), max(fixed.mean("other", k=k) for k in orders)
            verdicts.append(
                self.verdict(
                    key,
                    f"Share of fixed points: at least {right:.3f} with Ψ = I − ΓΦ, at most {other:.3f} with another Ψ.",
                    bool(right == 1.0 and other == 0.0),
                    table,
                    "This is a property: H_1 hides small entries off the diagonal; the proof needs k ≥ 2 (errata).",
                )
            )
        added = self._gain(data, "added", ("W, D and BBᵀ",), "W, D and μ")
        return [*verdicts, added, self._gain(data, "instead", ("BBᵀ", CLOSED), "μ")]

    def _gain(self, data: Data, key: str, having: Sequence[str], without: str) -> Verdict:
        """Compare the best direction with a step, on average over d, on every family."""
        chosen = data.select(kind="direction")
        rows = [
            [variant, *(f"{chosen.mean('strict', family=family, variant=variant):.3f}" for family in FAMILIES)]
            for variant in (without, *having)
        ]
        pairs = [
            (
                chosen.mean("strict", family=family, variant=without),
                max(chosen.mean("strict", family=family, variant=variant) for variant in having),
            )
            for family in FAMILIES
        ]
        said = "; ".join(f"{family} {a:.3f} → {b:.3f}" for family, (a, b) in zip(FAMILIES, pairs, strict=True))
        return self.verdict(
            key,
            f"Mean strict accuracy with the best step → with BBᵀ: {said}.",
            all_below(*pairs),
            Table(key, "Mean strict accuracy over d", ["", *FAMILIES], rows),
            "This is the reproduction: another B may be better than the one that gradient descent found.",
        )


def _fixed(settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
    """Return the share of fixed points with the Ψ of the proposition and with another."""
    n, m, k = settings["n"], settings["m"], task["k"]
    rng = np.random.default_rng([task["seed"], k])
    Phi = dictionaries.gaussian(n, m, rng=rng)
    Gamma = rng.standard_normal((m, n)) / np.sqrt(n)
    right = theory.generalised_iht_layer(Phi, k, Gamma=Gamma)
    E = rng.uniform(0.5e-3, 1e-3, (m, m)) * rng.choice([-1.0, 1.0], (m, m))
    np.fill_diagonal(E, 0.0)
    other = theory.generalised_iht_layer(Phi, k, Gamma=Gamma, Psi=right.Psi + E)
    X, Y = signals.sample(Phi, settings["N"], sparsity=k, rng=rng)
    proof = np.eye(m)
    for i, x in enumerate(proof):
        x[rng.choice(np.delete(np.arange(m), i), k - 1, replace=False)] = 1e-4
    return [Record(task, {"right": _stays(right, X, Y), "other": _stays(other, proof, proof @ Phi.T)})]


def _stays(layer: theory.GeneralisedIhtLayer, X: FloatArray, Y: FloatArray) -> float:
    """Return the share of signals whose support and coefficients a layer does not change."""
    after = layer(X, Y)
    same = np.linalg.norm(after - X, axis=1) <= TOLERANCE * np.linalg.norm(X, axis=1)
    return float(np.mean(same))


def _direction(settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
    n, m, seed, variant = settings["n"], settings["m"], task["seed"], task["variant"]
    Phi = FAMILIES[task["family"]](n, m, seed)
    change: Change = theory.precondition(Phi) if variant.startswith("W, D") else (np.eye(n), np.ones(m))
    P = None if variant == ADAPTIVE else _shared(settings, Phi, change, variant, 10_000 + seed)
    found = []
    for d in settings["sparsities"]:
        X, Y = signals.sample(Phi, settings["N"], sparsity=d, rng=test_rng(seed, d))
        if P is None:
            scores = registry.methods()["iht-whitened"].scores(Problem(Phi, d), Y)
        else:
            scores = np.abs(recovered(Phi, change, P, Y, d, settings["layers"]))
        found.append(Record({**task, "d": d}, {"strict": metrics.strict_accuracy(X, scores)}))
    return found


def _shared(settings: dict[str, Any], Phi: FloatArray, change: Change, variant: str, rng: int) -> FloatArray:
    """Return BBᵀ of a variant, with the best step."""
    m, (W, D), plan = Phi.shape[1], change, settings["direction"]
    size = np.linalg.norm(W @ Phi * D, 2) ** 2
    of_step = {"sparsities": settings["sparsities"], "rng": rng, "batch": plan["batch"], "layers": 3 * plan["layers"]}
    if variant == CLOSED:
        P = np.linalg.inv(Phi.T @ Phi + RIDGE * size * np.eye(m))
        return best_step(Phi, change, P, **of_step)
    P = best_step(Phi, change, np.eye(m) / size, **of_step)
    if not variant.endswith("BBᵀ"):
        return P
    P = learned_direction(Phi, change, float(P[0, 0]), sparsities=settings["sparsities"], rng=rng + 1, **plan)
    return best_step(Phi, change, P, **of_step)


def _draw(figure: Figure, data: Data) -> None:
    chosen = data.select(kind="direction")
    for axes, family in zip(figure.subplots(1, len(FAMILIES)), FAMILIES, strict=True):
        for variant in chosen.unique("variant"):
            draw_series(axes, chosen.series("d", "strict", family=family, variant=variant), variant)
        accuracy_axes(axes, "number d of nonzeros")
        axes.set_title(f"{family} dictionary")
        axes.grid(alpha=0.3)
