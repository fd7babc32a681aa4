"""``maxsparse warm``: afterwards nothing is left to compile."""

import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from numba.core.event import RecordingListener, install_listener
from typer.testing import CliRunner

import maxsparse as ms
from maxsparse._core.registry import SOLVERS, STEREO
from maxsparse.cli import app

warm = importlib.import_module("maxsparse.cli.warm")  # the package has the command under this name


def test_calls_are_named():
    names = set(warm.jobs())
    assert {"recover", "recover, noise", "theory"} <= names
    assert {entry.name for entry in SOLVERS.entries() if not entry.outside} <= names
    assert {f"stereo, {entry.name}" for entry in STEREO.entries() if not entry.outside} - names == {"stereo, network"}
    assert not any(name.startswith("stereo") for name in warm.jobs(stereo=False))


@pytest.fixture
def few(monkeypatch):
    """Let the command compile what two calls need: all of it takes minutes where nothing is compiled yet."""
    jobs = warm.jobs
    monkeypatch.setattr(warm, "jobs", lambda stereo=True: {name: jobs()[name] for name in ("omp", "iht")})


def test_what_it_compiles_is_not_compiled_again(few):
    done = CliRunner().invoke(app, ["warm", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["calls"] == ["omp", "iht"]
    for dtype in (np.float64, np.float32):
        Phi = ms.dictionaries.gaussian(10, 20, rng=0).astype(dtype)
        Y = np.asfortranarray(ms.signals.sample(Phi, 5, sparsity=2, rng=1)[1].astype(dtype))
        Y.flags.writeable = False
        events = RecordingListener()
        with install_listener("numba:compile", events):
            ms.solvers.omp(Phi, Y, sparsity=2)
            ms.solvers.iht(Phi, Y, sparsity=2)
        assert events.buffer == []


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_ctrl_c_leaves_nothing_broken(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "maxsparse", "warm", "--no-stereo"]
    # A job in the background ignores SIGINT, and so would what it starts.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    running = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    while not list(tmp_path.rglob("*.nbc")):
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode in (1, 130)
    assert "Traceback" not in said
    call = "import maxsparse as ms; print(ms.solvers.omp([[1.0, 0.0], [0.0, 1.0]], [[0.0, 2.0]]).coef)"
    after = subprocess.run([sys.executable, "-c", call], env=environment, capture_output=True, text=True)
    assert after.stdout == "[[0. 2.]]\n", after.stderr
