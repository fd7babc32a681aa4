"""Experiment ``basic``: support recovery against the number of nonzeros, the paper's main figure."""

from __future__ import annotations

from typing import Any

from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments import registry
from maxsparse.experiments.curves import Curves, reason, sizes
from maxsparse.experiments.data import Data
from maxsparse.experiments.duels import compare
from maxsparse.experiments.experiment import Claim, Table, Verdict

RIVALS = ("ista", "iht", "ista-net", "iht-net")
# What is said to be higher than what, claim by claim; the paper's networks and rivals see raw signals.
DUELS = {
    "optimisers": (("residual-raw", "ista"), ("residual-raw", "iht")),
    "learners": (("residual-raw", "ista-net"), ("residual-raw", "iht-net")),
    "whitened": tuple(("residual", f"{rival}-whitened") for rival in RIVALS),
    "exact": (("residual-raw", "l1"), ("residual", "l1-whitened")),
}
MODEST = 0.5


@EXPERIMENTS.register("basic", summary="Support recovery on a coherent dictionary", order=10)
class Basic(Curves):
    """Uniform amplitudes, all methods."""

    paper = "Section 7.2, Figure 2"
    about = (
        "Φ = Σ i⁻² u_i v_iᵀ with unit columns, amplitudes ±U[0.1, 0.5], no noise. Every seed is a dictionary of its "
        "own, with its own networks and test signals. OMP and IHT are given d, the others are not. The paper's claims "
        "are judged with what the paper has: raw signals for the residual network and for its rivals. Rows of their "
        "own compare what the paper does not: all of them on whitened signals, and exact ℓ1, from which ISTA is far on "
        "this dictionary when its iterations end. Networks see d uniform on 1..10, every signal once. The day preset "
        "has the paper's 20 layers and one dictionary, whose networks come trained: 15 million signals for the "
        "residual network, 8 million for the others. The laptop preset has a residual network of 8 layers and a minute "
        "of training each. The paper preset has 20 layers and one network per d. Dashed lines are whitened signals. "
        "SparseRecoverer is learned SBL with decoding and search."
    )
    claims = (
        Claim("modest", "IHT, and to a lesser degree ℓ1 minimisation by ISTA, recover rather modestly.", "Section 7.2"),
        Claim(
            "optimisers",
            "The residual network has uniformly higher accuracy under both metrics than ISTA and IHT.",
            "Section 7.2",
        ),
        Claim(
            "learners",
            "It also has uniformly higher accuracy than ISTA-Net and IHT-Net trained with the same data.",
            "Section 7.2",
        ),
        Claim(
            "whitened",
            "The same on whitened signals: higher than ISTA, IHT, ISTA-Net and IHT-Net.",
            "beyond the paper",
        ),
        Claim("exact", "The residual network is higher than exact ℓ1, raw and whitened.", "beyond the paper"),
    )
    methods = (
        *RIVALS,
        "residual",
        "residual-raw",
        "l1",
        "omp",
        "sbl",
        "ista-whitened",
        "ista-net-whitened",
        "iht-net-whitened",
        "l1-whitened",
        "iht-whitened",
        "omp-whitened",
        "sbl-whitened",
        "learned-sbl",
        "recoverer",
    )
    presets = {preset: sizes(preset) for preset in ("smoke", "laptop", "day", "paper")}  # noqa: RUF012  # read only

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare the residual network with its rivals at every d ≥ 2, and the optimisers with what is modest."""
        return [self._modest(settings, data), *(self._higher(settings, data, key) for key in DUELS)]

    def _modest(self, settings: dict[str, Any], data: Data) -> Verdict:
        """Compare the optimisers with each other, and the better of them with what is modest."""
        if untested := self.untested("modest", data, ("iht", "ista")):
            return untested
        upward = [d for d in settings["sparsities"] if d >= 2]
        means = {
            method: sum(data.mean("strict", method=method, d=d) for d in upward) / len(upward)
            for method in ("iht", "ista", "l1")
            if method in data.unique("method")
        }
        rows = [[registry.methods()[method].label, f"{mean:.3f}"] for method, mean in means.items()]
        return self.verdict(
            "modest",
            f"Mean strict accuracy over d ≥ 2: IHT {means['iht']:.3f}, ISTA {means['ista']:.3f}; modest is below "
            f"{MODEST}.",
            bool(means["iht"] <= means["ista"] < MODEST),
            Table("modest", "Exact ℓ1 is not in the paper", ["", "mean strict accuracy, d ≥ 2"], rows),
        )

    def _higher(self, settings: dict[str, Any], data: Data, key: str) -> Verdict:
        """Compare the pairs of curves that a claim is about."""
        pairs = DUELS[key]
        if untested := self.untested(key, data, list(dict.fromkeys(name for pair in pairs for name in pair))):
            return untested
        known = registry.methods()
        curves = {(known[a].label, known[b].label): (data.select(method=a), data.select(method=b)) for a, b in pairs}
        measured, higher, table = compare(curves, settings["N"])
        return self.verdict(key, measured, higher, table, reason(settings))
