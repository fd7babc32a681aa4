"""Experiment ``zero-shot``: the bundled network on unseen dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxsparse import dictionaries, signals
from maxsparse._core.registry import EXPERIMENTS
from maxsparse._core.validation import FloatArray
from maxsparse.experiments import registry
from maxsparse.experiments.curves import accuracies, test_rng
from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.experiment import Claim, Experiment, Picture, Table, Verdict
from maxsparse.experiments.methods import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWN, RIVAL = "learned-sbl", "sbl-whitened"
SIZES = [[16, 48], [20, 100], [40, 120]]
SHARES = [0.2, 0.3, 0.4]


@EXPERIMENTS.register("zero-shot", summary="Dictionaries that the bundled network was not trained on", order=120)
class ZeroShot(Experiment):
    """Five kinds of dictionaries, several sizes, three sparsities, no training."""

    paper = "Beyond the paper, whose networks are trained for one dictionary"
    about = (
        "The scores of the bundled network (learned SBL, no search) on new random dictionaries of five kinds, "
        "against classical methods on whitened signals. The network was trained on random dictionaries of these kinds "
        "with 8 to 40 rows and at most 200 atoms, not on these. OMP is given the number of nonzeros."
    )
    because = "This is a property of the methods as they are; nothing was trained for it."
    claims = (
        Claim("sbl", "Its scores are at least as good as those of whitened SBL on every dictionary.", "this project"),
        Claim("others", "They are better than whitened ℓ1 and OMP on average over all dictionaries.", "this project"),
    )
    methods = (OWN, RIVAL, "l1-whitened", "omp-whitened")
    presets = {  # noqa: RUF012  # read only
        "smoke": {"sizes": [[8, 16]], "shares": [0.25], "N": 10, "seeds": [0]},
        "laptop": {"sizes": SIZES, "shares": SHARES, "N": 50, "seeds": [100, 101, 102]},
        "day": {"sizes": SIZES, "shares": SHARES, "N": 200, "seeds": [100, 101, 102]},
        "paper": {
            "sizes": [*SIZES, [64, 256], [128, 512]],
            "shares": SHARES,
            "N": 1000,
            "seeds": list(range(100, 110)),
        },
    }

    def tasks(self, settings: dict[str, Any], methods: Sequence[str]) -> list[dict[str, Any]]:
        """List every method, kind, size, share and seed."""
        return [
            {"method": method, "kind": kind, "n": n, "m": m, "share": share, "seed": seed}
            for seed in settings["seeds"]
            for n, m in settings["sizes"]
            for kind in KINDS
            for share in settings["shares"]
            for method in methods
        ]

    def measure(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
        """Recover the signals of one dictionary."""
        n, m, seed = task["n"], task["m"], task["seed"]
        d = max(2, round(task["share"] * n))
        problem = Problem(KINDS[task["kind"]](n, m, seed), d)
        method = registry.methods()[task["method"]]
        if not method.applies(problem):
            return []
        X, Y = signals.sample(problem.Phi, settings["N"], sparsity=d, rng=test_rng(seed, n, m, d))
        return [Record(task, accuracies(method, problem, X, Y))]

    def pictures(self, settings: dict[str, Any], data: Data) -> list[Picture]:
        """Draw the network against each competitor, one dot per dictionary and sparsity."""
        caption = (
            f"Strict accuracy of learned SBL (up) against other methods (right), one dot per dictionary and sparsity, "
            f"{settings['N']} signals each; above the diagonal the bundled network is better."
        )
        return [Picture("zero-shot", caption, lambda figure: _draw(figure, data), (10.0, 4.2))]

    def tables(self, settings: dict[str, Any], data: Data) -> list[Table]:
        """Tabulate mean strict accuracy by kind and size."""
        known = registry.methods()
        found = []
        for n, m in settings["sizes"]:
            chosen = data.select(n=n, m=m)
            rows = [
                [
                    kind,
                    f"{share:g}",
                    *(
                        f"{chosen.mean('strict', kind=kind, share=share, method=name):.3f}"
                        for name in data.unique("method")
                    ),
                ]
                for kind in KINDS
                for share in settings["shares"]
            ]
            header = ["dictionary", "d/n", *(known[name].label for name in data.unique("method"))]
            found.append(Table(f"strict-{n}x{m}", f"Strict accuracy, {n}×{m}", header, rows))
        return found

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare cell by cell with SBL, on average with the others."""
        better = level = 0
        worse = []
        for n, m in settings["sizes"]:
            for kind in KINDS:
                for share in settings["shares"]:
                    at = {"n": n, "m": m, "kind": kind, "share": share}
                    own, rival = (data.values("strict", method=name, **at) for name in (OWN, RIVAL))
                    if not own.size or own.size != rival.size:
                        continue
                    p, q = own.mean(), rival.mean()
                    error = np.sqrt((p * (1 - p) + q * (1 - q)) / (own.size * settings["N"]))
                    if q - p > 2 * error:
                        worse.append(f"{kind} {n}×{m} at d = {share:g} n ({p:.3f} against {q:.3f})")
                    elif p - q > 2 * error:
                        better += 1
                    else:
                        level += 1
        total = better + level + len(worse)
        cells = f"Better in {better}, level in {level}, worse in {len(worse)} of {total} cells"
        means = {name: data.mean("strict", method=name) for name in (OWN, "l1-whitened", "omp-whitened")}
        tested = not any(np.isnan(value) for value in means.values())
        return [
            self.verdict("sbl", cells + (f": {'; '.join(worse)}." if worse else "."), not worse if total else None),
            self.verdict(
                "others",
                f"Mean strict accuracy: learned SBL {means[OWN]:.3f}, ℓ1 {means['l1-whitened']:.3f}, OMP "
                f"{means['omp-whitened']:.3f}.",
                bool(means[OWN] > max(means["l1-whitened"], means["omp-whitened"])) if tested else None,
            ),
        ]


def _cosines(n: int, m: int, seed: int) -> FloatArray:
    """Return n random rows of the cosine transform, with unit columns."""
    rows = np.random.default_rng(seed).choice(m, n, replace=False)
    matrix = np.cos(np.pi / m * rows[:, None] * (np.arange(m) + 0.5))
    unit: FloatArray = matrix / np.linalg.norm(matrix, axis=0)
    return unit


KINDS: dict[str, Callable[[int, int, int], FloatArray]] = {
    "decaying": lambda n, m, seed: dictionaries.decaying(n, m, rng=seed),
    "gaussian": lambda n, m, seed: dictionaries.gaussian(n, m, rng=seed),
    "low-rank-plus": lambda n, m, seed: dictionaries.low_rank_plus(n, m, rank=3, epsilon=0.1, rng=seed),
    "clustered": lambda n, m, seed: dictionaries.clustered(n, m, clusters=m // 3, epsilon=0.5, rng=seed).matrix,
    "cosines": _cosines,
}


def _draw(figure: Figure, data: Data) -> None:
    known = registry.methods()
    rivals = [name for name in data.unique("method") if name != OWN]
    for axes, rival in zip(np.ravel(figure.subplots(1, max(1, len(rivals)))), rivals, strict=True):
        for kind in KINDS:
            own = [_cell(data, OWN, record.where) for record in data.select(method=rival, kind=kind).records]
            other = data.select(method=rival, kind=kind).values("strict")
            axes.plot(other, own, ".", label=kind, alpha=0.7)
        axes.plot([0, 1], [0, 1], color="gray", linestyle=":", linewidth=1)
        axes.set(
            xlabel=known[rival].label, ylabel=known[OWN].label, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal"
        )
        axes.grid(alpha=0.3)
    if rivals:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, fontsize=8, ncols=5, loc="outside lower center", frameon=False)


def _cell(data: Data, method: str, where: dict[str, Any]) -> float:
    return data.mean("strict", **{**where, "method": method})
