"""Experiment ``data-size``: ten times the training signals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments.curves import Curves, reason, sizes
from maxsparse.experiments.data import Data
from maxsparse.experiments.duels import compare
from maxsparse.experiments.experiment import Claim, Verdict
from maxsparse.experiments.methods import Method
from maxsparse.experiments.training_plans import PLANS, Training


@EXPERIMENTS.register("data-size", summary="One and ten times the training signals", order=30)
class DataSize(Curves):
    """The residual network trained on 1× and 10× the signals."""

    paper = "Section 7.3, Figure 3"
    about = (
        "The residual network of experiment basic (laptop) or ablations (day). 10× is that very network, which sees "
        "every signal once, and 1× is trained for as many steps on a tenth of the signals, each seen ten times: only "
        "the amount of data differs. The paper preset has 600,000 and 6,000,000 signals, 150 epochs of each. "
        "At the day preset the networks of the first dictionary come trained, those of the others do not."
    )
    claims = (Claim("more", "More training data further boosts accuracy.", "Section 7.3"),)
    methods = ("residual",)
    presets = {  # noqa: RUF012  # read only
        "smoke": sizes("smoke", shares=[0.5, 1.0]),
        "laptop": sizes("laptop", shares=[0.1, 1.0]),
        "day": sizes("day", training=PLANS["day, short"], shares=[0.1, 1.0], seeds=[0, 1, 2]),
        "paper": sizes("paper", shares=[1.0, 10.0]),
    }

    def variants(self, settings: dict[str, Any]) -> list[dict[str, Any]]:
        """List the amounts of data, relative to the plan."""
        return [{"share": share} for share in settings["shares"]]

    def label(self, settings: dict[str, Any], method: Method, variant: dict[str, Any]) -> str:
        """Return the label of a curve: its amount of data; the smallest is 1×."""
        return f"{method.label}, {variant['share'] / min(settings['shares']):g}× training data"

    def training(self, settings: dict[str, Any], task: dict[str, Any]) -> Training:
        """Train on a share of the signals."""
        return replace(super().training(settings, task), share=task["share"])

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare the largest amount with the smallest."""
        low, high = min(settings["shares"]), max(settings["shares"])
        more, less = (data.select(method="residual", share=share) for share in (high, low))
        if not more.records or not less.records:
            return [self.verdict("more", "Not both amounts were run.", None)]
        names = f"{high / low:g}× training data", "1×"
        measured, higher, table = compare({names: (more, less)}, settings["N"])
        return [self.verdict("more", measured, higher, table, reason(settings))]
