"""Without an optional package: what does not need it runs, what does says what to install."""

import subprocess
import sys

import pytest

# Runs first in a process where a package is not installed, as far as Python can tell.
HIDE = """
import sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hide())
import numpy as np
import maxsparse as ms
Phi = ms.dictionaries.gaussian(6, 12, rng=0)
X, Y = ms.signals.sample(Phi, 20, sparsity=2, rng=1)
"""


def run_without(module, code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", HIDE.format(module=module) + code, *arguments], capture_output=True, text=True
    )


def last_line(module, code, *arguments):
    done = run_without(module, code, *arguments)
    assert done.returncode != 0, done.stdout
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "code",
    [
        "ms.networks",
        "ms.training",
        "ms.SparseRecoverer(Phi, network='residual').fit(samples=100)",
        "ms.SparseRecoverer(Phi).fit(minutes=0.01)",
        "ms.theory.minimise_rip(Phi, 2)",
        "ms.stereo.estimate_normals(ms.stereo.make_scene(np.ones((4, 2, 2)), np.eye(4, 3) + .5), minutes=0.01)",
    ],
)
def test_what_trains_says_how_to_install_torch(code):
    line = last_line("torch", code)
    assert line.startswith("ImportError: ")
    assert line.endswith("needs torch: pip install 'maxsparse[train]'")


def test_every_module_imports_without_torch_or_says_how_to_install_it():
    code = """
import importlib, pkgutil
for module in pkgutil.walk_packages(ms.__path__, "maxsparse.", onerror=lambda name: None):
    if module.name != "maxsparse.__main__":
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            print(module.name, error, sep=": ")
"""
    done = run_without("torch", code)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.strip().splitlines()
    assert {line.split(": ")[0] for line in lines} >= {"maxsparse.networks", "maxsparse.training"}
    assert [line for line in lines if not line.endswith("needs torch: pip install 'maxsparse[train]'")] == []


@pytest.mark.parametrize("options", [("--network", "residual", "--samples", "100"), ("--minutes", "0.01")])
def test_the_command_line_says_it_in_one_line(options, tmp_path):
    code = """
folder = sys.argv.pop(1)
np.save(folder + "/Phi.npy", Phi)
sys.argv[0:1] = ["maxsparse", "fit", folder + "/Phi.npy", "-o", folder + "/model.safetensors"]
import maxsparse.cli
maxsparse.cli.main()
"""
    done = run_without("torch", code, str(tmp_path), *options)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("needs torch: pip install 'maxsparse[train]'")
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_file_with_a_trained_network_says_it_too(tmp_path):
    import maxsparse as ms

    Phi = ms.dictionaries.gaussian(6, 12, rng=0)
    options = {"samples": 200, "hyperparameters": {"width": 8, "depth": 4}}
    ms.SparseRecoverer(Phi, network="residual").fit(**options).save(tmp_path / "model.safetensors")
    line = last_line("torch", f"ms.load({str(tmp_path / 'model.safetensors')!r})")
    assert line.endswith("needs torch: pip install 'maxsparse[train]'")


@pytest.mark.parametrize(
    ("module", "code", "message"),
    [
        (
            "onnx",
            "ms.export.to_onnx(ms.SparseRecoverer(Phi), 'x.onnx')",
            "export needs onnx: pip install 'maxsparse[export]'",
        ),
        (
            "pyarrow",
            "ms.dictionaries.load(sys.argv[1] + '/Phi.parquet')",
            "reading parquet needs pyarrow: pip install 'maxsparse[tables]'",
        ),
        (
            "zarr",
            "ms.dictionaries.load(sys.argv[1] + '/Phi.zarr')",
            "reading zarr folders needs zarr: pip install 'maxsparse[cluster]'",
        ),
        (
            "dask",
            "ms.distributed.recover(ms.SparseRecoverer(Phi), Y)",
            "recovering dask arrays needs dask: pip install 'maxsparse[cluster]'",
        ),
    ],
)
def test_the_other_extras_are_named_too(module, code, message, tmp_path):
    (tmp_path / "Phi.parquet").write_bytes(b"PAR1")
    (tmp_path / "Phi.zarr").mkdir()
    assert last_line(module, code, str(tmp_path)) == f"ImportError: {message}"


def test_export_of_the_bundled_network_needs_no_torch(tmp_path):
    pytest.importorskip("onnxruntime")
    code = f"print(ms.export.to_onnx(ms.SparseRecoverer(Phi), {str(tmp_path / 'm.onnx')!r}).error < 1e-4)"
    done = run_without("torch", code)
    assert done.stdout.strip() == "True", done.stderr
