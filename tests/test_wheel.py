"""The wheel in an environment that holds it and its declared dependencies alone: no torch, no extras."""

import os
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import maxsparse

ROOT = Path(__file__).parents[1]
ALONE = """
import importlib.util, sys
import numpy as np
import maxsparse as ms

assert ms.__file__.startswith(sys.prefix), ms.__file__
for extra in ("torch", "onnx", "cv2", "dask", "pyarrow", "pandas"):
    assert importlib.util.find_spec(extra) is None, extra
Phi = ms.dictionaries.decaying(12, 30, rng=0)
X, Y = ms.signals.sample(Phi, 40, sparsity=3, rng=1)
"""
TRAIN = """
try:
    ms.SparseRecoverer(Phi, network="residual").fit(samples=100)
except ImportError as error:
    assert "pip install 'maxsparse[train]'" in str(error), error
else:
    raise AssertionError("trained without torch")
"""
USE = """
result = ms.SparseRecoverer(Phi).recover(Y)
assert result.certified.mean() > 0.9
np.testing.assert_array_equal(result.support[result.certified], (X != 0)[result.certified])
np.testing.assert_array_equal(ms.recovery.certify(Phi, Y, X).certified[result.certified], True)

lights = ms.stereo.hemisphere_lights(12, lowest=0.4, rng=3)
y, x = np.mgrid[1:-1:16j, -1:1:16j]
inside = x**2 + y**2 < 0.7
truth = np.where(inside[..., None], np.dstack([x, y, np.sqrt(np.maximum(1 - x**2 - y**2, 0))]), 0)
images = np.maximum(np.einsum("hwi,qi->qhw", truth, lights), 0)
images[2, 6:10, 6:10] += 0.7
found = ms.stereo.estimate_normals(ms.stereo.make_scene(images, lights, mask=inside), "auto")
assert np.degrees(ms.metrics.angular_error(found.normals[inside], truth[inside])).mean() < 3.0
np.save("Phi.npy", Phi)
np.save("Y.npy", Y)
"""


def declared(name, seen):
    """Collect the distributions that `name` needs, itself included, extras left out."""
    found = distribution(name)
    if found.metadata["Name"].lower() in seen:
        return
    seen[found.metadata["Name"].lower()] = found
    for line in found.requires or []:
        needed = Requirement(line)
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            declared(needed.name, seen)


def show(found, site):
    """Link what a distribution installed into another environment."""
    for top in {path.parts[0] for path in found.files if path.parts[0] not in ("..", "__pycache__")}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(found.locate_file(top)))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Build the wheel, install it into an empty environment and return that environment's folder of programs."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run(build, check=True, timeout=300)
    (wheel,) = folder.glob("maxsparse-*.whl")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([*pip, "--python", str(python), "install", "-q", "--no-deps", str(wheel)], check=True, timeout=300)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (info,) = site.glob("maxsparse-*.dist-info")
    seen = {}
    for line in (info / "METADATA").read_text(encoding="utf-8").splitlines():
        if line.startswith("Requires-Dist:"):
            needed = Requirement(line.removeprefix("Requires-Dist:"))
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                declared(needed.name, seen)
    assert "numba" in seen
    assert "torch" not in seen
    for found in seen.values():
        show(found, site)
    return python.parent


@pytest.fixture
def run(installed, tmp_path):
    """Return a function that runs a program of that environment, away from this one."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(program, *arguments):
        command = [installed / program, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_wheel_needs_what_it_declares_and_nothing_else(run):
    run("python", "-I", "-c", ALONE + TRAIN)
    assert run("maxsparse", "--version") == f"maxsparse {maxsparse.__version__}\n"
    for command in ("demo", "recover", "solve", "info", "bench", "fit", "export", "reproduce", "stereo"):
        assert command in run("maxsparse", command, "--help")


@pytest.mark.long
def test_the_wheel_recovers_certifies_and_does_stereo_without_torch(run, tmp_path):
    run("python", "-I", "-c", ALONE + USE)
    run("maxsparse", "recover", "Phi.npy", "Y.npy", "-o", "X.npz")
    assert (tmp_path / "X.npz").is_file()
