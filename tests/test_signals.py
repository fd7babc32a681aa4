"""Signals against their definitions."""

import itertools

import numpy as np
import pytest
import scipy.stats

import maxsparse as ms


@pytest.fixture(scope="module")
def Phi():
    return ms.dictionaries.gaussian(20, 100, rng=0)


def test_measurements_and_shapes(Phi):
    X, Y = ms.signals.sample(Phi, 50, sparsity=7, rng=1)
    assert X.shape == (50, 100)
    assert Y.shape == (50, 20)
    np.testing.assert_allclose(Y, X @ Phi.T)
    assert ((X != 0).sum(axis=1) == 7).all()


def test_seeds(Phi):
    a, b, c = (ms.signals.sample(Phi, 20, sparsity=3, rng=seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
    generator = np.random.default_rng(1)
    np.testing.assert_array_equal(a, ms.signals.sample(Phi, 20, sparsity=3, rng=generator)[0])
    assert not np.array_equal(a, ms.signals.sample(Phi, 20, sparsity=3, rng=generator)[0])


@pytest.mark.parametrize("d", [1, 2, 3, 5, 6])
def test_supports_are_uniform_over_all_subsets(d):
    m, N = 6, 60_000
    X, _ = ms.signals.sample(np.eye(m), N, sparsity=d, rng=d)
    codes = (X != 0) @ (1 << np.arange(m))
    counts = np.bincount(codes, minlength=2**m)
    subsets = [sum(1 << i for i in subset) for subset in itertools.combinations(range(m), d)]
    assert counts[subsets].sum() == N
    if len(subsets) > 1:
        assert scipy.stats.chisquare(counts[subsets]).pvalue > 0.001


def test_ranged_sparsity_is_uniform_and_so_are_its_supports():
    X, _ = ms.signals.sample(np.eye(5), 60_000, sparsity=(1, 3), rng=0)
    d = (X != 0).sum(axis=1)
    assert scipy.stats.chisquare(np.bincount(d, minlength=6)[1:4]).pvalue > 0.001
    for size in (1, 2, 3):
        codes = (X[d == size] != 0) @ (1 << np.arange(5))
        counts = np.bincount(codes)
        assert scipy.stats.chisquare(counts[counts > 0]).pvalue > 0.001


@pytest.mark.parametrize(
    ("law", "cdf"),
    [
        ("uniform", lambda a: np.clip((np.abs(a) - 0.1) / 0.4, 0, 1)),
        (
            "gaussian",
            lambda a: scipy.stats.norm(0.3, 0.1).cdf(np.abs(a)) - scipy.stats.norm(0.3, 0.1).cdf(-np.abs(a)),
        ),
    ],
)
def test_amplitude_laws(Phi, law, cdf):
    X, _ = ms.signals.sample(Phi, 10_000, sparsity=4, amplitudes=law, rng=0)
    values = X[X != 0]
    assert values.size == 40_000
    assert scipy.stats.kstest(cdf(values), "uniform").pvalue > 0.001  # magnitudes
    assert scipy.stats.binomtest(int((values > 0).sum()), values.size).pvalue > 0.001  # signs
    if law == "uniform":
        assert np.abs(values).min() >= 0.1
        assert np.abs(values).max() <= 0.5


def test_unit_amplitudes(Phi):
    X, _ = ms.signals.sample(Phi, 1000, sparsity=4, amplitudes="unit", rng=0)
    assert set(np.unique(X)) == {-1.0, 0.0, 1.0}


def test_amplitudes_do_not_depend_on_the_atom(Phi):
    X, _ = ms.signals.sample(Phi, 50_000, sparsity=4, rng=0)
    first, last = np.abs(X[:, :10]), np.abs(X[:, 90:])
    assert scipy.stats.ks_2samp(first[first > 0], last[last > 0]).pvalue > 0.001


def test_callable_amplitudes(Phi):
    X, _ = ms.signals.sample(Phi, 10, sparsity=2, amplitudes=lambda rng, size: rng.uniform(5, 6, size), rng=0)
    assert X[X != 0].min() >= 5


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (lambda rng, size: np.zeros(size), "nonzero values"),
        (lambda rng, size: np.full(size, np.nan), "finite"),
        (lambda rng, size: 1.0, r"must return shape \(6,\), got \(\)"),
        ("cauchy", "amplitudes must be one of 'uniform', 'gaussian', 'unit', got 'cauchy'"),
    ],
)
def test_bad_amplitudes(Phi, law, message):
    with pytest.raises(ValueError, match=message):
        ms.signals.sample(Phi, 3, sparsity=2, amplitudes=law)


def test_noise_as_standard_deviation(Phi):
    X, Y = ms.signals.sample(Phi, 5000, sparsity=3, noise=0.02, rng=0)
    noise = Y - X @ Phi.T
    assert scipy.stats.kstest(noise.ravel() / 0.02, "norm").pvalue > 0.001


def test_noise_as_snr(Phi):
    X, Y = ms.signals.sample(Phi, 5000, sparsity=(1, 8), snr_db=17.0, rng=0)
    clean = X @ Phi.T
    power = (clean**2).sum(axis=1) / ((Y - clean) ** 2).sum(axis=1)
    # 1/power is chi-square(n)/n of the wanted ratio, whatever the size of the signal.
    assert 10 * np.log10(1 / np.mean(1 / power)) == pytest.approx(17.0, abs=0.05)


def test_float32_is_kept(Phi):
    for noise in ({}, {"noise": 0.1}, {"snr_db": 10.0}):
        X, Y = ms.signals.sample(Phi.astype(np.float32), 5, sparsity=2, rng=0, **noise)
        assert X.dtype == Y.dtype == np.float32


@pytest.mark.parametrize(("N", "d"), [(0, 3), (1, 3), (4, 0), (4, 100)])
def test_edges(Phi, N, d):
    X, Y = ms.signals.sample(Phi, N, sparsity=d, rng=0)
    assert X.shape == (N, 100)
    assert Y.shape == (N, 20)
    assert ((X != 0).sum(axis=1) == d).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sparsity": 101}, "sparsity must be from 0 to 100, got 101"),
        ({"sparsity": (5, 3)}, r"sparsity\[1\] must be from 5 to 100, got 3"),
        ({"sparsity": (1, 2, 3)}, "sparsity must be a number or a pair"),
        ({"sparsity": 2.0}, "sparsity must be a whole number"),
        ({"sparsity": 2, "noise": -1}, "noise must be at least 0"),
        ({"sparsity": 2, "noise": 0.1, "snr_db": 20}, "give noise or snr_db, not both"),
        ({"sparsity": 2, "rng": "x"}, "rng must be a whole number"),
    ],
)
def test_bad_arguments(Phi, arguments, message):
    with pytest.raises(ValueError, match=message):
        ms.signals.sample(Phi, 3, **arguments)
    with pytest.raises(ValueError, match=message):
        ms.signals.stream(Phi, 3, **arguments)  # at once, not at the first batch


def test_stream_is_reproducible_resumable_and_never_repeats(Phi):
    first = list(itertools.islice(ms.signals.stream(Phi, 8, sparsity=(1, 5), rng=3), 50))
    again = list(itertools.islice(ms.signals.stream(Phi, 8, sparsity=(1, 5), rng=3, start=20), 30))
    for (X, Y), (X2, Y2) in zip(first[20:], again, strict=True):
        np.testing.assert_array_equal(X, X2)
        np.testing.assert_array_equal(Y, Y2)
    everything = np.concatenate([X for X, _ in first])
    assert len(np.unique(everything, axis=0)) == 400
    other = next(ms.signals.stream(Phi, 8, sparsity=(1, 5), rng=4))[0]
    assert not np.array_equal(other, first[0][0])


def test_stream_seeds_from_a_generator(Phi):
    streams = [ms.signals.stream(Phi, 2, sparsity=1, rng=np.random.default_rng(1)) for _ in range(2)]
    np.testing.assert_array_equal(next(streams[0])[0], next(streams[1])[0])
    fresh = [next(ms.signals.stream(Phi, 2, sparsity=1))[0] for _ in range(2)]
    assert not np.array_equal(*fresh)
