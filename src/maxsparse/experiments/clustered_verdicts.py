"""Verdicts of the experiment ``clustered`` on the paper's claims, at its smallest ε."""

from __future__ import annotations

from typing import Any

from maxsparse.experiments.bases import unbiased_constant
from maxsparse.experiments.data import Data
from maxsparse.experiments.experiment import Experiment, Verdict, all_below
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

    def fails(*shares: float) -> bool | None:
        return all_below(*((share, FAILURE) for share in shares))

    def say(*methods: str) -> str:
        parts = [f"{method} {alone:.2f} and {shared:.2f}" for method in methods for alone, shared in [pair(method)]]
        return (
            f"Strict accuracy at ε = {small:g}, for {alone_x} nonzeros in {alone_c} clusters and for {shared_x} in "
            f"{shared_c}: {'; '.join(parts)}."
        )

    plain = data.values("delta_2", kind="constants", epsilon=small)
    whitened = data.values("delta_2_whitened", kind="constants", epsilon=small)
    order, bound = _proved_constant(settings)
    proved = data.values("strict", kind="proved", method="aiht")
    lower = data.values("condition_lower", kind="constants")
    at = {"kind": "epsilon", "method": "l1", "epsilon": small, "k_x": shared_x, "k_c": shared_c}
    one, two = (data.mean(f"strict_{name}", **at) for name in ("one_sign", "two_signs"))
    iht, l1, sbl, aiht = (pair(m) for m in ("iht", "l1", "sbl-whitened", "aiht"))
    return [
        experiment.verdict(
            "rip",
            f"At ε = {small:g} with {settings['clusters']} clusters, 1 − δ_2 (exact) is at most "
            f"{1 - plain.min():.1e}, and {1 - whitened.min():.1e} after whitening; other W and D were not tried.",
            bool(whitened.min() > 0.99),
        ),
        experiment.verdict("iht", say("iht", "iht-whitened"), fails(*iht, *pair("iht-whitened"))),
        experiment.verdict(
            "l1",
            f"{say('l1', 'l1-whitened')} Where two nonzeros share a cluster: {one:.2f} if they have one sign, "
            f"{two:.2f} if not.",
            fails(*l1),
        ),
        experiment.verdict("sbl", say("sbl", "sbl-whitened"), fails(*sbl)),
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
            all_below((0.9, aiht[0]), (0.9, aiht[1]), (IHT_THRESHOLD, float(lower.min()))),
        ),
    ]


def _proved_constant(settings: dict[str, Any]) -> tuple[int, float]:
    """Order and bound of the condition's constant for the three unbiased bases."""
    proved = settings["proved"]
    order = 3 * proved["k_x"] + proved["k_c"]
    return order, unbiased_constant(proved["n"], 3, order)
