"""The paper's network, trained for a moment."""

import os
import signal
import threading

import numpy as np
import pytest

from maxsparse import networks, stereo
from maxsparse.metrics import angular_error
from maxsparse.stereo.methods.network import _gaussian, cached_path, network, train_network

LIGHTS = stereo.hemisphere_lights(8, lowest=0.5, rng=0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "rig.safetensors"
    small = {"width": 64, "depth": 6}
    train_network(LIGHTS, path, outliers=(1, 1), minutes=1.0, samples=60_000, hyperparameters=small)
    return path


def test_it_finds_outliers_like_those_it_was_trained_on(trained):
    rng = np.random.default_rng(1)
    n = rng.standard_normal((400, 3)) * 0.2 + np.array([0, 0, 1])
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    o = n @ LIGHTS.T
    rows = np.arange(400)
    o[rows, rng.integers(0, 8, 400)] += 0.5 * rng.choice([-1, 1], 400)
    fit = network(o, LIGHTS, model=trained)
    assert (fit.inliers.sum(axis=1) == 4).all()
    plain = np.linalg.lstsq(LIGHTS, o.T, rcond=None)[0].T
    assert angular_error(fit.normals, n).mean() < 0.5 * angular_error(plain, n).mean()


def test_the_cache_is_used_and_a_foreign_network_refused(trained, tmp_path, monkeypatch):
    monkeypatch.setenv("MAXSPARSE_CACHE", str(tmp_path))
    cached_path(LIGHTS).write_bytes(trained.read_bytes())
    o = np.random.default_rng(0).random((5, 8))
    np.testing.assert_array_equal(network(o, LIGHTS).normals, network(o, LIGHTS, model=trained).normals)
    other = stereo.hemisphere_lights(9, rng=0)
    assert cached_path(other) != cached_path(LIGHTS)
    with pytest.raises(ValueError, match="another number of lights than 9"):
        network(np.ones((1, 9)), other, model=trained)
    assert networks.load(trained).arrays["Phi"].shape == (5, 8)


def test_a_training_that_was_stopped_leaves_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("MAXSPARSE_CACHE", str(tmp_path))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    asked = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))  # Ctrl-C, a second into the training
    asked.start()
    with pytest.raises(KeyboardInterrupt):
        network(np.ones((2, 8)), LIGHTS, minutes=5.0, device="cpu")
    asked.join()
    signal.signal(signal.SIGINT, before)
    assert list(tmp_path.iterdir()) == []


def test_networks_trained_for_longer_have_a_file_of_their_own():
    assert cached_path(LIGHTS, 1.0) != cached_path(LIGHTS, 10.0) == cached_path(LIGHTS)


def test_the_law_of_the_outliers(tmp_path):
    drawn = _gaussian(0.5, 0.04)(np.random.default_rng(0), 40_000)
    assert drawn.mean() == pytest.approx(0.5, abs=0.01)
    assert drawn.std() == pytest.approx(0.2, abs=0.01)
    assert cached_path(LIGHTS, mean=0.5) != cached_path(LIGHTS) == cached_path(LIGHTS, mean=0.0, variance=0.25)
    few = {"minutes": None, "samples": 64, "hyperparameters": {"width": 8, "depth": 4}}
    for wrong, message in (
        ({"outliers": (1, 6)}, "outliers must be from 1 to 5, got 6"),  # 8 lights leave 5 rows
        ({"outliers": (0, 2)}, "outliers must be at least 1, got 0"),
        ({"variance": -1.0}, "variance must be at least 0"),
        ({"mean": 0.0, "variance": 0.0}, "there would be no outliers"),
    ):
        with pytest.raises(ValueError, match=message):
            train_network(LIGHTS, tmp_path / "rig.safetensors", **few, **wrong)
    train_network(LIGHTS, tmp_path / "rig.safetensors", **few, outliers=(1, 3))
    assert networks.load(tmp_path / "rig.safetensors").about["task"]["sparsity"] == [1, 3]


@pytest.mark.long
def test_the_paper_preset_of_the_stereo_network_trains_200_000_signals(tmp_path):
    train_network(LIGHTS, tmp_path / "rig.safetensors", minutes=None, settings="paper", samples=200_000, rng=0)
    report = networks.load(tmp_path / "rig.safetensors").about["report"]
    assert report["finished"]
    assert report["skipped"] == 0


@pytest.mark.parametrize("preset", ["modern", "paper"])
def test_a_kept_training_is_resumed_to_the_same_bits(tmp_path, monkeypatch, preset):
    from maxsparse import training

    small = training.preset_for("residual", preset).but(batch_size=32, rounds=4)
    options = {"minutes": None, "samples": 256, "settings": small, "hyperparameters": {"width": 8, "depth": 4}}
    options |= {"mean": 0.5, "n_threads": 1, "keep": True}
    train_network(LIGHTS, tmp_path / "whole.safetensors", **options)
    validate, calls = training.run.Run.validate, []

    def stop_at_the_second(run):
        calls.append(run)
        if len(calls) == 2:
            raise KeyboardInterrupt
        validate(run)

    monkeypatch.setattr(training.run.Run, "validate", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        train_network(LIGHTS, tmp_path / "stopped.safetensors", **options)
    assert not (tmp_path / "stopped.safetensors").exists()
    monkeypatch.setattr(training.run.Run, "validate", validate)
    train_network(LIGHTS, tmp_path / "stopped.safetensors", **options)
    whole, resumed = (networks.load(tmp_path / f"{name}.safetensors").network for name in ("whole", "stopped"))
    for (name, a), b in zip(whole.state_dict().items(), resumed.state_dict().values(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stopped.safetensors", "whole.safetensors"]
