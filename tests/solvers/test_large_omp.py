"""OMP without a Gram matrix: the same answers as with it."""

import importlib

import numpy as np
import pytest

import maxsparse as ms

omp_module = importlib.import_module("maxsparse.solvers.omp")


@pytest.fixture
def without_gram(monkeypatch):
    """Return OMP that takes every dictionary for a large one."""

    def solve(*args, **options):
        with monkeypatch.context() as patch:
            patch.setattr(omp_module, "LARGE", 1)
            return ms.solvers.omp(*args, **options)

    return solve


@pytest.fixture(scope="module")
def problem():
    Phi = ms.dictionaries.decaying(20, 150, rng=0)
    Phi = np.column_stack([Phi, Phi[:, :3] + Phi[:, 3:6]])  # atoms that depend on others
    return Phi, ms.signals.sample(Phi, 40, sparsity=5, rng=1)[1]


@pytest.mark.parametrize(
    "options", [{"sparsity": 5}, {}, {"noise": 0.02}, {"sparsity": 20}, {"precondition": True, "sparsity": 4}]
)
def test_answers_are_those_of_the_gram_form(problem, without_gram, options):
    Phi, Y = problem
    expected, found = ms.solvers.omp(Phi, Y, **options), without_gram(Phi, Y, **options)
    np.testing.assert_array_equal(found.support, expected.support)
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-6 * np.abs(expected.coef).max())
    np.testing.assert_array_equal(found.converged, expected.converged)
    np.testing.assert_array_equal(found.iterations, expected.iterations)


def test_coefficients_are_least_squares_and_do_not_depend_on_the_batch(problem, without_gram):
    Phi, Y = problem
    found = without_gram(Phi, Y, sparsity=5)
    for i in range(0, 40, 8):
        S = found.support[i]
        np.testing.assert_allclose(found.coef[i, S], np.linalg.lstsq(Phi[:, S], Y[i], rcond=None)[0], rtol=1e-8)
        np.testing.assert_array_equal(without_gram(Phi, Y[i : i + 1], sparsity=5).coef[0], found.coef[i])


def test_single_precision_none_and_zero(problem, without_gram):
    Phi, Y = (array.astype(np.float32) for array in problem)
    assert without_gram(Phi, Y, sparsity=3).coef.dtype == np.float32
    assert without_gram(Phi, Y[:0], sparsity=3).coef.shape == (0, 153)
    assert not without_gram(Phi, np.zeros_like(Y), sparsity=3).coef.any()
    assert not without_gram(Phi, Y, sparsity=0).coef.any()


def test_ties_are_decided_by_the_signal_alone(without_gram):
    """Correlations that differ by rounding only: BLAS, whose sums depend on the batch, must not decide."""
    rng = np.random.default_rng(3)
    half = rng.standard_normal((30, 60))
    Phi = np.column_stack([half, half[::-1]])  # atoms j and 60 + j have equal correlations with symmetric signals
    Y = rng.standard_normal((50, 30))
    Y = Y + Y[:, ::-1]
    whole = without_gram(Phi, Y, sparsity=4)
    for rows in (slice(0, 1), slice(3, 8), slice(17, 50)):
        np.testing.assert_array_equal(without_gram(Phi, Y[rows], sparsity=4).coef, whole.coef[rows])
