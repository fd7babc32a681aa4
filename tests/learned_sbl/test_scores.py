"""The compiled network against the one of torch, and its independence of batches."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from maxsparse import dictionaries, metrics, signals
from maxsparse._core.prepared import Prepared
from maxsparse.learned_sbl import LearnedScores, bundled_later, bundled_weights, read_weights
from maxsparse.learned_sbl.model import LearnedSBL
from maxsparse.learned_sbl.scores import CONFIDENT
from maxsparse.learned_sbl.spec import NAMES, as_arrays


def torch_network(weights=None):
    weights = as_arrays(bundled_weights() if weights is None else weights)
    iterations, hidden = weights["moment"].shape
    seen = weights["context.weight"].shape[1] - 1
    heads = weights["first.weight"].shape[1] - seen
    net = LearnedSBL(iterations=iterations, state=seen - 4, hidden=hidden, heads=heads)
    net.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
    return net


@pytest.mark.parametrize(("n", "m"), [(20, 100), (13, 31)])
def test_agrees_with_torch_where_float32_does(n, m):
    """With noise S is well conditioned: two orders of summation agree, but for signals on the verge of two answers."""
    Phi = dictionaries.gaussian(n, m, rng=1)
    _, Y = signals.sample(Phi, 50, sparsity=3, noise=0.03, rng=2)
    scores = LearnedScores(Phi, iterations=8, confident=np.inf)
    logits = scores(Y, 0.03)
    net = torch_network()
    size = np.sqrt(np.mean(Y**2, axis=1) - 0.03**2)
    levels = np.rint(np.log2(0.03 / size))
    differences = []
    for level in np.unique(levels):
        rows = levels == level
        dictionary = Prepared(Phi).form(int(level))
        with torch.no_grad():
            Z = torch.tensor(Y[rows] @ dictionary.back, dtype=torch.float32)
            expected = net(dictionary, Z, torch.full((len(Z),), 0.03), iterations=8)[-1].numpy()
        differences += np.abs(logits[rows] - expected).max(axis=1).tolist()
    assert np.median(differences) < 2e-4
    assert np.quantile(differences, 0.9) < 5e-3


def test_agrees_with_torch_in_what_it_finds():
    Phi = dictionaries.decaying(20, 100, rng=1)
    X, Y = signals.sample(Phi, 300, sparsity=7, rng=2)
    dictionary = Prepared(Phi).form()
    with torch.no_grad():
        expected = torch_network()(dictionary, torch.tensor(Y @ dictionary.back, dtype=torch.float32))[-1].numpy()
    logits = LearnedScores(Phi, confident=np.inf)(Y)
    assert np.median(np.abs(logits - expected).max(axis=1)) < 0.2  # float32 and 32 iterations at λ = 1e-5
    assert metrics.strict_accuracy(X, logits) == pytest.approx(metrics.strict_accuracy(X, expected), abs=0.02)


def test_second_pass_agrees_with_torch():
    """Attention and the earlier logits too; few iterations, so that rounding errors have little time to grow."""
    Phi = dictionaries.gaussian(20, 60, rng=1)
    _, Y = signals.sample(Phi, 100, sparsity=9, rng=2)
    scores = LearnedScores(Phi, later=bundled_later(), iterations=4, confident=np.inf)
    earlier = np.random.default_rng(0).normal(0, 5, (100, 60)).astype(np.float32)
    dictionary = Prepared(Phi).form()
    with torch.no_grad():
        Z = torch.tensor(Y @ dictionary.back, dtype=torch.float32)
        network = torch_network(bundled_later()[0])
        expected, blind = (network(dictionary, Z, None, e, 4)[-1].numpy() for e in (torch.tensor(earlier), None))
    differences = np.abs(scores.again(Y, earlier, 0) - expected).max(axis=1)
    assert np.median(differences) < 5e-3
    assert np.median(np.abs(blind - expected).max(axis=1)) > 0.1


def test_second_pass_does_not_depend_on_the_batch():
    Phi = dictionaries.decaying(16, 50, rng=1)
    _, Y = signals.sample(Phi, 30, sparsity=8, rng=2)
    scores = LearnedScores(Phi, later=bundled_later())
    first = scores(Y)
    again = scores.again(Y, first, 0)
    np.testing.assert_array_equal(again[13:14], scores.again(Y[13:14], first[13:14], 0))
    assert scores.again(Y[:0], first[:0], 0).shape == (0, 50)
    assert scores.passes == 2
    assert LearnedScores(Phi).passes == 0


def test_stopping_early_changes_no_support():
    """What is settled stays settled: the other iterations would only have confirmed it."""
    Phi = dictionaries.decaying(20, 100, rng=1)
    _, Y = signals.sample(Phi, 500, sparsity=(1, 9), rng=3)
    early, full = (LearnedScores(Phi, confident=confident)(Y) for confident in (CONFIDENT, np.inf))
    stopped = (early != full).any(axis=1)
    assert stopped.mean() > 0.3
    assert np.abs(early[stopped]).min() >= CONFIDENT
    assert ((early > 0) == (full > 0))[stopped].all(axis=1).mean() > 0.995


def test_a_signal_does_not_depend_on_its_batch():
    Phi = dictionaries.decaying(16, 50, rng=1)
    _, Y = signals.sample(Phi, 70, sparsity=5, noise=0.01, rng=2)
    scores = LearnedScores(Phi)
    for noise in (0.0, 0.01):
        whole = scores(Y, noise)
        np.testing.assert_array_equal(whole[13:14], scores(Y[13:14], noise))
        np.testing.assert_array_equal(whole[::-1], scores(Y[::-1], noise))


def test_empty_and_zero_signals():
    scores = LearnedScores(dictionaries.gaussian(8, 20, rng=0))
    assert scores(np.empty((0, 8))).shape == (0, 20)
    assert np.isfinite(scores(np.zeros((2, 8)))).all()
    assert np.isfinite(scores(np.full((2, 8), 1e-200))).all()


def test_files_that_are_wrong_are_refused(tmp_path):
    good = as_arrays(bundled_weights())
    path = tmp_path / "weights.safetensors"

    def write(arrays, metadata=None):
        save_file(arrays, path, {"learned_sbl": json.dumps({})} if metadata is None else metadata)

    write(good)
    np.testing.assert_array_equal(read_weights(path).first, good["first.weight"])
    foreign = {"format": 2, "kind": "network", "network": "residual"}
    refused = [
        ({"other": "1"}, "not written by maxsparse"),
        ({"maxsparse": json.dumps(foreign)}, "does not hold weights of learned SBL"),
        ({"maxsparse": "[]"}, "header is damaged"),
    ]
    for metadata, message in refused:
        write(good, metadata)
        with pytest.raises(ValueError, match=message):
            read_weights(path)
    for name in NAMES:
        write({key: value for key, value in good.items() if key != name})
        with pytest.raises(ValueError, match="lacks"):
            read_weights(path)
    write(good | {"moment": good["moment"][:, :-1].copy()})
    with pytest.raises(ValueError, match="shape"):
        read_weights(path)
    write(good | {"context.weight": np.zeros((48, 99), np.float32)})
    with pytest.raises(ValueError, match="averaged over atoms"):
        read_weights(path)
    write(good | {"log_lambda": np.full_like(good["log_lambda"], np.nan)})
    with pytest.raises(ValueError, match="finite"):
        read_weights(path)


@pytest.mark.long
def test_the_process_that_compiles_and_the_next_one_give_the_same_bits(tmp_path):
    """A run that is killed may resume from the cache what it began while compiling."""
    code = (
        "import hashlib, maxsparse as ms; from maxsparse.learned_sbl import LearnedScores;"
        "Phi = ms.dictionaries.decaying(20, 100, rng=0); Y = ms.signals.sample(Phi, 50, sparsity=6, rng=1)[1];"
        "print(hashlib.sha256(LearnedScores(Phi)(Y).tobytes()).hexdigest())"
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout != "", runs[0].stderr


@pytest.mark.parametrize("weights", [None, 0], ids=["first pass", "later pass, with heads"])
def test_tensors_in_tensors_out(monkeypatch, weights):
    """On the CPU bitwise the compiled scores; the way of other devices agrees where float32 does."""
    from maxsparse._core import products

    Phi = dictionaries.gaussian(20, 60, rng=1)
    _, Y = signals.sample(Phi, 40, sparsity=3, noise=0.03, rng=2)
    weights = None if weights is None else bundled_later()[weights]
    scores = LearnedScores(Phi, weights, iterations=8)
    expected, Z = scores(Y, 0.03), torch.tensor(Y)
    np.testing.assert_array_equal(scores(Z, 0.03).numpy(), expected)
    monkeypatch.setattr(products, "COMPILED", "none")
    found = scores(Z, 0.03)
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float32
    differences = np.abs(found.numpy() - expected).max(axis=1)
    assert np.median(differences) < 1e-3
    assert ((found.numpy() > 0) == (expected > 0)).mean() > 0.99
    assert scores(Z[:0], 0.03).shape == (0, 60)
