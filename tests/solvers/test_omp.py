"""OMP against scikit-learn and against the definition."""

import numpy as np
import pytest
from sklearn.linear_model import orthogonal_mp

import maxsparse as ms


@pytest.mark.parametrize(("n", "m", "k"), [(20, 100, 10), (40, 30, 7), (64, 256, 20), (10, 10, 10)])
def test_against_scikit_learn(n, m, k):
    Phi = ms.dictionaries.gaussian(n, m, rng=n)
    Y = np.random.default_rng(1).standard_normal((50, n))
    expected = orthogonal_mp(Phi, Y.T, n_nonzero_coefs=k).T
    np.testing.assert_allclose(ms.solvers.omp(Phi, Y, sparsity=k, tol=0.0).coef, expected, atol=1e-10)


def test_residual_rule_against_scikit_learn():
    Phi = ms.dictionaries.gaussian(30, 90, rng=0)
    Y = np.random.default_rng(1).standard_normal((20, 30))
    result = ms.solvers.omp(Phi, Y, tol=0.3)
    for y, x in zip(Y, result.coef, strict=True):
        expected = orthogonal_mp(Phi, y, tol=(0.3 * np.linalg.norm(y)) ** 2)
        np.testing.assert_allclose(x, expected, atol=1e-10)
    assert (result.residual <= 0.3 * np.linalg.norm(Y, axis=1)).all()
    assert result.converged.all()


def test_one_sparsity_per_signal():
    Phi = ms.dictionaries.gaussian(20, 50, rng=0)
    Y = np.random.default_rng(1).standard_normal((6, 20))
    k = np.array([0, 1, 5, 9, 20, 3])
    result = ms.solvers.omp(Phi, Y, sparsity=k)
    assert result.support.sum(axis=1).tolist() == k.tolist()
    for row, count in enumerate(k):
        np.testing.assert_array_equal(
            result.coef[row], ms.solvers.omp(Phi, Y[row : row + 1], sparsity=int(count)).coef[0]
        )


def test_noise_level_stops():
    Phi = ms.dictionaries.gaussian(50, 100, rng=0)
    _, Y = ms.signals.sample(Phi, 200, sparsity=3, noise=0.01, rng=1)
    result = ms.solvers.omp(Phi, Y, noise=0.012)
    assert np.median(result.support.sum(axis=1)) == 3
    assert (result.residual[result.converged] <= 0.012 * np.sqrt(50)).all()


def test_exact_fit_on_an_ill_conditioned_dictionary():
    # The residual of the true support must come out at rounding level, although Gram–Schmidt loses digits.
    Phi = ms.dictionaries.decaying(20, 100, rng=0)
    X, Y = ms.signals.sample(Phi, 300, sparsity=2, rng=1)
    result = ms.solvers.omp(Phi, Y, sparsity=2, precondition=True)
    right = (result.support == (X != 0)).all(axis=1)
    assert right.mean() > 0.9
    assert ms.metrics.normalised_error(X, result.coef)[right].max() < 1e-9


def test_does_not_go_on_when_nothing_is_left():
    Phi = ms.dictionaries.gaussian(20, 40, rng=0)
    X, Y = ms.signals.sample(Phi, 20, sparsity=2, rng=1)
    result = ms.solvers.omp(Phi, Y, sparsity=15)
    right = (result.support == (X != 0)).all(axis=1)
    assert right.mean() > 0.9
