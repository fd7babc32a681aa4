"""Experiment ``lstm``: unit amplitudes, the LSTM against the residual network and SBL."""

from __future__ import annotations

from typing import Any

from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments import registry
from maxsparse.experiments.curves import Curves, reason, sizes
from maxsparse.experiments.data import Data
from maxsparse.experiments.duels import compare
from maxsparse.experiments.experiment import Claim, Verdict


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
        Claim("residual", "The LSTM outperforms the residual network.", "Section 9, Figure 8"),
    )
    amplitudes = "unit"
    methods = ("lstm", "residual", "sbl", "sbl-convex", "sbl-mackay", "sbl-whitened", "learned-sbl", "recoverer")
    presets = {preset: sizes(preset) for preset in ("smoke", "laptop", "day", "paper")}  # noqa: RUF012  # read only

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare the LSTM with all of them at every d ≥ 2."""
        known = registry.methods()
        verdicts = []
        for claim in self.claims:
            if untested := self.untested(claim.key, data, ("lstm", claim.key)):
                verdicts.append(untested)
                continue
            names = known["lstm"].label, known[claim.key].label
            curves = data.select(method="lstm"), data.select(method=claim.key)
            measured, higher, table = compare({names: curves}, settings["N"])
            verdicts.append(self.verdict(claim.key, measured, higher, table, reason(settings)))
        return verdicts
