"""What the experiment ``clustered`` says about the paper's claims, at its smallest ε."""

from __future__ import annotations

from typing import Any

from maxsparse.experiments.clustered import proved_constant
from maxsparse.experiments.data import Data
from maxsparse.experiments.experiment import Experiment, Verdict
from maxsparse.theory import IHT_THRESHOLD

FAILURE = 0.5  # a method that finds fewer supports than this fails


def judge(experiment: Experiment, settings: dict[str, Any], data: Data) -> list[Verdict]:
    """Return one verdict per claim."""
    small = min(settings["epsilons"])
    (alone_x, alone_c), (shared_x, shared_c) = settings["sparsities"][0], settings["sparsities"][-1]

    def pair(method: str) -> tuple[float, float]:
        return tuple(  # type: ignore[return-value]
            data.mean("strict", kind="epsilon", method=method, epsilon=small, k_x=k_x, k_c=k_c)
            for k_x, k_c in ((alone_x, alone_c), (shared_x, shared_c))
        )

    def say(*methods: str) -> str:
        parts = [f"{method} {alone:.2f} and {shared:.2f}" for method in methods for alone, shared in [pair(method)]]
        return (
            f"Strict accuracy at ε = {small:g}, for {alone_x} nonzeros in {alone_c} clusters and for {shared_x} in "
            f"{shared_c}: {'; '.join(parts)}."
        )

    plain = data.values("delta_2", kind="constants", epsilon=small)
    whitened = data.values("delta_2_whitened", kind="constants", epsilon=small)
    order, bound = proved_constant(settings)
    proved = data.values("strict", kind="proved", method="aiht")
    lower = data.values("condition_lower", kind="constants")
    iht, l1, sbl, aiht = (pair(m) for m in ("iht", "l1", "sbl-whitened", "aiht"))
    return [
        experiment.verdict(
            "rip",
            f"At ε = {small:g} with {settings['clusters']} clusters, δ_2 (exact) is at least {plain.min():.6f}, and "
            f"{whitened.min():.6f} after whitening.",
            bool(whitened.min() > 0.99),
        ),
        experiment.verdict("iht", say("iht", "iht-whitened"), max(*iht, *pair("iht-whitened")) < FAILURE),
        experiment.verdict(
            "l1",
            say("l1", "l1-whitened") + (" With one nonzero per cluster it does not fail." if l1[0] > 0.95 else ""),
            max(l1) < FAILURE,
        ),
        experiment.verdict("sbl", say("sbl", "sbl-whitened"), max(sbl) < FAILURE),
        experiment.verdict(
            "aiht",
            f"On three unbiased bases with n = {settings['proved']['n']}, δ_{order} ≤ {bound:.4f} (1/√32 is "
            f"{IHT_THRESHOLD:.4f}): strict accuracy {proved.min(initial=1.0):.3f} or more in {proved.size} runs, for ε "
            f"from {max(settings['proved']['epsilons']):g} to {min(settings['proved']['epsilons']):g}.",
            bool(proved.min() == 1.0) if proved.size and bound < IHT_THRESHOLD else None,
        ),
        experiment.verdict(
            "beyond",
            say("aiht") + f" There the condition does not hold: its constant is at least {lower.min():.2f}.",
            bool(min(aiht) > 0.9 and lower.min() > IHT_THRESHOLD),
        ),
    ]
