"""noise="auto" in every method that uses a noise level, and the defaults of solve and of the methods."""

import inspect

import numpy as np
import pytest

import maxsparse as ms

SNR = 25


@pytest.fixture(scope="module")
def signals():
    Phi = ms.dictionaries.gaussian(20, 60, rng=0)
    X, Y = ms.signals.sample(Phi, 30, sparsity=3, rng=1)
    sigma = float(np.sqrt(np.mean(Y**2)) * 10 ** (-SNR / 20))
    return Phi, X, Y + sigma * np.random.default_rng(2).standard_normal(Y.shape), sigma


def takes_noise():
    # vamp learns it by itself, aiht is for clustered atoms, and exact takes long where a level is too low
    return [name for name in ms.solvers.METHODS.able("noise") if name not in ("vamp", "aiht", "exact")]


def options_of(name):
    entry = ms.solvers.METHODS.entry(name)
    return {"sparsity": 3} if "sparsity" in entry.needs else {}


@pytest.mark.parametrize("name", takes_noise())
def test_about_as_good_as_with_the_level_given(name, signals):
    Phi, X, Y, sigma = signals
    error = {}
    for noise in (sigma, "auto"):
        coef = ms.solve(Phi, Y, method=name, noise=noise, **options_of(name)).coef
        error[noise] = np.median(np.sum((coef - X) ** 2, axis=1) / np.sum(X**2, axis=1))
    assert error["auto"] < 1.5 * error[sigma] + 1e-4


def test_a_signal_does_not_depend_on_its_batch(signals):
    Phi, _, Y, _ = signals
    together = ms.solvers.omp(Phi, Y, noise="auto")
    alone = np.concatenate([ms.solvers.omp(Phi, y[None], noise="auto").coef for y in Y[:5]])
    np.testing.assert_array_equal(together.coef[:5], alone)


def test_exact_signals_are_solved_exactly(signals):
    Phi = signals[0]
    _, Y = ms.signals.sample(Phi, 20, sparsity=3, rng=5)
    Y[7] = 0.0
    for name in ("omp", "l1"):
        plain, auto = (ms.solve(Phi, Y, method=name, noise=noise) for noise in (0.0, "auto"))
        np.testing.assert_array_equal(auto.coef, plain.coef)
    assert ms.solvers.omp(Phi, Y[:0], noise="auto").coef.shape == (0, 60)


def test_whitening_is_regularised_by_the_estimate():
    """A library of smooth bumps: whitened without a noise level, coefficients explode."""
    places = np.linspace(0, 39, 90)
    Phi = np.exp(-0.5 * ((np.arange(40)[:, None] - places) / 2.0) ** 2)
    rng = np.random.default_rng(0)
    X = np.zeros((10, 90))
    for x in X:
        x[rng.choice(90, 2, replace=False)] = rng.uniform(0.5, 1.0, 2)
    Y = X @ Phi.T + 1e-3 * rng.standard_normal((10, 40))
    wild, tame = (ms.solvers.omp(Phi, Y, precondition=True, noise=noise).coef for noise in (0.0, "auto"))
    assert np.abs(wild).max() > 1e3
    assert np.abs(tame).max() < 30


def test_what_cannot_be_estimated_is_refused(signals):
    Phi, _, Y, _ = signals
    with pytest.raises(ValueError, match='noise="auto" is for real signals'):
        ms.solvers.omp(Phi.astype(complex), Y.astype(complex), noise="auto")
    with pytest.raises(ValueError, match="noise must be a number or \"auto\", got 'some'"):
        ms.solvers.omp(Phi, Y, noise="some")
    with pytest.raises(ValueError, match="callback= cannot be used here"):
        ms.solvers.omp(Phi, Y, noise="auto", callback=lambda t, X: None)


def test_snapshots_share_one_level(signals):
    Phi, X, _, sigma = signals
    rng = np.random.default_rng(3)
    coefficients = (X[:8, None] != 0) * rng.uniform(0.2, 0.5, (8, 6, 60))
    Y = coefficients @ Phi.T + sigma * rng.standard_normal((8, 6, 20))
    result = ms.solvers.omp(Phi, Y, noise="auto")
    known = ms.solvers.omp(Phi, Y, noise=sigma)
    assert np.sum((result.coef - coefficients) ** 2) < 1.5 * np.sum((known.coef - coefficients) ** 2)


@pytest.mark.parametrize("name", [name for name in ms.solvers.METHODS if name != "aiht"])
def test_solve_has_the_defaults_of_the_method(name, signals):
    Phi, _, Y, _ = signals
    Phi, Y, options = Phi[:10, :20], Y[:3, :10], options_of(name)
    signature = inspect.signature(getattr(ms.solvers, name)).parameters
    assert signature["precondition"].default is False
    by_name, direct = ms.solve(Phi, Y, method=name, **options), getattr(ms.solvers, name)(Phi, Y, **options)
    np.testing.assert_array_equal(by_name.coef, direct.coef)
