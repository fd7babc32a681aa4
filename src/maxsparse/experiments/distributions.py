"""Experiment ``distributions``: test amplitudes that differ from training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments.curves import Curves, reason, sizes
from maxsparse.experiments.data import Data
from maxsparse.experiments.experiment import Claim, Table, Verdict
from maxsparse.experiments.methods import Method
from maxsparse.experiments.training_plans import PLANS, Training

LETTERS = {"uniform": "U", "gaussian": "N"}
STABLE = 0.05  # largest loss at any d due to another training distribution that counts as "quite stable"


@EXPERIMENTS.register("distributions", summary="Different amplitudes in training and test", order=50)
class Distributions(Curves):
    """Uniform and gaussian amplitudes, in training and test."""

    paper = "Section 7.3, Figure 5"
    about = (
        "The residual network of experiment basic (day: ablations), trained on amplitudes ±U[0.1, 0.5] (U) or "
        "N(±0.3, 0.1) (N, 0.1 a standard deviation) and tested on either: U2N is trained on U and tested on N. "
        "At the day preset the networks of the first dictionary come trained, those of the others do not."
    )
    claims = (
        Claim(
            "stable",
            "Performance is quite stable across training and testing distributions, mismatched ones included.",
            "Section 7.3",
        ),
    )
    methods = ("residual",)
    presets = {  # noqa: RUF012  # read only
        "smoke": sizes("smoke"),
        "laptop": sizes("laptop"),
        "day": sizes("day", training=PLANS["day, short"], seeds=[0, 1, 2]),
        "paper": sizes("paper"),
    }

    def variants(self, settings: dict[str, Any]) -> list[dict[str, Any]]:
        """List the four pairs of distributions, in the paper's order."""
        u, n = LETTERS
        return [{"trained": a, "tested": b} for a, b in ((u, u), (u, n), (n, n), (n, u))]

    def label(self, settings: dict[str, Any], method: Method, variant: dict[str, Any]) -> str:
        """Return the label of a curve, as in the paper."""
        return f"{LETTERS[variant['trained']]}2{LETTERS[variant['tested']]}"

    def training(self, settings: dict[str, Any], task: dict[str, Any]) -> Training:
        """Train on the first distribution."""
        return replace(super().training(settings, task), amplitudes=task["trained"])

    def test_amplitudes(self, task: dict[str, Any]) -> str:
        """Test on the second distribution."""
        law: str = task["tested"]
        return law

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare matching and other training distributions on the same test signals."""
        chosen = data.select(method="residual")
        rows, worst = [], []
        for law, other in (("uniform", "gaussian"), ("gaussian", "uniform")):
            for measure in ("strict", "loose"):
                right, wrong = (chosen.select(trained=t, tested=law).series("d", measure) for t in (law, other))
                if not right.x.size or right.x.size != wrong.x.size:
                    return [self.verdict("stable", "Not all pairs were run.", None)]
                at = int(np.argmax(right.mean - wrong.mean))
                worst.append(right.mean[at] - wrong.mean[at])
                pair, own = f"{LETTERS[other]}2{LETTERS[law]}", f"{LETTERS[law]}2{LETTERS[law]}"
                cells = f"{right.x[at]:.0f}", f"{wrong.mean[at]:.3f}", f"{right.mean[at]:.3f}"
                rows.append([f"{pair} against {own}", measure, *cells])
        table = Table("stable", "At the d where it costs most", ["", "metric", "d", "mismatched", "matched"], rows)
        measured = f"The wrong law at training costs at most {max(worst):.3f}; up to {STABLE} counts as stable."
        return [self.verdict("stable", measured, bool(max(worst) <= STABLE), table, reason(settings))]
