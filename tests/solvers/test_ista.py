"""ISTA and FISTA against scikit-learn's Lasso, by duality gap, and against basis pursuit."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import maxsparse as ms


@pytest.fixture(scope="module")
def problem():
    Phi = ms.dictionaries.gaussian(30, 60, rng=0)
    return Phi, *ms.signals.sample(Phi, 20, sparsity=5, rng=1)


@pytest.mark.parametrize("method", ["ista", "fista"])
@pytest.mark.parametrize("lam", [1e-3, 1e-2, 0.1])
def test_against_lasso(method, lam, problem):
    Phi, _, Y = problem
    result = getattr(ms.solvers, method)(Phi, Y, lam=lam, tol=1e-10, max_iter=100_000)
    assert result.converged.all()
    for y, x in zip(Y, result.coef, strict=True):
        model = Lasso(alpha=lam / 30, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(Phi, y)
        np.testing.assert_allclose(x, model.coef_, atol=2e-5)


@pytest.mark.parametrize("method", ["ista", "fista"])
def test_duality_gap_is_what_tol_says(method, problem):
    Phi, _, Y = problem
    lam, tol = 0.01, 1e-5
    result = getattr(ms.solvers, method)(Phi, Y, lam=lam, tol=tol, max_iter=50_000)
    assert result.converged.all()
    for y, x in zip(Y, result.coef, strict=True):
        r = y - Phi @ x
        theta = r * min(1, lam / np.abs(Phi.T @ r).max())
        primal = 0.5 * r @ r + lam * np.abs(x).sum()
        dual = 0.5 * y @ y - 0.5 * (y - theta) @ (y - theta)
        assert -1e-12 <= primal - dual <= tol * primal * (1 + 1e-6)


def test_ista_lowers_the_objective_every_time(problem):
    Phi, _, Y = problem
    values = []

    def watch(t, X):
        values.append(0.5 * ((Y - X @ Phi.T) ** 2).sum(axis=1) + 0.02 * np.abs(X).sum(axis=1))

    ms.solvers.ista(Phi, Y, lam=0.02, max_iter=200, tol=0.0, callback=watch)
    assert (np.diff(values, axis=0) <= 1e-12).all()


def test_momentum_is_faster(problem):
    Phi, _, Y = problem
    slow, fast = (solver(Phi, Y, lam=1e-3, max_iter=20_000) for solver in (ms.solvers.ista, ms.solvers.fista))
    assert fast.iterations.mean() < slow.iterations.mean() / 2


def test_continuation_approaches_basis_pursuit(problem):
    Phi, _, Y = problem
    close = ms.solvers.fista(Phi, Y, max_iter=20_000).coef
    np.testing.assert_allclose(close, ms.solvers.l1(Phi, Y).coef, atol=2e-4)


def test_large_penalty_gives_zero(problem):
    Phi, _, Y = problem
    result = ms.solvers.ista(Phi, Y, lam=100.0)
    assert not result.coef.any()
    assert result.converged.all()
    assert not result.iterations.any()


def test_bad_penalty(problem):
    with pytest.raises(ValueError, match="lam must be positive, got 0"):
        ms.solvers.fista(problem[0], problem[2], lam=0)
