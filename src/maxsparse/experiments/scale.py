"""Experiment ``scale``: n and m grow at fixed ratios."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maxsparse import dictionaries, metrics, signals
from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments import registry
from maxsparse.experiments.curves import decoded, test_rng
from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.drawing import draw_series, method_style
from maxsparse.experiments.duels import standard_error
from maxsparse.experiments.experiment import Claim, Experiment, Picture, Table, Verdict
from maxsparse.experiments.methods import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@EXPERIMENTS.register("scale", summary="Larger dictionaries at the same ratios", order=110)
class Scale(Experiment):
    """The paper's dictionary at n = 10, 20, 40, …, with m = 5n and d in proportion."""

    paper = "Beyond the paper, which has one size (20×100)"
    about = (
        "The dictionary of experiment basic with n doubled repeatedly, m = 5n and d a fixed share of n. Nothing "
        "is trained: learned SBL and SparseRecoverer use the bundled weights. Time is processor "
        "time over all threads."
    )
    because = "This is a property of the methods as they are; nothing was trained for it."
    claims = (
        Claim(
            "keeps", "At d = n/5 SparseRecoverer recovers at least 99 % of the signals at every size.", "this project"
        ),
        Claim("behind", "It is behind whitened SBL, ℓ1 and OMP at no size and share.", "this project"),
    )
    methods = ("omp-whitened", "l1-whitened", "sbl-whitened", "learned-sbl", "recoverer")
    presets = {  # noqa: RUF012  # read only
        "smoke": {"rows": [8, 12], "shares": [0.2], "N": 10, "seeds": [0]},
        "laptop": {"rows": [10, 20, 40, 64], "shares": [0.2, 0.3], "N": 50, "seeds": [0, 1, 2]},
        "day": {"rows": [10, 20, 40, 64], "shares": [0.2, 0.3], "N": 200, "seeds": [0, 1, 2]},
        "paper": {"rows": [10, 20, 40, 80, 160], "shares": [0.2, 0.3, 0.4], "N": 1000, "seeds": list(range(5))},
    }

    def tasks(self, settings: dict[str, Any], methods: Sequence[str]) -> list[dict[str, Any]]:
        """List every method, size, share and seed."""
        return [
            {"method": method, "n": n, "share": share, "seed": seed}
            for seed in settings["seeds"]
            for n in settings["rows"]
            for share in settings["shares"]
            for method in methods
        ]

    def measure(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
        """Recover the signals of one dictionary."""
        n, d, seed = task["n"], max(1, round(task["share"] * task["n"])), task["seed"]
        problem = Problem(dictionaries.decaying(n, 5 * n, rng=seed), d)
        method = registry.methods()[task["method"]]
        if not method.applies(problem):
            return []
        X, Y = signals.sample(problem.Phi, settings["N"], sparsity=d, rng=test_rng(seed, n, d))
        method.scores(problem, Y[:1])  # compile
        begun = time.process_time()
        scores = method.scores(problem, Y)
        seconds = (time.process_time() - begun) / len(Y)
        exact = metrics.exact_recovery(X, decoded(problem.Phi, Y, scores))
        return [Record(task, {"strict": metrics.strict_accuracy(X, scores), "decoded": exact, "seconds": seconds})]

    def pictures(self, settings: dict[str, Any], data: Data) -> list[Picture]:
        """Draw accuracy and time against n, one column per share."""
        caption = (
            f"Strict accuracy and processor time per signal against n (m = 5n), {settings['N']} signals per point; "
            "mean and standard deviation over seeds."
        )
        shares = data.unique("share")
        size = (5.0 * len(shares), 7.0)
        return [Picture("scale", caption, lambda figure: _draw(figure, data, shares), size)]

    def tables(self, settings: dict[str, Any], data: Data) -> list[Table]:
        """Tabulate accuracy and time."""
        known = registry.methods()
        found = []
        for share in data.unique("share"):
            for measure, title in (("strict", "Strict accuracy"), ("seconds", "Processor seconds per signal")):
                style = ".3f" if measure == "strict" else ".1e"
                rows = [
                    [
                        known[name].label,
                        *(format(data.mean(measure, method=name, n=n, share=share), style) for n in settings["rows"]),
                    ]
                    for name in data.unique("method")
                ]
                header = ["n×m", *(f"{n}×{5 * n}" for n in settings["rows"])]
                found.append(Table(f"{measure}-{share}", f"{title}, d = {share:g} n", header, rows))
        return found

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Use the smallest share for accuracy, all of them for the order."""
        rivals = ("sbl-whitened", "l1-whitened", "omp-whitened")
        least = min(settings["shares"])
        own = data.select(method="recoverer")
        series = own.series("n", "strict", share=least)
        kept = "; ".join(f"n = {n:.0f}: {value:.3f}" for n, value in zip(series.x, series.mean, strict=True))
        ahead, level, behind = 0, 0, []
        for share, n, rival in itertools.product(settings["shares"], settings["rows"], rivals):
            a, b = own.values("strict", n=n, share=share), data.values("strict", method=rival, n=n, share=share)
            if not a.size or not b.size:
                continue
            lead, slack = a.mean() - b.mean(), 2.0 * standard_error(a, b, settings["N"])
            if lead < -slack:
                behind.append(f"{rival} at n = {n}, d = {share:g} n ({a.mean():.3f} against {b.mean():.3f})")
            elif lead > slack:
                ahead += 1
            else:
                level += 1
        total = ahead + level + len(behind)
        order = f"Ahead at {ahead}, level at {level}, behind at {len(behind)} of {total} points"
        order += f" ({'; '.join(behind)})" if behind else ""
        order += "; level is within two standard errors."
        return [
            self.verdict(
                "keeps", f"d = {least:g} n: {kept}.", bool(series.mean.min() >= 0.99) if series.x.size else None
            ),
            self.untested("behind", data, ("recoverer", *rivals))
            or self.verdict("behind", order, not behind if total else None),
        ]


def _draw(figure: Figure, data: Data, shares: list[float]) -> None:
    known = registry.methods()
    grid = figure.subplots(2, len(shares), squeeze=False)
    for column, share in enumerate(shares):
        for axes, measure in zip(grid[:, column], ("strict", "seconds"), strict=True):
            for name in data.unique("method"):
                series = data.series("n", measure, method=name, share=share)
                draw_series(axes, series, known[name].label, **method_style(name))
            axes.set(xscale="log", xlabel="n", xticks=data.unique("n"), xticklabels=data.unique("n"))
            axes.minorticks_off()
            axes.grid(alpha=0.3)
        grid[0, column].set(title=f"strict accuracy, d = {share:g} n", ylim=(-0.02, 1.02))
        grid[1, column].set(title="processor seconds per signal", yscale="log")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, ncols=3, loc="outside lower center", frameon=False)
