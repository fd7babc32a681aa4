"""Verdicts of the experiment ``stereo`` on the paper's claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maxsparse.experiments.data import Data
from maxsparse.experiments.experiment import Experiment, Table, Verdict, all_below

__all__ = ["judge"]

TRAINING = (
    "This is the reproduction: the law of the training outliers is not the paper's, which it does not state, and the "
    "network has seen {samples}. The presets laptop and day differ in both, and in the network's errors."
)
SCENE = (
    "This is the reproduction: the scene is not the paper's. SBL comes close to the paper's figures at q = 10 only; "
    "with more lights the highlights of this scene cover more readings than SBL can take for outliers."
)


def judge(
    experiment: Experiment, settings: dict[str, Any], data: Data, labels: Mapping[str, str], others: Sequence[str]
) -> list[Verdict]:
    """Return one verdict per claim: on the scene close to the paper's, and on the rendered one."""
    rendered = data.select(scene=None)
    first, second = (
        _Scene(experiment, settings, chosen, labels, others)
        for chosen in (data.select(scene=settings["scenes"][0]), rendered)
    )
    times = {m: rendered.mean("seconds", method=m) for m in ("rnd4", "network", "sbl")}
    rows = [[labels[m], f"{seconds:.3f}"] for m, seconds in times.items()]
    table = Table("times", "Mean seconds over q and draws, without training", ["", "seconds"], rows)
    return [
        first.hardest("hardest"),
        first.competitive("competitive"),
        first.sbl("sbl"),
        experiment.verdict(
            "runtime",
            f"On average the network takes {times['network'] / times['rnd4']:.1f} times as long as Rnd4.",
            all_below((times["network"], 2.0 * times["rnd4"])),
            table,
            "This is hardware and code: Rnd4 is compiled here, and takes less than the products of a 20-layer network.",
        ),
        experiment.verdict(
            "orders",
            f"SBL takes {times['sbl'] / times['network']:.1f} times as long as the network.",
            all_below((30.0 * times["network"], times["sbl"])),
            table,
            "This is hardware and code: SBL is compiled here and solves 3×3 systems.",
        ),
        first.flexible("flexible"),
        first.mismatched("mismatched"),
        second.hardest("hardest-rendered"),
        second.competitive("competitive-rendered"),
        second.flexible("flexible-rendered"),
    ]


class _Scene:
    """The claims on accuracy, for one scene."""

    def __init__(
        self,
        experiment: Experiment,
        settings: dict[str, Any],
        data: Data,
        labels: Mapping[str, str],
        others: Sequence[str],
    ) -> None:
        self.experiment, self.data, self.labels, self.others = experiment, data, labels, others
        self.lights: list[int] = settings["lights"]
        self.few, self.more = min(self.lights), [q for q in self.lights if q > min(self.lights)]
        samples = settings["network"].get("samples")
        self.because = TRAINING.format(samples=f"{samples:,} signals" if samples else "what the preset has")

    def error(self, method: str, q: int, **where: int) -> float:
        return self.data.mean("degrees", method=method, q=q, **where)

    def verdict(
        self, key: str, methods: Sequence[str], lights: Sequence[int], holds: bool | None, because: str | None = None
    ) -> Verdict:
        """Say the mean errors of some methods, with those of every q behind."""
        parts = (f"{self.labels[m]} " + " / ".join(f"{self.error(m, q):.2f}" for q in lights) for m in methods)
        said = f"Mean degrees at q = {' / '.join(map(str, lights))}: {', '.join(parts)}."
        rows = [[str(q), *(f"{self.error(m, q):.2f}" for m in methods)] for q in self.lights]
        table = Table(key, "Mean angular error in degrees", ["q", *(self.labels[m] for m in methods)], rows)
        return self.experiment.verdict(key, said, holds, table, because or self.because)

    def superior(self, method: str, q: int) -> bool | None:
        """Return whether a method is better than the network by two standard errors over the draws; None if unknown."""
        draws = self.data.select(q=q).unique("seed")
        gaps = np.array([self.error("network", q, seed=s) - self.error(method, q, seed=s) for s in draws])
        if not gaps.size or np.isnan(gaps).any():
            return None
        spread = gaps.std(ddof=1) / np.sqrt(gaps.size) if gaps.size > 1 else 0.0
        return bool(gaps.mean() > 2.0 * spread)

    def hardest(self, key: str) -> Verdict:
        """With few lights: ahead in every draw."""
        draws = {
            seed: all_below(
                *((self.error("network", self.few, seed=seed), self.error(m, self.few, seed=seed)) for m in self.others)
            )
            for seed in self.data.select(q=self.few).unique("seed")
        }
        ahead = sum(found is True for found in draws.values())
        holds = None if not draws or None in draws.values() else ahead == len(draws)
        found = self.verdict(key, ("network", *self.others), [self.few], holds)
        return replace(found, measured=f"{found.measured} Ahead of all in {ahead} of {len(draws)} draws.")

    def competitive(self, key: str) -> Verdict:
        """With more lights: nothing but SBL is better."""
        found = [self.superior(m, q) for m in self.others if m != "sbl" for q in self.more]
        holds = None if None in found else not any(found)
        return self.verdict(key, ("network", *self.others), self.more, holds)

    def sbl(self, key: str) -> Verdict:
        """With more lights: SBL is better."""
        found = [self.superior("sbl", q) for q in self.more]
        return self.verdict(key, ("network", "sbl"), self.more, None if None in found else all(found), SCENE)

    def flexible(self, key: str) -> Verdict:
        """More inliers with more lights."""
        pairs = [(self.error("network-more", q), self.error("network", q)) for q in self.more]
        return self.verdict(key, ("network", "network-more"), self.more, all_below(*pairs))

    def mismatched(self, key: str) -> Verdict:
        """Better than both baselines at every q."""
        pairs = [(self.error("network", q), self.error(m, q)) for m in ("ls", "rnd4") for q in self.lights]
        return self.verdict(key, ("network", "ls", "rnd4"), self.lights, all_below(*pairs))
