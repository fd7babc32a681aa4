"""SparseRecoverer with snapshots, complex data, groups and signs: against enumeration, and by its properties."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal, norm

import maxsparse as ms
from maxsparse.recovery._orthant import log_orthant, orthant_mean
from maxsparse.recovery.block_form import BlockForm
from maxsparse.recovery.block_search import block_search, blocks_of
from maxsparse.recovery.law import Law, usual_law
from maxsparse.recovery.structured_exact import ExactRoad


def columns_of(S, start):
    return np.concatenate([np.arange(start[b], start[b + 1]) for b in S] or [np.empty(0, int)])


def enumerated(Q, start, Z, variance, law, slab, positive):
    """Return the probability of every set of blocks, by textbook formulas."""
    n, B = len(Q), len(start) - 1
    prior, values = law.prior(B), {}
    for k in range(len(prior)):
        for S in itertools.combinations(range(B), k):
            A = Q[:, columns_of(S, start)]
            K = A.shape[1]
            terms = []
            for factor, ratio, weight in law.shapes:
                tau2 = slab * math.exp(factor) / (1 + ratio**2)
                mu = ratio * math.sqrt(tau2)
                value = prior[k] + weight
                Sigma = np.linalg.inv(A.T @ A / variance + np.eye(K) / tau2)
                for z in Z:
                    left = z - mu * A.sum(axis=1)
                    value += multivariate_normal.logpdf(left, np.zeros(n), variance * np.eye(n) + tau2 * A @ A.T)
                    if positive and K:
                        mean = mu + Sigma @ A.T @ left / variance
                        inside = norm.cdf(mean[0] / math.sqrt(Sigma[0, 0]))
                        if K > 1:
                            inside = multivariate_normal(np.zeros(K), Sigma, seed=0).cdf(mean)
                        value += math.log(max(inside, 1e-300)) - K * log_ndtr(ratio)
                terms.append(value)
            values[S] = np.logaddexp.reduce(terms)
    total = np.logaddexp.reduce(list(values.values()))
    return {S: math.exp(value - total) for S, value in values.items()}


@pytest.mark.parametrize(
    ("sizes", "L", "positive"),
    [
        ([1] * 9, 4, False),
        ([2] * 7, 1, False),
        ([1, 2, 3, 1, 2, 1, 2], 3, False),
        ([1] * 9, 1, True),
        ([1] * 8, 2, True),
    ],
)
def test_probabilities_equal_enumeration(sizes, L, positive):
    rng = np.random.default_rng(len(sizes) + L)
    start, sigma, most = np.concatenate([[0], np.cumsum(sizes)]), 0.08, 2
    Q = ms.dictionaries.gaussian(8, start[-1], rng=1)
    usual = usual_law(most)
    shapes = usual.shapes if positive else usual.shapes[:3] - [0.0, 0.0, math.log(0.5)]
    law = Law(0.0, shapes, usual.sizes)
    X = np.zeros((L, start[-1]))
    for b in rng.choice(len(sizes), 2, replace=False):
        X[:, start[b] : start[b + 1]] = rng.uniform(0.1, 0.5, (L, sizes[b]))
    Z = X @ Q.T + sigma * rng.standard_normal((L, 8))
    options = {"snapshots": L, "positive": positive, "starts": 20, "suggested": np.zeros((1, 1, len(sizes)), bool)}
    found = block_search(blocks_of(Q, start), Z[None], np.zeros((1, len(sizes))), np.array([sigma**2]), law, **options)
    truth = enumerated(Q, start, Z, sigma**2, law, found.slab[0], positive)
    for c in range(5):
        S = tuple(sorted(found.chosen[0, c, : found.size[0, c]].tolist()))
        assert found.probability[0, c] == pytest.approx(truth[S], abs=0.015)
    inclusion = [sum(p for S, p in truth.items() if b in S) for b in range(len(sizes))]
    np.testing.assert_allclose(found.inclusion[0], inclusion, atol=0.015)
    assert found.probability[0, 0] == pytest.approx(max(truth.values()), abs=0.015)
    options |= {"evidence": True}
    found = block_search(blocks_of(Q, start), Z[None], np.zeros((1, len(sizes))), np.array([sigma**2]), law, **options)
    by_size = np.exp(np.logaddexp.reduce(found.evidence[0] - found.evidence.max(), axis=0))
    expected = [sum(p for S, p in truth.items() if len(S) == k) for k in range(most + 1)]
    np.testing.assert_allclose(by_size / by_size.sum(), expected, atol=0.02)


def test_a_chain_finds_what_is_spread_over_too_many_supports():
    """24 similar atoms in noise: 64 listed supports hold a part of the probability; enumeration of all 301 is exact."""
    rng = np.random.default_rng(5)
    start, sigma, most = np.arange(25), 0.15, 2
    Q = 0.6 * ms.dictionaries.gaussian(6, 24, rng=1) + rng.uniform(0.3, 0.5, 6)[:, None]
    Q /= np.linalg.norm(Q, axis=0)
    usual = usual_law(most)
    law = Law(0.09, usual.shapes[[1, 4]], usual.sizes)
    Z = (0.4 * Q[:, 1] + 0.3 * Q[:, 5] + 0.2 * Q[:, 9] + sigma * rng.standard_normal(6))[None]
    options = {"snapshots": 1, "positive": True, "starts": 20, "suggested": np.zeros((1, 1, 24), bool)}
    found = block_search(
        blocks_of(Q, start), Z[None], np.zeros((1, 24)), np.array([sigma**2]), law, steps=24 * 30_000, **options
    )
    truth = enumerated(Q, start, Z, sigma**2, law, 0.09, True)
    listed = [tuple(sorted(S[:k].tolist())) for S, k in zip(found.chosen[0], found.size[0], strict=True)]
    assert found.share[0] < 0.9
    assert found.share[0] == pytest.approx(sum(truth[S] for S in listed), abs=0.03)
    assert found.probability[0, 0] == pytest.approx(max(truth.values()), abs=0.01)
    inclusion = [sum(p for S, p in truth.items() if b in S) for b in range(24)]
    np.testing.assert_allclose(found.inclusion[0], inclusion, atol=0.03)
    draws = found.drawn[0][np.arange(found.drawn.shape[2]) < found.drawn_size[0][:, None]]
    assert (found.drawn_size[0] >= 0).all()
    np.testing.assert_allclose(np.bincount(draws, minlength=24) / len(found.drawn[0]), inclusion, atol=0.15)


def test_orthant_probability_and_mean():
    rng = np.random.default_rng(0)
    for _ in range(5):
        A = rng.standard_normal((3, 3))
        C, mean = A @ A.T + 0.1 * np.eye(3), rng.standard_normal(3)
        draws = rng.multivariate_normal(mean, C, 200_000)
        inside = draws[(draws >= 0).all(axis=1)]
        value = log_orthant(mean.copy(), C.copy(), 3)
        assert math.exp(value) == pytest.approx(len(inside) / len(draws), abs=0.01)
        own = mean.copy()
        orthant_mean(own, C.copy(), 3)
        np.testing.assert_allclose(own, inside.mean(axis=0), atol=0.1)


@pytest.mark.parametrize("kind", ["positive", "snapshots"])
def test_fit_learns_how_many_there_are(kind, tmp_path):
    """Three in every signal: fit says so, more answers are right, and a file keeps what was learned."""
    rng = np.random.default_rng(4)
    Phi = ms.dictionaries.gaussian(16, 40, rng=4)
    X = np.zeros((240, 2, 40))
    for x in X:
        x[:, rng.choice(40, 3, replace=False)] = rng.uniform(0.2, 0.6, (2, 3))
    X = X[:, 0] if kind == "positive" else X * rng.choice([-1.0, 1.0], X.shape)
    Y = X @ Phi.T + 0.06 * rng.standard_normal((*X.shape[:-1], 16))
    usual = ms.SparseRecoverer(Phi, noise=0.06, positive=kind == "positive", budget="fast")
    learned = ms.SparseRecoverer(Phi, noise=0.06, positive=kind == "positive", budget="fast").fit(Y[:60])
    assert np.exp(learned.law_.sizes[3]) > 0.8
    used = X[60:] != 0 if kind == "positive" else X[60:].any(axis=1)
    results = [model.recover(Y[60:]) for model in (usual, learned)]
    right = [(result.support == used).all(axis=1).mean() for result in results]
    assert right[1] >= right[0]
    gaps = [abs(result.confidence.mean() - share) for result, share in zip(results, right, strict=True)]
    assert gaps[1] < 0.08
    learned.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(ms.load(tmp_path / "model.safetensors").recover(Y[60:70]).coef, results[1].coef[:10])


def test_real_columns_of_a_complex_dictionary():
    """Products with the real columns are those of the complex atoms."""
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((5, 6)) + 1j * rng.standard_normal((5, 6))
    form = BlockForm.of(Phi, np.array([0, 2, 3, 6]))
    X = rng.standard_normal((2, 3, 12))
    Y = form.coefficients(X) @ Phi.T
    np.testing.assert_allclose(form.signals(Y), X @ form.blocks.atoms, atol=1e-12)
    assert form.blocks.start.tolist() == [0, 4, 6, 12]


def problem(kind, N=6, seed=0):
    """Return Φ, options, X and Y of a problem that is easy enough for every answer to be right."""
    rng = np.random.default_rng(seed)
    n, m, L = 16, 40, 3
    Phi = ms.dictionaries.gaussian(n, m, rng=seed)
    labels = rng.permutation(np.repeat(np.arange(m // 2), 2))
    if "complex" in kind:
        Phi = (Phi + 1j * ms.dictionaries.gaussian(n, m, rng=seed + 1)) / np.sqrt(2)
    X = np.zeros((N, L if "snapshots" in kind else 1, m), dtype=Phi.dtype)
    for x in X:
        used = rng.choice(m // 2, 2, replace=False)
        atoms = np.flatnonzero(np.isin(labels, used)) if "groups" in kind else rng.choice(m, 3, replace=False)
        x[:, atoms] = rng.uniform(0.3, 1.0, (len(x), len(atoms)))
        if "positive" not in kind:
            phases = rng.uniform(size=x.shape) if "complex" in kind else rng.integers(2, size=x.shape) / 2
            x *= np.exp(2j * np.pi * phases).astype(complex) if "complex" in kind else np.cos(2 * np.pi * phases)
    options = {"positive": "positive" in kind, "groups": labels if "groups" in kind else None}
    X = X if "snapshots" in kind else X[:, 0]
    return Phi, options, X, X @ Phi.T


KINDS = (
    "snapshots",
    "complex",
    "groups",
    "positive",
    "complex snapshots",
    "positive snapshots",
    "groups snapshots",
    "complex groups snapshots",
    "positive groups",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [0, "auto", 0.01])
def test_every_structure_is_found(kind, level):
    Phi, options, X, clean = problem(kind)
    rng = np.random.default_rng(1)
    sigma = 0.01 if level == 0.01 else 0.0
    parts = rng.standard_normal((2, *clean.shape)) / np.sqrt(2 if "complex" in kind else 1)
    Y = clean + sigma * (parts[0] + 1j * parts[1] if "complex" in kind else parts[0])
    result = ms.SparseRecoverer(Phi, noise=level, **options).recover(Y)
    used = (X != 0).any(axis=1) if X.ndim == 3 else X != 0
    np.testing.assert_array_equal(result.support, used)
    np.testing.assert_allclose(result.coef, X, atol=0.1 if sigma else 1e-9)
    np.testing.assert_allclose(result.mean, X, atol=0.1 if sigma else 1e-9)
    assert result.coef.dtype == np.result_type(Phi, Y)
    assert result.inclusion.shape == result.scores.shape == used.shape
    if sigma:
        assert (result.confidence > 0.5).all()
        assert (result.noise == sigma).all()
    else:
        assert result.certified.all()
        assert set(result.argument) <= {"generic", "spark"}
    assert (result.lower <= result.upper).all()
    np.testing.assert_array_equal(result.alternatives(2)[0][0], np.flatnonzero(used[2]))
    count = 2 if "groups" in kind else 3
    assert len(result.credible_sets(0)) == count
    assert (result.upper == count).all()


@pytest.mark.parametrize("kind", ["complex snapshots", "positive", "groups"])
def test_properties(kind):
    """An answer does not depend on its batch, on the threads, on the order of atoms, on scale, nor on a phase."""
    Phi, options, _, clean = problem(kind, N=4, seed=3)
    rng = np.random.default_rng(1)
    Y = clean + 0.05 * rng.standard_normal(clean.shape)
    result = ms.SparseRecoverer(Phi, noise=0.05, **options).recover(Y)
    one = ms.SparseRecoverer(Phi, noise=0.05, n_threads=1, **options).recover(Y[2:3])
    np.testing.assert_array_equal(one.coef, result.coef[2:3])
    np.testing.assert_array_equal(one.confidence, result.confidence[2:3])
    np.testing.assert_array_equal(result[2].inclusion, result.inclusion[2:3])
    order = rng.permutation(Phi.shape[1])
    groups = None if options["groups"] is None else options["groups"][order]
    moved = ms.SparseRecoverer(Phi[:, order], noise=0.05, positive=options["positive"], groups=groups).recover(Y)
    np.testing.assert_allclose(moved.coef, result.coef[..., order], atol=1e-8)
    np.testing.assert_allclose(moved.confidence, result.confidence, atol=1e-3)
    factor = 100.0 * (np.exp(0.7j) if "complex" in kind else 1.0)
    scaled = ms.SparseRecoverer(Phi, noise=5.0, **options).recover(factor * Y)
    np.testing.assert_allclose(scaled.coef, factor * result.coef, atol=1e-6)
    np.testing.assert_allclose(scaled.confidence, result.confidence, atol=1e-3)


def test_signals_without_an_exact_answer_are_not_searched_for_one(monkeypatch):
    """Non-negative least squares proves that there is none: the same answers, and none of signals without noise."""
    rng = np.random.default_rng(0)
    Phi = np.abs(ms.dictionaries.gaussian(30, 60, rng=0))
    X = np.zeros((6, 60))
    for x in X:
        x[rng.choice(60, 3, replace=False)] = rng.uniform(0.5, 1.5, 3)
    Y = X @ Phi.T + 0.01 * np.array([0, 0, 1, 1, 1, 1])[:, None] * rng.standard_normal((6, 30))
    proven = []
    own = ExactRoad._inexact
    monkeypatch.setattr(ExactRoad, "_inexact", lambda self, Y: proven.append(own(self, Y)) or proven[-1])
    result = ms.SparseRecoverer(Phi, positive=True).recover(Y)
    np.testing.assert_array_equal(proven[0], [False, False, True, True, True, True])
    monkeypatch.setattr(ExactRoad, "_inexact", lambda self, Y: np.zeros(len(Y), dtype=bool))
    searched = ms.SparseRecoverer(Phi, positive=True).recover(Y)
    np.testing.assert_array_equal(result.coef, searched.coef)
    np.testing.assert_array_equal(result.confidence, searched.confidence)
    assert (result.noise[:2] == 0).all()


@pytest.mark.parametrize("options", [{"positive": True}, {"groups": [0, 0, 1, 1]}, {}])
@pytest.mark.parametrize("snapshots", [1, 3])
def test_far_fewer_atoms_than_measurements(options, snapshots):
    """Random starts must not be larger than the dictionary."""
    rng = np.random.default_rng(0)
    Phi = np.abs(rng.standard_normal((90, 4)))
    X = np.zeros((3, snapshots, 4))
    X[:, :, :2] = rng.uniform(0.5, 1.5, (3, snapshots, 2))
    Y = X @ Phi.T + 0.01 * rng.standard_normal((3, snapshots, 90))
    result = ms.SparseRecoverer(Phi, **options).recover(Y)
    np.testing.assert_allclose(result.coef, X, atol=0.02)
    other = ms.SparseRecoverer(Phi, **options).recover(rng.standard_normal((3, snapshots, 90)))  # nothing of it
    assert np.isfinite(other.coef).all()


def test_rank_of_the_snapshots_finds_almost_as_many_atoms_as_measurements():
    """MUSIC's guarantee: with rank d, every d below n."""
    rng = np.random.default_rng(0)
    Phi = ms.dictionaries.gaussian(12, 40, rng=0)
    X = np.zeros((3, 14, 40))
    for x in X:
        x[:, rng.choice(40, 11, replace=False)] = rng.standard_normal((14, 11))
    result = ms.SparseRecoverer(Phi, noise=0).recover(X @ Phi.T)
    np.testing.assert_array_equal(result.support, (X != 0).any(axis=1))
    assert result.certified.all()


def test_spark_argument_counts_the_rank_of_the_snapshots():
    """In an orthonormal pair of bases three atoms are proven unique only from some rank on."""
    n = 16
    Phi = np.hstack([np.eye(n), np.fft.fft(np.eye(n), norm="ortho")])  # coherence 1/4: spark at least 5
    X = np.zeros((2, 4, 2 * n), dtype=complex)
    rng = np.random.default_rng(0)
    values = rng.standard_normal((4, 3)) + 1j * rng.standard_normal((4, 3))
    X[0][:, [1, 5, 18]] = values
    X[1][:, [1, 5, 18]] = values[:, :1] @ values[:1]
    result = ms.SparseRecoverer(Phi, noise=0).recover(X @ Phi.T)
    np.testing.assert_array_equal(result.support, (X != 0).any(axis=1))
    assert result.argument.tolist() == ["spark", "generic"]


def test_noise_of_every_measurement_and_complex_covariances():
    rng = np.random.default_rng(0)
    Phi = np.exp(1j * np.pi * np.outer(np.arange(10), np.sin(np.radians(np.arange(-60, 60, 4)))))
    A = rng.standard_normal((10, 10)) + 1j * rng.standard_normal((10, 10))
    C = 1e-3 * (A @ A.conj().T + np.eye(10))
    X = np.zeros((5, 4, 30), dtype=complex)
    for x in X:
        x[:, rng.choice(30, 2, replace=False)] = np.exp(2j * np.pi * rng.uniform(size=(4, 2)))
    e = (rng.standard_normal((5, 4, 10)) + 1j * rng.standard_normal((5, 4, 10))) / np.sqrt(2)
    result = ms.SparseRecoverer(Phi, noise=C).recover(X @ Phi.T + e @ np.linalg.cholesky(C).T)
    np.testing.assert_array_equal(result.support, (X != 0).any(axis=1))
    some = rng.uniform(0.01, 0.1, 10)
    result = ms.SparseRecoverer(Phi, noise=some).recover(X @ Phi.T + some * e)
    np.testing.assert_array_equal(result.support, (X != 0).any(axis=1))


def test_fit_pools_the_noise_of_snapshots():
    Phi, options, _, clean = problem("complex snapshots", N=10)
    rng = np.random.default_rng(2)
    e = rng.standard_normal(clean.shape) + 1j * rng.standard_normal(clean.shape)
    model = ms.SparseRecoverer(Phi, **options).fit(clean + 0.05 * e / np.sqrt(2))
    assert model.noise_ == pytest.approx(0.05, rel=0.1)
    assert ms.SparseRecoverer(Phi, **options).fit(clean).noise_ == 0.0


@pytest.mark.parametrize("given", [1e-3, 2.0])
def test_a_noise_level_that_does_not_fit_is_reported(given):
    Phi, options, X, clean = problem("complex snapshots", N=4)
    rng = np.random.default_rng(2)
    e = rng.standard_normal(clean.shape) + 1j * rng.standard_normal(clean.shape)
    with pytest.warns(UserWarning, match="does not fit 4 of 4 signals"):
        result = ms.SparseRecoverer(Phi, noise=given, **options).recover(clean + 0.05 * e / np.sqrt(2))
    np.testing.assert_array_equal(result.support, (X != 0).any(axis=1))
    np.testing.assert_allclose(result.noise, 0.05, rtol=0.3)


def test_awkward_inputs():
    Phi, _, X, Y = problem("snapshots")
    for result in (ms.SparseRecoverer(Phi).recover(Y[:0]), ms.SparseRecoverer(Phi, noise=0.1).recover(Y[:0])):
        assert result.coef.shape == (0, 3, 40)
        assert result.inclusion.shape == (0, 40)
    silent = ms.SparseRecoverer(Phi, noise=0.1).recover(np.zeros((1, 3, 16)))
    assert not silent.support.any()
    assert ms.SparseRecoverer(Phi).recover(np.zeros((1, 3, 16))).certified.all()
    single = ms.SparseRecoverer(Phi.astype(np.float32), noise=0.01).recover(Y.astype(np.float32))
    assert single.coef.dtype == np.float32
    frozen = np.asfortranarray(Y)
    frozen.flags.writeable = False
    np.testing.assert_array_equal(ms.SparseRecoverer(Phi).recover(frozen).coef, ms.SparseRecoverer(Phi).recover(Y).coef)
    one = ms.SparseRecoverer(Phi).recover(Y[:, :1])
    np.testing.assert_array_equal(one.coef[:, 0], ms.SparseRecoverer(Phi).recover(Y[:, 0]).coef)
    nested = ms.SparseRecoverer(Phi).recover(Y.tolist())
    np.testing.assert_allclose(nested.coef, X, atol=1e-9)


def test_errors_name_what_can_be_done():
    Phi, _, _, Y = problem("complex")
    with pytest.raises(ValueError, match=r"positive=True is for real data.*omit positive, or pass Phi.real"):
        ms.SparseRecoverer(Phi, positive=True).recover(Y)
    real = ms.dictionaries.gaussian(16, 40, rng=0)
    with pytest.raises(ValueError, match="groups must be 40 labels"):
        ms.SparseRecoverer(real, groups=[1, 2]).recover(Y.real)
    with pytest.raises(ValueError, match=r"fits transposed; pass Y.transpose\(0, 2, 1\)"):
        ms.SparseRecoverer(real).recover(np.ones((2, 16, 3)))
    with pytest.raises(ValueError, match=r"prove= is for real signals.*solvers.exact"):
        ms.SparseRecoverer(real, positive=True).recover(Y.real, prove=10.0)
    with pytest.raises(ValueError, match="need network='learned_sbl'"):
        ms.SparseRecoverer(real, network="residual", positive=True).recover(Y.real)
    with pytest.raises(ValueError, match="omit minutes="):
        ms.SparseRecoverer(Phi).fit(minutes=1.0)
    with pytest.raises(ValueError, match="complex Phi cannot be saved"):
        ms.SparseRecoverer(Phi).save("model.safetensors")
    bad = np.ones((2, 3, 16))
    bad[1, 2, 5] = np.nan
    with pytest.raises(ValueError, match="NaN at row 1, snapshot 2, column 5"):
        ms.SparseRecoverer(real).recover(bad)


def test_a_saved_recoverer_keeps_its_structure(tmp_path):
    Phi, options, _, Y = problem("positive groups")
    model = ms.SparseRecoverer(Phi, noise=0.01, **options)
    model.save(tmp_path / "model.safetensors")
    again = ms.load(tmp_path / "model.safetensors")
    assert again.positive
    assert list(again.groups) == options["groups"].tolist()
    np.testing.assert_array_equal(again.recover(Y).coef, model.recover(Y).coef)
