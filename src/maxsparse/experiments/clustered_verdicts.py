"""Verdicts of the experiment ``clustered`` on the paper's claims, at its smallest ε."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxsparse.experiments import registry
from maxsparse.experiments.bases import unbiased_constant
from maxsparse.experiments.data import Data
from maxsparse.experiments.experiment import Experiment, Table, Verdict, all_below
from maxsparse.theory import IHT_THRESHOLD

__all__ = ["judge", "special_cases"]

FAILURE = 0.5  # a method that finds fewer supports than this fails


def judge(experiment: Experiment, settings: dict[str, Any], data: Data) -> list[Verdict]:
    """Return one verdict per claim."""
    several = [(x, c) for x, c in settings["pairs"] if x >= 2 * c]
    alone = [(x, c) for x, c in settings["pairs"] if x == c]

    def fails(pairs: Sequence[tuple[int, int]], *methods: str) -> bool | None:
        return all_below(*((_at(data, method, *pair), FAILURE) for method in methods for pair in pairs))

    return [
        _rip(experiment, settings, data),
        experiment.verdict(
            "iht",
            _say(data, "iht", [*alone, *several]),
            fails([*several, *alone], "iht", "iht-whitened"),
            _pairs(settings, data, "iht", "iht-whitened"),
        ),
        experiment.verdict(
            "l1",
            _say(data, "l1", several),
            fails(several, "l1"),
            _pairs(settings, data, "l1", "l1-whitened"),
            "This is a property.",
        ),
        experiment.verdict(
            "l1-alone",
            _say(data, "l1", alone),
            fails(alone, "l1"),
            _signs(settings, data),
            "This is a property: ℓ1 fails where a cluster holds both signs, and with one nonzero each none does.",
        ),
        experiment.verdict(
            "sbl",
            _say(data, "sbl", [*alone, *several]),
            fails(several, "sbl", "sbl-whitened"),
            _pairs(settings, data, "sbl", "sbl-whitened"),
            "This is a property: SBL finds more than half, but fewer the more nonzeros share clusters.",
        ),
        *_proposition(experiment, settings, data),
        _beyond(experiment, settings, data),
        _unscaled(experiment, data),
        _nested(experiment, settings, data),
    ]


def special_cases(settings: dict[str, Any], data: Data) -> Table:
    """Tabulate accuracy over (k_x, k_c), without N, and for nested clusters."""
    pairs = _pairs(settings, data, *data.select(kind="pairs").unique("method"))
    rows = [
        [*row, *(_cell(data.mean("strict", kind=kind, method=method)) for kind in ("unscaled", "nested"))]
        for row, method in zip(pairs.rows, data.select(kind="pairs").unique("method"), strict=True)
    ]
    k_x, k_c = settings["sparsities"][-1]
    own = settings["nested"]
    caption = (
        f"{pairs.caption}. Without N: k_x = {k_x}, k_c = {k_c}. Nested: {own['counts'][-1]} nonzeros in "
        f"{own['counts'][-2]} inner and {own['counts'][0]} outer clusters, ε = {own['epsilon']:g} at each level"
    )
    return Table("cases", caption, [*pairs.header, "without N", "nested"], rows)


def _at(data: Data, method: str, k_x: int, k_c: int) -> float:
    return data.mean("strict", kind="pairs", method=method, k_x=k_x, k_c=k_c)


def _cell(value: float) -> str:
    return "–" if value != value else f"{value:.2f}"


def _say(data: Data, method: str, pairs: Sequence[tuple[int, int]]) -> str:
    where = ", ".join(f"({x}, {c})" for x, c in pairs)
    found = ", ".join(_cell(_at(data, method, *pair)) for pair in pairs)
    label = registry.methods()[method].label
    return f"Strict accuracy of {label} at (k_x, k_c) = {where}: {found}; failing is below {FAILURE}."


def _pairs(settings: dict[str, Any], data: Data, *methods: str) -> Table:
    """Compare methods over the pairs (k_x, k_c), A-IHT last."""
    known = registry.methods()
    shown = list(dict.fromkeys([*methods, "aiht"])) if "aiht" not in methods else list(methods)
    rows = [[known[method].label, *(_cell(_at(data, method, *pair)) for pair in settings["pairs"])] for method in shown]
    caption = f"Strict accuracy at ε = {min(settings['epsilons']):g} over (k_x, k_c): k_x nonzeros in k_c clusters"
    return Table("pairs", caption, ["", *(f"({x}, {c})" for x, c in settings["pairs"])], rows)


def _signs(settings: dict[str, Any], data: Data) -> Table:
    """Compare ℓ1 on signals with one and with two signs within a cluster."""
    rows = [
        [said, *(_cell(data.mean(name, kind="pairs", method="l1", k_x=x, k_c=c)) for x, c in settings["pairs"])]
        for said, name in (
            ("all", "strict"),
            ("one sign in every cluster", "strict_one_sign"),
            ("both signs in some cluster", "strict_two_signs"),
        )
    ]
    header = ["ℓ1, signals with", *(f"({x}, {c})" for x, c in settings["pairs"])]
    return Table("signs", f"Strict accuracy of ℓ1 at ε = {min(settings['epsilons']):g}", header, rows)


def _rip(experiment: Experiment, settings: dict[str, Any], data: Data) -> Verdict:
    small = min(settings["epsilons"])
    plain = data.values("delta_2", kind="constants", epsilon=small)
    whitened = data.values("delta_2_whitened", kind="constants", epsilon=small)
    return experiment.verdict(
        "rip",
        f"At ε = {small:g} with {settings['clusters']} clusters, 1 − δ_2 (exact) is at most "
        f"{1 - plain.min():.1e}, and {1 - whitened.min():.1e} after whitening; other W and D were not tried.",
        bool(whitened.min() > 0.99),
    )


def _proposition(experiment: Experiment, settings: dict[str, Any], data: Data) -> list[Verdict]:
    """Judge Proposition 3 where its condition is proved, with and without coefficients that cancel."""
    proved = settings["proved"]
    order, bound = _proved_constant(settings)
    found = data.values("strict", kind="proved", method="aiht")
    cancelled = data.values("strict", kind="cancelled", method="aiht")
    says = f"On three unbiased bases with n = {proved['n']}, δ_{order} ≤ {bound:.4f} (1/√32 is {IHT_THRESHOLD:.4f})"
    # Two nonzeros in one cluster need δ_7, which is at most δ_order for the orders proved here.
    covered = bound < IHT_THRESHOLD and order >= 7
    return [
        experiment.verdict(
            "aiht",
            f"{says}: strict accuracy at least {found.min(initial=1.0):.3f} in {found.size} runs, for ε from "
            f"{max(proved['epsilons']):g} to {min(proved['epsilons']):g}.",
            bool(found.min() == 1.0) if found.size and bound < IHT_THRESHOLD else None,
        ),
        experiment.verdict(
            "cancelled",
            f"{says}, x = (1, −1) in one cluster: strict accuracy at most "
            f"{cancelled.max(initial=0.0):.3f} in {cancelled.size} runs.",
            bool(cancelled.min() == 1.0) if cancelled.size and covered else None,
            because="This is a property: z_j = Σ x_i is 0, so the first phase cannot see the cluster (errata).",
        ),
    ]


def _beyond(experiment: Experiment, settings: dict[str, Any], data: Data) -> Verdict:
    lower = data.values("condition_lower", kind="constants")
    found = [_at(data, "aiht", *pair) for pair in settings["pairs"]]
    return experiment.verdict(
        "beyond",
        f"A-IHT finds {min(found):.2f} or more at every (k_x, k_c), although the condition's constant is at least "
        f"{lower.min():.2f} there.",
        all_below(*((0.9, value) for value in found), (IHT_THRESHOLD, float(lower.min()))),
        _pairs(settings, data, "aiht"),
    )


def _unscaled(experiment: Experiment, data: Data) -> Verdict:
    known = registry.methods()
    chosen = data.select(kind="unscaled")
    rows = [
        [known[m].label, *(_cell(chosen.mean(name, method=m)) for name in ("strict", "longest"))]
        for m in chosen.unique("method")
    ]
    strict, share = (chosen.mean(name, method="iht") for name in ("strict", "longest"))
    header = ["without N", "strict accuracy", "share of the longest atom of its cluster among those it keeps"]
    return experiment.verdict(
        "unscaled",
        f"Strict accuracy of IHT {_cell(strict)}; {_cell(share)} of what it keeps is the longest atom of its cluster.",
        all_below((strict, FAILURE), (0.5, share)),
        Table("unscaled", "Atoms as long as v makes them", header, rows),
        "This is a property.",
    )


def _nested(experiment: Experiment, settings: dict[str, Any], data: Data) -> Verdict:
    known, own = registry.methods(), settings["nested"]
    chosen = data.select(kind="nested")
    rows = [[known[m].label, _cell(chosen.mean("strict", method=m))] for m in chosen.unique("method")]
    aiht, iht = (chosen.mean("strict", method=m) for m in ("aiht", "iht"))
    return experiment.verdict(
        "nested",
        f"A-IHT with one phase per level finds {_cell(aiht)}, IHT {_cell(iht)}.",
        all_below((0.9, aiht), (iht, FAILURE)),
        Table("nested", f"Strict accuracy, clusters {own['clusters']}, active {own['counts']}", ["", "nested"], rows),
    )


def _proved_constant(settings: dict[str, Any]) -> tuple[int, float]:
    """Order and bound of the condition's constant for the three unbiased bases."""
    proved = settings["proved"]
    order = 3 * proved["k_x"] + proved["k_c"]
    return order, unbiased_constant(proved["n"], 3, order)
