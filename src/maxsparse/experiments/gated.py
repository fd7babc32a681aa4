"""Experiment ``gated``: GRU and gated feedback, the follow-up's cells, against the paper's LSTM."""

from __future__ import annotations

from typing import Any

from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments import registry
from maxsparse.experiments.curves import Curves, reason, sizes
from maxsparse.experiments.data import Data
from maxsparse.experiments.duels import compare
from maxsparse.experiments.experiment import Claim, Verdict
from maxsparse.experiments.training_plans import PLANS

# What is said to be higher than what, claim by claim.
DUELS = {"feedback": ("lstm-feedback", "lstm"), "gru": ("gru", "lstm"), "gru-feedback": ("gru-feedback", "gru")}


@EXPERIMENTS.register("gated", summary="Cells of recurrent networks: LSTM, GRU, gated feedback", order=65)
class Gated(Curves):
    """Amplitudes ±1, as in experiment lstm."""

    paper = "beyond Section 9"
    about = (
        "The LSTM of experiment lstm against networks of the same width, steps and training signals with other cells: "
        "GRU, and gated feedback from all layers to all layers (Chung et al., 2015), which the paper's follow-up uses. "
        "These networks do not come trained: the day preset trains all four with 600,000 signals each."
    )
    claims = (
        Claim("feedback", "Gated feedback improves the LSTM.", "follow-up"),
        Claim("gru", "A GRU recovers more than the LSTM.", "beyond the paper"),
        Claim("gru-feedback", "Gated feedback improves the GRU.", "beyond the paper"),
    )
    amplitudes = "unit"
    methods = ("lstm", "gru", "lstm-feedback", "gru-feedback")
    presets = {  # noqa: RUF012  # read only
        "smoke": sizes("smoke"),
        "laptop": sizes("laptop"),
        "day": sizes("day", training=PLANS["day, short"]),
        "paper": sizes("paper"),
    }

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare every cell with the one it is said to improve, at every d ≥ 2."""
        known = registry.methods()
        verdicts = []
        for key, pair in DUELS.items():
            if untested := self.untested(key, data, pair):
                verdicts.append(untested)
                continue
            names = known[pair[0]].label, known[pair[1]].label
            curves = data.select(method=pair[0]), data.select(method=pair[1])
            measured, higher, table = compare({names: curves}, settings["N"])
            verdicts.append(self.verdict(key, measured, higher, table, reason(settings, "lstm")))
        return verdicts
