"""Where the paper's text is wrong: every line of docs/errata.md that a computation can show."""

import re
from pathlib import Path

import numpy as np
import pytest

import maxsparse as ms
from maxsparse import theory

ROOT = Path(__file__).parents[1]


def objective(Phi, x, y):
    return 0.5 * np.sum((y - Phi @ x) ** 2)


def test_the_printed_sign_of_iht_climbs():
    Phi = ms.dictionaries.gaussian(20, 40, rng=0)
    _X, Y = ms.signals.sample(Phi, 20, sparsity=2, rng=1)
    mu = 1.0 / np.linalg.norm(Phi, 2) ** 2
    for y in Y:
        start = np.zeros(40)
        gradient_step = mu * Phi.T @ (y - Phi @ start)
        right, printed = (theory.hard_threshold((start + s * gradient_step)[None], 2)[0] for s in (1.0, -1.0))
        assert objective(Phi, right, y) < objective(Phi, start, y) < objective(Phi, printed, y)


def test_columns_of_the_corollary_have_length_one():
    """With 1/√n as a variance, columns of A would be longer the more rows A has."""
    for n in (25, 400):
        A = np.random.default_rng(0).normal(0.0, 1.0 / np.sqrt(n), (n, 2000))
        assert np.mean(np.sum(A**2, axis=0)) == pytest.approx(1.0, rel=0.02)
        other = np.random.default_rng(0).normal(0.0, n**-0.25, (n, 2000))
        assert np.mean(np.sum(other**2, axis=0)) == pytest.approx(np.sqrt(n), rel=0.02)


def test_unit_steps_diverge():
    Phi = ms.dictionaries.decaying(20, 100, rng=0)
    assert np.linalg.norm(Phi, 2) > 1.0
    y = ms.signals.sample(Phi, 1, sparsity=2, rng=1)[1][0]
    found = []
    for mu in (1.0, 1.0 / np.linalg.norm(Phi, 2) ** 2):
        x = np.zeros(100)
        values = [objective(Phi, x, y)]
        for _ in range(20):
            x = theory.hard_threshold((x + mu * Phi.T @ (y - Phi @ x))[None], 2)[0]
            values.append(objective(Phi, x, y))
        found.append(values)
    assert found[0][-1] > 1e3 * found[0][0]
    assert (np.diff(found[1]) <= 1e-12).all()


def test_a_union_is_no_accuracy():
    n, d = 20, 3
    truth, best = set(range(d)), set(range(50, 50 + n))
    assert len(truth | best) / d > 1.0  # for scores that found nothing
    X, scores = np.zeros((1, 100)), np.zeros((1, 100))
    X[0, :d], scores[0, 50 : 50 + n] = 1.0, 1.0
    assert ms.metrics.loose_accuracy(X, scores, n) == len(truth & best) / d == 0.0


def test_tenth_is_a_standard_deviation():
    X, _ = ms.signals.sample(ms.dictionaries.gaussian(20, 100, rng=0), 5000, sparsity=5, amplitudes="gaussian", rng=1)
    sizes = np.abs(X[X != 0])
    assert np.mean(sizes < 0.05) < 0.01  # tiny magnitudes are avoided with high probability
    as_variance = np.abs(0.3 + np.sqrt(0.1) * np.random.default_rng(0).standard_normal(25_000))
    assert np.mean(as_variance < 0.05) > 0.08  # they would not be


@pytest.mark.parametrize(("k", "stays"), [(1, True), (2, False)])
def test_one_nonzero_does_not_fix_the_layer(k, stays):
    rng = np.random.default_rng(0)
    Phi, Gamma = ms.dictionaries.gaussian(8, 12, rng=0), rng.standard_normal((12, 8))
    off = rng.uniform(-0.5, 0.5, (12, 12)) * (1 - np.eye(12))
    layer = theory.generalised_iht_layer(Phi, k, Gamma=Gamma, Psi=np.eye(12) - Gamma @ Phi + off)
    X = np.vstack([scale * np.eye(12) for scale in (-2.0, 1e-3, 1.0)])
    if k == 2:
        X += 0.01 * np.roll(X, 1, axis=1)
    assert np.allclose(layer(X, X @ Phi.T), X, rtol=1e-9, atol=1e-12) == stays


def test_isometry_constants_grow_with_the_order():
    Phi = ms.dictionaries.gaussian(8, 12, rng=0)
    first, third = (float(theory.rip_constant(Phi, k, method="exact")) for k in (1, 3))
    assert first == pytest.approx(0.0, abs=1e-12)  # atoms have norm 1
    assert third > 0.3
    # Twelve atoms in eight dimensions are never orthonormal, so no W and D bring the third constant to the first.
    found = theory.minimise_rip(Phi, 3, steps=100, rng=0)
    assert float(found.after) > 0.1


def test_the_gradient_of_the_weighted_objective():
    rng = np.random.default_rng(0)
    W, Phi, D = rng.standard_normal((6, 8)), rng.standard_normal((8, 12)), rng.uniform(0.5, 2.0, 12)
    x, y, step = rng.standard_normal(12), rng.standard_normal(8), 1e-6

    def value(x):
        return 0.5 * np.sum((W @ y - W @ Phi @ (D * x)) ** 2)

    numeric = np.array([(value(x + step * e) - value(x - step * e)) / (2 * step) for e in np.eye(12)])
    residual = y - Phi @ (D * x)
    np.testing.assert_allclose(numeric, -D * (Phi.T @ (W.T @ (W @ residual))), rtol=1e-5, atol=1e-6)
    assert (W @ W.T).shape != (8, 8)  # W Wᵀ, as printed, does not even fit


def test_the_rows_that_remove_a_rank_r_term():
    rng = np.random.default_rng(0)
    n, r, m = 10, 3, 16
    Delta = rng.standard_normal((n, r)) @ rng.standard_normal((r, m))
    W, _D = theory.null_low_rank(Delta + 1e-6 * rng.standard_normal((n, m)), r)
    assert W.shape == (n - r, n)
    np.testing.assert_allclose(W @ W.T, np.eye(n - r), atol=1e-10)
    assert np.abs(W @ Delta).max() < 1e-4


def test_cluster_coefficients_after_normalisation():
    rng = np.random.default_rng(0)
    n, epsilon = 30, 1e-6
    u, a = (column / np.linalg.norm(column, axis=0) for column in (rng.standard_normal(n), rng.standard_normal((n, 3))))
    v, x = np.array([0.5, -1.5, 1.2]), np.array([0.3, 0.2, -0.4])
    atoms = u[:, None] * v + epsilon * a
    y = atoms / np.linalg.norm(atoms, axis=0) @ x
    np.testing.assert_allclose(y, u * np.sum(np.sign(v) * x), atol=10 * epsilon)
    assert np.linalg.norm(y - u * np.sum(v * x)) > 0.1  # as the lemma has it
    assert np.linalg.norm(y - u * np.sum(x)) > 0.1  # as its proof ends


@pytest.mark.parametrize(("second", "found"), [(-1.0, 0), (-0.5, 30), (1.0, 30)])
def test_a_cluster_whose_coefficients_cancel_is_not_found(second, found):
    dictionary = ms.dictionaries.clustered(60, 90, clusters=30, epsilon=1e-6, rng=0)
    X = np.zeros((30, 90))
    for cluster, x in enumerate(X):  # three atoms in each
        x[3 * cluster], x[3 * cluster + 1] = 1.0, second
    answer = ms.solvers.aiht(dictionary, X @ dictionary.matrix.T, sparsity=2, cluster_sparsity=1)
    assert round(30 * ms.metrics.strict_accuracy(X, answer.scores)) == found


def test_every_test_that_the_page_names_exists():
    page = ROOT / "docs" / "errata.md"
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text(encoding="utf-8"))
    assert len(named) >= 10
    for path, test in named:
        assert (ROOT / path).is_file(), path
        assert f"def {test}" in (ROOT / path).read_text(encoding="utf-8"), test
