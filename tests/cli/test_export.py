import json

import numpy as np
import pytest
from safetensors.numpy import save_file
from typer.testing import CliRunner

import maxsparse as ms
from maxsparse.cli import app

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.safetensors"
    ms.SparseRecoverer(ms.dictionaries.gaussian(5, 10, rng=0)).save(path)
    return path


def test_writes_a_file_that_runs_and_prints_what_it_checked(model):
    done = CliRunner().invoke(app, ["export", str(model), "--json"])
    assert done.exit_code == 0, done.output
    figures = json.loads(done.output)
    assert figures["error"] < 1e-4
    assert figures["n"] == 5
    session = onnxruntime.InferenceSession(model.with_suffix(".onnx"))
    assert session.run(None, {"y": np.ones((3, 5))})[0].shape == (3, 10)
    text = CliRunner().invoke(app, ["export", str(model), "-o", str(model.parent / "other.onnx")]).output
    assert "learned_sbl" in text
    assert "agrees to" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "coreml"], "'coreml' is not one of onnx"),
        (["-o", "MODEL"], "would overwrite"),
        (["--what"], "No such option"),
    ],
)
def test_bad_use_is_exit_code_2(model, arguments, message):
    arguments = [str(model) if word == "MODEL" else word for word in arguments]
    done = CliRunner().invoke(app, ["export", str(model), *arguments])
    assert done.exit_code == 2
    assert message in done.output.replace("│", "").replace("\n", " ")


@pytest.mark.parametrize("header", ["[" * 100_000, "{", "NaN"])
def test_a_hostile_header_is_reported_in_a_line(header, tmp_path, command):
    path = tmp_path / "model.safetensors"
    save_file({"Phi": np.eye(2)}, path, metadata={"maxsparse": header})
    done = command("export", path)
    assert done.returncode == 1
    assert done.stderr.startswith("maxsparse: cannot read")
    assert done.stderr.count("\n") == 1


def test_a_dictionary_is_no_model(tmp_path):
    done = CliRunner().invoke(app, ["export", str(tmp_path / "Phi.npy")])
    assert done.exit_code == 2
    assert "maxsparse fit PHI -o MODEL" in " ".join(done.output.replace("│", "").split())
