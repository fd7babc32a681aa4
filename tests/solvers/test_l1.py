"""ℓ1 against linear programs, scikit-learn and the theory of Donoho and Tanner."""

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.linear_model import lars_path

import maxsparse as ms


def linear_program(Phi, y, costs=None):
    """Solve min Σ c|x| s.t. Φx = y as a linear program in the positive and negative parts."""
    m = Phi.shape[1]
    costs = np.ones(m) if costs is None else costs
    solution = linprog(np.r_[costs, costs], A_eq=np.hstack([Phi, -Phi]), b_eq=y, method="highs")
    return solution.x[:m] - solution.x[m:], solution.fun


DICTIONARIES = {
    "gaussian": lambda: ms.dictionaries.gaussian(20, 60, rng=0),
    "decaying": lambda: ms.dictionaries.decaying(12, 40, rng=0),
    "clustered": lambda: ms.dictionaries.clustered(12, 40, clusters=15, epsilon=0.02, rng=0).matrix,
    "square": lambda: ms.dictionaries.gaussian(10, 10, rng=0),
    "scaled": lambda: ms.dictionaries.gaussian(10, 30, rng=0) * np.geomspace(1e-3, 1e3, 30),
}


@pytest.mark.parametrize("kind", DICTIONARIES)
@pytest.mark.parametrize("d", [1, 4, 10])
def test_against_highs(kind, d):
    Phi = DICTIONARIES[kind]()
    _, Y = ms.signals.sample(Phi, 25, sparsity=d, rng=d)
    result = ms.solvers.l1(Phi, Y)
    assert result.converged.all()
    assert (result.residual <= 1e-10 * np.linalg.norm(Y, axis=1)).all()
    for y, x in zip(Y, result.coef, strict=True):
        _, value = linear_program(Phi, y)
        assert np.abs(x).sum() == pytest.approx(value, rel=1e-8)


def test_signals_that_are_not_sparse():
    Phi = ms.dictionaries.gaussian(15, 50, rng=0)
    Y = np.random.default_rng(0).standard_normal((30, 15))
    result = ms.solvers.l1(Phi, Y)
    for y, x in zip(Y, result.coef, strict=True):
        expected, value = linear_program(Phi, y)
        np.testing.assert_allclose(x, expected, atol=1e-8)  # unique with probability one
        assert np.abs(x).sum() == pytest.approx(value, rel=1e-10)


def test_tied_atoms_and_integers():
    # Degenerate in every way: many optima, exact ties, zeros in y.
    Phi = np.hstack([np.eye(4), np.ones((4, 1)), np.tril(np.ones((4, 4)))[:, :3]])
    Y = np.array([[1, 1, 1, 1], [0, 0, 1, 1], [2, 0, 0, 0], [0, 1, 0, -1.0]])
    result = ms.solvers.l1(Phi, Y)
    assert result.converged.all()
    np.testing.assert_allclose(result.coef @ Phi.T, Y, atol=1e-12)
    for y, x in zip(Y, result.coef, strict=True):
        assert np.abs(x).sum() == pytest.approx(linear_program(Phi, y)[1])


def test_preconditioning_is_a_weighted_norm():
    Phi = ms.dictionaries.decaying(10, 30, rng=0)
    _, Y = ms.signals.sample(Phi, 20, sparsity=3, rng=1)
    _, D = ms.theory.precondition(Phi)
    result = ms.solvers.l1(Phi, Y, precondition=True)
    for y, x in zip(Y, result.coef, strict=True):
        assert (np.abs(x) / D).sum() == pytest.approx(linear_program(Phi, y, 1 / D)[1], rel=1e-7)


def test_infeasible_signals_are_not_called_solved():
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((6, 3)) @ rng.standard_normal((3, 12))
    Y = np.vstack([Phi[:, 0], rng.standard_normal(6)])
    assert ms.solvers.l1(Phi, Y).converged.tolist() == [True, False]


@pytest.mark.parametrize("noise", [0.003, 0.03, 0.1])
def test_denoising_form_is_on_the_lasso_path(noise):
    Phi = ms.dictionaries.gaussian(20, 60, rng=0)
    _, Y = ms.signals.sample(Phi, 30, sparsity=4, noise=noise, rng=1)
    result = ms.solvers.l1(Phi, Y, noise=noise)
    assert result.converged.all()
    goal = noise * np.sqrt(20)
    for y, x, residual in zip(Y, result.coef, result.residual, strict=True):
        if np.linalg.norm(y) <= goal:
            assert not x.any()
            continue
        assert residual == pytest.approx(goal, rel=1e-8)
        alphas, _, path = lars_path(Phi, y, method="lasso")
        sizes = np.linalg.norm(y[:, None] - Phi @ path, axis=0)
        at = np.searchsorted(-sizes, -goal)
        # between two knots x is linear in λ; find the λ of the same residual by bisection
        low, high = 0.0, 1.0
        for _ in range(80):
            middle = (low + high) / 2
            trial = (1 - middle) * path[:, at - 1] + middle * path[:, at]
            low, high = (middle, high) if np.linalg.norm(y - Phi @ trial) > goal else (low, middle)
        np.testing.assert_allclose(x, trial, atol=1e-7)
        assert alphas[0] > 0


@pytest.mark.parametrize(("ratio", "weak"), [(0.2, 0.243), (0.3, 0.291), (0.5, 0.386)])
def test_donoho_tanner(ratio, weak):
    # Success of ℓ1 on Gaussian Φ falls through one half at the weak threshold ρ(n/m).
    m = 200
    n = round(ratio * m)
    grid = np.unique(np.round(n * weak * np.array([0.75, 0.85, 0.95, 1.0, 1.05, 1.15, 1.25])).astype(int))
    rates = []
    for k in grid:
        hits = []
        for seed in range(4):
            Phi = ms.dictionaries.gaussian(n, m, rng=seed)
            X, Y = ms.signals.sample(Phi, 30, sparsity=int(k), amplitudes="unit", rng=100 + seed)
            hits.append(ms.metrics.exact_recovery(X, ms.solvers.l1(Phi, Y).coef))
        rates.append(np.mean(hits))
    assert rates[0] > 0.5 > rates[-1]
    crossing = np.interp(0.5, rates[::-1], grid[::-1]) / n
    assert crossing == pytest.approx(weak, rel=0.10)


def test_reweighting_is_a_sequence_of_linear_programs():
    Phi = ms.dictionaries.gaussian(15, 45, rng=0)
    _, Y = ms.signals.sample(Phi, 15, sparsity=7, rng=1)
    place = int(15 / (4 * np.log(45 / 15)))
    for y, x in zip(Y, ms.solvers.reweighted_l1(Phi, Y, reweightings=2).coef, strict=True):
        costs = np.ones(45)
        for _ in range(2):
            step, _ = linear_program(Phi, y, costs)
            magnitude = np.sort(np.abs(step))[::-1]
            epsilon = max(magnitude[place], 1e-3 * magnitude[0])
            costs = epsilon / (np.abs(step) + epsilon)
        expected, value = linear_program(Phi, y, costs)
        assert (costs * np.abs(x)).sum() == pytest.approx(value, rel=1e-7)
        np.testing.assert_allclose(x, expected, atol=1e-7)


def test_reweighting_recovers_more():
    Phi = ms.dictionaries.gaussian(30, 80, rng=0)
    X, Y = ms.signals.sample(Phi, 300, sparsity=10, amplitudes=lambda rng, size: rng.standard_normal(size), rng=1)
    plain, reweighted = (
        ms.metrics.exact_recovery(X, solver(Phi, Y).coef) for solver in (ms.solvers.l1, ms.solvers.reweighted_l1)
    )
    assert reweighted > plain + 0.1
