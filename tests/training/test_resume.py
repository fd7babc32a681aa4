"""A run that was killed and resumed ends with the bits of one that was not."""

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


class Killed(BaseException):
    """Nothing catches it: the process is gone."""


class DyingTask(training.SupportTask):
    """Kills the run when it asks for a certain batch."""

    deadline = None

    def batch(self, number, size, rows, device):
        if number == self.deadline:
            raise Killed
        return super().batch(number, size, rows, device)


def run(output, *, settings=SETTINGS, deadline=None, resume=False, width=16, **options):
    task = DyingTask(PHI, sparsity=(1, 3), rng=0, validation_signals=20, **options)
    task.deadline = deadline
    network = networks.build("residual", PHI, width=width, depth=4, rng=0)
    report = training.train(network, task, settings, samples=64 * 32, output=output, resume=resume, n_threads=1)
    return network, report


def without_time(report):
    return {key: value for key, value in vars(report).items() if key != "seconds"}


@pytest.mark.parametrize("deadline", [0, 20, 33, 63])
@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS,
        SETTINGS.but(ema=0.9),
        training.PRESETS["paper"].but(batch_size=32, rounds=5),
        SETTINGS.but(optimiser="rmsprop"),
    ],
    ids=["adamw", "ema", "sgd", "rmsprop"],
)
def test_resume_is_bit_identical(tmp_path, monkeypatch, settings, deadline):
    whole, report = run(tmp_path / "whole.safetensors", settings=settings)
    # Checkpoints at odd moments too, not only after validations.
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.1)
    with pytest.raises(Killed):
        run(tmp_path / "killed.safetensors", settings=settings, deadline=deadline)
    resumed, report2 = run(tmp_path / "killed.safetensors", settings=settings, resume=True)
    assert without_time(report) == without_time(report2)
    for key, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[key]), key
    first, second = (networks.load(tmp_path / f"{name}.safetensors") for name in ("whole", "killed"))
    for key, value in first.network.state_dict().items():
        assert torch.equal(value, second.network.state_dict()[key]), key
    np.testing.assert_array_equal(second.arrays["Phi"], PHI)
    assert not training.checkpoint_path(tmp_path / "killed.safetensors").exists()


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
