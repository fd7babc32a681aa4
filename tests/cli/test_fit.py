"""``maxsparse fit`` as a user meets it: alone, interrupted, resumed, and with two processes."""

import json
import os
import re
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import maxsparse as ms
from maxsparse import cli, networks
from maxsparse.cli import app
from maxsparse.learned_sbl.tasks import DictionariesTask
from maxsparse.training import checkpoint_path
from maxsparse.training import run as run_module

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
FIT = ["-m", "maxsparse", "fit"]


@pytest.fixture
def Phi(tmp_path):
    np.save(tmp_path / "Phi.npy", ms.dictionaries.gaussian(8, 16, rng=0))
    return str(tmp_path / "Phi.npy")


def run(*arguments, command=(sys.executable, *FIT)):
    return subprocess.run([*command, *arguments], capture_output=True, text=True, env=ONE_THREAD, timeout=300)


def small(output, *more):
    options = ["--sparsity", "1:3", "--batch-size", "64", "--set", "width=16", "--set", "depth=4"]
    return ["-o", str(output), "--network", "residual", *options, "--threads", "1", *more]


def test_fit_writes_a_model(Phi, tmp_path, command):
    done = command("fit", Phi, *small(tmp_path / "m.safetensors", "--samples", "6400"))
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"signals  loss .* s-acc .* l-acc", done.stdout)) == 20
    model = networks.load(tmp_path / "m.safetensors")
    assert model.network.hyperparameters["width"] == 16
    assert model.about["task"]["sparsity"] == [1, 3]
    np.testing.assert_array_equal(model.arrays["Phi"], np.load(Phi))
    assert not checkpoint_path(tmp_path / "m.safetensors").exists()


def test_ctrl_c_says_how_to_resume_and_the_result_is_the_same(Phi, tmp_path):
    whole, stopped = tmp_path / "whole.safetensors", tmp_path / "stopped.safetensors"
    budget = ["--samples", "19200"]
    assert run(Phi, *small(whole, *budget)).returncode == 0
    process = subprocess.Popen(
        [sys.executable, *FIT, Phi, *small(stopped, *budget)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ONE_THREAD,
    )
    for _ in range(3):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert "Traceback" not in errors
    command = re.search(r"To resume: maxsparse (.*)", errors).group(1).split()
    refused = run(Phi, *small(stopped, *budget))
    assert refused.returncode == 1
    assert "an unfinished run is in" in refused.stderr
    assert run(*command[1:]).returncode == 0
    first, second = networks.load(whole), networks.load(stopped)
    for key, value in first.network.state_dict().items():
        assert torch.equal(value, second.network.state_dict()[key]), key
    assert first.about["report"]["history"] == second.about["report"]["history"]


@pytest.mark.parametrize("network", ["learned_sbl", "residual"])
def test_a_finished_model_is_not_overwritten_unless_forced(network, Phi, tmp_path, command):
    output = tmp_path / "m.safetensors"
    budget = [] if network == "learned_sbl" else ["--samples", "64"]
    arguments = [Phi, "-o", str(output)] if network == "learned_sbl" else [Phi, *small(str(output), *budget)]
    assert command("fit", *arguments).returncode == 0
    before = output.read_bytes()
    refused = command("fit", *arguments, "--seed", "1")
    assert refused.returncode == 1
    assert "already exists; choose another name, or replace it with" in refused.stderr
    assert "--force" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert output.read_bytes() == before
    assert command("fit", *arguments, "--seed", "1", "--force").returncode == 0
    assert output.read_bytes() != before


def test_another_number_of_threads_is_told_in_a_line(Phi, tmp_path, monkeypatch, capsys):
    output = str(tmp_path / "m.safetensors")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main() sets its own, and a handler
    monkeypatch.setattr(cli, "_note_interrupts", list)
    step = run_module.Run.step

    def interrupted(self, *arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return step(self, *arguments)

    ends = []
    for arguments in ([Phi, *small(output, "--samples", "128")], ["--resume", "-o", output, "--threads", "2"]):
        monkeypatch.setattr(sys, "argv", ["maxsparse", "fit", *arguments])
        monkeypatch.setattr(run_module.Run, "step", step if ends else interrupted)
        with pytest.raises(SystemExit) as end:
            cli.main()
        ends.append(end.value.code)
    assert ends == [1, 0]
    told = [line for line in capsys.readouterr().err.splitlines() if "threads was" in line]
    assert len(told) == 1
    assert told[0].startswith("maxsparse: warning: the number of threads was 1 when the run stopped, and is 2 now")


def test_ctrl_c_while_tuning_keeps_what_was_learned(Phi, tmp_path, monkeypatch):
    step = run_module.Run.step

    def interrupted(self, *arguments):
        if self.report.batches == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, *arguments)

    monkeypatch.setattr(run_module.Run, "step", interrupted)
    output = tmp_path / "tuned.safetensors"
    done = CliRunner().invoke(app, ["fit", Phi, "-o", str(output), "--minutes", "10"])
    assert done.exit_code == 1
    assert re.search(r"tuning stopped after 0\.\d of 10 minutes; .* has the weights so far", done.output)
    bundled, tuned = ms.SparseRecoverer(np.load(Phi))._weights(), ms.load(output).weights_
    assert not np.array_equal(tuned.first, bundled.first)


def test_tuning_ends_where_gradients_are_never_finite(Phi, tmp_path, monkeypatch):
    loss = DictionariesTask.loss

    def steep(self, network, *batch):
        """Add nothing, whose gradient is NaN."""
        return loss(self, network, *batch) + (0.0 * network.log_lambda[0]).sqrt()

    monkeypatch.setattr(DictionariesTask, "loss", steep)
    monkeypatch.setattr(run_module, "MOST_SKIPPED", 3)
    done = CliRunner().invoke(app, ["fit", Phi, "-o", str(tmp_path / "tuned.safetensors"), "--minutes", "10"])
    assert done.exit_code == 1
    assert "not finite 3 times in a row; nothing was written" in done.output
    assert not (tmp_path / "tuned.safetensors").exists()


@pytest.mark.long
def test_two_processes_learn_what_one_learns(Phi, tmp_path):
    """The same global batch shared by two gloo processes gives the same loss curve, within rounding."""
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *FIT)
    # Plain gradient descent: what it amplifies of the rounding is bounded, Adam's first steps are not.
    budget = ["--samples", "3200", "--preset", "paper", "--set-size", "1000"]
    one = run(Phi, *small(tmp_path / "one.safetensors", *budget))
    two = run(Phi, *small(tmp_path / "two.safetensors", *budget), command=torchrun)
    assert one.returncode == 0, one.stderr
    assert two.returncode == 0, two.stderr
    assert two.stdout.count("two.safetensors:") == 1  # the first process alone speaks
    models = [networks.load(tmp_path / f"{name}.safetensors") for name in ("one", "two")]
    losses = [[entry["loss"] for entry in model.about["report"]["history"]] for model in models]
    assert len(losses[0]) == 50
    assert losses[0][-1] < 0.9 * losses[0][0]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "is missing; give a dictionary"),
        (["PHI", "--network", "residual", "--preset", "nonsense"], "must be one of paper"),
        (["PHI", "--network", "residual", "--set", "width"], "is not NAME=VALUE"),
        (["PHI", "--network", "nonsense"], "there is no network 'nonsense'. Available: learned_sbl, residual"),
        (["PHI", "--network", "residual", "--sparsity", "a:b"], "neither a number nor LOW:HIGH"),
        (["PHI", "--resume"], "value for PHI: is already in the checkpoint"),
        (["--resume", "--samples", "9"], "value for --samples: is already in the checkpoint"),
        (["PHI", "--samples", "9"], "value for --samples: is only for the networks of the paper"),
        (["PHI", "--set", "width=9"], "value for --set: is only for the networks of the paper"),
        (["PHI", "--threads", "0"], "--threads"),
    ],
)
def test_bad_use_is_exit_code_2(Phi, tmp_path, arguments, message):
    arguments = [Phi if argument == "PHI" else argument for argument in arguments]
    done = CliRunner().invoke(app, ["fit", *arguments, "-o", str(tmp_path / "m.safetensors")])
    assert done.exit_code == 2, done.output
    assert message in " ".join(re.sub("[│╭╰─╮╯]", " ", done.output).split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["PHI", "--network", "residual", "--samples", "9", "--sparsity", "0"], "sparsity must be at least 1"),
        (["PHI", "--network", "residual", "--set", "widht=3"], "no option 'widht'; did you mean 'width'?"),
        (["PHI", "--network", "residual", "--set", "rng=3"], "no option 'rng'"),
        (["PHI", "--network", "residual", "--sparsity", "5:99"], "sparsity"),
        (["PHI", "--network", "residual"], "set the training budget"),
        (["PHI", "--network", "residual", "--samples", "9", "--snr-db", "-5000"], "snr_db must be from -1000.0 to"),
        (["PHI", "--network", "residual", "--samples", "9", "--batch-size", "9999999"], "batch_size must be from 2 to"),
        (["PHI", "--network", "residual", "--samples", "9", "--device", "meta"], "device 'meta' cannot be used"),
        (["PHI", "--network", "residual", "--samples", "9", "--set", "sigma=wide"], "sigma must be a finite number"),
        (["missing.npy"], "is not a file"),
        (["PHI", "-o", "nowhere/m.safetensors"], "folder 'nowhere' does not exist"),
        (["--resume"], "there is no checkpoint"),
    ],
)
def test_bad_input_is_an_error_that_main_prints(Phi, tmp_path, arguments, message):
    arguments = [Phi if argument == "PHI" else argument for argument in arguments]
    done = CliRunner().invoke(app, ["fit", "-o", str(tmp_path / "m.safetensors"), *arguments])
    assert isinstance(done.exception, ValueError | OSError)
    assert message in str(done.exception)


def test_divergence_is_exit_code_1_without_a_traceback(Phi, tmp_path, command):
    done = command(
        "fit",
        Phi,
        *small(
            tmp_path / "m.safetensors",
            "--samples",
            "6400",
            "--preset",
            "paper",
            "--set-size",
            "1000",
            "--learning-rate",
            "1e12",
        ),
    )
    assert done.returncode == 1
    assert "maxsparse: training diverged" in done.stderr
    assert "Traceback" not in done.stderr
    weights = networks.load(tmp_path / "m.safetensors").network.state_dict().values()
    assert all(torch.isfinite(value).all() for value in weights)


def test_help_has_an_example():
    assert "Example: maxsparse fit" in CliRunner().invoke(app, ["fit", "--help"]).output


def test_hyperparameters_are_stored_as_given(Phi, tmp_path, command):
    options = ["--network", "lstm", "--set", "hidden=4", "--set", "cell=gru", "--set", "feedback=true"]
    done = command("fit", Phi, "-o", str(tmp_path / "m.safetensors"), *options, "--samples", "512", "--threads", "1")
    assert done.returncode == 0, done.stderr
    stored = networks.load(tmp_path / "m.safetensors").network.hyperparameters
    assert json.loads(json.dumps(stored)) == stored
    assert (stored["hidden"], stored["cell"], stored["feedback"]) == (4, "gru", True)


def test_the_bundled_network_is_tuned(Phi, tmp_path):
    path = tmp_path / "m.safetensors"
    done = CliRunner().invoke(app, ["fit", Phi, "-o", str(path), "--minutes", "0.02"])
    assert done.exit_code == 0, done.output
    model = ms.load(path)
    np.testing.assert_array_equal(model.Phi, np.load(Phi))
    from maxsparse.learned_sbl import bundled_weights

    assert not np.array_equal(model.weights_.first, bundled_weights().first)


def test_without_a_budget_the_model_is_the_bundled_network(Phi, tmp_path):
    path = tmp_path / "m.safetensors"
    done = CliRunner().invoke(app, ["fit", Phi, "-o", str(path), "--noise", "0.01", "--json"])
    assert json.loads(done.output) == {"output": str(path), "network": "learned_sbl", "minutes": 0.0}
    _, Y = ms.signals.sample(np.load(Phi), 5, sparsity=2, rng=1)
    expected = ms.SparseRecoverer(np.load(Phi), noise=0.01).recover(Y)
    np.testing.assert_array_equal(ms.load(path).recover(Y).coef, expected.coef)


def test_an_output_that_nothing_could_read_again_is_refused(Phi, tmp_path):
    done = CliRunner().invoke(app, ["fit", Phi, "-o", str(tmp_path / "model.onnx")])
    assert done.exit_code == 2
    assert "does not end in .safetensors" in " ".join(re.sub("[│╭╰─╮╯]", " ", done.output).split())


def test_figures_as_json(Phi, tmp_path):
    options = small(tmp_path / "m.safetensors", "--samples", "640", "--json")
    done = CliRunner().invoke(app, ["fit", Phi, *options])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["samples"] == 640
