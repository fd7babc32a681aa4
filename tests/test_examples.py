"""Every example runs, says what it should, and draws a picture; the benchopt solver keeps to its interface."""

import importlib.util
import runpy
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import maxsparse as ms

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDS = {"plot_onnx": ("onnx", "onnxruntime", "onnxscript"), "plot_brain": ("mne",)}


def load(monkeypatch, stem):
    """Run an example; return its names and whether it drew."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    for package in NEEDS.get(stem, ()):
        pytest.importorskip(package)
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(len(plt.gcf().axes)))
    names = runpy.run_path(str(EXAMPLES / f"{stem}.py"))
    plt.close("all")
    assert shown, "it draws nothing"
    return names


def test_compressive_sensing(monkeypatch):
    names = load(monkeypatch, "plot_compressive_sensing")
    assert names["right"]["SparseRecoverer"].mean() > names["right"]["ℓ1"].mean() > names["right"]["OMP"].mean()
    assert not (names["certified"] & ~names["right"]["SparseRecoverer"]).any()


def test_sources(monkeypatch):
    names = load(monkeypatch, "plot_sources")
    np.testing.assert_array_equal(names["strongest"], names["truth"])  # of the last method, ours


def test_directions(monkeypatch):
    names = load(monkeypatch, "plot_directions")
    np.testing.assert_allclose(np.sort(names["found"].azimuth), names["truth"], atol=0.6)
    np.testing.assert_allclose(np.sort(names["above"].azimuth), np.sort(names["sky"][:, 0]), atol=2.0)


def test_brain(monkeypatch):
    names = load(monkeypatch, "plot_brain")
    np.testing.assert_array_equal(names["found"].places, names["truth"])
    assert names["distances"](names["strong"]).max() > 5.0


def test_unmixing(monkeypatch):
    names = load(monkeypatch, "plot_unmixing")
    found = names["found"].materials()
    assert {material.name.split(",")[0] for material in found} == {"calcite", "mineral 18", "mineral 31"}
    assert len(found[0].alternatives) == 3
    assert names["found"].verdict() == "fits"
    assert names["other"].verdict() == "incomplete"
    assert np.count_nonzero(names["nnls"] > 0.001) > 5


def test_robust_regression(monkeypatch):
    errors = load(monkeypatch, "plot_robust_regression")["errors"]
    assert errors["SparseRecoverer"].max() < 1e-9
    assert np.median(errors["least squares"]) > 0.1


def test_feature_selection(monkeypatch):
    shares = load(monkeypatch, "plot_feature_selection")["shares"]
    ours = np.array(shares.pop("SparseRecoverer"))
    assert all((ours >= np.array(theirs) - 0.02).all() for theirs in shares.values())


def test_operators(monkeypatch):
    names = load(monkeypatch, "plot_operators")
    np.testing.assert_allclose(names["greedy"].coef[0], names["x"], atol=1e-10)
    np.testing.assert_array_equal(names["recovered"].support[0], names["x"] != 0)
    assert names["recovered"].certified[0]
    np.testing.assert_allclose(names["found"].coef[0], names["z"], atol=1e-10)
    if names["pywt"] is not None:
        assert np.abs(names["estimate"] - names["steps"]).mean() < 0.02


def test_photometric_stereo(monkeypatch):
    errors = load(monkeypatch, "plot_photometric_stereo")["errors"]
    assert errors["auto"].mean() < 0.5 < errors["ls"].mean()


def test_onnx(monkeypatch):
    names = load(monkeypatch, "plot_onnx")
    assert names["exported"].error < 1e-4
    assert min(names["curves"]["onnxruntime + numpy"][:4]) > 0.97


def test_every_example_is_tested():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem.removeprefix("plot_") for path in EXAMPLES.glob("plot_*.py")} <= tested


def load_benchopt_solver(monkeypatch):
    """Load the solver file; what it imports of the benchmark and of benchopt 1.5.1 is a stub."""

    class Criterion:
        def __init__(self, grid):
            self.grid = grid

    class ImportContext:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            self.failed_import = kind is not None and issubclass(kind, ImportError)
            return self.failed_import

    benchopt, utils = types.ModuleType("benchopt"), types.ModuleType("benchmark_utils")
    benchopt.BaseSolver, benchopt.safe_import_context = object, ImportContext
    criterion = types.ModuleType("benchmark_utils.stopping_criterion")
    criterion.RunOnGridCriterion = Criterion
    for module in (benchopt, utils, criterion):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    spec = importlib.util.spec_from_file_location("benchopt_solver", EXAMPLES / "benchopt_solver.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("method", ["recoverer", "sbl"])
def test_benchopt_solver_against_a_stub_of_its_interface(monkeypatch, method):
    """The benchmark itself is not here: these are the members that it calls, in its order."""

    def evaluate_result(w):  # the objective's: another key in the result is a TypeError there too
        assert w.shape == (100,)
        return np.count_nonzero(w)

    solver = load_benchopt_solver(monkeypatch).Solver()
    solver.method, solver.noise_share = method, 0.1
    Phi = ms.dictionaries.gaussian(40, 100, rng=0)
    X, Y = ms.signals.sample(Phi, 1, sparsity=5, snr_db=20, rng=1)
    solver.set_objective(X=Phi, y=Y[0])
    solver.warm_up()
    counts = []
    for share in [*solver.stopping_criterion.grid, 0.05]:
        solver.run(share)
        counts.append(evaluate_result(**solver.get_result()))
    assert counts == [*np.floor(100 * solver.stopping_criterion.grid), 5]
    assert ((solver.get_result()["w"] != 0) == (X[0] != 0)).all()


def test_benchopt_solver_loads_where_maxsparse_is_missing(monkeypatch):
    """benchopt reads from the class what to install; a file that raises has none."""
    monkeypatch.setitem(sys.modules, "maxsparse", None)
    module = load_benchopt_solver(monkeypatch)
    assert module.import_ctx.failed_import
    assert module.Solver.requirements == ["pip:maxsparse"]
