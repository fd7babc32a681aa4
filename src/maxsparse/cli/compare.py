"""Accuracy of methods on a dictionary: shared by ``demo``, ``bench`` and ``info``."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from numpy.typing import NDArray

from maxsparse import signals
from maxsparse._core.progress import countdown
from maxsparse._core.validation import FloatArray

if TYPE_CHECKING:
    from maxsparse.recovery import SparseRecoverer
    from maxsparse.result import Result

__all__ = ["LARGE", "OURS", "Curve", "Method", "compare", "measure", "print_table", "say_what_is_missing", "warm_up"]

OURS = "SparseRecoverer"
LARGE = 40_000  # entries of Φ from which a method is tried on a part of it before
GROWTH = 3  # a signal with more nonzeros is expected to take at most so many times as long
Method = Callable[[FloatArray, int], "Result"]  # signals, and the number of nonzeros for classical methods
Maker = Callable[[FloatArray], Method]  # the method for a dictionary


@dataclass(frozen=True)
class Curve:
    """Results of one method, for every sparsity."""

    label: str
    sparsities: list[int]  # those measured
    signals: list[int]  # of every sparsity
    right: list[float]  # share of signals whose support is exactly right
    certified: list[float]
    false: int  # certified, but not right
    milliseconds: list[float]  # per signal
    left_out: str = ""  # what was left out because it would take too long
    seconds: float = 0.0  # that all of it took, without compiling

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)


def measure(
    label: str, make: Maker, Phi: FloatArray, sparsities: Iterable[int], N: int, seed: int, seconds: float = math.inf
) -> Curve:
    """Recover up to N new signals for every sparsity and count the right ones.

    What does not fit into `seconds` is left out: signals first, then the largest sparsities.
    """
    counts = list(sparsities)
    curve, method = Curve(label, [], [], [], [], 0, []), make(Phi)
    part = _part(Phi) if Phi.size >= LARGE and seconds < math.inf else Phi
    on_part = method if part is Phi else make(part)
    small, on_small = (Phi, method) if part is Phi else (_part(part), make(_part(part)))
    hardest = min(max(counts), len(small))
    on_small(signals.sample(small, 1, sparsity=hardest, rng=seed)[1], hardest)  # compile before timing
    false, left_out, took, begun = 0, "", 0.0, time.perf_counter()
    for i, d in enumerate(counts):
        left = begun + seconds - time.perf_counter()
        took = GROWTH * took if part is Phi else max(took, _expected_seconds(on_part, part, d, Phi.shape, seed))
        if took > left:
            left_out = f"{label} from {d} nonzeros on (about {took:.2g} s a signal)"
            break
        X, Y = signals.sample(Phi, N, sparsity=d, rng=seed + d)
        right, certified, took = _recover(method, X, Y, d, left / (len(counts) - i))
        false += int((certified & ~right).sum())
        curve.sparsities.append(d)
        curve.signals.append(right.size)
        curve.right.append(float(right.mean()))
        curve.certified.append(float(certified.mean()))
        curve.milliseconds.append(1e3 * took)
    return replace(curve, false=false, left_out=left_out, seconds=time.perf_counter() - begun)


def _recover(
    method: Method, X: FloatArray, Y: FloatArray, d: int, seconds: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], float]:
    """Recover as many signals as fit; return which are right, which are certified, and the time of one."""
    N, begun = len(Y), time.perf_counter()
    next_ones = slice(0, N if seconds == math.inf else 1)
    right, certified = [], []
    while True:
        result = method(Y[next_ones], d)
        right.append((result.support == (X[next_ones] != 0)).all(axis=1))
        certified.append(result.certified)
        done, spent = next_ones.stop, time.perf_counter() - begun
        fit = min(N - done, 2 * done, int((seconds - spent) / max(spent / done, 1e-9)) if done < N else 0)
        if fit < 1:
            return np.concatenate(right), np.concatenate(certified), spent / done
        next_ones = slice(done, done + fit)


def _part(Phi: FloatArray) -> FloatArray:
    """Return about a quarter of the measurements and a quarter of the atoms."""
    n, m = Phi.shape
    part = Phi[:: max(1, n // max(8, n // 4)), :: max(1, m // max(16, m // 4))]
    return part[:, np.linalg.norm(part, axis=0) > 0]


def _expected_seconds(method: Method, part: FloatArray, d: int, shape: tuple[int, ...], seed: int) -> float:
    """Time of one signal of a dictionary of this shape, from a part of it; most methods take O(n²m)."""
    (n, m), (n_part, m_part) = shape, part.shape
    larger: float = (n / n_part) ** 2 * (m / m_part)
    d = max(1, round(d * n_part / n))
    Y = signals.sample(part, 2, sparsity=d, rng=seed)[1]
    begun = time.perf_counter()
    method(Y, d)
    return larger * (time.perf_counter() - begun) / len(Y)


def warm_up(model: SparseRecoverer) -> None:
    """Compile every part of the recovery; signals without a sparse solution also reach the search.

    What is computed from a large Φ once is computed, with a signal that takes little time: the rest was compiled for a
    part of it.
    """
    Phi = np.asarray(model.Phi)
    if Phi.size >= LARGE:
        model.recover(Phi.T[:1])
        return
    n = len(Phi)
    copy.copy(model).set_params(budget=2).recover(np.random.default_rng(0).standard_normal((2, n)))


def compare(
    Phi: FloatArray, names: Sequence[str], sparsities: Sequence[int], N: int, seed: int, seconds: float = math.inf
) -> Iterator[Curve]:
    """Measure classical methods, plain and whitened, then ours, which is not given the number of nonzeros."""
    from maxsparse.recovery import SparseRecoverer  # compiled code: loaded only when used
    from maxsparse.solvers import solve

    def classical(name: str, whitened: bool) -> Maker:
        return lambda Phi: lambda Y, d: solve(Phi, Y, method=name, sparsity=d, precondition=whitened)

    def ours(Phi: FloatArray) -> Method:
        model = SparseRecoverer(Phi)
        warm_up(model)
        return lambda Y, d: model.recover(Y)

    methods = [
        (f"{name}, whitened" if whitened else name, classical(name, whitened))
        for name in names
        for whitened in (False, True)
    ]
    methods.append((OURS, ours))
    reserved = seconds / 3
    for i, (label, make) in enumerate(methods):
        share = max(seconds, 0.0) / (len(methods) - i) if label != OURS else max(seconds, reserved)
        with countdown(share, label, True):
            curve = measure(label, make, Phi, sparsities, N, seed, share)
        yield curve
        seconds -= curve.seconds


def say_what_is_missing(curves: Iterable[Curve], N: int, option: str = "--seconds") -> None:
    """Tell what was left out for want of time, if anything."""
    fewer = [curve.label for curve in curves if curve.signals and min(curve.signals) < N]
    left_out = [curve.left_out for curve in curves if curve.left_out]
    if fewer:
        typer.echo(f"\nFewer than {N} signals, to save time: {', '.join(fewer)}.")
    if left_out:
        typer.echo(f"\nLeft out, to save time: {'; '.join(left_out)}.")
    if fewer or left_out:
        typer.echo(f"{option} 600 gives it more time.")


def print_table(curves: Iterable[Curve], width: int, sparsities: Sequence[int]) -> list[Curve]:
    """Print a row for every curve as soon as it is available, and one for the certificates, if any."""
    typer.echo(f"{'':{width}}  " + "  ".join(f"d={d:<2}" for d in sparsities) + "  ms/signal")
    done = []
    for curve in curves:
        missing = "   -  " * (len(sparsities) - len(curve.right))
        mean = f"{sum(curve.milliseconds) / len(curve.milliseconds):9.3f}" if curve.right else f"{'-':>9}"
        typer.echo(f"{curve.label:{width}}  {_row(curve.right) + '  ' if curve.right else ''}{missing}{mean}")
        if curve.label == OURS and curve.right:
            typer.echo(f"{'  … certified':{width}}  {_row(curve.certified)}")
        done.append(curve)
    return done


def _row(values: list[float]) -> str:
    return "  ".join(f"{value:4.2f}" for value in values)
