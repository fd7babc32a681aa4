"""``recover``, ``solve`` and ``info`` as a user meets them."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse
from typer.testing import CliRunner

import maxsparse as ms
from maxsparse.cli import app

COMMAND = [sys.executable, "-m", "maxsparse"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Go to a folder with Phi.npy (12, 30), X.npy and Y.npy of 200 signals."""
    monkeypatch.chdir(tmp_path)
    Phi = ms.dictionaries.decaying(12, 30, rng=0)
    X, Y = ms.signals.sample(Phi, 200, sparsity=(1, 4), rng=1)
    np.save("Phi.npy", Phi)
    np.save("X.npy", X)
    np.save("Y.npy", Y)
    return tmp_path


def invoke(*arguments, **more):
    return CliRunner().invoke(app, arguments, **more)


def text(done):
    """Return what was said, without the frames that rich draws."""
    return " ".join("".join(" " if c in "│╭╰─╮╯" else c for c in done.output).split())


def test_recover_writes_certified_answers(files):
    done = invoke("recover", "Phi.npy", "Y.npy", "-o", "out.npz", "--json", "--budget", "300")
    assert done.exit_code == 0, done.output
    figures = json.loads(done.output)
    X, certified = np.load("X.npy"), np.load("out.npz")["certified"]
    right = ((scipy.sparse.load_npz("out.npz").toarray() != 0) == (X != 0)).all(axis=1)
    assert figures["certified"] == certified.sum() > 180
    assert not (certified & ~right).any()
    assert sum(figures["nonzeros"].values()) == figures["signals"] == 200


def test_recover_takes_models_of_both_kinds(files):
    Phi, Y = np.load("Phi.npy"), np.load("Y.npy")
    ms.SparseRecoverer(Phi, budget=0).save("recoverer.safetensors")
    network = ms.networks.build("residual", Phi, width=16, depth=4, rng=0)
    ms.networks.save(network, "network.safetensors", arrays={"Phi": Phi})
    ms.networks.save(network, "bare.safetensors")
    for name in ("recoverer", "network"):
        assert (
            invoke(
                "recover", f"{name}.safetensors", "Y.npy", "-o", f"{name}.npy", "--no-easy-first", "--budget", "0"
            ).exit_code
            == 0
        )
        assert np.load(f"{name}.npy").shape == (200, 30)
    np.testing.assert_array_equal(
        np.load("recoverer.npy"), ms.SparseRecoverer(Phi, budget=0).recover(Y, easy_first=False).coef
    )
    expected = ms.SparseRecoverer(Phi, network=network, budget=0).recover(Y, easy_first=False).coef
    np.testing.assert_array_equal(np.load("network.npy"), expected)
    done = invoke("recover", "bare.safetensors", "Y.npy", "-o", "out.npz")
    assert "without its dictionary" in str(done.exception)


def test_solve_is_solve(files):
    done = invoke(
        "solve",
        "Phi.npy",
        "Y.npy",
        "-o",
        "out.npy",
        "--method",
        "iht",
        "--sparsity",
        "2",
        "--whiten",
        "--set",
        "max_iter=7",
    )
    assert done.exit_code == 0, done.output
    expected = ms.solve(np.load("Phi.npy"), np.load("Y.npy"), "iht", sparsity=2, precondition=True, max_iter=7)
    np.testing.assert_array_equal(np.load("out.npy"), expected.coef)


@pytest.mark.parametrize("piped", ["npy", "csv"])
def test_pipes(files, piped):
    Y = np.load("Y.npy")
    content = io.BytesIO()
    if piped == "npy":
        np.save(content, Y)
    else:
        np.savetxt(content, Y, delimiter=",", fmt="%.17g")
    command = [*COMMAND, "solve", "Phi.npy", "-", "-o", "-", "--method", "omp", "--sparsity", "3"]
    done = subprocess.run(command, input=content.getvalue(), capture_output=True)
    assert done.returncode == 0, done.stderr
    told = done.stderr.decode()  # the summary goes to standard error, whoever reads it
    assert re.match(rf"-\n  {len(Y)} signals × \d+ atoms in .* per second\n  converged: ", told)
    found = np.loadtxt(io.BytesIO(done.stdout), delimiter=",")
    np.testing.assert_array_equal(found, ms.solve(np.load("Phi.npy"), Y, "omp", sparsity=3).coef)
    assert sorted(os.listdir()) == ["Phi.npy", "X.npy", "Y.npy"]


def test_a_pipe_that_fails_leaves_nothing_behind(files):
    """What came through a pipe cannot be read again, so that finished chunks are of no use."""
    Y, content = np.tile(np.load("Y.npy"), (10, 1)), io.BytesIO()
    Y[-1, 0] = np.nan
    np.save(content, Y)
    command = [
        *COMMAND,
        "solve",
        "Phi.npy",
        "-",
        "-o",
        "out.npz",
        "--method",
        "omp",
        "--sparsity",
        "3",
        "--chunk",
        "20",
    ]
    done = subprocess.run(command, input=content.getvalue(), capture_output=True)
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr
    assert sorted(os.listdir()) == ["Phi.npy", "X.npy", "Y.npy"]


def test_kill_9_and_the_same_command_again(files):
    """The output is the same to the last byte, and no finished chunk is done twice."""
    Phi = np.load("Phi.npy")
    np.save("many.npy", ms.signals.sample(Phi, 4000, sparsity=(1, 4), rng=3)[1])
    command = ["recover", "Phi.npy", "many.npy", "--chunk", "40", "--budget", "0", "--json"]
    process = subprocess.Popen([*COMMAND, *command, "-o", "killed.npz"], stdout=subprocess.DEVNULL)
    parts = files / "killed.npz.parts"
    deadline = time.monotonic() + 240
    while len(list(parts.glob("0*.npz"))) < 3:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = {path.name: path.stat().st_mtime_ns for path in parts.glob("0*.npz")}
    assert 3 <= len(done) < 100
    assert not (files / "killed.npz").exists()
    figures = json.loads(invoke(*command, "-o", "killed.npz").output)
    assert figures["resumed"] == 40 * len(done)
    assert invoke(*command, "-o", "whole.npz").exit_code == 0
    assert (files / "killed.npz").read_bytes() == (files / "whole.npz").read_bytes()
    assert not parts.exists()


def test_info_of_a_dictionary_and_of_models(files):
    done = invoke("info", "Phi.npy", "--signals", "20")
    assert done.exit_code == 0, done.output
    assert "12 measurements × 30 atoms" in done.output
    assert "1 nonzeros: 100% of 20 right, 100% certified" in done.output
    figures = json.loads(invoke("info", "Phi.npy", "--signals", "0", "--json").output)
    assert figures["coherence"] == pytest.approx(ms.theory.coherence(np.load("Phi.npy")))
    assert figures["kind"] == "dictionary"
    ms.SparseRecoverer(np.load("Phi.npy"), budget="fast").save("m.safetensors")
    figures = json.loads(invoke("info", "m.safetensors", "--signals", "0", "--json").output)
    assert (figures["kind"], figures["budget"], figures["shape"]) == ("model", "fast", [12, 30])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recover", "Phi.npy"], "Missing argument 'Y'"),
        (["recover", "Phi.npy", "Y.npy"], "Missing option"),
        (
            ["solve", "Phi.npy", "Y.npy", "-o", "o.npz", "--method", "magic"],
            "there is no method 'magic'. Available: omp",
        ),
        (["solve", "Phi.npy", "Y.npy", "-o", "o.npz", "--set", "x"], "is not NAME=VALUE"),
        (["recover", "Phi.npy", "Y.npy", "-o", "-", "--json"], "cannot be combined with answers on standard output"),
        (["recover", "Phi.npy", "Y.npy", "-o", "-", "--format", "zarr"], "cannot be written to standard output"),
        (["recover", "Phi.npy", "Y.npy", "-o", "o.npz", "--format", "npy"], "the suffix of a file sets its format"),
        (["recover", "Phi.npy", "Y.npy", "-o", "o.npz", "--chunk", "0"], "--chunk"),
        (["recover", "Phi.npy", "Y.npy", "-o", "o.npz", "--budget", "much"], "--budget: budget must be a number of"),
        (["recover", "Phi.npy", "Y.npy", "-o", "o.npz", "--budget", "-3"], "--budget: budget must be a number of"),
    ],
)
def test_bad_use_is_exit_code_2(files, arguments, message):
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert message in text(done)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recover", "missing.npy", "Y.npy", "-o", "o.npz"], "is not a file"),
        (["recover", "Phi.npy", "missing.npy", "-o", "o.npz"], "is not a file"),
        (["recover", "Phi.npy", "Y.txt", "-o", "o.npz"], "unknown suffix '.txt'"),
        (["recover", "Y.npy", "Phi.npy", "-o", "o.npz"], "has shape"),
        (["recover", "Phi.npy", "Y.npy", "-o", "no/o.npz"], "does not exist; create it first"),
        (["recover", "bad.safetensors", "Y.npy", "-o", "o.npz"], "cannot read 'bad.safetensors'"),
        (["recover", "Phi.npy", "huge.npy", "-o", "o.npz"], "more than the"),
        (["solve", "Phi.npy", "Y.npy", "-o", "o.npz", "--method", "iht"], "sparsity is missing"),
        (["info", "empty.csv"], "is empty"),
        (["info", "two.npz"], "several arrays (a, b); select one with key= (--key"),
        (["recover", "Phi.npy", "turned.npy", "-o", "o.npz"], "fits transposed; pass its transpose"),
        (["recover", "Phi.npy", "one.npy", "-o", "o.npz"], "for a single row pass an array of one row"),
    ],
)
def test_bad_input_is_an_error_that_main_prints(files, arguments, message):
    (files / "bad.safetensors").write_bytes(b"nonsense")
    (files / "empty.csv").write_text("")
    Y = np.load("Y.npy")
    np.savez("two.npz", a=Y, b=Y)
    np.save("turned.npy", Y.T)
    np.save("one.npy", Y[0])
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 12), }".ljust(117) + b"\n"
    (files / "huge.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    done = invoke(*arguments)
    assert isinstance(done.exception, ValueError | OSError), done.output
    assert message in str(done.exception)
    assert not (files / "o.npz").exists()


def test_bad_input_is_exit_code_1_in_one_line(files):
    np.save("zeros.npy", np.zeros((12, 30)))
    done = subprocess.run([*COMMAND, "recover", "zeros.npy", "Y.npy", "-o", "o.npz"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("maxsparse: the dictionary in 'zeros.npy' has zero atoms")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_run_that_failed_at_once_leaves_nothing_in_the_way(files):
    Y = np.load("Y.npy")
    Y[7, 3] = np.nan
    np.save("bad.npy", Y)
    command = ["solve", "Phi.npy", "bad.npy", "-o", "o.npz", "--method", "omp"]
    assert "NaN at row 7, column 3" in str(invoke(*command).exception)
    assert not (files / "o.npz.parts").exists()
    np.save("bad.npy", np.load("Y.npy"))
    assert invoke(*command).exit_code == 0


def test_errors_of_the_system_name_the_file(files):
    (files / "folder.npy").mkdir()
    done = subprocess.run([*COMMAND, "info", "Phi.npy/x.npy"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Phi.npy/x.npy" in done.stderr
    assert "Errno" not in done.stderr


def test_help_loses_no_words():
    """What looks like markup (a default in brackets, an extra) is shown, and the program is called by its name."""
    shown = " ".join(invoke("export", "--help").output.split())
    assert "(default: MODEL with .onnx)" in shown
    assert "Needs the extra export." in shown
    done = subprocess.run([*COMMAND, "solve", "--help"], capture_output=True, text=True)
    assert "Usage: maxsparse solve" in done.stdout


def test_completion_knows_commands_and_methods():
    def complete(words):
        env = os.environ | {
            "_MAXSPARSE_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        return subprocess.run(COMMAND, capture_output=True, text=True, env=env).stdout.split()

    assert set(complete("maxsparse re")) == {"recover", "reproduce"}
    assert set(complete("maxsparse solve --method subs")) == {"subspace_pursuit"}


def test_atoms_of_very_different_lengths_and_answers_without_confidence_are_warned_about(command, tmp_path):
    Phi = ms.dictionaries.gaussian(10, 30, rng=0)
    rng = np.random.default_rng(1)
    np.save(tmp_path / "Y.npy", rng.standard_normal((5, 10)))  # nothing sparse explains these
    np.save(tmp_path / "Phi.npy", Phi)
    done = command("recover", tmp_path / "Phi.npy", tmp_path / "Y.npy", "-o", tmp_path / "X.npz", "--budget", "fast")
    assert done.returncode == 0
    assert " of 5 answers are more likely wrong than right" in done.stderr
    assert "mean confidence: 0." in done.stderr
    assert "lengths" not in done.stderr
    np.save(tmp_path / "Phi.npy", Phi * np.where(np.arange(30) == 7, 1e-3, 1.0))
    done = command("recover", tmp_path / "Phi.npy", tmp_path / "Y.npy", "-o", tmp_path / "X.npz", "--budget", "fast")
    assert done.stderr.count("warning: atoms have lengths from 0.001 to 1") == 1
