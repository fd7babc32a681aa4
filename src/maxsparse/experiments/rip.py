"""Experiment ``rip``: how far W and D lower isometry constants, at what price, and how tight the bounds are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxsparse import dictionaries, metrics, signals, theory
from maxsparse._core.registry import EXPERIMENTS
from maxsparse._core.validation import DuplicateAtomsWarning, FloatArray
from maxsparse.experiments import registry
from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.experiment import Claim, Experiment, Picture, Table, Verdict
from maxsparse.experiments.methods import Problem
from maxsparse.experiments.rip_corollary import judge_corollary, low_rank_plus, measure_corollary
from maxsparse.experiments.rip_figures import draw_bounds, draw_rank, draw_search

FAMILIES: dict[str, Callable[[int, int, int], FloatArray]] = {
    "gaussian": lambda n, m, seed: dictionaries.gaussian(n, m, rng=seed),
    "low rank + noise": lambda n, m, seed: dictionaries.low_rank_plus(n, m, rank=2, epsilon=0.01, rng=seed),
    "decaying": lambda n, m, seed: dictionaries.decaying(n, m, rng=seed),
}


@EXPERIMENTS.register("rip", summary="Isometry constants: what W and D can lower, and its price", order=80)
class Rip(Experiment):
    """The corollary's rank-r term, gradient search for W and D, and bounds against exact constants."""

    paper = "Section 3, Proposition 2 and Corollary 1"
    about = (
        "Rank: Φ = [εA + Δ_r]N with ε = 10⁻⁴; W removes the r strongest directions; Ã is a random dictionary with "
        "n − r rows. All atoms have norm 1 and δ_3 is exact. Corollary: many such dictionaries, of growing size, with "
        "the range of Δ_r known and removed. Search: gradient search for W and D on sampled supports, starting from "
        "the best closed form; constants are exact, with the best common factor in D, so that shorter atoms alone gain "
        "nothing. Bounds: the certified interval without enumeration against the exact constant."
    )
    because = "This is a property: constants are exact, and nothing was trained."
    claims = (
        Claim("corollary", "E δ*_3k[Φ] ≤ E δ_3k[Ã], with Ã the matrix A without r rows.", "Corollary 1"),
        Claim("grows", "As Φ grows, δ*_3k[Φ] ≤ δ_3k[Ã] with overwhelming probability.", "Section 3"),
        Claim("lower", "In many practical cases δ*_3k[Φ] ≪ δ_3k[Φ].", "Section 3"),
        Claim("recovers", "With W and D, IHT recovers like on Ã, at the cost of r measurements.", "Section 3"),
        Claim("price", "The return diminishes with r; at r = n − 1 no isometry can hold.", "Section 3, footnote"),
        Claim("learned", "Useful W and D can be learned although the optimum is intractable.", "Section 3"),
    )
    presets = {  # noqa: RUF012  # read only
        "smoke": {
            "n": 10,
            "m": 16,
            "k": 1,
            "ranks": [1, 5, 9],
            "N": 20,
            "seeds": [0],
            "search": {"n": 8, "m": 12, "steps": 25},
            "corollary": {"sizes": [[8, 12, 2], [10, 16, 2]], "draws": 3},
            "orders": [2, 3, 4],
        },
        "laptop": {
            "n": 40,
            "m": 80,
            "k": 3,
            "ranks": [0, 1, 2, 4, 8, 16, 24, 28, 32, 36, 39],
            "N": 500,
            "seeds": [0, 1, 2],
            "search": {"n": 20, "m": 40, "steps": 200},
            "corollary": {"sizes": [[20, 40, 2], [40, 80, 4], [60, 120, 6]], "draws": 80},
            "orders": [2, 3, 4, 5, 6],
        },
        "day": {
            "n": 40,
            "m": 80,
            "k": 3,
            "ranks": [0, 1, 2, 4, 8, 16, 24, 28, 32, 36, 39],
            "N": 500,
            "seeds": [0, 1, 2, 3, 4],
            "search": {"n": 20, "m": 40, "steps": 200},
            "corollary": {"sizes": [[20, 40, 2], [40, 80, 4], [60, 120, 6]], "draws": 80},
            "orders": [2, 3, 4, 5, 6],
        },
        "paper": {
            "n": 100,
            "m": 200,
            "k": 6,
            "ranks": [0, 1, 2, 4, 8, 16, 32, 48, 64, 80, 90, 99],
            "N": 2000,
            "seeds": list(range(10)),
            "search": {"n": 20, "m": 100, "steps": 1000},
            "corollary": {"sizes": [[20, 40, 2], [50, 100, 5], [100, 200, 10]], "draws": 100},
            "orders": [2, 3, 4, 5, 6, 7],
        },
    }

    def tasks(self, settings: dict[str, Any], methods: Sequence[str]) -> list[dict[str, Any]]:
        """List one task per rank, per dictionary to search for, and per order of the constant."""
        found: list[dict[str, Any]] = []
        for seed in settings["seeds"]:
            found += [{"kind": "rank", "rank": rank, "seed": seed} for rank in settings["ranks"]]
            if seed == settings["seeds"][0]:  # its draws are seeds of their own
                found += [
                    {"kind": "corollary", "n": n, "m": m, "rank": r, "draw": draw, "seed": seed}
                    for n, m, r in settings["corollary"]["sizes"]
                    for draw in range(settings["corollary"]["draws"])
                ]
            found += [{"kind": "search", "family": family, "seed": seed} for family in FAMILIES]
            found += [
                {"kind": "bounds", "family": family, "order": order, "seed": seed}
                for family in ("gaussian", "decaying")
                for order in settings["orders"]
            ]
        return found

    def measure(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
        """Run one task."""
        return {"rank": _rank, "corollary": measure_corollary, "search": _search, "bounds": _bounds}[task["kind"]](
            settings, task
        )

    def pictures(self, settings: dict[str, Any], data: Data) -> list[Picture]:
        """Draw constants and accuracy against the rank, the search, and the bounds."""
        size, small = (f"{s['n']}×{s['m']}" for s in (settings, settings["search"]))
        return [
            Picture(
                "rip-rank",
                f"The price of removing r directions: exact δ_3, and strict accuracy of IHT ({size}, {settings['k']} "
                "nonzeros, ε = 10⁻⁴); mean and standard deviation over dictionaries.",
                lambda figure: draw_rank(figure, data),
                (10.0, 4.8),
            ),
            Picture(
                "rip-search",
                f"δ_3 with the best common factor ({small}): Φ itself, the best closed form, and after gradient "
                "search; one dot per dictionary.",
                lambda figure: draw_search(figure, data),
                (7.0, 4.0),
            ),
            Picture(
                "rip-bounds",
                f"Certified interval without enumeration (bars) and exact δ_k (dots), {small}, first seed.",
                lambda figure: draw_bounds(figure, data.select(kind="bounds", seed=settings["seeds"][0])),
                (8.0, 3.6),
            ),
        ]

    def tables(self, settings: dict[str, Any], data: Data) -> list[Table]:
        """Tabulate the search for W and D."""
        rows = []
        for family in data.select(kind="search").unique("family"):
            chosen = data.select(kind="search", family=family)
            means = [chosen.mean(name) for name in ("before", "start", "after", "held_before", "held_after")]
            rows.append([family, *(f"{value:.4f}" for value in means)])
        header = ["dictionary", "δ_3 of Φ", "best closed form", "after search", "unseen supports, Φ", "after search"]
        return [Table("search", "δ_3 before and after the search for W and D (means over seeds)", header, rows)]

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare with the corollary over all ranks, with the claims on recovery at small and at large ones."""
        ranks = [r for r in settings["ranks"] if 0 < r < settings["n"] - 2]
        low, last = ranks[0], max(settings["ranks"])
        ratio = data.mean("plain", rank=low) / data.mean("nulled", rank=low)
        recovered, reference, before = (data.mean(f"strict_{v}", rank=low) for v in ("nulled", "reduced", "plain"))
        end = data.mean("nulled", rank=last), data.mean("strict_nulled", rank=last)
        search = data.select(kind="search")
        after, start = search.values("after"), search.values("start")
        return [
            *judge_corollary(self, data),
            self.verdict(
                "lower",
                f"At r = {low}, δ_3 falls from {data.mean('plain', rank=low):.3f} to "
                f"{data.mean('nulled', rank=low):.3f}, a factor of {ratio:.1f}. It does not fall below 1/√32 = "
                f"{theory.IHT_THRESHOLD:.3f}.",
                bool(ratio > 1.5),
            ),
            self.verdict(
                "recovers",
                f"Strict accuracy at r = {low}: {before:.3f} before, {recovered:.3f} with W and D, {reference:.3f} "
                "on Ã.",
                bool(recovered > reference - 0.05 and before < 0.5 * recovered),
            ),
            self.verdict(
                "price",
                f"At r = {last} (n = {settings['n']}), δ_3 = {end[0]:.3f} and strict accuracy {end[1]:.3f}.",
                bool(end[0] > 1.9) if last == settings["n"] - 1 else None,
            ),
            self.verdict(
                "learned",
                f"Gradient search lowers δ_3 below the best closed form in {int((after < start - 1e-6).sum())} of "
                f"{after.size} dictionaries, on average from {start.mean():.3f} to {after.mean():.3f}; on held-out "
                f"supports, the mean deviation falls from {search.mean('held_before'):.3f} to "
                f"{search.mean('held_after'):.3f}.",
                bool((after <= start + 1e-6).all() and after.mean() < start.mean()),
            ),
        ]


def _rank(settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DuplicateAtomsWarning)  # in one dimension all atoms are ±1
        return _rank_at(settings, task)


def _rank_at(settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
    n, m, k, r, seed = settings["n"], settings["m"], settings["k"], task["rank"], task["seed"]
    Phi, U = low_rank_plus(n, m, r, np.random.default_rng(seed))
    reduced = dictionaries.gaussian(n - r, m, rng=100 + seed)
    P, E = theory.null_low_rank(Phi, r, low_rank=U)
    W, D = theory.null_low_rank(Phi, r)
    methods = registry.methods()
    values = {"known": float(theory.rip_constant(P @ Phi * E, 3, method="exact", rng=seed))}
    for variant, dictionary, method in (
        ("plain", Phi, "iht"),
        ("nulled", W @ Phi * D, "iht"),
        ("reduced", reduced, "iht"),
        ("whitened", Phi, "iht-whitened"),
    ):
        if variant != "whitened":
            values[variant] = float(theory.rip_constant(dictionary, 3, method="exact", rng=seed))
        sparsity = min(k, dictionary.shape[0])
        X, Y = signals.sample(dictionary, settings["N"], sparsity=sparsity, rng=1000 + seed)
        scores = methods[method].scores(Problem(dictionary, sparsity), Y)
        values[f"strict_{variant}"] = metrics.strict_accuracy(X, scores)
    return [Record(task, values)]


def _search(settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
    n, m, steps = (settings["search"][name] for name in ("n", "m", "steps"))
    Phi = FAMILIES[task["family"]](n, m, task["seed"])
    found = theory.minimise_rip(Phi, 3, steps=steps, rng=task["seed"])
    values = {
        "before": float(found.before),
        "start": found.start_lower,
        "after": float(found.after),
        "held_before": float(found.held_out_before.mean()),
        "held_after": float(found.held_out_after.mean()),
    }
    return [Record({**task, "start": found.start}, values)]


def _bounds(settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
    Phi = FAMILIES[task["family"]](settings["search"]["n"], settings["search"]["m"], task["seed"])
    exact = theory.rip_constant(Phi, task["order"], method="exact", rng=task["seed"])
    bounds = theory.rip_constant(Phi, task["order"], method="bounds", limit=10_000, rng=task["seed"])
    return [
        Record(task, {"exact": float(exact), "lower": bounds.lower, "upper": bounds.upper, "subsets": exact.subsets})
    ]
