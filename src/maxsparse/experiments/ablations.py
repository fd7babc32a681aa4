"""Experiment ``ablations``: the effect of each design choice of the residual network."""

from __future__ import annotations

from typing import Any

from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments.curves import Curves, duel, sizes
from maxsparse.experiments.data import Data
from maxsparse.experiments.experiment import Claim, Verdict

CHANGES = {"plain": "residual-plain", "helu": "residual-helu", "squares": "residual-squares"}


@EXPERIMENTS.register(
    "ablations", summary="The effect of residual connections, ReLU and the classification loss", order=40
)
class Ablations(Curves):
    """The residual network with one change at a time."""

    paper = "Section 7.3, Figure 4"
    about = (
        "The residual network of experiment basic against three networks with one change each: no "
        "residual connections; HELU_σ (σ = 0.2) in place of ReLU; squared error on x* in place of the softmax loss, "
        "with the support from magnitudes. Same signals, same number of steps, no tuning."
    )
    claims = (
        Claim("plain", "Performance degrades without residual connections.", "Section 7.3"),
        Claim("helu", "Performance degrades with HELU instead of ReLU.", "Section 7.3"),
        Claim("squares", "Performance degrades with a least-squares loss.", "Section 7.3"),
    )
    methods = ("residual", *CHANGES.values())
    presets = {preset: sizes(preset) for preset in ("smoke", "laptop", "paper")}  # noqa: RUF012  # read only

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare mean accuracies over d ≥ 2; every change must lower both."""
        verdicts = []
        for key, method in CHANGES.items():
            own, other = data.select(method="residual"), data.select(method=method)
            strict, loose = (duel(own, other, measure, settings["N"]) for measure in ("strict", "loose"))
            holds = None if not strict.cells else bool(strict.mean > 0 and loose.mean > 0 and not strict.behind)
            measured = "; ".join(
                f"mean {name} accuracy over d ≥ 2: {found.means[1]:.3f} with the change, {found.means[0]:.3f} without "
                f"(the original is {found})"
                for name, found in (("strict", strict), ("loose", loose))
            )
            measured = f"{measured[0].upper()}{measured[1:]}."
            verdicts.append(self.verdict(key, measured, holds))
        return verdicts
