"""Experiment ``ablations``: the effect of each design choice of the residual network."""

from __future__ import annotations

from typing import Any

from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments import registry
from maxsparse.experiments.curves import Curves, reason, sizes
from maxsparse.experiments.data import Data
from maxsparse.experiments.duels import compare
from maxsparse.experiments.experiment import Claim, Verdict
from maxsparse.experiments.training_plans import PLANS

CHANGES = {"plain": "residual-plain", "helu": "residual-helu", "squares": "residual-squares"}


@EXPERIMENTS.register(
    "ablations", summary="The effect of residual connections, ReLU and the classification loss", order=40
)
class Ablations(Curves):
    """The residual network with one change at a time."""

    paper = "Section 7.3, Figure 4"
    about = (
        "A residual network against three networks that differ from it in one thing each: no residual connections; "
        "HELU_σ (σ = 0.2) in place of ReLU; squared error on x* in place of the softmax loss, with the support read "
        "from magnitudes. Same signals, same number of steps, no tuning of any of them. The day preset has the paper's "
        "20 layers and 600,000 signals each, on one dictionary: the differences are more than ten standard errors. The "
        "laptop preset has 8 layers, which train well without residual connections too."
    )
    claims = (
        Claim("plain", "Performance degrades without residual connections.", "Section 7.3"),
        Claim("helu", "Performance degrades with HELU instead of ReLU.", "Section 7.3"),
        Claim("squares", "Performance degrades with a least-squares loss.", "Section 7.3"),
    )
    methods = ("residual", *CHANGES.values())
    presets = {  # noqa: RUF012  # read only
        "smoke": sizes("smoke"),
        "laptop": sizes("laptop"),
        "day": sizes("day", training=PLANS["day, short"]),
        "paper": sizes("paper"),
    }

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare every change with the original."""
        labels = registry.methods()
        verdicts = []
        for key, method in CHANGES.items():
            if untested := self.untested(key, data, ("residual", method)):
                verdicts.append(untested)
                continue
            names = labels["residual"].label, labels[method].label
            curves = data.select(method="residual"), data.select(method=method)
            measured, higher, table = compare({names: curves}, settings["N"])
            verdicts.append(self.verdict(key, measured, higher, table, reason(settings)))
        return verdicts
