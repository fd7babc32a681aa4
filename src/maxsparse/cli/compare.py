"""Accuracy of methods on a dictionary: shared by ``demo``, ``bench`` and ``info``."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from maxsparse import signals
from maxsparse._core.validation import FloatArray

if TYPE_CHECKING:
    from maxsparse.recovery import SparseRecoverer
    from maxsparse.result import Result

__all__ = ["OURS", "Curve", "compare", "measure", "print_table", "warm_up"]

OURS = "SparseRecoverer"
Method = Callable[[FloatArray, int], "Result"]  # signals, and the number of nonzeros for classical methods


@dataclass(frozen=True)
class Curve:
    """Results of one method, for every sparsity."""

    label: str
    sparsities: list[int]
    right: list[float]  # share of signals whose support is exactly right
    certified: list[float]
    false: int  # certified, but not right
    milliseconds: list[float]  # per signal

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)


def measure(label: str, method: Method, Phi: FloatArray, sparsities: Iterable[int], N: int, seed: int) -> Curve:
    """Recover N new signals for every sparsity and count the right ones."""
    counts = list(sparsities)
    curve = Curve(label, counts, [], [], 0, [])
    hardest = max(counts)
    method(signals.sample(Phi, 2, sparsity=hardest, rng=seed)[1], hardest)  # compile before timing
    false = 0
    for d in counts:
        X, Y = signals.sample(Phi, N, sparsity=d, rng=seed + d)
        begun = time.perf_counter()
        result = method(Y, d)
        curve.milliseconds.append(1e3 * (time.perf_counter() - begun) / N)
        right = (result.support == (X != 0)).all(axis=1)
        curve.right.append(float(right.mean()))
        curve.certified.append(float(result.certified.mean()))
        false += int((result.certified & ~right).sum())
    return Curve(label, counts, curve.right, curve.certified, false, curve.milliseconds)


def warm_up(model: SparseRecoverer) -> None:
    """Compile every part of the recovery; signals without a sparse solution also reach the search."""
    n = np.shape(model.Phi)[0]
    copy.copy(model).set_params(budget=2).recover(np.random.default_rng(0).standard_normal((2, n)))


def compare(Phi: FloatArray, names: Sequence[str], sparsities: Sequence[int], N: int, seed: int) -> Iterator[Curve]:
    """Measure classical methods, plain and whitened, then ours, which is not given the number of nonzeros."""
    from maxsparse.recovery import SparseRecoverer  # compiled code: loaded only when used
    from maxsparse.solvers import solve

    for name in names:
        for whitened in (False, True):

            def classical(Y: FloatArray, d: int, name: str = name, whitened: bool = whitened) -> Result:
                return solve(Phi, Y, method=name, sparsity=d, precondition=whitened)

            yield measure(f"{name}, whitened" if whitened else name, classical, Phi, sparsities, N, seed)
    model = SparseRecoverer(Phi)
    warm_up(model)
    yield measure(OURS, lambda Y, d: model.recover(Y), Phi, sparsities, N, seed)


def print_table(curves: Iterable[Curve], width: int, sparsities: Iterable[int]) -> list[Curve]:
    """Print a row for every curve as soon as it is available, and one for the certificates, if any."""
    typer.echo(f"{'':{width}}  " + "  ".join(f"d={d:<2}" for d in sparsities) + "  ms/signal")
    done = []
    for curve in curves:
        mean = sum(curve.milliseconds) / len(curve.milliseconds)
        typer.echo(f"{curve.label:{width}}  {_row(curve.right)}  {mean:9.3f}")
        if curve.label == OURS:
            typer.echo(f"{'  … certified':{width}}  {_row(curve.certified)}")
        done.append(curve)
    return done


def _row(values: list[float]) -> str:
    return "  ".join(f"{value:4.2f}" for value in values)
