"""Experiment ``noise``: recovery when y is measured with noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxsparse import dictionaries, metrics, signals
from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments import registry
from maxsparse.experiments.curves import sizes, test_rng
from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.drawing import draw_series, method_style
from maxsparse.experiments.experiment import Claim, Experiment, Picture, Table, Verdict
from maxsparse.experiments.methods import Problem
from maxsparse.experiments.recipes import Recipe
from maxsparse.experiments.training_plans import Training
from maxsparse.recovery import Recovery
from maxsparse.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RIVALS = ("sbl", "l1", "vamp")
CALIBRATED = 0.05  # difference of mean confidence and share of right answers
KINDS = {"decaying": dictionaries.decaying, "gaussian": dictionaries.gaussian}


@EXPERIMENTS.register("noise", summary="Noise from 10 to 60 dB", order=100)
class Noise(Experiment):
    """Signal-to-noise ratios from 10 to 60 dB."""

    paper = "Beyond the paper, which only mentions noise (Section 6)"
    about = (
        "The problem of experiment basic and one with gaussian atoms, d nonzeros, white noise of one level for all "
        "signals of a point: 20 log10 of the root mean square of y over that of the noise. Every method but the "
        "residual network is given the level; whitening is regularised by it. The residual network is the one of "
        "experiment basic, trained without noise. Recall is the share of the support among the d largest scores; those "
        "of SparseRecoverer are the probabilities of atoms, and its coefficients the posterior mean. No method but "
        "SparseRecoverer says itself which atoms are the support, and how sure that is."
    )
    because = (
        "This is a property of judging every signal by itself: after fit(Y), which pools the noise level, confidences "
        "are those measured on the page about noise."
    )
    claims = (
        Claim("recall", "SparseRecoverer finds at least as much of the support as SBL, ℓ1 and VAMP.", "this project"),
        Claim("error", "Its mean is closer to the true coefficients than SBL, ℓ1 and VAMP.", "this project"),
        Claim("confidence", "Its confidence is the share of supports that are exactly right.", "this project"),
    )
    methods = ("omp", "l1", "sbl", "omp-whitened", "sbl-whitened", "vamp", "residual", "recoverer")
    presets = {  # noqa: RUF012  # read only
        "smoke": sizes("smoke", kinds=["decaying"], d=2, decibels=[30]),
        "laptop": sizes("laptop", N=150, kinds=["decaying", "gaussian"], d=4, decibels=[10, 20, 30, 40, 50, 60]),
        "day": sizes("day", N=500, kinds=["decaying", "gaussian"], d=4, decibels=[10, 20, 30, 40, 50, 60]),
        "paper": sizes("paper", N=10_000, kinds=["decaying", "gaussian"], d=4, decibels=[10, 20, 30, 40, 50, 60]),
    }

    def tasks(self, settings: dict[str, Any], methods: Sequence[str]) -> list[dict[str, Any]]:
        """List every method, level, kind of dictionary and seed; networks are trained for one kind only."""
        trained = {name for name, method in registry.methods().items() if method.recipe}
        return [
            {"method": method, "kind": kind, "decibels": level, "seed": seed}
            for seed in settings["seeds"]
            for kind in settings["kinds"]
            for method in methods
            for level in settings["decibels"]
            if kind == "decaying" or method not in trained
        ]

    def recipes(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Recipe]:
        """Return the network that the method needs."""
        method = registry.methods()[task["method"]]
        training = _training(settings, task)
        return [method.recipe(training)] if method.recipe and training else []

    def measure(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
        """Recover noisy signals."""
        n, m, d, seed, level = settings["n"], settings["m"], settings["d"], task["seed"], task["decibels"]
        Phi = KINDS[task["kind"]](n, m, rng=seed)
        rng = test_rng(seed, d, level)
        X, Y = signals.sample(Phi, settings["N"], sparsity=d, rng=rng)
        noise = float(np.sqrt(np.mean(Y**2)) * 10.0 ** (-level / 20.0))
        Y = Y + noise * rng.standard_normal(Y.shape)
        problem = Problem(Phi, d, noise=noise, training=_training(settings, task))
        method = registry.methods()[task["method"]]
        if not method.applies(problem):
            return []
        answer = method.recover(problem, Y)
        scores = answer.scores if isinstance(answer, Result) else np.asarray(answer)
        values = {
            "strict": metrics.strict_accuracy(X, scores),
            "recall": metrics.recall(X, scores),
            "loose": metrics.loose_accuracy(X, scores, n),
        }
        if isinstance(answer, Result):
            values["error"] = float(metrics.normalised_error(X, answer.coef).mean())
        if isinstance(answer, Recovery):
            best = [answer.alternatives(i)[0][0] for i in range(len(X))]
            values["exact"] = float(
                np.mean([np.array_equal(S, np.flatnonzero(x)) for S, x in zip(best, X, strict=True)])
            )
            values["confidence"] = float(answer.confidence.mean())
        return [Record(task, values)]

    def pictures(self, settings: dict[str, Any], data: Data) -> list[Picture]:
        """Draw recall and error against the level, one row per kind."""
        kinds = data.unique("kind")
        caption = (
            f"Recall and mean relative error ‖x̂ − x*‖/‖x*‖ against the signal-to-noise ratio, d = {settings['d']}, "
            f"{settings['n']}×{settings['m']}, {settings['N']} signals per point; mean and standard deviation over "
            "seeds."
        )
        size = (10.0, 0.8 + 3.6 * len(kinds))
        return [Picture("noise", caption, lambda figure: _draw(figure, data, kinds), size)]

    def tables(self, settings: dict[str, Any], data: Data) -> list[Table]:
        """Tabulate recall and error."""
        known = registry.methods()
        found = []
        for kind in data.unique("kind"):
            for measure, title in (("recall", "Recall"), ("error", "Mean relative error")):
                chosen = data.select(kind=kind)
                rows = [
                    [
                        known[name].label,
                        *(_cell(chosen.mean(measure, method=name, decibels=v)) for v in settings["decibels"]),
                    ]
                    for name in chosen.unique("method")
                    if chosen.values(measure, method=name).size
                ]
                header = ["dB", *map(str, settings["decibels"])]
                found.append(Table(f"{measure}-{kind}", f"{title}, {kind} dictionary", header, rows))
            own = data.select(kind=kind, method="recoverer")
            if own.values("exact").size:
                rows = [
                    [name, *(_cell(own.mean(key, decibels=v)) for v in settings["decibels"])]
                    for key, name in (("exact", "supports exactly right"), ("confidence", "mean confidence"))
                ]
                title = f"Support and confidence of SparseRecoverer, {kind} dictionary"
                found.append(Table(f"confidence-{kind}", title, ["dB", *map(str, settings["decibels"])], rows))
        return found

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Count the points at which the recoverer is not behind, by more than two standard errors for recall."""
        return [*self._compare(settings, data), self._calibration(settings, data)]

    def _calibration(self, settings: dict[str, Any], data: Data) -> Verdict:
        """Compare confidence with the share of exact supports."""
        if untested := self.untested("confidence", data, ("recoverer",)):
            return untested
        gaps = {
            (kind, level): data.mean("confidence", **at) - data.mean("exact", **at)
            for kind in data.unique("kind")
            for level in settings["decibels"]
            for at in ({"kind": kind, "decibels": level, "method": "recoverer"},)
        }
        (kind, level), worst = max(gaps.items(), key=lambda item: abs(item[1]))
        measured = f"Largest difference {worst:+.3f}, on {kind} at {level} dB; every signal is judged by itself."
        return self.verdict("confidence", measured, abs(worst) <= CALIBRATED)

    def _compare(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        verdicts = []
        for key, sign in (("recall", 1.0), ("error", -1.0)):
            if untested := self.untested(key, data, ("recoverer", *RIVALS)):
                verdicts.append(untested)
                continue
            worse, total = [], 0
            for kind in data.unique("kind"):
                for level in settings["decibels"]:
                    at = {"kind": kind, "decibels": level}
                    own = data.values(key, method="recoverer", **at)
                    for rival in RIVALS:
                        other = data.values(key, method=rival, **at)
                        if not own.size or own.size != other.size:
                            continue
                        total += 1
                        p, q = own.mean(), other.mean()
                        slack = (
                            2 * np.sqrt((p * (1 - p) + q * (1 - q)) / (own.size * settings["N"])) if sign > 0 else 0.0
                        )
                        if sign * (p - q) < -slack:
                            worse.append(f"{rival} on {kind} at {level} dB ({p:.3f} against {q:.3f})")
            measured = f"At {total - len(worse)} of {total} points" + (
                f"; behind {'; '.join(worse)}." if worse else "."
            )
            verdicts.append(self.verdict(key, measured, None if not total else not worse))
        return verdicts


def _training(settings: dict[str, Any], task: dict[str, Any]) -> Training | None:
    if task["kind"] != "decaying":
        return None
    found, d = settings["sparsities"], settings["d"]
    return Training(settings["training"], settings["n"], settings["m"], task["seed"], d, (min(found), max(found)))


def _cell(value: float) -> str:
    return f"{value:.3f}"


def _draw(figure: Figure, data: Data, kinds: list[str]) -> None:
    known = registry.methods()
    grid = figure.subplots(len(kinds), 2, squeeze=False)
    for row, kind in zip(grid, kinds, strict=True):
        chosen = data.select(kind=kind)
        for axes, measure in zip(row, ("recall", "error"), strict=True):
            for name in chosen.unique("method"):
                series = chosen.series("decibels", measure, method=name)
                if series.x.size:
                    draw_series(axes, series, known[name].label, **method_style(name))
            axes.set(xlabel="signal-to-noise ratio, dB", title=f"{measure}, {kind}")
            axes.grid(alpha=0.3)
        row[0].set_ylim(-0.02, 1.02)
        row[1].set_yscale("log")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, ncols=4, loc="outside lower center", frameon=False)
