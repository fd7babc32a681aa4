"""``maxsparse reproduce`` as a user meets it: lists, errors, Ctrl-C, and plug-ins from outside the package."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import typer

from maxsparse.cli.reproduce import _outlier_law

PLUG_IN = """
import time
from maxsparse.experiments import Method

def recover(problem, Y):
    time.sleep(float({delay}))
    return abs(Y @ problem.Phi)

mine = Method("mine", "My method", recover)
broken = 3
"""
NETWORK = """
from maxsparse import networks
from maxsparse.experiments import Method, Recipe, current_store
from torch import nn

class Linear(networks.SignalNetwork):
    def __init__(self, *, n, m, whiten=True, output="logits"):
        super().__init__(n=n, m=m, whiten=whiten, output=output)
        self.layer = nn.Linear(n, m)

    def respond(self, inputs):
        return self.layer(inputs)

networks.register("linear", Linear)

def recipe(training):
    return Recipe("linear", training.n, training.m, training.seed, samples=1000, sparsity=training.sparsities)

def recover(problem, Y):
    return current_store().network(recipe(problem.training)).scores(Y)

mine = Method("my-net", "My network", recover, lambda problem: problem.training is not None, recipe)
"""


def test_the_law_of_outliers_is_for_stereo():
    law = _outlier_law("stereo", "1:3", 0.5, None)
    assert law == {"network": {"outliers": [1, 3], "mean": 0.5}}
    assert _outlier_law("basic", None, None, None) is None
    with pytest.raises(typer.BadParameter, match="is for the experiment stereo, not for basic"):
        _outlier_law("basic", None, 0.5, None)
    with pytest.raises(typer.BadParameter, match="'1-3' is neither a number nor LOW:HIGH"):
        _outlier_law("stereo", "1-3", None, None)


def process(*arguments):
    return [sys.executable, "-m", "maxsparse", "reproduce", *map(str, arguments)]


def run(*arguments, env=None):
    return subprocess.run(process(*arguments), capture_output=True, text=True, env=env)


@pytest.fixture
def plug_in(tmp_path):
    """Write a package with an entry point, as pip would install it, and return the environment that finds it."""

    def write(name="mine", delay=0.0, code=PLUG_IN):
        site = tmp_path / "site"
        info = site / "my_plug_in-1.0.dist-info"
        info.mkdir(parents=True)
        (site / "my_plug_in.py").write_text(code.replace("{delay}", str(delay)))
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-plug-in\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[maxsparse.experiments]\nmine = my_plug_in:{name}\n")
        path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
        return {**os.environ, "PYTHONPATH": path}

    return write


def test_list(command):
    done = command("reproduce", "--list")
    assert done.returncode == 0
    for name in ("rank-one", "rip", "clustered", "smoke", "laptop", "paper"):
        assert name in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "is missing; name an experiment"),
        (["rank-on"], "did you mean 'rank-one'"),
        (["rank-one", "--preset", "huge"], "'huge' is not one of smoke"),
        (["rank-one", "--methods", "nonsense"], "there is no method 'nonsense'. Available: iht"),
        (["rank-one", "--methods", ","], "name at least one method"),
        (["rank-one", "--jobs", "0"], "--jobs"),
        (["rank-one", "--seeds", "0;1"], "'0;1' is not a list of numbers like 0,1,2"),
    ],
)
def test_bad_use_is_exit_code_2(arguments, message, tmp_path, command):
    done = command("reproduce", *arguments, *(["-o", tmp_path] if arguments else []))
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_exit_code_1(tmp_path, command):
    (tmp_path / "file").write_text("")
    done = command("reproduce", "rank-one", "--preset", "smoke", "-o", tmp_path / "file" / "sub")
    assert done.returncode == 1
    assert done.stderr.startswith("maxsparse: ")
    assert "file" in done.stderr
    assert "Traceback" not in done.stderr


def test_methods_for_an_experiment_without_any(tmp_path, command):
    done = command("reproduce", "rip", "--preset", "smoke", "--methods", "iht", "-o", tmp_path)
    assert done.returncode == 1
    assert "compares no methods" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_method_joins_through_an_entry_point(tmp_path, plug_in):
    command = ["rank-one", "--preset", "smoke", "--methods", "iht,mine", "-o", tmp_path / "out"]
    env = plug_in()
    done = run(*command, env=env)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "out" / "smoke" / "rank-one"
    results = json.loads((folder / "results.json").read_text())
    assert results["command"] == "maxsparse reproduce rank-one --preset smoke --methods iht,mine"
    assert [row[0] for row in results["tables"][0]["rows"]] == ["IHT", "My method", "IHT on A with one row less"]
    assert str(folder / "index.html") in done.stdout
    again = json.loads(run(*command, "--json", env=env).stdout)
    (figures,) = again["experiments"]
    assert figures["resumed"] == figures["tasks"]
    assert [row["verdict"] for row in figures["claims"]] == [row["verdict"] for row in results["claims"]]


def test_a_network_joins_through_an_entry_point_and_is_known_to_every_process(tmp_path, plug_in):
    env = plug_in(code=NETWORK)
    done = run("basic", "--preset", "smoke", "--methods", "my-net", "--jobs", 2, "-o", tmp_path / "out", env=env)
    assert done.returncode == 0, done.stderr
    (trained,) = (tmp_path / "out" / ".networks").glob("linear-*.safetensors")
    assert trained.stat().st_size > 0
    # A worker of a cluster, which knows nothing but what it is sent.
    worker = (
        "from maxsparse.experiments import Recipe, workers\n"
        "print(len(workers._train_away(Recipe('linear', 8, 16, 0, samples=1000, sparsity=(1, 2)), 'cpu')))"
    )
    done = subprocess.run([sys.executable, "-c", worker], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


def test_a_broken_plug_in_is_named(plug_in):
    done = run("--list", env=plug_in("broken"))
    assert done.returncode == 1
    assert "the plug-in 'mine' (my_plug_in:broken) cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_leaves_a_run_that_resumes(tmp_path, plug_in, jobs):
    env = plug_in(delay=2.0)
    arguments = ("rank-one", "--preset", "smoke", "--methods", "mine", "--jobs", jobs, "-o", tmp_path / "out")
    journal = tmp_path / "out" / "smoke" / "rank-one" / ".journal.jsonl"
    # A session of its own, like a terminal's: Ctrl-C reaches the workers as well.
    running = subprocess.Popen(
        process(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background shell has it ignored
    )
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and not (journal.exists() and journal.read_text()):
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "interrupted after " in errors
    assert " of 6 tasks; the same command resumes the remaining tasks" in errors
    assert "Traceback" not in errors
    done = len(journal.read_text().splitlines())
    assert 1 <= done < 6
    again = run(*arguments, env=env)
    assert again.returncode == 0, again.stderr
    assert f"{done} of them from an earlier run" in again.stdout
    assert not journal.exists()
