"""Experiment ``phase``: where recovery succeeds, in the plane of Donoho and Tanner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxsparse import dictionaries, metrics, signals
from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments import registry
from maxsparse.experiments.curves import test_rng
from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.experiment import Claim, Experiment, Picture, Table, Verdict
from maxsparse.experiments.methods import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure
TENTHS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]


@EXPERIMENTS.register("phase", summary="Phase diagrams", order=130)
class Phase(Experiment):
    """Success over δ = n/m and ρ = d/n, one diagram per method."""

    paper = "Beyond the paper"
    about = (
        "Gaussian dictionaries with m atoms, n = δm rows, d = ρn nonzeros, amplitudes ±U[0.1, 0.5], no noise. "
        "Colour is strict accuracy. The line is the limit of ℓ1 minimisation for large m (Donoho and Tanner, 2009). "
        "OMP and IHT are given d. Learned SBL means the scores of the bundled network, without training and without "
        "search."
    )
    because = "This is a property of the methods as they are; nothing was trained for it."
    claims = (
        Claim(
            "l1",
            "ℓ1 follows the line of Donoho and Tanner: half the signals are recovered near it.",
            "Donoho and Tanner, 2009",
        ),
        Claim(
            "beyond", "Learned SBL succeeds on a larger part of the plane than ℓ1, OMP, IHT and SBL.", "this project"
        ),
    )
    methods = ("l1", "omp", "iht", "sbl-whitened", "learned-sbl")
    presets = {  # noqa: RUF012  # read only
        "smoke": {"m": 12, "deltas": [0.5], "rhos": [0.2, 0.8], "N": 5, "seeds": [0]},
        "laptop": {"m": 60, "deltas": TENTHS, "rhos": TENTHS, "N": 20, "seeds": [0, 1, 2]},
        "day": {"m": 60, "deltas": TENTHS, "rhos": TENTHS, "N": 50, "seeds": [0, 1, 2, 3, 4]},
        "paper": {
            "m": 200,
            "deltas": [round(0.05 * i, 2) for i in range(1, 20)],
            "rhos": [round(0.05 * i, 2) for i in range(1, 20)],
            "N": 100,
            "seeds": list(range(5)),
        },
    }

    def tasks(self, settings: dict[str, Any], methods: Sequence[str]) -> list[dict[str, Any]]:
        """List every method, δ and seed; a task has all ρ of a column of the diagram."""
        return [
            {"method": method, "delta": delta, "seed": seed}
            for seed in settings["seeds"]
            for method in methods
            for delta in settings["deltas"]
        ]

    def measure(self, settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
        """Recover signals of one dictionary at every ρ."""
        m, seed = settings["m"], task["seed"]
        n = max(2, round(task["delta"] * m))
        Phi = dictionaries.gaussian(n, m, rng=seed)
        method = registry.methods()[task["method"]]
        found = []
        for rho in settings["rhos"]:
            d = max(1, round(rho * n))
            problem = Problem(Phi, d)
            if method.applies(problem):
                X, Y = signals.sample(Phi, settings["N"], sparsity=d, rng=test_rng(seed, n, d))
                strict = metrics.strict_accuracy(X, method.scores(problem, Y))
                found.append(Record({**task, "rho": rho}, {"strict": strict}))
        return found

    def pictures(self, settings: dict[str, Any], data: Data) -> list[Picture]:
        """Draw one diagram per method."""
        names = data.unique("method")
        caption = (
            f"Strict accuracy over δ = n/m and ρ = d/n, gaussian dictionaries with m = {settings['m']}, "
            f"{settings['N'] * len(data.unique('seed'))} signals per cell. White line: the ℓ1 transition for large m."
        )
        rows = math.ceil(len(names) / 3)
        return [Picture("phase", caption, lambda figure: _draw(figure, settings, data), (10.0, 3.4 * rows))]

    def tables(self, settings: dict[str, Any], data: Data) -> list[Table]:
        """Tabulate the largest ρ at which half the signals are recovered."""
        known = registry.methods()
        deltas = settings["deltas"]
        rows = [
            [
                known[name].label,
                *(f"{_half(settings, data, name, delta):.2f}" for delta in deltas),
                f"{data.mean('strict', method=name):.3f}",
            ]
            for name in data.unique("method")
        ]
        rows.append(["ℓ1, large m", *(f"{weak_threshold(delta):.2f}" for delta in deltas), ""])
        header = ["δ", *(f"{delta:g}" for delta in deltas), "mean over the plane"]
        return [Table("half", "ρ at which strict accuracy falls to one half (linear between cells)", header, rows)]

    def judge(self, settings: dict[str, Any], data: Data) -> list[Verdict]:
        """Compare the ℓ1 contour with the line, and areas with each other."""
        deltas = settings["deltas"]
        gaps = [abs(_half(settings, data, "l1", delta) - weak_threshold(delta)) for delta in deltas]
        areas = {name: data.mean("strict", method=name) for name in self.methods}
        tested = not any(np.isnan(value) for value in areas.values())
        listed = ", ".join(f"{registry.methods()[name].label} {value:.3f}" for name, value in areas.items())
        own = areas["learned-sbl"]
        return [
            self.verdict(
                "l1",
                f"The ρ of one half is within {max(gaps):.2f} of the line at every δ, {np.mean(gaps):.3f} on average.",
                bool(max(gaps) <= 0.1) if not any(map(math.isnan, gaps)) else None,
            ),
            self.verdict(
                "beyond",
                f"Mean strict accuracy over the plane: {listed}.",
                bool(own > max(value for name, value in areas.items() if name != "learned-sbl")) if tested else None,
            ),
        ]


def weak_threshold(delta: float) -> float:
    r"""Return the ρ at which ℓ1 minimisation fails for most signs and supports, m → ∞, at n/m = δ.

    .. math:: \delta = \frac{2\varphi(\tau)}{\tau + 2(\varphi(\tau) - \tau\bar\Phi(\tau))}, \qquad
              \rho = 1 - \frac{\tau\bar\Phi(\tau)}{\varphi(\tau)}

    References
    ----------
    .. [1] D. Donoho, A. Maleki, A. Montanari, "Message-passing algorithms for compressed sensing", PNAS 106, 2009.

    Examples
    --------
    >>> from maxsparse.experiments.phase import weak_threshold
    >>> round(weak_threshold(0.5), 3)
    0.386
    """
    from scipy.optimize import brentq
    from scipy.stats import norm

    def excess(tau: float) -> float:
        density, tail = norm.pdf(tau), norm.sf(tau)
        return float(2 * density / (tau + 2 * (density - tau * tail)) - delta)

    tau = brentq(excess, 1e-9, 30.0)
    return float(1.0 - tau * norm.sf(tau) / norm.pdf(tau))


def _column(settings: dict[str, Any], data: Data, method: str, delta: float) -> NDArray[np.float64]:
    return np.array([data.mean("strict", method=method, delta=delta, rho=rho) for rho in settings["rhos"]])


def _half(settings: dict[str, Any], data: Data, method: str, delta: float) -> float:
    """Return the ρ at which a column falls below one half; 0 if it is never above, NaN if it is missing."""
    rhos, column = np.array(settings["rhos"]), _column(settings, data, method, delta)
    if np.isnan(column).any():
        return math.nan
    below = np.flatnonzero(column < 0.5)
    if not below.size:
        return float(rhos[-1])
    if below[0] == 0:
        return 0.0
    i = below[0]
    share = (column[i - 1] - 0.5) / (column[i - 1] - column[i])
    return float(rhos[i - 1] + share * (rhos[i] - rhos[i - 1]))


def _draw(figure: Figure, settings: dict[str, Any], data: Data) -> None:
    names = data.unique("method")
    rows = math.ceil(len(names) / 3)
    grid = figure.subplots(rows, min(3, len(names)), squeeze=False)
    deltas, rhos = settings["deltas"], settings["rhos"]
    line = np.linspace(min(deltas), max(deltas), 50)
    for axes in np.ravel(grid)[len(names) :]:
        axes.set_axis_off()
    for axes, name in zip(np.ravel(grid), names, strict=False):
        values = np.array([_column(settings, data, name, delta) for delta in deltas]).T
        image = axes.pcolormesh(
            deltas, rhos, values, vmin=0, vmax=1, cmap="viridis", shading="nearest", rasterized=True
        )
        axes.plot(line, [weak_threshold(delta) for delta in line], color="white", linewidth=1.5)
        axes.set(title=registry.methods()[name].label, xlabel="δ = n/m", ylabel="ρ = d/n")
    figure.colorbar(image, ax=grid, label="strict accuracy", shrink=0.8)
