"""Experiment ``lstm``: unit amplitudes, the LSTM against the residual network and SBL."""

from __future__ import annotations

from typing import Any

from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments.curves import RULE, Curves, all_higher, duel, sizes
from maxsparse.experiments.data import Data
from maxsparse.experiments.experiment import Claim, Verdict


@EXPERIMENTS.register("lstm", summary="LSTM, residual network and SBL with unit amplitudes", order=60)
class Lstm(Curves):
    """Amplitudes ±1."""

    paper = "Section 9, Figure 8"
    about = (
        "The problem of experiment basic with amplitudes ±1, for which local minima are a problem for many algorithms. "
        "The LSTM has two layers and 11 steps, with y as input of every step; the paper gives no width, the laptop "
        "preset has 128 units, and both networks whiten their input there. Networks are trained for about the same "
        "processor time. SBL on whitened signals and the bundled network are not in the paper."
    )
    claims = (
        Claim("sbl", "The LSTM is even able to outperform SBL.", "Section 9"),
        Claim("residual", "The LSTM outperforms the residual network.", "Section 9, Figure 8"),
    )
    amplitudes = "unit"
    methods = ("lstm", "residual", "sbl", "sbl-whitened", "learned-sbl", "recoverer")
    presets = {preset: sizes(preset) for preset in ("smoke", "laptop", "paper")}  # noqa: RUF012  # read only

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare the LSTM with both at every d ≥ 2."""
        own = data.select(method="lstm")
        at_three = own.mean("strict", d=3)
        verdicts = []
        for key, more in (("sbl", f" The LSTM has s-acc {at_three:.4f} at d = 3."), ("residual", "")):
            strict, loose = (duel(own, data.select(method=key), m, settings["N"]) for m in ("strict", "loose"))
            measured = (
                f"d ≥ 2: strict {strict}, mean difference {strict.mean:+.3f}; loose {loose}, {loose.mean:+.3f}.{more} "
                f"{RULE}"
            )
            verdicts.append(self.verdict(key, measured, all_higher([strict, loose])))
        return verdicts
