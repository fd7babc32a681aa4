"""``maxsparse bench`` as a user meets it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import maxsparse as ms
from maxsparse.cli import app, compare
from maxsparse.cli.compare import Curve, measure, warm_up
from maxsparse.recovery import pipeline
from maxsparse.recovery.search import search


def test_bench_measures_what_it_says(tmp_path):
    Phi = ms.dictionaries.decaying(12, 30, rng=0)
    np.save(tmp_path / "Phi.npy", Phi)
    command = ["bench", str(tmp_path / "Phi.npy"), "--methods", "omp", "--sparsities", "1,3", "--signals", "40"]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    curves = {curve["label"]: curve for curve in json.loads(done.output)["methods"]}
    assert list(curves) == ["omp", "omp, whitened", "SparseRecoverer"]
    X, Y = ms.signals.sample(Phi, 40, sparsity=3, rng=3)
    right = (ms.solve(Phi, Y, "omp", sparsity=3, precondition=True).support == (X != 0)).all(axis=1).mean()
    assert curves["omp, whitened"]["right"][1] == pytest.approx(right)
    assert curves["SparseRecoverer"]["false"] == 0
    table = CliRunner().invoke(app, command).output
    assert "omp, whitened" in table
    assert "… certified" in table


@pytest.mark.parametrize(
    ("option", "value"), [("--methods", "magic"), ("--methods", "aiht"), ("--sparsities", "0"), ("--sparsities", "a,b")]
)
def test_bad_use(tmp_path, option, value):
    np.save(tmp_path / "Phi.npy", np.eye(4, 8) + 0.1)
    assert CliRunner().invoke(app, ["bench", str(tmp_path / "Phi.npy"), option, value]).exit_code == 2


def test_the_search_is_compiled_before_the_clock_starts(monkeypatch):
    """Signals that nothing explains go through it all; the model itself keeps its budget."""
    model = ms.SparseRecoverer(ms.dictionaries.gaussian(6, 12, rng=0), budget=77)
    searched = []
    monkeypatch.setattr(
        pipeline, "search", lambda *args, **options: searched.append(options) or search(*args, **options)
    )
    warm_up(model)
    assert searched[0]["budget"].sets == 2
    assert model.budget == 77


class Clock:
    """Stands for the clock: only methods take time."""

    def __init__(self, monkeypatch, cost):
        self.now, self.cost, self.asked = 0.0, cost, []
        monkeypatch.setattr(compare.time, "perf_counter", lambda: self.now)

    def make(self, Phi):
        """Return OMP on Φ; a signal with d nonzeros takes cost(Φ, d) seconds."""

        def method(Y, d):
            self.asked.append((Phi.shape, d, len(Y)))
            self.now += self.cost(Phi, d) * len(Y)
            return ms.solve(Phi, Y, "omp", sparsity=d)

        return method


@pytest.mark.parametrize("shape", [(10, 30), (50, 1000)])  # the second is tried on a part first
def test_what_does_not_fit_is_left_out_and_said(monkeypatch, shape):
    Phi = ms.dictionaries.gaussian(*shape, rng=0)
    clock = Clock(monkeypatch, lambda Phi, d: 1e-3 * d**2 * Phi.shape[1] / shape[1])  # O(n²m) for a given d/n
    curve = measure("omp", clock.make, Phi, [1, 2, 3], 100, seed=0, seconds=60.0)
    assert curve.signals == [100, 100, 100]
    assert curve.left_out == ""
    np.testing.assert_allclose(curve.milliseconds, [1.0, 4.0, 9.0])
    begun = clock.now
    curve = measure("omp", clock.make, Phi, [1, 2, 3], 100, seed=0, seconds=0.3)
    assert curve.sparsities == [1, 2, 3]
    assert 1 <= min(curve.signals) < 100
    assert clock.now - begun < 0.5


def test_large_sparsities_are_not_begun_if_a_part_of_the_dictionary_says_so(monkeypatch):
    Phi = ms.dictionaries.gaussian(50, 1000, rng=0)
    clock = Clock(monkeypatch, lambda Phi, d: 1e-6 * d**2 * Phi.shape[1])
    curve = measure("omp", clock.make, Phi, [1, 2, 30], 100, seed=0, seconds=0.5)
    assert curve.sparsities == [1, 2]
    assert "from 30 nonzeros on" in curve.left_out
    assert (Phi.shape, 30) not in {asked[:2] for asked in clock.asked}


def test_nothing_fits(monkeypatch, capsys):
    Phi = ms.dictionaries.gaussian(50, 1000, rng=0)
    clock = Clock(monkeypatch, lambda Phi, d: 10.0)
    curve = measure("slow", clock.make, Phi, [1, 2], 10, seed=0, seconds=1.0)
    assert isinstance(curve, Curve)
    assert curve.right == []
    assert all(asked[0] != Phi.shape for asked in clock.asked)  # never tried on the whole
    compare.print_table([curve], 10, [1, 2])
    compare.say_what_is_missing([curve], 10)
    text = capsys.readouterr().out
    assert "slow from 1 nonzeros on" in text
    assert "--seconds" in text
