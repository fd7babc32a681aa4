"""SparseRecoverer with networks by name: trained for Φ, calibrated, saved and loaded without code."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import maxsparse as ms

SMALL = {"residual": {"width": 48, "depth": 4}, "lstm": {"hidden": 24, "steps": 3}, "ista_net": {}, "iht_net": {}}


@pytest.fixture(scope="module")
def Phi():
    return ms.dictionaries.gaussian(10, 20, rng=3)


@pytest.fixture(scope="module")
def batch(Phi):
    return ms.signals.sample(Phi, 300, sparsity=(1, 4), rng=4)


@pytest.fixture(scope="module")
def model(Phi):
    model = ms.SparseRecoverer(Phi, network="residual", budget=300, n_threads=1)
    return model.fit(samples=20_000, sparsity=(1, 4), hyperparameters=SMALL["residual"])


def test_a_trained_network_recovers_and_certifies_nothing_wrong(model, batch):
    X, Y = batch
    result = model.recover(Y)
    assert result.method == "residual"
    right = (result.support == (X != 0)).all(axis=1)
    assert right.mean() > 0.99
    assert not (result.certified & ~right).any()


def test_scores_of_a_trained_network_are_log_odds(model, Phi):
    """No logistic function of the scores, fitted to these very signals, says it much better."""
    X, Y = ms.signals.sample(Phi, 3000, sparsity=(1, 4), rng=7)
    scores, inside = model.trained_(Y, 0.0).astype(np.float64).reshape(-1, 1), (X != 0).ravel()
    ours = 1.0 / (1.0 + np.exp(-scores[:, 0]))
    refit = LogisticRegression(C=1e6, max_iter=1000).fit(scores, inside)
    assert log_loss(inside, ours) <= 1.05 * log_loss(inside, refit.predict_proba(scores)[:, 1])
    assert ours.mean() == pytest.approx(inside.mean(), rel=0.05)


@pytest.mark.parametrize("name", SMALL)
def test_every_network_is_trained_saved_and_loaded(Phi, batch, tmp_path, name):
    _, Y = batch
    model = ms.SparseRecoverer(Phi, network=name, noise=0.01, n_threads=1, random_state=2)
    model.fit(samples=2000, hyperparameters=SMALL[name], sparsity=2)
    model.save(tmp_path / "model.safetensors")
    loaded = ms.load(tmp_path / "model.safetensors")
    assert loaded.get_params()["network"] == name
    assert loaded.noise == 0.01
    np.testing.assert_array_equal(loaded.recover(Y).scores, model.recover(Y).scores)
    np.testing.assert_array_equal(loaded.recover(Y).coef, model.recover(Y).coef)


def test_a_network_from_elsewhere_can_be_saved_too(Phi, batch, tmp_path):
    _, Y = batch
    network = ms.networks.build("residual", Phi, width=16, depth=4, rng=0)
    model = ms.SparseRecoverer(Phi, network=network.eval(), budget="none")
    model.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(ms.load(tmp_path / "model.safetensors").recover(Y).coef, model.recover(Y).coef)


def test_what_is_missing_is_said(Phi, batch):
    _, Y = batch
    untrained = ms.SparseRecoverer(Phi, network="residual")
    with pytest.raises(NotFittedError, match="call fit"):
        untrained.recover(Y)
    with pytest.raises(ValueError, match="set the training budget"):
        untrained.fit()
    with pytest.raises(ValueError, match=r"Available: learned_sbl, residual, .*; or give an object with scores"):
        ms.SparseRecoverer(Phi, network="resnet").fit(minutes=1)
    with pytest.raises(ValueError, match="minutes= only"):
        ms.SparseRecoverer(Phi).fit(samples=10)
    with pytest.raises(ValueError, match="cannot be trained here"):
        ms.SparseRecoverer(Phi, network=ms.networks.build("residual", Phi)).fit(minutes=1)


def test_another_name_asks_for_another_training(model, batch):
    _, Y = batch
    with pytest.raises(NotFittedError, match="'lstm'"):
        model.__class__(**(model.get_params() | {"network": "lstm"})).recover(Y)


def test_hostile_files_are_refused(model, tmp_path):
    path = tmp_path / "model.safetensors"
    model.save(path)
    arrays = load_file(path)
    settings = {"noise": 0.0, "budget": "fast", "rtol": None, "random_state": 0, "n_threads": None}
    network = model.trained_.header()
    header = {"format": "maxsparse.recoverer", "version": 1, "maxsparse": "0", "settings": settings}

    def refused(match, arrays=arrays, **changes):
        save_file(arrays, path, {"maxsparse": json.dumps(header | {"network": network | changes})})
        with pytest.raises(ValueError, match=match):
            ms.load(path)

    refused("there is no network", name="os.system")
    refused("a network of this version", name=["residual"])
    refused("a network of this version", hyperparameters={"n": 10, "m": 20, "width": 10**6, "depth": 4})
    refused("a network of this version", hyperparameters={"surprise": 1})
    refused("gain", gain="1")
    refused("offset", offset=None)
    refused("damaged", extra=1)
    refused("NaN", arrays=arrays | {"weights.last.bias": np.full(20, np.nan, dtype=np.float32)})
    refused("a network of this version", arrays={k: v for k, v in arrays.items() if k != "weights.last.bias"})
    other = {"Phi": np.eye(10), "W": np.eye(10), "D": np.ones(10)}
    refused("does not fit Phi", arrays=arrays | other)


@pytest.mark.parametrize(
    ("option", "parameter"), [("rng", "random_state"), ("seed", "random_state"), ("noise", "noise")]
)
@pytest.mark.parametrize("network", ["residual", "learned_sbl"])
def test_what_the_model_says_is_not_said_again_to_fit(network, option, parameter):
    model = ms.SparseRecoverer(ms.dictionaries.gaussian(6, 10, rng=0), network=network)
    with pytest.raises(ValueError, match=f"fit does not accept {option}=; pass {parameter}= to SparseRecoverer"):
        model.fit(minutes=1, **{option: 0})


def test_an_option_that_fit_does_not_have_is_named():
    model = ms.SparseRecoverer(ms.dictionaries.gaussian(6, 10, rng=0), network="residual")
    with pytest.raises(ValueError, match=r"there is no option of fit 'sample'; did you mean 'samples'\?"):
        model.fit(minutes=1, sample=100)
