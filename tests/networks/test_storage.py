"""Model files: whole, checked, and never code."""

import contextlib
import json
import os
import pickle
import struct

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import maxsparse as ms
from maxsparse import networks

PHI = ms.dictionaries.gaussian(6, 12, rng=0)
_, Y = ms.signals.sample(PHI, 20, sparsity=2, rng=1)


@pytest.fixture
def path(tmp_path):
    network = networks.build("residual", PHI, Y=Y, width=8, depth=4, rng=0)
    networks.save(network, tmp_path / "model.safetensors", arrays={"Phi": PHI}, about={"minutes": 30})
    return tmp_path / "model.safetensors"


def header_of(path):
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["maxsparse"])


def rewrite(path, **changes):
    """Write the same tensors with another header."""
    save_file(load_file(path), path, metadata={"maxsparse": json.dumps({**header_of(path), **changes})})


@pytest.mark.parametrize("name", ["residual", "ista_net", "iht_net", "lstm"])
def test_round_trip(tmp_path, name):
    network = networks.build(name, PHI, Y=Y, rng=0, **({"hidden": 8} if name == "lstm" else {"depth": 4}))
    networks.save(network, tmp_path / "m.safetensors", arrays={"Phi": PHI}, about={"minutes": 30})
    model = networks.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(model.network.scores(Y), network.scores(Y))
    np.testing.assert_array_equal(model.arrays["Phi"], PHI)
    assert model.about == {"minutes": 30}
    assert model.network.hyperparameters == network.hyperparameters
    assert not model.network.training


def test_a_loaded_network_can_be_trained(path):
    network = networks.load(path).network.train()
    network(torch.from_numpy(Y)).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


class Hostile:
    def __reduce__(self):
        return (os.mkdir, ("pwned",))


def test_weights_never_load_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open("pickle.safetensors", "wb") as stream:
        pickle.dump(Hostile(), stream)
    torch.save({"weights": Hostile()}, "torch.safetensors")
    for name in ("pickle.safetensors", "torch.safetensors"):
        with pytest.raises(ValueError, match="damaged or not a safetensors file"):
            networks.load(name)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.99])
def test_truncated(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"cannot read .*damaged or not a safetensors file"):
        networks.load(path)


@pytest.mark.parametrize("position", range(0, 800, 61))
def test_a_damaged_header_never_raises_anything_else(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 0x15
    path.write_bytes(content)
    # Some bytes, inside a name or a number of `about`, may be changed without anybody noticing.
    with contextlib.suppress(ValueError):
        networks.load(path)


def test_foreign_files(tmp_path, path):
    save_file({"a": torch.ones(2)}, tmp_path / "foreign.safetensors")
    with pytest.raises(ValueError, match="not written by maxsparse"):
        networks.load(tmp_path / "foreign.safetensors")
    with pytest.raises(FileNotFoundError, match="is not a file"):
        networks.load(tmp_path / "missing.safetensors")
    rewrite(path, format=99)
    with pytest.raises(ValueError, match="format 99, this version reads"):
        networks.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "checkpoint"}, "holds a checkpoint, not a network"),
        ({"network": "os.system"}, "there is no network"),
        ({"network": ["residual"]}, "there is no network"),
        ({"hyperparameters": {"n": 6, "m": 12, "width": 9, "depth": 4}}, "size mismatch"),
        ({"hyperparameters": {"n": 6, "m": 12, "width": 10**6, "depth": 4}}, "size mismatch"),
        ({"hyperparameters": {"n": 6, "m": 12, "width": 8, "depth": 6}}, "Missing key"),
        ({"hyperparameters": {"evil": 1}}, "no option 'evil'"),
        ({"hyperparameters": 5}, "does not describe a network"),
        ({"about": 3}, "about"),
    ],
)
def test_wrong_headers(path, changes, message):
    rewrite(path, **changes)
    with pytest.raises(ValueError, match=message):
        networks.load(path)


def test_weights_that_are_not_finite(path):
    tensors = load_file(path)
    tensors["weights/last.weight"][0, 0] = float("nan")
    header = header_of(path)
    save_file(tensors, path, metadata={"maxsparse": json.dumps(header)})
    with pytest.raises(ValueError, match=r"damaged: the SHA-256 of its arrays does not match"):
        networks.load(path)
    del header["sha256"]
    save_file(tensors, path, metadata={"maxsparse": json.dumps(header)})
    with pytest.raises(ValueError, match=r"last.weight holds NaN"):
        networks.load(path)
