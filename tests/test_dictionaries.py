"""Dictionaries against their definitions."""

import numpy as np
import pytest
import scipy.io
import scipy.linalg
import scipy.stats

import maxsparse as ms


def make(kind, n, m, rng):
    return np.asarray(
        {
            "decaying": lambda: ms.dictionaries.decaying(n, m, rng=rng),
            "gaussian": lambda: ms.dictionaries.gaussian(n, m, rng=rng),
            "low_rank_plus": lambda: ms.dictionaries.low_rank_plus(n, m, rank=2, epsilon=0.05, rng=rng),
            "clustered": lambda: ms.dictionaries.clustered(n, m, clusters=m // 4, epsilon=0.05, rng=rng),
        }[kind]()
    )


KINDS = ["decaying", "gaussian", "low_rank_plus", "clustered"]


@pytest.mark.parametrize("kind", KINDS)
def test_unit_columns_full_rank_and_seeds(kind):
    Phi = make(kind, 12, 60, 3)
    assert Phi.shape == (12, 60)
    assert Phi.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(Phi, axis=0), 1.0, rtol=1e-13)
    assert np.linalg.matrix_rank(Phi) == 12
    np.testing.assert_array_equal(Phi, make(kind, 12, 60, 3))
    assert not np.array_equal(Phi, make(kind, 12, 60, 4))
    assert not np.array_equal(make(kind, 12, 60, None), make(kind, 12, 60, None))


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_decaying_singular_values_follow_the_power_law(power):
    # The i-th term has norm i^-p on average, and so has the i-th singular value away from both ends.
    spectra = [
        np.log(np.linalg.svd(ms.dictionaries.decaying(20, 400, power=power, rng=seed), compute_uv=False))
        for seed in range(40)
    ]
    i = np.arange(2, 15)
    slope, _ = np.polyfit(np.log(i), np.mean(spectra, axis=0)[i - 1], 1)
    assert slope == pytest.approx(-power, abs=0.25)


def test_decaying_is_the_paper_sum():
    rng = np.random.default_rng(9)
    U, V = rng.standard_normal((6, 6)), rng.standard_normal((6, 10))
    total = sum(np.outer(U[:, i], V[i]) / (i + 1) ** 2 for i in range(6))
    expected = total / np.linalg.norm(total, axis=0)
    np.testing.assert_allclose(ms.dictionaries.decaying(6, 10, rng=9), expected, rtol=1e-12)


def test_gaussian_is_uniform_on_the_sphere():
    # (φ·e + 1)/2 of a uniform direction in R^n is Beta((n-1)/2, (n-1)/2).
    n = 5
    Phi = ms.dictionaries.gaussian(n, 20_000, rng=0)
    direction = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    projection = (direction / np.linalg.norm(direction)) @ Phi
    law = scipy.stats.beta((n - 1) / 2, (n - 1) / 2)
    assert scipy.stats.kstest((projection + 1) / 2, law.cdf).pvalue > 0.001


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_low_rank_plus_has_that_rank_as_epsilon_vanishes(rank):
    sigma = np.linalg.svd(ms.dictionaries.low_rank_plus(10, 50, rank=rank, epsilon=1e-6, rng=1), compute_uv=False)
    if rank == 0:
        assert sigma[0] < 3 * sigma[-1]  # nothing but the incoherent part
    else:
        assert sigma[rank - 1] > 1e3 * sigma[rank]


def test_low_rank_plus_coherence_grows_as_epsilon_vanishes():
    mu = [ms.theory.coherence(ms.dictionaries.low_rank_plus(20, 100, epsilon=e, rng=0)) for e in (10, 0.1, 1e-3)]
    assert mu[0] < mu[1] < mu[2]
    assert mu[2] > 1 - 1e-5


def test_clustered_is_its_parts():
    parts = ms.dictionaries.clustered(10, 47, clusters=9, epsilon=0.2, rng=0)
    rebuilt = parts.centers[:, parts.labels] * parts.scales + parts.epsilon * parts.details
    np.testing.assert_allclose(parts.matrix, rebuilt / np.linalg.norm(rebuilt, axis=0), rtol=1e-12)
    np.testing.assert_allclose(parts.matrix, rebuilt * parts.norms, rtol=1e-12)
    for columns in (parts.centers, parts.details):
        np.testing.assert_allclose(np.linalg.norm(columns, axis=0), 1.0)
    assert (parts.scales > 0).all()
    sizes = np.bincount(parts.labels, minlength=9)
    assert sizes.sum() == 47
    assert sizes.max() - sizes.min() <= 1
    assert (np.diff(parts.labels) >= 0).all()
    np.testing.assert_array_equal(np.asarray(parts), parts.matrix)


def test_clustered_without_normalisation():
    parts = ms.dictionaries.clustered(10, 47, clusters=9, epsilon=0.2, normalise=False, rng=0)
    rebuilt = parts.centers[:, parts.labels] * parts.scales + parts.epsilon * parts.details
    np.testing.assert_allclose(parts.matrix, rebuilt, rtol=1e-12)
    scaled = ms.dictionaries.clustered(10, 47, clusters=9, epsilon=0.2, rng=0)
    np.testing.assert_allclose(parts.matrix / np.linalg.norm(parts.matrix, axis=0), scaled.matrix, rtol=1e-12)


def test_nested_is_its_parts():
    nested = ms.dictionaries.nested(12, 60, clusters=(4, 20), epsilon=0.1, rng=0)
    U, W, A = nested.parts
    outer, inner = nested.parents
    assert [part.shape for part in nested.parts] == [(12, 4), (12, 20), (12, 60)]
    rest = nested.matrix - nested.weights * A  # a multiple of u + εw
    centres = U[:, outer[inner]] + 0.1 * W[:, inner]
    along = np.sum(rest * centres, axis=0) / np.sum(centres**2, axis=0)
    np.testing.assert_allclose(rest, along * centres, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(nested.matrix, axis=0), 1.0)
    one = ms.dictionaries.nested(12, 60, clusters=(5,), epsilon=0.1, rng=0)  # one level is the clustered model
    np.testing.assert_allclose(one.matrix, ms.dictionaries.clustered(12, 60, clusters=5, epsilon=0.1, rng=0).matrix)


def test_clusters_are_tight_and_apart():
    # Within a cluster cosines are 1 - O(ε²); between clusters they are those of the centres up to O(ε).
    for epsilon in (1e-1, 1e-2, 1e-3):
        parts = ms.dictionaries.clustered(20, 100, clusters=25, epsilon=epsilon, rng=0)
        cosines = np.abs(parts.matrix.T @ parts.matrix)
        same = parts.labels[:, None] == parts.labels[None, :]
        assert cosines[same].min() > 1 - 10 * epsilon**2
        centres = np.abs(parts.centers.T @ parts.centers)[np.ix_(parts.labels, parts.labels)]
        assert np.abs(cosines - centres)[~same].max() < 6 * epsilon


def test_lighting_annihilates_the_lights():
    L = np.random.default_rng(0).standard_normal((12, 3))
    Phi = ms.dictionaries.lighting(L)
    assert Phi.shape == (9, 12)
    np.testing.assert_allclose(Phi @ Phi.T, np.eye(9), atol=1e-12)
    np.testing.assert_allclose(Phi @ L, 0, atol=1e-12)
    projection = scipy.linalg.null_space(L.T)
    np.testing.assert_allclose(Phi.T @ Phi, projection @ projection.T, atol=1e-12)


@pytest.mark.parametrize(
    ("L", "message"),
    [
        (np.eye(3), "L has 3 lights; at least 4 are needed"),
        (np.ones((3, 7)), "L must have 3 columns.*fits transposed, pass L.T"),
        (np.ones((5, 2)), "L must have 3 columns"),
        (np.c_[np.random.default_rng(0).standard_normal((6, 2)), np.zeros(6)], "lights in L are coplanar"),
    ],
)
def test_bad_lights(L, message):
    with pytest.raises(ValueError, match=message):
        ms.dictionaries.lighting(L)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ms.dictionaries.decaying(0, 5), "n must be at least 1, got 0"),
        (lambda: ms.dictionaries.gaussian(5, 2.5), "m must be a whole number, got 2.5"),
        (lambda: ms.dictionaries.decaying(5, 9, power=-1), "power must be at least 0"),
        (lambda: ms.dictionaries.low_rank_plus(5, 9, rank=5), "rank must be from 0 to 4, got 5"),
        (lambda: ms.dictionaries.low_rank_plus(5, 9, epsilon=0), "epsilon must be positive"),
        (lambda: ms.dictionaries.clustered(5, 9, clusters=10), "clusters must be from 1 to 9, got 10"),
        (lambda: ms.dictionaries.clustered(5, 9, clusters=2, epsilon=-1), "epsilon must be positive"),
        (lambda: ms.dictionaries.nested(5, 9, clusters=(4, 2)), "clusters must be increasing numbers"),
        (lambda: ms.dictionaries.nested(5, 9, clusters=(2, 4), epsilon=0), "epsilon must be positive"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat", ".csv"])
def test_load(tmp_path, suffix):
    Phi = ms.dictionaries.gaussian(4, 7, rng=0)
    path = tmp_path / f"dictionary{suffix}"
    writers = {
        ".npy": lambda: np.save(path, Phi),
        ".npz": lambda: np.savez(path, Phi=Phi, other=np.zeros(3)),
        ".mat": lambda: scipy.io.savemat(path, {"Phi": Phi, "other": np.zeros(3)}),
        ".csv": lambda: np.savetxt(path, Phi, delimiter=","),
    }
    writers[suffix]()
    np.testing.assert_array_equal(ms.dictionaries.load(path), Phi)


def test_load_checks_what_it_loads(tmp_path):
    np.save(tmp_path / "flat.npy", np.ones(5))
    with pytest.raises(ValueError, match=r"flat.npy' must be 2-D, got shape \(5,\)"):
        ms.dictionaries.load(tmp_path / "flat.npy")
