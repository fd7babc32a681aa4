"""``maxsparse bench`` as a user meets it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import maxsparse as ms
from maxsparse.cli import app
from maxsparse.cli.compare import warm_up
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
