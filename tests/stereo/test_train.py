"""The network of ``auto`` on the common loop: its batches, what training does, and the command that goes on."""

import os
import signal
from functools import partial

import numpy as np
import pytest
import torch
import typer

from maxsparse import networks, stereo, training
from maxsparse.stereo.reading_network import train
from maxsparse.stereo.reading_network.model import ReadingNetwork
from maxsparse.stereo.reading_network.store import bundled_paths, load_network, load_weights
from maxsparse.stereo.reading_network.train import SETTINGS, ReadingsTask
from maxsparse.training import checkpoint_path, loop

LIGHTS = stereo.hemisphere_lights(9, lowest=0.4, rng=2)
CPU = torch.device("cpu")


def test_a_batch_is_a_function_of_seed_and_number():
    whole = slice(0, 600)
    drawn = [ReadingsTask(rng=seed).batch(number, 600, whole, CPU) for seed, number in ((0, 5), (0, 5), (0, 6), (1, 5))]
    (first, truth), (again, same), *others = drawn
    for name, value in vars(first).items():
        assert torch.equal(value, vars(again)[name])
    assert torch.equal(truth.normals, same.normals)
    assert len(truth.normals) == 600 // len(first.lights)
    for other, _ in others:
        assert first.values.shape != other.values.shape or not torch.equal(first.values, other.values)
    start, _ = ReadingsTask(LIGHTS, rng=0).batch(5, 600, whole, CPU)
    np.testing.assert_allclose(start.lights, LIGHTS, atol=1e-6)
    assert start.values.shape == (66, 9)


def test_processes_share_a_batch():
    task, size = ReadingsTask(LIGHTS, rng=0), 600
    whole, truth = task.batch(2, size, slice(0, size), CPU)
    shares = [task.batch(2, size, slice(start, start + 300), CPU) for start in (0, 300)]
    assert torch.equal(torch.cat([own.normals for _, own in shares]), truth.normals)
    for name in ("values", "normals", "logits", "scale", "lit"):
        assert torch.equal(torch.cat([getattr(start, name) for start, _ in shares]), getattr(whole, name))
    with pytest.raises(ValueError, match="a batch of 1 signals cannot be divided among 2 processes"):
        task.batch(0, 10, slice(0, 5), CPU)


def test_another_device_than_the_cpu_is_refused():
    with pytest.raises(ValueError, match=r"got 'cuda:0'; train with device=\"cpu\""):
        ReadingsTask(rng=0).batch(0, 600, slice(0, 600), torch.device("cuda", 0))


def small_network():
    torch.manual_seed(0)
    return ReadingNetwork(rounds=2, width=16, state=4)


@pytest.mark.parametrize(("lights", "rate", "gain"), [(None, 1e-2, 0.2), (LIGHTS, 2e-2, 1.0)], ids=["any", "given"])
def test_training_lowers_the_error(lights, rate, gain):
    network, task = small_network(), ReadingsTask(lights, validation_readings=3000, rng=0)
    with torch.no_grad():
        before = task.validate(network)
    settings = SETTINGS.but(batch_size=3000, learning_rate=rate, rounds=2)
    report = training.train(network, task, settings, samples=60 * 3000, device="cpu", n_threads=1)
    assert len(report.best["degrees"]) == (len(train.VALIDATION_RIGS) if lights is None else 1)
    assert report.best["score"] == -np.mean(report.best["degrees"])
    assert report.best["score"] > before["score"] + gain


def test_normals_that_are_not_finite_tell_of_divergence():
    network = small_network()
    torch.nn.init.constant_(network.rounds[1].correct.bias, np.nan)
    with torch.no_grad(), pytest.raises(FloatingPointError, match="normals became NaN"):
        ReadingsTask(LIGHTS, validation_readings=90, rng=0).validate(network)


class Killed(BaseException):
    """Nothing catches it: the process is gone."""


@pytest.fixture
def quick(monkeypatch):
    """Batches and a validation that take no time."""
    monkeypatch.setattr(train, "SETTINGS", SETTINGS.but(batch_size=600, rounds=4))
    monkeypatch.setattr(train, "ReadingsTask", partial(ReadingsTask, validation_readings=300))


def at_batch(deadline, happen):
    """Return ``ReadingsTask.batch`` that lets something happen when a certain batch is asked for."""
    batch = ReadingsTask.batch

    def watched(self, number, *arguments):
        if number == deadline:
            happen()
        return batch(self, number, *arguments)

    return watched


def die():
    raise Killed


@pytest.mark.parametrize("deadline", [0, 5, 11])
def test_a_killed_command_goes_on_to_the_same_bits(tmp_path, monkeypatch, quick, deadline):
    train.main(tmp_path / "whole.safetensors", steps=12)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.1)  # checkpoints at odd moments too, not only after validations
    output = tmp_path / "killed.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(ReadingsTask, "batch", at_batch(deadline, die))
        with pytest.raises(Killed):
            train.main(output, steps=12)
    assert checkpoint_path(output).exists()
    train.main(output, steps=12)
    assert not checkpoint_path(output).exists()
    assert output.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    # What the command writes can take the place of the bundled file, and is a model like any other.
    model, loaded = networks.load(output), load_network(output)
    assert model.about["report"]["batches"] == 12
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in model.network.state_dict().items())
    assert [array.shape for array in load_weights(output)] == [
        array.shape for array in load_weights(bundled_paths()[0])
    ]


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, monkeypatch, quick, capsys):
    output = tmp_path / "m.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(ReadingsTask, "batch", at_batch(1, lambda: os.kill(os.getpid(), signal.SIGINT)))
        with pytest.raises(typer.Exit) as stopped:
            train.main(output, steps=4)
    assert stopped.value.exit_code == 1
    said = capsys.readouterr().err
    assert "stopped after 1,200 signals; saved in" in said
    assert "To resume: python -m maxsparse.stereo.reading_network.train" in said
    train.main(output, steps=4)
    assert "4 batches in" in capsys.readouterr().out
    with pytest.raises(typer.Exit):
        train.main(output, steps=4)
    assert "m.safetensors' is finished; remove it to train again" in capsys.readouterr().err


def test_a_wider_network_starts_as_the_same_function(tmp_path, quick):
    start, _ = ReadingsTask(rng=0).batch(0, 2400, slice(0, 2400), torch.device("cpu"))
    network = load_network(bundled_paths()[0])
    wide = network.widened(80)
    with torch.no_grad():
        ours, theirs = network(start), wide(start)
    for name in ("normals", "logits", "log_error"):
        one, other = getattr(ours, name), getattr(theirs, name)
        # Rounding errors grow in the few pixels that are balanced between two answers.
        assert (torch.isclose(one, other, atol=1e-3).float().mean() > 0.97).item(), name
    assert wide.rounds[0].again.weight[80 - 1].abs().max() > 0  # the new units learn
    with pytest.raises(ValueError, match="width"):
        network.widened(8)
    train.main(tmp_path / "m.safetensors", steps=1, start_from=bundled_paths()[0], width=80)
    assert load_network(tmp_path / "m.safetensors").hyperparameters["width"] == 80


def test_the_command_goes_on_from_given_weights(tmp_path, quick):
    output = tmp_path / "m.safetensors"
    train.main(output, steps=1, start_from=bundled_paths()[0])
    for ours, bundled in zip(load_weights(output), load_weights(bundled_paths()[0]), strict=True):
        np.testing.assert_allclose(ours, bundled, atol=1e-4)
    output.write_bytes(b"no weights")
    with pytest.raises(typer.BadParameter, match="cannot read"):
        train.main(tmp_path / "n.safetensors", steps=1, start_from=output)
