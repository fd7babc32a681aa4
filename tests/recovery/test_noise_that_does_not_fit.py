"""A given noise level against the signals, and the level that many signals share."""

import warnings

import numpy as np
import pytest
from scipy.special import comb
from scipy.stats import multivariate_normal

import maxsparse as ms
from maxsparse.recovery.pooled_noise import SLABS, evidence_by_level


@pytest.fixture(scope="module")
def signals():
    Phi = ms.dictionaries.gaussian(20, 100, rng=0)
    X, Y = ms.signals.sample(Phi, 40, sparsity=3, rng=1)
    sigma = float(np.sqrt(np.mean(Y**2)) * 10 ** (-25 / 20))
    return Phi, X, Y + sigma * np.random.default_rng(2).standard_normal(Y.shape), sigma


def test_evidence_against_the_density():
    Phi = ms.dictionaries.gaussian(5, 8, rng=0)
    y = np.random.default_rng(0).standard_normal(5)
    S, sigma = [1, 6], 0.3
    support = np.zeros((1, 1, 8), dtype=bool)
    support[0, 0, S] = True
    square = np.mean((np.linalg.svd(Phi[:, S])[0][:, :2].T @ y) ** 2 / np.linalg.svd(Phi[:, S])[1] ** 2)
    image = Phi[:, S] @ Phi[:, S].T
    densities = [multivariate_normal(np.zeros(5), sigma**2 * np.eye(5) + square * f * image).pdf(y) for f in SLABS]
    none = multivariate_normal(np.zeros(5), sigma**2 * np.eye(5)).pdf(y)
    expected = np.log((np.mean(densities) / comb(8, 2) + none) / 6)
    assert evidence_by_level(Phi, y[None], support, np.array([sigma]))[0, 0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_a_level_that_does_not_fit_is_noticed(signals, factor):
    Phi, X, Y, sigma = signals
    with pytest.warns(UserWarning, match=r"does not fit \d+ of 40 signals: a level of about 0\.0"):
        result = ms.SparseRecoverer(Phi, noise=factor * sigma).recover(Y)
    right = (result.support == (X != 0)).all(axis=1)
    assert right.mean() > 0.85
    assert abs(result.confidence.mean() - right.mean()) < 0.15
    assert np.median(result.noise) == pytest.approx(sigma, rel=0.3)


def test_a_level_that_fits_is_kept(signals):
    Phi, _, Y, sigma = signals
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ms.SparseRecoverer(Phi, noise=sigma).recover(Y)
    assert np.mean(result.noise == sigma) > 0.95
    alone = ms.SparseRecoverer(Phi, noise=sigma).recover(Y[7:8])
    np.testing.assert_array_equal(alone.confidence, result.confidence[7:8])


@pytest.mark.parametrize(("kind", "d", "snr"), [("gaussian", 5, 20), ("gaussian", 3, 10), ("decaying", 3, 50)])
def test_pooled_level(kind, d, snr, tmp_path):
    Phi = getattr(ms.dictionaries, kind)(20, 100, rng=3)
    X, Y = ms.signals.sample(Phi, 100, sparsity=d, rng=4)
    sigma = float(np.sqrt(np.mean(Y**2)) * 10 ** (-snr / 20))
    Y += sigma * np.random.default_rng(5).standard_normal(Y.shape)
    model = ms.SparseRecoverer(Phi).fit(Y)
    assert model.noise_ == pytest.approx(sigma, rel=0.2)
    result, known = model.recover(Y[:50]), ms.SparseRecoverer(Phi, noise=sigma).recover(Y[:50])
    right, rate = ((r.support == (X[:50] != 0)).all(axis=1).mean() for r in (result, known))
    assert right >= rate - 0.07
    model.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(ms.load(tmp_path / "model.safetensors").recover(Y[:5]).coef, result.coef[:5])


def test_pooled_level_of_exact_signals_and_of_none():
    Phi = ms.dictionaries.gaussian(20, 100, rng=0)
    _, Y = ms.signals.sample(Phi, 20, sparsity=3, rng=1)
    assert ms.SparseRecoverer(Phi).fit(Y).noise_ == 0
    assert ms.SparseRecoverer(Phi).fit(np.zeros((3, 20))).noise_ == 0
    assert ms.SparseRecoverer(Phi, noise=0.25).fit(Y).noise_ == 0.25
