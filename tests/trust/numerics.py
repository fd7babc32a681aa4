"""What every part of the package does with awkward input: it works, or says what to do.

``python tests/trust/numerics.py`` notes what happens in benchmarks/results/numerics.json, from which docs/fill.py makes
the table in docs/reliability.md; ``test_numerics.py`` checks every cell.
"""

from __future__ import annotations

import json
import platform
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse

import maxsparse as ms
from maxsparse._core.registry import SOLVERS
from maxsparse.solvers import METHODS


class DoesNotApply(Exception):
    """There is no such input for this part of the package."""


RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "numerics.json"
WORKS = "works"


# The problems: a dictionary, signals, and a stack of photographs with its lights.


def whole_numbers(rng):
    """A problem of small integers, so that every type of number holds it exactly."""
    Phi = rng.integers(-3, 4, (8, 14)).astype(np.float64)
    Phi[0] += 7.0  # no zero atom
    X = np.zeros((3, 14))
    X[np.arange(3), [1, 5, 9]] = [2, 1, 3]
    return Phi, X @ Phi.T


def zeros_and_ones(rng):
    Phi = rng.integers(0, 2, (8, 14)).astype(np.float64)
    Phi[0] = 1.0
    return Phi, Phi.T[[2, 4, 7]].copy()


def shaped(n, m, N=3):
    def problem(rng):
        Phi = ms.dictionaries.gaussian(n, m, rng=rng)
        return Phi, np.resize(Phi.T * 2.0, (N, n)) if N else np.zeros((0, n))

    return problem


def rank_deficient(rng):
    Phi = rng.standard_normal((8, 5)) @ rng.standard_normal((5, 14))
    return Phi, 2.0 * Phi.T[:3]


def zero_atom(rng):
    Phi, Y = whole_numbers(rng)
    Phi[:, 3] = 0.0
    return Phi, Y


def duplicate_atoms(rng):
    Phi, _ = whole_numbers(rng)
    Phi[:, 3] = -Phi[:, 2]
    return Phi, 2.0 * Phi.T[4:7]


def scaled(dictionary, signals):
    def problem(rng):
        Phi, Y = whole_numbers(rng)
        return Phi * dictionary, Y * dictionary * signals

    return problem


def with_value(value, *, in_dictionary):
    def problem(rng):
        Phi, Y = whole_numbers(rng)
        (Phi if in_dictionary else Y)[1, 2] = value
        return Phi, Y

    return problem


# The ways to hand an array over.


def strided(array):
    return np.repeat(array, 2, axis=0)[::2]


def read_only_memmap(array):
    path = Path(tempfile.mkdtemp()) / "array.npy"
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def data_frame(array):
    import pandas

    if array.ndim > 2:
        return array
    return pandas.DataFrame(array)


def data_frame_with_a_gap(array):
    import pandas

    frame = pandas.DataFrame(array.reshape(len(array), -1))
    frame.iloc[1, 2] = None
    return frame


def tensor(array):
    import torch

    return torch.from_numpy(array.copy())


def tensor_with_gradient(array):
    return tensor(array).requires_grad_()


def masked(array):
    hidden = np.zeros(array.shape, dtype=bool)
    hidden.flat[3] = True
    return np.ma.masked_array(array, hidden)


def sparse(array):
    return scipy.sparse.csr_array(array) if array.ndim == 2 else array


def as_text(array):
    return array.astype(str)


def ragged(array):
    return [row.tolist()[: len(row) - (i == 1)] for i, row in enumerate(array)]


def unchanged(array):
    return array


@dataclass(frozen=True)
class Case:
    """A line of the table: a problem, how it is handed over, and which of Φ and Y are awkward."""

    label: str
    problem: Callable
    change: Callable = unchanged
    about: str = "Φ and Y"


CASES = [
    Case("lists", whole_numbers, lambda a: a.tolist()),
    Case("integers", whole_numbers, lambda a: a.astype(np.int32)),
    Case("unsigned bytes", zeros_and_ones, lambda a: a.astype(np.uint8)),
    Case("booleans", zeros_and_ones, lambda a: a.astype(bool)),
    Case("half precision", whole_numbers, lambda a: a.astype(np.float16)),
    Case("extended precision", whole_numbers, lambda a: a.astype(np.longdouble)),
    Case("the other byte order", whole_numbers, lambda a: a.astype(">f8")),
    Case("Fortran order", whole_numbers, np.asfortranarray),
    Case("strided views", whole_numbers, strided),
    Case("read-only memory maps", whole_numbers, read_only_memmap),
    Case("scipy sparse matrices", whole_numbers, sparse),
    Case("pandas data frames", whole_numbers, data_frame),
    Case("pandas, with a missing value", whole_numbers, data_frame_with_a_gap),
    Case("torch tensors", whole_numbers, tensor),
    Case("torch tensors that need a gradient", whole_numbers, tensor_with_gradient),
    Case("masked arrays", whole_numbers, masked),
    Case("complex numbers", whole_numbers, lambda a: a * (1 + 1j)),
    Case("text", whole_numbers, as_text),
    Case("objects", whole_numbers, lambda a: a.astype(object)),
    Case("rows of different lengths", whole_numbers, ragged),
    Case("NaN in Φ", with_value(np.nan, in_dictionary=True), about="Φ"),
    Case("NaN in Y", with_value(np.nan, in_dictionary=False), about="Y"),
    Case("infinity in Φ", with_value(np.inf, in_dictionary=True), about="Φ"),
    Case("infinity in Y", with_value(-np.inf, in_dictionary=False), about="Y"),
    Case("Φ times 1e-12, signals times 1e12", scaled(1e-12, 1e12)),
    Case("signals times 1e-50", scaled(1.0, 1e-50), about="Y"),
    Case("signals times 1e50", scaled(1.0, 1e50), about="Y"),
    Case("Φ times 1e-50", scaled(1e-50, 1.0)),
    Case("signals times 1e200", scaled(1.0, 1e200), about="Y"),
    Case("Φ times 1e200", scaled(1e200, 1.0)),
    Case("subnormal signals (1e-310)", scaled(1.0, 1e-310), about="Y"),
    Case("subnormal Φ (1e-310)", scaled(1e-310, 1.0)),
    Case("a zero atom", zero_atom, about="Φ"),
    Case("duplicate atoms (with a warning)", duplicate_atoms),
    Case("Φ of less than full rank", rank_deficient),
    Case("more measurements than atoms (m < n)", shaped(9, 4)),
    Case("one measurement (n = 1)", shaped(1, 6)),
    Case("one atom (m = 1)", shaped(6, 1)),
    Case("one of each (n = m = 1)", shaped(1, 1)),
    Case("no signals (N = 0)", shaped(6, 12, N=0)),
    Case("no measurements", lambda rng: (np.zeros((0, 5)), np.zeros((2, 0)))),
    Case("no atoms", lambda rng: (np.zeros((4, 0)), np.zeros((2, 4)))),
    Case("one signal without its second axis", whole_numbers, lambda a: a if a.shape == (8, 14) else a[0], about="Y"),
    Case("Y transposed", lambda rng: (whole_numbers(rng)[0], whole_numbers(rng)[1].T), about="Y"),
    Case("Φ transposed", lambda rng: (whole_numbers(rng)[0].T, whole_numbers(rng)[1]), about="Y"),
]


# The parts of the package. Each takes Φ and Y as they were handed over and returns arrays to compare.


def run_solvers(Phi, Y):
    """Run every solver; all must do the same, work or refuse with one message."""
    found, messages = {}, {}
    for name, solver in METHODS.items():
        if name == "aiht":
            continue
        try:
            found[name] = solver(Phi, Y, sparsity=1, n_threads=1)
        except ValueError as error:
            messages[name] = str(error)
    refused = {name for name, text in messages.items() if text.startswith(f"method '{name}' cannot take complex data")}
    if refused and refused == set(messages):
        assert sorted(found) == sorted(SOLVERS.able("complex")), f"some say they can, but do not: {messages}"
        assert (found["exact"].residual <= 1e-9 * np.linalg.norm(Y, axis=1)).all()
        raise ValueError(f"works with {', '.join(sorted(found))}; the others name these")
    if messages:
        assert len(set(messages.values())) == 1, f"the solvers do not agree: {messages}"
        assert not found, f"some solvers work, others do not: {sorted(found)}, {messages}"
        raise ValueError(next(iter(messages.values())))
    explained(found["exact"], Y)
    return [array for result in found.values() for array in (result.coef, result.residual)]


def run_aiht(Phi, Y):
    """Run adaptive IHT, whose dictionary is an object with clusters, on signals of one atom each."""
    n, m = shape(Phi)
    if n < 2 or m < 4:
        raise DoesNotApply
    dictionary = ms.dictionaries.clustered(n, m, clusters=2, epsilon=0.3, rng=0)
    result = ms.solvers.aiht(dictionary, Y, sparsity=1, n_threads=1)
    return [result.coef, result.residual]


def run_recoverer(Phi, Y):
    model = ms.SparseRecoverer(Phi, budget=300, n_threads=1)
    result = model.recover(Y)
    explained(result, Y)
    if np.iscomplexobj(Phi) and np.iscomplexobj(Y):
        assert np.iscomplexobj(result.coef)
        assert (result.support.sum(axis=1) == 1).all()
        raise ValueError("works, with complex coefficients")
    noisy = ms.SparseRecoverer(Phi, noise=0.01, n_threads=1).recover(Y)
    return [result.coef, result.residual, result.certified, noisy.residual]


def run_certify(Phi, Y):
    """Certify multiples of single atoms; what is handed over is Φ, Y and coefficients X."""
    X = np.zeros((shape(Y)[0], shape(Phi)[1]))
    if X.size:
        X[:, 0] = 1.0
    return [ms.recovery.certify(Phi, Y, X).certified]


def run_theory(Phi, Y):
    W, D = ms.theory.precondition(Phi)
    values = [ms.theory.coherence(Phi), ms.theory.rip_constant(Phi, 1).lower, ms.theory.spark(Phi).lower]
    assert ms.theory.describe(Phi, max_sparsity=1, samples=20)
    return [np.abs(W), D, np.array(values), ms.theory.cumulative_coherence(Phi, 1)]


def run_networks(Phi, Y):
    return [ms.networks.build("residual", Phi, width=8, depth=2, rng=0).scores(Y)]


def run_signals(Phi, Y):
    return list(ms.signals.sample(Phi, 4, sparsity=1, rng=0))


def shape(array):
    """Return the shape of what was handed over, also of rows of different lengths."""
    return array.shape if hasattr(array, "shape") else (len(array), max(map(len, array)))


def explained(result, Y):
    """Fail where a signal, all of which are multiples of one atom, is not explained."""
    given = Y.toarray() if hasattr(Y, "toarray") else Y
    signals = np.asarray(given, dtype=complex if np.iscomplexobj(given) else np.float64)
    residual = np.asarray(result.residual)  # of tensors, a tensor
    assert (residual <= 1e-6 * np.linalg.norm(signals, axis=1)).all(), "a signal of one atom is not explained"


PARTS = {
    "solvers": run_solvers,
    "AIHT": run_aiht,
    "SparseRecoverer": run_recoverer,
    "certify": run_certify,
    "theory": run_theory,
    "networks": run_networks,
    "signals": run_signals,
}


TAKES = {"AIHT": "Y", "theory": "Φ", "signals": "Φ"}  # the others take both


def outcome(case, part):
    """Return "works", or what the message says; fail where the answer is wrong or the error is of another kind."""
    if {case.about, TAKES.get(part)} == {"Φ", "Y"}:
        return "does not apply"
    Phi, Y = case.problem(np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            found = PARTS[part](case.change(Phi), case.change(Y))
        except DoesNotApply:
            return "does not apply"
        except ValueError as error:
            return str(error)
        expected = PARTS[part](Phi, Y)
    for one, other in zip(found, expected, strict=True):
        assert np.isfinite(one).all(), f"{case.label}, {part}: the answer is not finite"
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=0.0)
    return WORKS


def main():
    cells = {case.label: {part: outcome(case, part) for part in PARTS} for case in CASES}
    versions = {"python": platform.python_version(), "maxsparse": ms.__version__, "numpy": np.__version__}
    noted = {"command": "python tests/trust/numerics.py", "versions": versions, "cells": cells}
    RESULTS.write_text(json.dumps(noted, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
