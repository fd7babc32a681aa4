"""VAMP against the published algorithm, one signal at a time, and its parts against numerical integration."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import maxsparse as ms
from maxsparse.solvers._vamp_steps import first_state, prior_estimate, scaled_signals
from maxsparse.solvers.vamp import _factors, _product


def normalised_error(X, coef):
    """Squared error over the signals' energy, in dB."""
    return 10 * np.log10(np.sum((coef - X) ** 2) / np.sum(X**2))


def bernoulli_gaussian(Phi, count, nonzeros, snr, seed):
    """Signals of the public NA-ALISTA benchmark; returns X, Y scaled to unit noise, and the scale."""
    rng = np.random.default_rng(seed)
    m = Phi.shape[1]
    X = (rng.random((count, m)) < nonzeros / m) * rng.standard_normal((count, m))
    Y = X @ Phi.T
    sigma = Y.std(axis=1, keepdims=True) * 10 ** (-snr / 20)
    return X / sigma, Y / sigma + rng.standard_normal(Y.shape)


def reference(Phi, y, sigma, iterations, damping):
    """Algorithm 2 of Rangan, Schniter and Fletcher with the posterior as dense matrices, EM, and damped messages.

    Returns the x1 of all iterates and how much each is to be doubted: its distance from x2, and σ² above its goal.
    """
    n, m = Phi.shape
    scale = np.sqrt(np.mean(y**2))
    y, goal = y / scale, (sigma / scale) ** 2
    energy = n / np.sum(Phi**2)
    rho, sigma2 = 0.1 * min(n, m) / m, max(1.0, goal)
    v, gamma1, r1, old = energy / rho, 1 / energy, np.zeros(m), None
    iterates, doubts = [], []
    for t in range(iterations):
        # p(x | r1) is a mixture of a spike and a gaussian
        spike, slab = norm.pdf(r1, 0, np.sqrt(1 / gamma1)), norm.pdf(r1, 0, np.sqrt(v + 1 / gamma1))
        p = rho * slab / (rho * slab + (1 - rho) * spike)
        mean, variance = r1 * v / (v + 1 / gamma1), 1 / (1 / v + gamma1)
        x1 = p * mean
        eta1 = 1 / np.mean(p * (mean**2 + variance) - x1**2)
        gamma2, h2 = eta1 - gamma1, eta1 * x1 - gamma1 * r1
        if t > 0:
            gamma2, h2 = (damping * a + (1 - damping) * b for a, b in zip((gamma2, h2), old, strict=True))
            rho, v = p.mean(), np.sum(p * (mean**2 + variance)) / p.sum()
        old = gamma2, h2
        # p(x | r2, y) is gaussian
        covariance = np.linalg.inv(Phi.T @ Phi / sigma2 + gamma2 * np.eye(m))
        x2 = covariance @ (Phi.T @ y / sigma2 + h2)
        eta2 = m / np.trace(covariance)
        fresh = eta2 - gamma2, eta2 * x2 - h2
        share = damping if t > 0 else 1.0
        h1 = share * fresh[1] + (1 - share) * gamma1 * r1
        gamma1 = share * fresh[0] + (1 - share) * gamma1
        r1 = h1 / gamma1
        sigma2 = max(sigma2 / 2, goal)
        iterates.append(x1 * scale)
        doubts.append(np.sum((x1 - x2) ** 2) / np.sum(x2**2) + sigma2 - goal)
    return iterates, doubts


@pytest.mark.parametrize("iterations", [1, 4, 8, 14])
@pytest.mark.parametrize("shape", [(30, 60), (50, 40)])
def test_against_the_published_algorithm(iterations, shape):
    Phi = ms.dictionaries.gaussian(*shape, rng=0)
    _, Y = ms.signals.sample(Phi, 6, sparsity=4, noise=0.02, rng=1)
    seen = []
    ms.solvers.vamp(Phi, Y, noise=0.02, tol=0.0, max_iter=iterations, callback=lambda t, X: seen.append(X))
    for row, y in enumerate(Y):
        iterates, doubts = reference(Phi, y, 0.02, iterations, 0.9)
        np.testing.assert_allclose(seen[-1][row], iterates[np.argmin(doubts)], atol=1e-8)


def denoised(rho, v, gamma1, r1):
    """Run the compiled denoiser for one signal and return x1, the log odds and the state afterwards."""
    m = len(r1)
    factors = _factors(*np.linalg.svd(np.eye(m)))
    state = first_state(scaled_signals(np.ones((1, m)), factors, 0.1, False), factors)
    state.rho[0], state.v[0], state.g1[0], state.h1[0] = rho, v, gamma1, gamma1 * r1
    state.g2[0] = 1.0
    x1, r2, odds = np.zeros((3, m))
    prior_estimate(state, 0, factors, 1.0, x1, r2, odds)
    return x1, odds, state


@pytest.mark.parametrize(("rho", "v", "gamma1"), [(0.1, 1.0, 4.0), (0.3, 0.2, 50.0), (0.02, 5.0, 0.3)])
def test_denoiser_against_integration(rho, v, gamma1):
    r1 = np.array([-3.0, -0.4, 0.05, 0.1, 0.7, 2.0])
    x1, odds, state = denoised(rho, v, gamma1, r1)
    moments = np.zeros((3, len(r1)))
    for j, r in enumerate(r1):
        spike = (1 - rho) * norm.pdf(r, 0, gamma1**-0.5)

        def slab(x, power, r=r):
            return x**power * rho * norm.pdf(x, 0, v**0.5) * norm.pdf(r, x, gamma1**-0.5)

        middle, width = r * v / (v + 1 / gamma1), 12 / np.sqrt(1 / v + gamma1)
        parts = [quad(slab, middle - width, middle + width, args=(power,), epsabs=0)[0] for power in range(3)]
        moments[:, j] = np.array(parts) / (parts[0] + spike)
    p, mean, second = moments
    np.testing.assert_allclose(x1, mean, atol=1e-8)
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), p, atol=1e-8)
    precision = 1 / np.mean(second - mean**2)
    assert state.g2[0] == pytest.approx(max(precision - gamma1, 1e-6 * precision), rel=1e-6)
    # EM: the expected share of atoms in use, and their expected square
    assert state.rho[0] == pytest.approx(max(p.mean(), 0.5 / len(r1)), rel=1e-6)  # half an atom at least
    assert state.v[0] == pytest.approx(second.sum() / p.sum(), rel=1e-6)


def test_em_never_makes_the_messages_less_likely():
    rng = np.random.default_rng(0)
    r1 = (rng.random(400) < 0.1) * rng.standard_normal(400) * 2 + 0.3 * rng.standard_normal(400)
    gamma1, rho, v, likelihood = 1 / 0.09, 0.5, 0.5, []
    for _ in range(60):
        slab, spike = norm.pdf(r1, 0, np.sqrt(v + 1 / gamma1)), norm.pdf(r1, 0, gamma1**-0.5)
        likelihood.append(np.log(rho * slab + (1 - rho) * spike).sum())
        state = denoised(rho, v, gamma1, r1)[2]
        rho, v = state.rho[0], state.v[0]
    assert (np.diff(likelihood) >= -1e-9).all()
    assert rho == pytest.approx(0.1, abs=0.04)
    assert v == pytest.approx(4.0, rel=0.4)


@pytest.mark.parametrize("shape", [(7, 5), (33, 64), (20, 97)])
def test_products_in_tiles(shape):
    rng = np.random.default_rng(0)
    Phi, A = rng.standard_normal(shape), rng.standard_normal((4, shape[1]))
    factors = _factors(*np.linalg.svd(Phi, full_matrices=False))
    out, sums = np.zeros((4, min(shape))), np.zeros((4, 32))
    _product(A, np.zeros(4, dtype=bool), factors.V, sums, out)
    V = np.linalg.svd(Phi, full_matrices=False)[2].T
    np.testing.assert_allclose(np.abs(out), np.abs(A @ V), atol=1e-12)


@pytest.mark.parametrize("noise", [1.0, "auto", None])
def test_close_to_least_squares_on_the_true_support(noise):
    Phi = ms.dictionaries.gaussian(128, 256, rng=0)
    X, Y = bernoulli_gaussian(Phi, 40, 20, 40, seed=1)
    result = ms.solvers.vamp(Phi, Y, noise=noise)
    told = np.zeros_like(X)
    for x, y, out in zip(X, Y, told, strict=True):
        S = x != 0
        out[S] = np.linalg.lstsq(Phi[:, S], y, rcond=None)[0]
    assert normalised_error(X, result.coef) < normalised_error(X, told) + 1.0
    assert normalised_error(X, result.coef) < normalised_error(X, ms.solvers.sbl(Phi, Y, noise=1.0).coef) - 2.0
    assert result.converged.mean() > 0.95


def test_scores_are_log_odds():
    Phi = ms.dictionaries.gaussian(100, 200, rng=0)
    X, Y = bernoulli_gaussian(Phi, 300, 15, 20, seed=1)
    result = ms.solvers.vamp(Phi, Y, noise=1.0)
    probability, used = 1 / (1 + np.exp(-result.scores)), X != 0
    for low, high in ((0.0, 0.05), (0.2, 0.5), (0.5, 0.8), (0.95, 1.0)):
        inside = (probability >= low) & (probability <= high)
        expected = probability[inside].mean()
        chance = np.sqrt(expected * (1 - expected) / inside.sum())
        assert used[inside].mean() == pytest.approx(expected, abs=0.01 + 3 * chance)


def test_noiseless():
    Phi = ms.dictionaries.gaussian(64, 128, rng=0)
    X, Y = ms.signals.sample(Phi, 30, sparsity=8, rng=1)
    for noise in (0.0, "auto"):
        result = ms.solvers.vamp(Phi, Y, noise=noise)
        assert result.converged.all()
        assert normalised_error(X, result.coef) < -80
        assert ms.metrics.exact_recovery(X, ms.solvers.vamp(Phi, Y, noise=noise, sparsity=8).coef) == 1.0


def test_divergence_is_noticed():
    Phi = ms.dictionaries.decaying(64, 256, rng=0)
    X, Y = ms.signals.sample(Phi, 50, sparsity=6, rng=1)
    result = ms.solvers.vamp(Phi, Y, noise=1e-4)
    assert result.converged.mean() < 0.1
    assert (result.iterations < 200).mean() > 0.9  # given up early
    # What is kept is no worse than no answer at all, although later iterates are.
    error = np.sum((result.coef - X) ** 2, axis=1) / np.sum(X**2, axis=1)
    assert np.isfinite(result.coef).all()
    assert np.median(error) < 1.0
    assert error.max() < 10.0


def test_groups_of_four_do_not_mix():
    Phi = ms.dictionaries.gaussian(20, 50, rng=0)
    _, Y = ms.signals.sample(Phi, 11, sparsity=(1, 6), noise=0.02, rng=1)
    Y[4] = 0  # done before it starts
    whole = ms.solvers.vamp(Phi, Y)
    order = np.random.default_rng(0).permutation(len(Y))
    mixed = ms.solvers.vamp(Phi, Y[order])
    for name in ("coef", "scores", "iterations", "converged"):
        np.testing.assert_array_equal(getattr(mixed, name), getattr(whole, name)[order])


def test_more_noise_means_smaller_coefficients():
    Phi = ms.dictionaries.gaussian(50, 100, rng=0)
    _, Y = ms.signals.sample(Phi, 20, sparsity=5, noise=0.05, rng=1)
    size = [np.abs(ms.solvers.vamp(Phi, Y, noise=noise).coef).sum() for noise in (0.01, 0.1, 1.0)]
    assert size[0] > size[1] > size[2]


def test_bad_options():
    Phi = ms.dictionaries.gaussian(10, 20, rng=0)
    with pytest.raises(ValueError, match="noise must be a number or \"auto\", got 'loud'"):
        ms.solvers.vamp(Phi, Phi.T, noise="loud")
    with pytest.raises(ValueError, match="damping must be"):
        ms.solvers.vamp(Phi, Phi.T, damping=0.0)
