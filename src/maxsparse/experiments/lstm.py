"""Experiment ``lstm``: unit amplitudes, the LSTM against the residual network and SBL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments import registry
from maxsparse.experiments.curves import Curves, reason, sizes
from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.drawing import draw_series, method_style
from maxsparse.experiments.duels import compare
from maxsparse.experiments.experiment import Claim, Picture, Table, Verdict
from maxsparse.experiments.recipes import current_store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WATCHED = (3, 5, 7)  # numbers of nonzeros whose accuracy is shown against the signals seen in training


@EXPERIMENTS.register("lstm", summary="LSTM, residual network and SBL with unit amplitudes", order=60)
class Lstm(Curves):
    """Amplitudes ±1."""

    paper = "Section 9, Figure 8"
    about = (
        "The problem of experiment basic with amplitudes ±1, on which local minima trouble many algorithms. The LSTM "
        "has two layers and 11 steps, y at every step; the paper gives no width: the day preset has the 425 units of "
        "the follow-up, the laptop preset 128, and both networks whiten their input there. The paper does not say "
        "which updates its SBL has, and they differ much, so that each stands in a row of its own: EM, which this "
        "package takes, the convex bounding of Wipf and Nagarajan, and MacKay's. SBL on whitened signals and the "
        "bundled network are not in the paper."
    )
    claims = (
        Claim("sbl-convex", "The LSTM is even able to outperform SBL (convex updates).", "Section 9"),
        Claim("sbl-mackay", "The LSTM is even able to outperform SBL (MacKay's updates).", "Section 9"),
        Claim("sbl", "The LSTM is even able to outperform SBL (EM updates).", "Section 9"),
        Claim("residual", "The LSTM outperforms the residual network.", "Figure 8"),
    )
    amplitudes = "unit"
    methods = ("lstm", "residual", "sbl", "sbl-convex", "sbl-mackay", "sbl-whitened", "learned-sbl", "recoverer")
    presets = {preset: sizes(preset) for preset in ("smoke", "laptop", "day", "paper")}  # noqa: RUF012  # read only

    def tasks(self, settings: dict[str, Any], methods: Sequence[str]) -> list[dict[str, Any]]:
        """List the points of the curves, and the trainings of the networks."""
        known = registry.methods()
        trainings = [
            {"kind": "training", "method": method, "d": d, "seed": seed}
            for seed in settings["seeds"]
            for method in methods
            if known[method].recipe
            for d in _watched(settings)
        ]
        return [*super().tasks(settings, methods), *trainings]

    def measure(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
        """Recover test signals; of a training, return the accuracies of its validations."""
        if task.get("kind") != "training":
            return super().measure(settings, task)
        (recipe,) = self.recipes(settings, task)
        history = current_store().about(recipe)["report"]["history"]
        return [
            Record({**task, "signals": entry["samples"]}, {"strict": entry["strict"][entry["d"].index(task["d"])]})
            for entry in history
        ]

    def pictures(self, settings: dict[str, Any], data: Data) -> list[Picture]:
        """Draw the paper's two panels, and accuracy against the signals seen in training."""
        found = super().pictures(settings, data.select(kind=None))
        if data.select(kind="training").records:
            caption = (
                "Strict accuracy against the signals seen in training, on the validation signals of every training; "
                "dotted: SBL with EM updates, on the test signals."
            )
            size = (10.0, 3.6)
            found.append(Picture("lstm-training", caption, lambda figure: _draw(figure, settings, data), size))
        return found

    def tables(self, settings: dict[str, Any], data: Data) -> list[Table]:
        """Tabulate the curves."""
        return super().tables(settings, data.select(kind=None))

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare the LSTM with all of them at every d ≥ 2."""
        known, trainings, data = registry.methods(), data.select(kind="training"), data.select(kind=None)
        verdicts = []
        for claim in self.claims:
            if untested := self.untested(claim.key, data, ("lstm", claim.key)):
                verdicts.append(untested)
                continue
            names = known["lstm"].label, known[claim.key].label
            curves = data.select(method="lstm"), data.select(method=claim.key)
            measured, higher, table = compare({names: curves}, settings["N"])
            why = _budgets(settings, trainings) if claim.key == "residual" else reason(settings, "lstm")
            verdicts.append(self.verdict(claim.key, measured, higher, table, why))
        return verdicts


def _budgets(settings: dict[str, Any], trainings: Data) -> str:
    """Say that the two networks were not trained equally long, and how they compare where they were."""
    lstm, residual = (settings["training"]["networks"][name]["samples"] for name in ("lstm", "residual"))
    said = (
        f"This is the reproduction: the LSTM was trained with {lstm:,} signals, the residual network with {residual:,}."
    )
    compared = [
        f"{_after(trainings, 'lstm', d, lstm)} against {_after(trainings, 'residual', d, lstm)} at d = {d}"
        for d in _watched(settings)
        if trainings.records
    ]
    return f"{said} After {lstm:,} each: strict accuracy {', '.join(compared)}." if compared else said


def _after(trainings: Data, method: str, d: int, samples: int) -> str:
    """Return the accuracy on the validation signals when a network had seen about so many signals."""
    history = trainings.select(method=method, d=d)
    seen = min(history.unique("signals"), key=lambda signals: abs(signals - samples))
    return f"{history.mean('strict', signals=seen):.3f}"


def _watched(settings: dict[str, Any]) -> list[int]:
    tested = settings["sparsities"]
    return [d for d in WATCHED if d in tested] or tested[-1:]


def _draw(figure: Figure, settings: dict[str, Any], data: Data) -> None:
    known, watched = registry.methods(), _watched(settings)
    trainings, tested = data.select(kind="training"), data.select(kind=None)
    for axes, d in zip(figure.subplots(1, len(watched), sharey=True, squeeze=False)[0], watched, strict=True):
        for method in trainings.unique("method"):
            chosen = trainings.select(method=method, d=d)
            draw_series(axes, chosen.series("signals", "strict"), known[method].label, **method_style(method))
        if tested.select(method="sbl", d=d).records:
            level = tested.mean("strict", method="sbl", d=d)
            axes.axhline(level, color=method_style("sbl")["color"], linestyle=":", label=known["sbl"].label)
        axes.set(title=f"d = {d}", xlabel="signals", xscale="log", ylim=(-0.02, 1.02))
        axes.grid(alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, ncols=4, loc="outside lower center", frameon=False)
