"""A run that was killed and resumed ends with the bits of one that was not."""

import itertools
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import maxsparse as ms
from maxsparse import networks, training
from maxsparse.networks import storage
from maxsparse.training import loop
from maxsparse.training.checkpoint import read_checkpoint

PHI = ms.dictionaries.gaussian(8, 16, rng=0)
SETTINGS = training.PRESETS["modern"].but(batch_size=32, rounds=5)
PAPER = training.PRESETS["paper"].but(batch_size=32, rounds=5)
SMALL = {"width": 16, "depth": 4}
RECURRENT = {"hidden": 8, "steps": 3}
# The network, its hyperparameters, how it is trained, and the options of the task.
CASES = {
    "adamw": ("residual", SMALL, SETTINGS, {}),
    "moving average": ("residual", SMALL, SETTINGS.but(ema=0.9), {}),
    "hold": ("residual", SMALL, SETTINGS.but(schedule="hold"), {}),
    "half precision": ("residual", SMALL, SETTINGS.but(precision="bfloat16"), {}),
    "sgd in steps": ("residual", SMALL, PAPER, {}),
    "rmsprop": ("residual", SMALL, SETTINGS.but(optimiser="rmsprop"), {}),
    "fixed set": ("residual", SMALL, PAPER, {"set_size": 100}),
    "noise": ("residual", SMALL, SETTINGS, {"snr_db": 20.0, "amplitudes": "gaussian"}),
    "sigmoid": ("residual", SMALL, SETTINGS, {"loss": "sigmoid"}),
    "helu": ("residual", {**SMALL, "activation": "helu"}, SETTINGS, {}),
    "no residuals": ("residual", {**SMALL, "residual": False, "output": "estimate"}, PAPER, {"loss": "least_squares"}),
    "ista_net": ("ista_net", {"depth": 3}, SETTINGS, {"loss": "least_squares"}),
    "ista_net, untied": ("ista_net", {"depth": 3, "tied": False, "output": "logits"}, PAPER, {}),
    "iht_net": ("iht_net", {"depth": 3}, SETTINGS.but(ema=0.9), {"loss": "least_squares"}),
    "lstm": ("lstm", RECURRENT, SETTINGS, {}),
    "lstm, half precision": ("lstm", RECURRENT, SETTINGS.but(precision="bfloat16"), {}),
    "lstm, feedback": ("lstm", {**RECURRENT, "feedback": True}, SETTINGS.but(optimiser="rmsprop"), {}),
    "gru": ("lstm", {**RECURRENT, "cell": "gru"}, SETTINGS.but(ema=0.9), {"set_size": 100}),
    "gru, feedback": ("lstm", {**RECURRENT, "cell": "gru", "feedback": True}, PAPER, {}),
}


class Killed(BaseException):
    """Nothing catches it: the process is gone."""


class DyingTask(training.SupportTask):
    """Kills the run when it asks for a certain batch."""

    deadline = None

    def batch(self, number, size, rows, device):
        if number == self.deadline:
            raise Killed
        return super().batch(number, size, rows, device)


def run(output, case="adamw", *, deadline=None, resume=False, n_threads=1):
    name, hyperparameters, settings, options = CASES[case]
    task = DyingTask(PHI, sparsity=(1, 3), rng=0, validation_signals=20, **options)
    task.deadline = deadline
    network = networks.build(name, PHI, rng=0, **hyperparameters)
    report = training.train(network, task, settings, samples=64 * 32, output=output, resume=resume, n_threads=n_threads)
    return network, report


def without_time(report):
    return {key: value for key, value in vars(report).items() if key != "seconds"}


@pytest.mark.filterwarnings("error::maxsparse.training.ReproducibilityWarning")
@pytest.mark.parametrize("case", CASES)
def test_resume_is_bit_identical(tmp_path, monkeypatch, case):
    whole, report = run(tmp_path / "whole.safetensors", case)
    # A second per batch: checkpoints at odd moments too, not only after validations.
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 6.5)
    output = tmp_path / "killed.safetensors"
    for deadline in (0, 20, 33, 63):
        with pytest.raises(Killed):
            run(output, case, deadline=deadline, resume=deadline > 0)
    resumed, report2 = training.resume(output, n_threads=1)
    assert without_time(report) == without_time(report2)
    for key, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[key]), key
    first, second = (networks.load(tmp_path / f"{name}.safetensors") for name in ("whole", "killed"))
    for key, value in first.network.state_dict().items():
        assert torch.equal(value, second.network.state_dict()[key]), key
    np.testing.assert_array_equal(second.arrays["Phi"], PHI)
    assert not training.checkpoint_path(output).exists()


@pytest.mark.parametrize(
    ("noted", "message"),
    [
        ({"threads": 1, "processes": 1}, None),
        ({}, None),  # written by an older version
        ({"threads": 3, "processes": 1}, "the number of threads was 3 when the run stopped, and is 1 now: the result"),
        ({"threads": 1, "processes": 2}, "the number of processes was 2 when the run stopped, and is 1 now"),
    ],
)
def test_another_number_of_threads_is_told_and_taken(tmp_path, noted, message):
    output = tmp_path / "run.safetensors"
    with pytest.raises(Killed):
        run(output, deadline=60)
    tensors, header = read_checkpoint(training.checkpoint_path(output))
    assert (header["run"].pop("threads"), header["run"].pop("processes")) == (1, 1)
    header["run"] |= noted
    storage.write(training.checkpoint_path(output), tensors, header)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, report = training.resume(output, n_threads=1)
    assert report.finished
    told = [str(warning.message) for warning in caught if warning.category is training.ReproducibilityWarning]
    assert len(told) == (message is not None)
    assert all(text.startswith(message) for text in told)


def test_a_forged_budget_reaches_no_other_option(tmp_path):
    output = tmp_path / "run.safetensors"
    with pytest.raises(Killed):
        run(output, deadline=33)
    path = training.checkpoint_path(output)
    tensors, header = read_checkpoint(path)
    header["run"]["budget"] = {"samples": 64 * 32, "minutes": None, "device": "cuda"}
    storage.write(path, tensors, header)
    with pytest.raises(ValueError, match=r"cannot resume from .* unexpected keyword argument 'device'"):
        training.resume(output)
