"""Corollary 1 in the experiment ``rip``: many dictionaries with a low-rank term, of growing size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxsparse import dictionaries, theory
from maxsparse._core.validation import FloatArray
from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.experiment import Experiment, Table, Verdict

__all__ = ["judge_corollary", "low_rank_plus", "measure_corollary"]

EPSILON = 1e-4
OVERWHELMING = 0.95


def low_rank_plus(n: int, m: int, r: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw [εA + UV]N as :func:`maxsparse.dictionaries.low_rank_plus` does, and return it with U."""
    A, U, V = rng.standard_normal((n, m)) / math.sqrt(n), rng.standard_normal((n, r)), rng.standard_normal((r, m))
    Phi = EPSILON * A + U / np.linalg.norm(U, axis=0) @ V
    return Phi / np.linalg.norm(Phi, axis=0), U


def measure_corollary(settings: dict[str, Any], task: dict[str, Any]) -> list[Record]:
    """Return exact δ_3 of WΦD, with the range of Δ_r removed, and of a random dictionary with n − r rows.

    ``scaled`` is that of WΦD with the best common factor in D, which bounds δ* more tightly.
    """
    n, m, r = task["n"], task["m"], task["rank"]
    rng = np.random.default_rng([task["seed"], n, task["draw"]])
    Phi, U = low_rank_plus(n, m, r, rng)
    W, D = theory.null_low_rank(Phi, r, low_rank=U)
    removed = theory.rip_constant(W @ Phi * D, 3, method="exact")
    random = theory.rip_constant(dictionaries.gaussian(n - r, m, rng=rng), 3, method="exact")
    return [Record(task, {"removed": float(removed), "scaled": removed.scaled[1], "random": float(random)})]


def judge_corollary(experiment: Experiment, data: Data) -> list[Verdict]:
    """Compare the mean constants over many dictionaries, and the share with δ* ≤ δ[Ã] size by size."""
    chosen = data.select(kind="corollary")
    gaps = chosen.values("removed") - chosen.values("random")
    if gaps.size < 3:
        return [experiment.verdict(key, "Too few dictionaries were drawn.", None) for key in ("corollary", "grows")]
    rows, shares = [], []
    for n in chosen.unique("n"):
        one = chosen.select(n=n)
        removed, scaled, random = (one.values(name) for name in ("removed", "scaled", "random"))
        shape = f"{n}×{one.unique('m')[0]}, r = {one.unique('rank')[0]}"
        shares.append(float(np.mean(scaled <= random)))
        cells = removed.mean(), random.mean(), _standard_error(removed - random), scaled.mean()
        rows.append([shape, str(removed.size), *(f"{value:.4f}" for value in cells), f"{shares[-1]:.2f}"])
    header = ["Φ", "dictionaries", "δ_3[WΦD]", "δ_3[Ã]", "standard error of the difference"]
    header += ["δ_3[WΦD], best factor in D", "share of those ≤ δ_3[Ã]"]
    table = Table("corollary", "Exact constants; W removes the range of Δ_r. δ* is at most δ_3[WΦD].", header, rows)
    error = _standard_error(gaps)
    return [
        experiment.verdict(
            "corollary",
            f"δ_3[WΦD] − δ_3[Ã] is {gaps.mean():+.4f} on average over {gaps.size} dictionaries (standard error "
            f"{error:.4f}).",
            bool(gaps.mean() <= 2 * error),
            table,
            "This is a property.",
        ),
        experiment.verdict(
            "grows",
            "Share of dictionaries with δ_3[WΦD] ≤ δ_3[Ã], with the best common factor in D: "
            f"{', '.join(f'{share:.2f}' for share in shares)}, from the smallest size to the largest.",
            bool(min(shares) >= OVERWHELMING),
            because="This is a property of these W and D; better ones may exist.",
        ),
    ]


def _standard_error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / math.sqrt(values.size))
