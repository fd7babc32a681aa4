"""Trained networks by name: half the size, the same answers, and found where they are."""

from pathlib import Path

import numpy as np
import pytest
import torch

import maxsparse as ms
from maxsparse import networks, training
from maxsparse.experiments.pretrained import day_recipes
from maxsparse.networks import zoo

PHI = ms.dictionaries.decaying(8, 16, rng=0)
COMMITTED = Path(__file__).parents[2] / "zoo"


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Train a network, in a file of its own, beside an empty zoo."""
    monkeypatch.setenv("MAXSPARSE_ZOO", str(tmp_path / "zoo"))
    (tmp_path / "zoo").mkdir()
    path = tmp_path / "mine.safetensors"
    details = {"samples": 2048, "hyperparameters": {"width": 320, "depth": 4}, "rng": 0, "n_threads": 1}
    training.fit(PHI, "residual", sparsity=(1, 2), output=path, **details)
    return path


def test_half_precision_halves_the_file_and_rounds_matrices_alone(trained):
    target = networks.add_pretrained("mine-8x16", trained)
    assert networks.pretrained_names() == ["mine-8x16"]
    assert target.stat().st_size < 0.55 * trained.stat().st_size
    whole, half = networks.load(trained), networks.pretrained("mine-8x16")
    rounded = half.network.state_dict()
    for key, value in whole.network.state_dict().items():
        assert rounded[key].dtype == value.dtype, key
        matrix = value.ndim >= 2 and value.dtype == torch.float32
        torch.testing.assert_close(rounded[key], value.half().float() if matrix else value, rtol=0, atol=0)
    np.testing.assert_array_equal(half.arrays["Phi"], PHI)
    assert half.about == whole.about
    Y = ms.signals.sample(PHI, 200, sparsity=2, rng=1)[1]
    np.testing.assert_allclose(half.network.scores(Y), whole.network.scores(Y), rtol=0.02, atol=0.05)


def test_small_networks_keep_their_precision(tmp_path, monkeypatch):
    monkeypatch.setenv("MAXSPARSE_ZOO", str(tmp_path))
    path = tmp_path / "source" / "net.safetensors"
    path.parent.mkdir()
    network, _ = training.fit(PHI, "ista_net", sparsity=1, samples=256, output=path, rng=0, n_threads=1)
    networks.add_pretrained("ista-net-8x16", path)
    stored = networks.pretrained("ista-net-8x16").network.state_dict()
    assert all(torch.equal(stored[key], value) for key, value in network.state_dict().items())


def test_what_is_not_there_is_reported_with_a_clear_message(trained, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="there are no trained networks in"):
        networks.pretrained("residual-20x100")
    networks.add_pretrained("mine-8x16", trained)
    with pytest.raises(ValueError, match="name must be one of 'mine-8x16', got 'residual-20x100'"):
        networks.pretrained("residual-20x100")
    monkeypatch.delenv("MAXSPARSE_ZOO")
    monkeypatch.setattr(zoo, "__file__", str(tmp_path / "lib" / "site-packages" / "maxsparse" / "networks" / "zoo.py"))
    assert networks.zoo_folder() is None
    assert networks.pretrained_names() == []
    with pytest.raises(FileNotFoundError, match="MAXSPARSE_ZOO names its path"):
        networks.pretrained("residual-20x100")


def test_a_training_that_is_not_finished_is_not_taken(trained, tmp_path):
    model = networks.load(trained)
    report = {**model.about["report"], "finished": False}
    networks.save(model.network, tmp_path / "half.safetensors", about={**model.about, "report": report})
    with pytest.raises(ValueError, match="not finished"):
        networks.add_pretrained("half", tmp_path / "half.safetensors")


@pytest.mark.skipif(not COMMITTED.is_dir(), reason="a wheel or an sdist has no zoo")
def test_the_networks_of_the_repository_are_those_of_the_day_preset(monkeypatch):
    monkeypatch.delenv("MAXSPARSE_ZOO", raising=False)
    assert networks.zoo_folder() == COMMITTED
    assert sum(path.stat().st_size for path in COMMITTED.iterdir()) <= 60e6
    headers, recipes = zoo.pretrained_headers(), day_recipes()
    assert set(headers) <= set(recipes)
    for name, header in headers.items():
        assert [other for other, recipe in recipes.items() if recipe.describes(header)] == [name]
        Phi = networks.pretrained(name).arrays["Phi"]
        # LAPACK's last bits differ between processors.
        np.testing.assert_allclose(Phi, ms.dictionaries.decaying(20, 100, rng=0), rtol=0, atol=1e-14)
    strict = {}
    for name in ("residual-short-20x100", "residual-plain-short-20x100"):
        model = networks.pretrained(name)
        X, Y = ms.signals.sample(model.arrays["Phi"], 500, sparsity=2, rng=5)
        strict[name] = ms.metrics.strict_accuracy(X, model.network.scores(Y))
    assert strict["residual-short-20x100"] > 0.85 > 0.2 > strict["residual-plain-short-20x100"]
