"""Noise that nobody gave: evidence against integration, levels against enumeration and truth, exact signals."""

from itertools import combinations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import comb, logsumexp
from scipy.stats import multivariate_normal

import maxsparse as ms
import maxsparse.recovery.noise_level as ladder
from maxsparse.recovery._free import Free, climb_free, settle_free, start_free
from maxsparse.recovery._sweep import make_sweep
from maxsparse.recovery.law import wide_law
from maxsparse.recovery.noise_level import noise_level


def noisy(kind, d, snr, count, shape=(20, 100), seed=1):
    """Return a dictionary, coefficients, signals with noise at that ratio in dB, and σ."""
    Phi = getattr(ms.dictionaries, kind)(*shape, rng=0)
    X, Y = ms.signals.sample(Phi, count, sparsity=d, rng=seed)
    sigma = float(np.sqrt(np.mean(Y**2)) * 10 ** (-snr / 20))
    return Phi, X, Y + sigma * np.random.default_rng(seed + 1).standard_normal(Y.shape), sigma


def free_of(Phi, y, most):
    spectrum, basis = np.linalg.eigh(Phi @ Phi.T)
    m = Phi.shape[1]
    return Free(Phi.T @ y, np.zeros(m), wide_law(1.0, most).prior(m), spectrum, (y @ basis) ** 2, float(y @ y))


def closed_form(Phi, y, S, ratio, most):
    """Return log p(y, S) relative to noise alone, up to the probability of a size."""
    n, m = Phi.shape
    C = np.eye(n) + ratio * Phi[:, S] @ Phi[:, S].T
    fit = -0.5 * np.linalg.slogdet(C)[1] - 0.5 * n * np.log(y @ np.linalg.solve(C, y) / (y @ y))
    return fit - np.log(comb(m, len(S))) - np.log(most + 1)


def test_evidence_is_the_integral_over_noise_levels():
    Phi, _, Y, _ = noisy("gaussian", 2, 15, 1, shape=(6, 9))
    y, ratio, n = Y[0], 30.0, 6

    def log_integral(S):
        C = np.eye(n) + ratio * Phi[:, S] @ Phi[:, S].T

        def density(log_sigma):
            return multivariate_normal(np.zeros(n), np.exp(2 * log_sigma) * C).pdf(y)

        return np.log(quad(density, -12, 6, points=[-4, -2, 0], limit=400)[0])

    s = make_sweep(9, 5)
    free = free_of(Phi, y, 4)
    none = log_integral([])
    for S in ([2], [0, 5], [1, 4, 8]):
        value, q = start_free(s, free, Phi.T @ Phi, ratio, np.array(S), len(S))
        prior = -np.log(comb(9, len(S))) - np.log(5)
        assert value - prior == pytest.approx(log_integral(S) - none, abs=1e-6)
        C = np.eye(n) + ratio * Phi[:, S] @ Phi[:, S].T
        assert q == pytest.approx(y @ np.linalg.solve(C, y), rel=1e-9)


@pytest.mark.parametrize("kind", ["gaussian", "decaying"])
def test_a_climb_ends_where_no_change_of_one_atom_helps(kind):
    Phi, _, Y, _ = noisy(kind, 3, 20, 5, shape=(10, 20))
    most = 8
    s = make_sweep(20, most + 1)
    for y in Y:
        free = free_of(Phi, y, most)
        for ratio in (30.0, 1e5):
            value, q = start_free(s, free, Phi.T @ Phi, ratio, np.array([0, 7]), 2)
            value, q = climb_free(s, free, Phi.T @ Phi, ratio, value, q)
            S = sorted(int(j) for j in s.support[: s.size[0]])
            assert value == pytest.approx(closed_form(Phi, y, S, ratio, most), abs=1e-5)
            outside = [j for j in range(20) if j not in S]
            flips = [sorted({*S} ^ {j}) for j in range(20) if len({*S} ^ {j}) <= most]
            swaps = [sorted(({*S} - {i}) | {j}) for i in S for j in outside]
            best = max(closed_form(Phi, y, T, ratio, most) for T in flips + swaps)
            assert best <= value + 1e-3


def test_the_best_explanation_is_that_of_an_enumeration():
    Phi, _, Y, _ = noisy("gaussian", 2, 15, 12, shape=(8, 14))
    m, most = 14, 6
    levels = noise_level(Phi, Y, np.zeros((12, m)), starts=200)
    ratios = np.geomspace(1e-2, 1e6, 100)
    for y, support in zip(Y, levels.support[:, 0], strict=True):
        best = -np.inf
        for k in range(most + 1):
            for S in combinations(range(m), k):
                A = Phi[:, S]
                U, sizes, _ = np.linalg.svd(A, full_matrices=False)
                inside = (U.T @ y) ** 2
                q = y @ y - inside.sum() + (inside / (1 + ratios[:, None] * sizes**2)).sum(axis=1)
                fit = -0.5 * np.log1p(ratios[:, None] * sizes**2).sum(axis=1) - 4 * np.log(q / (y @ y))
                best = max(best, fit.max() - np.log(comb(m, k)) - np.log(most + 1))
        own = max(closed_form(Phi, y, np.flatnonzero(support), ratio, most) for ratio in ratios)
        assert own >= best - 0.2  # ρ is learned up to so much only


@pytest.mark.parametrize(("kind", "d", "snr"), [("gaussian", 3, 20), ("gaussian", 5, 30), ("decaying", 3, 50)])
def test_level_and_support_of_single_signals(kind, d, snr):
    Phi, X, Y, sigma = noisy(kind, d, snr, 60)
    result, known = ms.SparseRecoverer(Phi).recover(Y), ms.SparseRecoverer(Phi, noise=sigma).recover(Y)
    right, rate = ((r.support == (X != 0)).all(axis=1) for r in (result, known))
    assert right.mean() > rate.mean() - 0.08
    ratio = result.noise / sigma
    assert np.median(ratio) == pytest.approx(1.0, abs=0.15)  # from n - d = 17 residuals, none is better than a sixth
    assert np.mean((ratio > 0.5) & (ratio < 2)) > 0.9
    assert not result.certified.any()
    assert abs(result.confidence.mean() - right.mean()) < 0.2
    np.testing.assert_allclose(known.noise, sigma)


@pytest.mark.parametrize(("kind", "d"), [("gaussian", 4), ("gaussian", 8), ("decaying", 7)])
def test_exact_signals_have_the_answers_that_they_have_without_noise(kind, d):
    Phi = getattr(ms.dictionaries, kind)(20, 100, rng=0)
    _, Y = ms.signals.sample(Phi, 60, sparsity=d, rng=1)
    Y *= np.geomspace(1e-6, 1e6, 60)[:, None]
    result, exact = ms.SparseRecoverer(Phi).recover(Y), ms.SparseRecoverer(Phi, noise=0).recover(Y)
    assert (result.certified >= exact.certified).all()
    assert exact.certified.mean() > 0.95
    same = exact.certified
    for name in ("coef", "argument", "confidence", "lower", "upper"):
        np.testing.assert_array_equal(getattr(result, name)[same], getattr(exact, name)[same])
    assert (result.noise[same] == 0).all()


def test_the_least_noise_that_is_more_than_rounding_is_noise():
    Phi, X, Y, _ = noisy("gaussian", 3, 150, 20)
    result = ms.SparseRecoverer(Phi).recover(Y)
    assert not result.certified.any()
    np.testing.assert_array_equal(result.support, X != 0)


def test_mixed_signals_batches_and_threads():
    Phi, X, Y, _ = noisy("gaussian", 3, 25, 12)
    Y[::3] = X[::3] @ Phi.T
    Y[5] = 0
    model = ms.SparseRecoverer(Phi, budget="fast")
    result = model.recover(Y)
    exact = np.zeros(12, dtype=bool)
    exact[[0, 3, 5, 6, 9]] = True
    np.testing.assert_array_equal(result.certified, exact)
    np.testing.assert_array_equal(result.noise == 0, exact)
    assert result.posterior is not None
    assert len(result.posterior) == 12
    np.testing.assert_array_equal(result.mean[exact], result.coef[exact])
    np.testing.assert_array_equal(result.inclusion[exact], result.support[exact])
    assert (result.mean[~exact] != result.coef[~exact]).any()
    for i in range(12):
        support, probability = result.alternatives(i)[0]
        np.testing.assert_array_equal(support, np.flatnonzero(result.support[i]))
        assert probability == pytest.approx(result.confidence[i])
        assert [list(s) for s, _ in result[i].alternatives(0)] == [list(s) for s, _ in result.alternatives(i)]
    one = ms.SparseRecoverer(Phi, budget="fast", n_threads=1).recover(Y[::-1])
    for name in ("coef", "noise", "confidence", "mean", "inclusion", "scores", "converged", "iterations"):
        np.testing.assert_array_equal(getattr(one, name)[::-1], getattr(result, name))
        np.testing.assert_array_equal(getattr(model.recover(Y[4:5]), name)[0], getattr(result, name)[4])


def test_a_smooth_library():
    """120×300 gaussian bumps of neighbouring centres, condition 10¹²: four of them with noise."""
    grid, centres = np.linspace(0, 1, 120)[:, None], np.linspace(0, 1, 300)
    Phi = np.exp(-0.5 * ((grid - centres) / 0.02) ** 2)
    rng = np.random.default_rng(0)
    X = np.zeros((6, 300))
    for x in X:
        x[rng.choice(300, 4, replace=False)] = rng.uniform(0.2, 1.0, 4)
    Y = X @ Phi.T + 1e-3 * rng.standard_normal((6, 120))
    result = ms.SparseRecoverer(Phi).recover(Y)
    assert np.mean((result.support == (X != 0)).all(axis=1)) >= 0.8
    np.testing.assert_allclose(result.noise, 1e-3, rtol=0.5)


def test_dependent_atoms_have_the_evidence_of_the_closed_form():
    Phi = np.repeat(ms.dictionaries.gaussian(6, 4, rng=0), 2, axis=1)  # every atom twice
    y = Phi[:, 0] + 0.5 * Phi[:, 2] + 1e-3 * np.random.default_rng(0).standard_normal(6)
    s, free = make_sweep(8, 6), free_of(Phi, y, 5)
    for start in ([0, 1, 2, 3], [0, 2], [4, 5]):
        value, _, ratio = settle_free(s, free, Phi.T @ Phi, 1e8, np.array(start), len(start))
        S = s.support[: s.size[0]]
        assert value == pytest.approx(closed_form(Phi, y, S, ratio, 5), abs=1e-3)


def test_odd_sizes():
    for shape in ((1, 1), (1, 5), (3, 7), (4, 9), (6, 4), (5, 5)):
        Phi = ms.dictionaries.gaussian(*shape, rng=0)
        Y = np.random.default_rng(0).standard_normal((3, shape[0]))
        result = ms.SparseRecoverer(Phi, budget="fast").recover(Y)
        assert np.isfinite(result.coef).all()
        assert np.isfinite(result.noise).all()
    assert len(ms.SparseRecoverer(Phi).recover(np.zeros((0, 5)))) == 0


def test_large_dictionaries_are_searched_on_their_promising_atoms():
    Phi, X, Y, sigma = noisy("gaussian", 4, 25, 4, shape=(40, 700))
    result = ms.SparseRecoverer(Phi, budget="fast").recover(Y)
    np.testing.assert_array_equal(result.support, X != 0)
    np.testing.assert_allclose(result.noise, sigma, rtol=0.5)


def test_levels_add_up_to_one_posterior():
    Phi, _, Y, _ = noisy("gaussian", 3, 12, 20)
    result = ms.SparseRecoverer(Phi, budget="fast").recover(Y)
    for i in range(20):
        listed = [p for _, p in result.alternatives(i)]
        assert sum(listed) < 1 + 1e-6
        assert logsumexp(np.log(listed)) > np.log(0.3)


def test_files_keep_the_word(tmp_path):
    Phi = ms.dictionaries.gaussian(10, 30, rng=0)
    ms.SparseRecoverer(Phi).save(tmp_path / "model.safetensors")
    assert ms.load(tmp_path / "model.safetensors").noise == "auto"


def test_crowded_climbs_that_are_given_up_change_no_answer(monkeypatch):
    """On a large Φ, levels far below the noise are not climbed to their end."""
    Phi = ms.dictionaries.gaussian(100, 600, rng=0)
    X, Y = ms.signals.sample(Phi, 6, sparsity=8, noise=0.005, rng=1)
    assert ladder.COSTLY < 100**2 * 600
    brief = ms.SparseRecoverer(Phi).recover(Y)
    monkeypatch.setattr(ladder, "COSTLY", np.inf)
    whole = ms.SparseRecoverer(Phi).recover(Y)
    assert ((brief.support == (X != 0)).all(axis=1)).mean() > 0.8
    np.testing.assert_array_equal(brief.support, whole.support)
    np.testing.assert_allclose(brief.noise, whole.noise, rtol=0.02)
    np.testing.assert_allclose(brief.confidence, whole.confidence, atol=0.02)
