"""The network of ``auto`` tuned to one rig: what training for given lights does, its file and its options."""

import os
import signal

import numpy as np
import pytest
import torch

from maxsparse import stereo
from maxsparse.stereo.reading_network import rig
from maxsparse.stereo.reading_network import train as training
from maxsparse.stereo.reading_network.model import ReadingNetwork
from maxsparse.stereo.reading_network.start import first_guess
from maxsparse.stereo.reading_network.store import load_network, save_network
from maxsparse.stereo.reading_network.synthesis import sample_readings
from maxsparse.stereo.reading_network.train import TUNING, ReadingsTask, train_for_rig, training_loss
from maxsparse.training import InterruptedTraining

LIGHTS = stereo.hemisphere_lights(9, lowest=0.4, rng=2)
MOMENT = 0.002  # minutes


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("MAXSPARSE_CACHE", str(folder))
    return folder


def loss_on_held_out_readings(network):
    generator = torch.Generator().manual_seed(99)
    truth = sample_readings(torch.as_tensor(LIGHTS, dtype=torch.float32), 1000, generator)
    start = first_guess(truth.values.double().numpy(), LIGHTS)[0].tensors()
    with torch.no_grad():
        return float(training_loss(network(start), truth))


def test_training_for_given_lights_learns_and_a_seed_fixes_it(monkeypatch):
    monkeypatch.setattr(training, "TUNING", TUNING.but(batch_size=6000))
    torch.manual_seed(0)
    first = ReadingNetwork(rounds=2, width=16, state=4)
    before = {name: tensor.clone() for name, tensor in first.state_dict().items()}
    trained = train_for_rig(steps=15, network=first, lights=LIGHTS, seed=3)
    assert loss_on_held_out_readings(trained) < loss_on_held_out_readings(first)
    for name, tensor in first.state_dict().items():  # it went on from a copy
        assert torch.equal(tensor, before[name])
    state = torch.random.get_rng_state()
    again, other = (train_for_rig(steps=3, network=first, lights=LIGHTS, seed=seed).state_dict() for seed in (3, 4))
    same = train_for_rig(steps=3, network=first, lights=LIGHTS, seed=3).state_dict()
    assert all(torch.equal(same[name], again[name]) for name in same)
    assert any(not torch.equal(same[name], other[name]) for name in same)
    assert torch.equal(state, torch.random.get_rng_state())


def test_every_step_uses_the_lights_that_were_given(monkeypatch):
    used = []

    def watched(lights, count, generator, **options):
        used.append(lights.numpy())
        return sample_readings(lights, count, generator, **options)

    monkeypatch.setattr(training, "sample_readings", watched)
    train_for_rig(steps=2, network=ReadingNetwork(rounds=1, width=8, state=2), lights=2 * LIGHTS)
    assert len(used) == 3  # two steps and the validation
    for lights in used:
        np.testing.assert_allclose(lights, LIGHTS, atol=1e-6)


def test_a_rig_is_trained_once(matt_ball, cache, monkeypatch):
    result = stereo.estimate_normals(matt_ball, minutes=MOMENT)
    (path,) = cache.iterdir()
    assert path.name.startswith("stereo-auto-14-lights-")
    monkeypatch.setattr(rig, "tune", lambda *given, **options: pytest.fail("it was trained again"))
    again = stereo.estimate_normals(matt_ball, "auto", minutes=MOMENT)
    by_name = stereo.estimate_normals(matt_ball, "auto", model=path)
    for other in (again, by_name):
        np.testing.assert_array_equal(result.normals, other.normals)
    assert result.mean_error < 1.0


def test_another_rig_another_length_and_other_bundled_weights_are_other_files(cache, monkeypatch):
    made = []
    monkeypatch.setattr(rig, "tune", lambda lights, path, **options: made.append(path))
    for lights, minutes in ((LIGHTS, 1.0), (LIGHTS, 2.0), (LIGHTS[:8], 1.0)):
        rig.tuned_path(lights, minutes)
    monkeypatch.setattr(rig, "bundled_digest", lambda: "other")
    rig.tuned_path(LIGHTS, 1.0)
    assert len(set(made)) == 4


def test_a_tuning_that_was_stopped_leaves_no_file(cache, monkeypatch):
    batch = ReadingsTask.batch

    def interrupted(*given):
        os.kill(os.getpid(), signal.SIGINT)
        return batch(*given)

    monkeypatch.setattr(ReadingsTask, "batch", interrupted)
    with pytest.raises(InterruptedTraining, match="nothing was saved"):
        stereo.estimate_normals(stereo.make_scene(np.ones((9, 2, 2)), LIGHTS), minutes=5.0)
    assert list(cache.iterdir()) == []


def test_a_model_is_used_and_read_again_when_it_changed(matt_ball, tmp_path):
    path = tmp_path / "n.safetensors"
    torch.manual_seed(0)
    save_network(ReadingNetwork(rounds=1, width=8, state=2), path)
    plain = stereo.estimate_normals(matt_ball, model=path)
    stirred = load_network(path)
    with torch.no_grad():
        stirred.rounds[0].correct.bias[2] += 1.0  # it expects larger errors
    save_network(stirred, path)
    assert stereo.estimate_normals(matt_ball, model=path).confidence.sum() < 0.9 * plain.confidence.sum()


def test_bad_arguments_are_named(matt_ball, tmp_path, cache):
    def complaint(method="auto", **options):
        with pytest.raises(ValueError) as caught:  # noqa: PT011  # the words are looked at below
            stereo.estimate_normals(matt_ball, method, **options)
        return str(caught.value)

    assert "minutes must be at least" in complaint(minutes=-1)
    assert "minutes must be a finite number" in complaint(minutes="long")
    assert "either model or minutes" in complaint(minutes=1.0, model="n.safetensors")
    assert "nowhere.safetensors" in complaint(model=tmp_path / "nowhere.safetensors")
    assert "method 'ls' has no option 'minutes'. It has none" in complaint("ls", minutes=1.0)
    assert "method 'auto' has no option 'hours'. Its options are: model, minutes" in complaint(hours=1.0)
    assert not cache.exists()
    for options, words in (
        ({}, "either seconds or steps"),
        ({"seconds": 1.0, "steps": 2}, "either seconds or steps"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"seconds": float("nan")}, "seconds must be"),
        ({"steps": 1, "lights": LIGHTS.T}, "lights must have 3 columns"),
        ({"steps": 1, "lights": LIGHTS[:3]}, "at least 4 are needed"),
        ({"steps": 1, "lights": LIGHTS * [1, 0, 1]}, "lights are coplanar"),
    ):
        with pytest.raises(ValueError, match=words):
            train_for_rig(**options)
