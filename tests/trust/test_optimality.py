"""What a method promises about its objective holds on random small problems: it falls, and ends at an optimum."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog
from small_problems import problems

import maxsparse as ms
from maxsparse import solvers

NOISE = 0.02


def noisy(data):
    """Draw Φ with unit atoms, and signals with noise on them."""
    Phi, _, Y, d = data.draw(problems())
    Phi = Phi / np.linalg.norm(Phi, axis=0)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    return Phi, Y + NOISE * rng.standard_normal(Y.shape), d


def lasso(Phi, Y, X, lam):
    """Return ½‖y − Φx‖² + λ‖x‖₁ of every signal."""
    return 0.5 * ((Y - X @ Phi.T) ** 2).sum(axis=1) + lam * np.abs(X).sum(axis=1)


def watched(solver, *arguments, **options):
    """Run a solver; return the coefficients after every iteration."""
    seen = []
    solver(*arguments, callback=lambda t, X: seen.append(X), **options)
    return np.array(seen)


def never_rises(values, size):
    """Tell whether every row of values is at most the one before, up to the roundings of numbers of that size."""
    return (np.diff(values, axis=0) <= 1e-12 * size).all()


@given(data=st.data())
def test_ista_never_raises_the_lasso(data):
    Phi, Y, _ = noisy(data)
    lam = data.draw(st.sampled_from([1e-3, 0.02, 0.1]))
    steps = watched(solvers.ista, Phi, Y, lam=lam, max_iter=60, tol=0.0)
    values = np.array(
        [lasso(Phi, Y, np.zeros_like(X), lam) for X in steps[:1]] + [lasso(Phi, Y, X, lam) for X in steps]
    )
    assert never_rises(values, values[0])


@given(data=st.data())
@pytest.mark.parametrize("step", ["fixed", "normalised"])
def test_iht_never_raises_the_error(step, data):
    Phi, Y, d = noisy(data)
    assume(d > 0)
    steps = watched(solvers.iht, Phi, Y, sparsity=d, step=step, max_iter=60, tol=0.0)
    errors = np.array([(Y**2).sum(axis=1), *(((Y - X @ Phi.T) ** 2).sum(axis=1) for X in steps)])
    assert never_rises(errors, errors[0])
    assert (np.count_nonzero(steps, axis=2) <= d).all()


@given(data=st.data())
@pytest.mark.parametrize("update", ["em", "convex"])
def test_sbl_never_raises_its_cost(update, data):
    """At a fixed λ; the cost is that of the γ which the update's formula makes from the x that is reported."""
    Phi, Y, _ = noisy(data)
    Y = Y[:1]
    scale = float(np.sqrt(np.mean(Y**2)))
    y, lam, gamma, costs = Y[0] / scale, (NOISE / scale) ** 2, np.ones(Phi.shape[1]), []
    for x in watched(solvers.sbl, Phi, Y, update=update, noise=NOISE, max_iter=40, tol=0.0)[:, 0] / scale:
        S = Phi * gamma @ Phi.T + lam * np.eye(len(y))
        inverse = np.linalg.inv(S)
        costs.append(y @ inverse @ y + np.linalg.slogdet(S)[1])
        np.testing.assert_allclose(x, gamma * (Phi.T @ inverse @ y), atol=1e-7 * np.abs(x).max())
        q = np.einsum("im,ij,jm->m", Phi, inverse, Phi)
        gamma = x**2 + np.maximum(gamma - gamma**2 * q, 0.0) if update == "em" else np.abs(x) / np.sqrt(q)
    assert never_rises(np.array(costs)[:, None], 1e3 * (1.0 + np.abs(costs[0])))


@given(data=st.data())
@pytest.mark.parametrize("method", ["ista", "fista"])
@pytest.mark.parametrize("tol", [1e-4, 1e-8])
def test_the_duality_gap_of_the_lasso_is_below_the_tolerance(method, tol, data):
    Phi, Y, _ = noisy(data)
    lam = data.draw(st.sampled_from([1e-3, 0.02, 0.1]))
    result = getattr(solvers, method)(Phi, Y, lam=lam, tol=tol, max_iter=20_000)
    # On nearly parallel atoms a gradient method may need more iterations than these; it says so.
    Y, X = Y[result.converged], result.coef[result.converged]
    primal = lasso(Phi, Y, X, lam)
    R = Y - X @ Phi.T
    theta = R * np.minimum(1.0, lam / np.maximum(np.abs(R @ Phi).max(axis=1), 1e-300))[:, None]
    dual = 0.5 * (Y**2).sum(axis=1) - 0.5 * ((Y - theta) ** 2).sum(axis=1)
    assert (primal - dual >= -1e-12 * (Y**2).sum(axis=1)).all()
    assert (primal - dual <= (1.0 + 1e-6) * tol * primal + 1e-13 * (Y**2).sum(axis=1)).all()


@given(data=st.data())
def test_basis_pursuit_is_the_optimum_of_the_linear_program(data):
    Phi, _, Y, _ = data.draw(problems())
    result = solvers.l1(Phi, Y)
    assert result.converged.all()
    for y, x in zip(Y, result.coef, strict=True):
        size = np.abs(y).max(initial=0.0)
        if size == 0.0:
            assert not x.any()
            continue
        # The dual, max yᵀν with |Φᵀν| ≤ 1, by another solver: whatever it finds is a lower bound.
        dual = linprog(-y / size, A_ub=np.vstack([Phi.T, -Phi.T]), b_ub=np.ones(2 * len(x)), bounds=(None, None))
        assert dual.status == 0
        nu = dual.x / max(1.0, np.abs(Phi.T @ dual.x).max())
        assert np.abs(x).sum() <= (y @ nu) * (1.0 + 1e-6)
        assert np.linalg.norm(y - Phi @ x) <= 1e-8 * (np.linalg.norm(y) + np.abs(x) @ np.linalg.norm(Phi, axis=0))


@given(data=st.data())
def test_denoising_meets_the_conditions_of_its_optimum(data):
    """Atoms in use correlate equally with the residual, with the sign of their coefficient, and none does more."""
    Phi, Y, _ = noisy(data)
    result = solvers.l1(Phi, Y, noise=NOISE)
    goal = NOISE * np.sqrt(Phi.shape[0])
    for y, x, done in zip(Y, result.coef, result.converged, strict=True):
        if not done or np.linalg.norm(y) <= goal:
            assert not done or not x.any()
            continue
        r = y - Phi @ x
        correlation = Phi.T @ r
        lam = np.abs(correlation).max()
        scale = 1e-8 * np.linalg.norm(y)
        assert np.linalg.norm(r) <= goal + scale
        np.testing.assert_allclose(correlation[x != 0], lam * np.sign(x[x != 0]), atol=scale)


@pytest.mark.parametrize("kind", ["sparse", "not sparse"])
@given(data=st.data())
def test_no_certified_answer_has_fewer_nonzeros_than_enumeration(kind, data):
    Phi, _, Y, d = data.draw(problems())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    if kind == "not sparse":
        Y = rng.standard_normal(Y.shape)
    truth = solvers.exact(Phi, Y, tol=1e-12)
    sizes = np.count_nonzero(truth.coef, axis=1)
    answers = {name: solvers.METHODS[name](Phi, Y, sparsity=d) for name in sorted(solvers.METHODS) if name != "aiht"}
    reports = {name: (found.coef, ms.recovery.certify(Phi, Y, found.coef).certified) for name, found in answers.items()}
    found = ms.SparseRecoverer(Phi, budget=100).recover(Y)
    reports["SparseRecoverer"] = found.coef, found.certified
    for name, (coef, certified) in reports.items():
        rows = certified & truth.converged
        assert (np.count_nonzero(coef[rows], axis=1) >= sizes[rows]).all(), name
        # and since a certified answer is the only sparsest one, it is that of enumeration
        np.testing.assert_array_equal(coef[rows] != 0, truth.coef[rows] != 0, err_msg=name)
