"""SparseRecoverer with noise: what a user gets, and that every form of `noise` means what it says."""

import itertools

import numpy as np
import pytest

import maxsparse as ms


@pytest.fixture(scope="module")
def Phi():
    return ms.dictionaries.gaussian(20, 60, rng=0)


@pytest.fixture(scope="module")
def batch(Phi):
    return ms.signals.sample(Phi, 60, sparsity=4, noise=0.01, rng=1)


def test_everything_that_the_contract_names(Phi, batch):
    X, Y = batch
    result = ms.SparseRecoverer(Phi, noise=0.01).recover(Y)
    right = (result.support == (X != 0)).all(axis=1)
    assert right.mean() > 0.95
    assert result.mean.shape == result.inclusion.shape == X.shape
    assert result.confidence.shape == result.lower.shape == result.upper.shape == (60,)
    assert ((result.inclusion >= 0) & (result.inclusion <= 1)).all()
    assert (result.upper[right] == 4).mean() > 0.9  # the residual is within the radius of the noise
    assert not result.certified.any()
    for i in range(60):
        supports = result.alternatives(i)
        probabilities = [probability for _, probability in supports]
        assert probabilities == sorted(probabilities, reverse=True)
        assert sum(probabilities) < 1 + 1e-9
        assert probabilities[0] == result.confidence[i]
        np.testing.assert_array_equal(supports[0][0], np.flatnonzero(result.support[i]))
        # Inclusion is at least what the listed supports say, and at most what is not listed more.
        listed = np.zeros(60)
        for support, probability in supports:
            listed[support] += probability
        assert (result.inclusion[i] >= listed - 1e-6).all()
        assert (result.inclusion[i] <= listed + 1 - sum(probabilities) + 1e-6).all()


def test_coefficients_are_least_squares_and_the_mean_shrinks(Phi, batch):
    X, Y = batch
    result = ms.SparseRecoverer(Phi, noise=0.01).recover(Y)
    S = result.support[0]
    np.testing.assert_allclose(result.coef[0, S], np.linalg.lstsq(Phi[:, S], Y[0], rcond=None)[0], atol=1e-10)
    assert np.sum((result.mean - X) ** 2) <= 1.05 * np.sum((result.coef - X) ** 2)


def test_credible_sets_hold_nearly_equal_atoms():
    rng = np.random.default_rng(0)
    base = ms.dictionaries.gaussian(20, 30, rng=1)
    twins = base[:, :1] + 0.02 * rng.standard_normal((20, 3))
    Phi = np.hstack([base, twins / np.linalg.norm(twins, axis=0)])
    x = np.zeros(33)
    x[[0, 7, 20]] = 1.0, -0.8, 0.6
    Y = (Phi @ x)[None] + 0.05 * rng.standard_normal((50, 20))
    result = ms.SparseRecoverer(Phi, noise=0.05).recover(Y)
    holds = 0
    for i in range(50):
        sets = result.credible_sets(i, level=0.95)
        assert all(s.probability.sum() <= 1 + 1e-9 for s in sets)
        twin_set = [s for s in sets if set(s.atoms) & {0, 30, 31, 32}]
        holds += any(0 in s.atoms for s in twin_set)
        assert len(result.credible_sets(i, level=0.5)[0].atoms) <= len(sets[0].atoms)
    assert holds >= 45


def test_noise_of_every_measurement_and_covariance(Phi):
    """(n,) and (n, n) are the whitened problem; measurements known to be bad hardly count."""
    rng = np.random.default_rng(0)
    sigma = np.where(np.arange(20) < 6, 1.0, 0.005)
    X, Y = ms.signals.sample(Phi, 40, sparsity=3, rng=2)
    Y = Y + sigma * rng.standard_normal(Y.shape)
    told = ms.SparseRecoverer(Phi, noise=sigma).recover(Y)
    covariance = ms.SparseRecoverer(Phi, noise=np.diag(sigma**2)).recover(Y)
    by_hand = ms.SparseRecoverer(Phi / sigma[:, None], noise=1.0).recover(Y / sigma)
    averaged = ms.SparseRecoverer(Phi, noise=float(np.sqrt(np.mean(sigma**2)))).recover(Y)
    right = [(result.support == (X != 0)).all(axis=1).mean() for result in (told, covariance, averaged)]
    assert right[0] == right[1] > 0.8 > right[2]
    np.testing.assert_array_equal(told.support, covariance.support)
    np.testing.assert_allclose(told.residual, np.linalg.norm(Y - told.coef @ Phi.T, axis=1))
    assert (by_hand.support == told.support).all(
        axis=1
    ).mean() > 0.9  # atoms have other lengths there, so another prior


def test_correlated_noise():
    Phi = ms.dictionaries.gaussian(20, 60, rng=0)
    rng = np.random.default_rng(0)
    common = np.ones((20, 1)) + 0.1 * rng.standard_normal((20, 2))
    C = common @ common.T + 1e-4 * np.eye(20)
    X, Y = ms.signals.sample(Phi, 40, sparsity=3, rng=2)
    Y = Y + rng.multivariate_normal(np.zeros(20), C, size=40)
    told = ms.SparseRecoverer(Phi, noise=C).recover(Y)
    white = ms.SparseRecoverer(Phi, noise=1.0).recover(Y)
    right = [(result.support == (X != 0)).all(axis=1).mean() for result in (told, white)]
    assert right[0] > 0.8 > 0.2 > right[1]


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (-1.0, "noise must be at least 0"),
        (np.ones(19), r"20 standard deviations .* got shape \(19,\)"),
        (np.zeros(20), "all must be positive"),
        (np.full(20, np.nan), "not finite"),
        (np.triu(np.ones((20, 20))), "not symmetric"),
        (np.ones((20, 20)), "positive definite"),
        ("loud", "noise must be .auto., a number or an array"),
    ],
)
def test_noise_that_cannot_be(Phi, noise, message):
    with pytest.raises(ValueError, match=message):
        ms.SparseRecoverer(Phi, noise=noise).recover(np.ones((1, 20)))


def test_proofs_are_for_the_answer_and_honest(Phi, batch):
    _, Y = batch
    result = ms.SparseRecoverer(Phi, noise=0.01).recover(Y[:10], prove=300)
    assert (result.lower <= np.maximum(result.upper, result.lower)).all()
    optimal = result.argument == "optimal"
    np.testing.assert_array_equal(optimal, result.certified)
    assert optimal.mean() > 0.5
    assert (result.lower[optimal] == result.support[optimal].sum(axis=1)).all()


def test_proofs_at_a_learned_level_agree_with_enumeration():
    Phi = ms.dictionaries.gaussian(16, 30, rng=3)
    X, Y = ms.signals.sample(Phi, 12, sparsity=3, noise=0.02, rng=4)
    Y[::3] = X[::3] @ Phi.T  # exact ones among them
    result = ms.SparseRecoverer(Phi).recover(Y, prove=300)
    noisy = np.flatnonzero(result.noise > 0)
    assert len(noisy) >= 6
    assert (result.argument[noisy] == "optimal").sum() >= 4
    assert "optimal" not in result.argument[result.noise == 0]
    pairs = np.array(list(itertools.combinations(range(30), 2)))
    for i in noisy:
        radius = ms.recovery.noise_radius(16, float(result.noise[i]))
        left = min(np.linalg.norm(Y[i] - Phi[:, S] @ np.linalg.lstsq(Phi[:, S], Y[i])[0]) for S in pairs)
        assert (result.lower[i] > 2) <= (left > radius * (1 - 1e-9))
        if result.argument[i] == "optimal":
            assert (result.lower[i] <= 2) == (left <= radius)


def test_batch_single_threads_slices_and_files(Phi, batch, tmp_path):
    _, Y = batch
    model = ms.SparseRecoverer(Phi, noise=0.01)
    together, alone = model.recover(Y), ms.SparseRecoverer(Phi, noise=0.01, n_threads=1).recover(Y[7:8])
    for name in ("coef", "mean", "inclusion", "confidence", "scores"):
        np.testing.assert_array_equal(getattr(together, name)[7], getattr(alone, name)[0])
    part = together[7:9]
    assert [p for _, p in part.alternatives(0)] == [p for _, p in alone.alternatives(0)]
    assert len(together[-1]) == 1
    with pytest.raises(IndexError, match="signal 60 is out of range"):
        together.alternatives(60)
    by_measurement = ms.SparseRecoverer(Phi, noise=np.full(20, 0.01))
    by_measurement.save(tmp_path / "model.safetensors")
    loaded = ms.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.recover(Y[:5]).coef, by_measurement.recover(Y[:5]).coef)


def test_empty_zero_and_float32(Phi):
    model = ms.SparseRecoverer(Phi, noise=0.01)
    assert model.recover(np.zeros((0, 20))).mean.shape == (0, 60)
    zero = model.recover(np.zeros((2, 20)))
    assert not zero.coef.any()
    assert (zero.confidence > 0.5).all()
    _, Y = ms.signals.sample(Phi, 5, sparsity=2, noise=0.01, rng=1)
    single = ms.SparseRecoverer(Phi.astype(np.float32), noise=0.01).recover(Y.astype(np.float32))
    assert single.coef.dtype == single.mean.dtype == np.float32
    np.testing.assert_array_equal(single.support, model.recover(Y).support)
