"""The paper's network, trained for a moment."""

import os
import signal
import threading

import numpy as np
import pytest

from maxsparse import networks, stereo
from maxsparse.metrics import angular_error
from maxsparse.stereo.methods.network import cached_path, network, train_network

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
