"""Snapshots, complex numbers, groups and signs, against plain loops, enumeration, programs and real embeddings."""

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.optimize import nnls as scipy_nnls
from scipy.stats import truncnorm
from sklearn.linear_model import MultiTaskLasso

import maxsparse as ms
from maxsparse import complex_data
from maxsparse._core.structure import Structure
from maxsparse.solvers._block_sbl import second_moment

LABELS = np.repeat(np.arange(8), [2, 1, 3, 1, 2, 1, 1, 1])  # unequal sizes


def normal(rng, *shape, complex_=False):
    return rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if complex_ else 0)


def problem(seed, *, N=4, L=2, n=8, m=12, k=2, complex_=False, labels=None, positive=False, noise=0.0):
    """Return Φ with unit atoms, X (N, L, m) and Y (N, L, n) with white noise of that deviation."""
    rng = np.random.default_rng(seed)
    Phi = normal(rng, n, m, complex_=complex_)
    Phi /= np.linalg.norm(Phi, axis=0)
    X = normal(rng, N, L, m, complex_=complex_)
    labels = np.arange(m) if labels is None else labels
    for row in X:
        row[:, ~np.isin(labels, rng.choice(np.unique(labels), k, replace=False))] = 0
    X = np.abs(X) if positive else X
    scale = noise / (np.sqrt(2) if complex_ else 1)
    return Phi, X, X @ Phi.T + scale * normal(rng, N, L, n, complex_=complex_)


def fitted(Phi, Y, columns, positive):
    """Return coefficients (L, m) of the least squares fit of Y (L, n) on some columns."""
    X = np.zeros((len(Y), Phi.shape[1]), dtype=np.result_type(Phi, Y))
    if positive:
        X[:, columns] = [scipy_nnls(Phi[:, columns], y)[0] for y in Y] if len(columns) else 0
    else:
        X[:, columns] = np.linalg.lstsq(Phi[:, columns], Y.T)[0].T
    return X


def block_omp(Phi, Y, labels, k, positive):
    used, X = [], np.zeros((len(Y), Phi.shape[1]))
    for _ in range(k):
        c = (Y - X @ Phi.T) @ Phi.conj()
        c = np.maximum(c, 0) if positive else c
        norms = [-1 if b in used else np.linalg.norm(c[:, labels == b]) for b in range(labels.max() + 1)]
        used.append(int(np.argmax(norms)))
        X = fitted(Phi, Y, np.flatnonzero(np.isin(labels, used)), positive)
    return X


def block_sbl(Phi, Y, labels, noise, iterations):
    sizes, gamma = np.bincount(labels), np.ones(labels.max() + 1)
    scale = np.sqrt(np.mean(np.abs(Y) ** 2))
    for _ in range(iterations):
        g = gamma[labels]
        S = (Phi * g) @ Phi.conj().T + (noise / scale) ** 2 * np.eye(len(Phi))
        X = g * (np.linalg.solve(S, Y.T / scale).T @ Phi.conj())
        q = np.real(np.sum(Phi.conj() * np.linalg.solve(S, Phi), axis=0))
        gamma = np.bincount(labels, (np.abs(X) ** 2).mean(axis=0) + g - g**2 * q) / sizes
    return scale * X


CASES = [
    (False, False, None),
    (True, False, None),
    (False, False, LABELS),
    (True, False, LABELS),
    (False, True, LABELS),
]
IDS = ["snapshots", "complex", "groups", "complex groups", "positive groups"]


@pytest.mark.parametrize(("complex_", "positive", "labels"), CASES, ids=IDS)
def test_omp_is_the_plain_loop(complex_, positive, labels):
    rng = np.random.default_rng(0)
    Phi, Y = normal(rng, 8, 12, complex_=complex_), normal(rng, 4, 3, 8, complex_=complex_)
    result = ms.solvers.omp(Phi, Y, sparsity=3, groups=labels, positive=positive)
    for y, x in zip(Y, result.coef, strict=True):
        reference = block_omp(Phi, y, np.arange(12) if labels is None else labels, 3, positive)
        np.testing.assert_allclose(x, reference, atol=1e-9)


@pytest.mark.parametrize(("complex_", "positive", "labels"), CASES[:4], ids=IDS[:4])
@pytest.mark.parametrize("L", [3, 11])
def test_sbl_is_the_plain_loop(complex_, positive, labels, L):
    Phi, _, Y = problem(1, L=L, complex_=complex_, labels=labels, noise=0.1)
    result = ms.solvers.sbl(Phi, Y, noise=0.1, groups=labels, max_iter=15, tol=0.0)
    for y, x in zip(Y, result.coef, strict=True):
        reference = block_sbl(Phi, y, np.arange(12) if labels is None else labels, 0.1, 15)
        np.testing.assert_allclose(x, reference, atol=1e-9 * np.abs(reference).max())


@pytest.mark.parametrize(("complex_", "positive", "labels"), CASES, ids=IDS)
def test_exact_is_enumeration(complex_, positive, labels):
    Phi, _, Y = problem(2, complex_=complex_, labels=labels, positive=positive, noise=0.05)
    result = ms.solvers.exact(Phi, Y, noise=0.065, groups=labels, positive=positive)
    labels = np.arange(12) if labels is None else labels
    for i, y in enumerate(Y):
        for k in range(5):
            fits = [
                fitted(Phi, y, np.flatnonzero(np.isin(labels, blocks)), positive)
                for blocks in combinations(range(labels.max() + 1), k)
            ]
            best = min(fits, key=lambda X: np.linalg.norm(y - X @ Phi.T))
            if np.linalg.norm(y - best @ Phi.T) <= 0.065 * np.sqrt(y.size):
                break
        assert result.iterations[i] == k
        np.testing.assert_allclose(result.coef[i], best, atol=1e-8)


@pytest.mark.parametrize("method", ["omp", "iht", "sbl", "l1", "exact"])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_complex_is_its_real_embedding_with_pairs_as_groups(method, noise):
    """Columns j and m + j of the embedding are real and imaginary part of atom j; each part has half the variance."""
    Phi, _, Y = problem(3, complex_=True, noise=noise)
    options = {"sparsity": 2} if method in ("omp", "iht") else {}
    result = ms.solve(Phi, Y, method, noise=noise, **options)
    real = complex_data.stack_dictionary(Phi)
    pairs = np.tile(np.arange(12), 2)
    rows = np.concatenate([Y.real, Y.imag], axis=2)
    embedded = ms.solve(real, rows, method, noise=noise / np.sqrt(2), groups=pairs, **options).coef
    tolerance = 2e-4 if method in ("sbl", "l1") else 1e-7
    np.testing.assert_allclose(result.coef, embedded[..., :12] + 1j * embedded[..., 12:], atol=tolerance)


def test_iht_is_the_plain_loop():
    Phi, _, Y = problem(4, complex_=True, labels=LABELS)
    mu = 1 / np.linalg.norm(Phi, 2) ** 2
    result = ms.solvers.iht(Phi, Y, sparsity=2, groups=LABELS, step="fixed", max_iter=30)
    for y, x in zip(Y, result.coef, strict=True):
        X = np.zeros_like(x)
        for _ in range(30):
            X = X + mu * (y - X @ Phi.T) @ Phi.conj()
            norms = np.array([np.linalg.norm(X[:, b == LABELS]) for b in range(8)])
            X[:, ~np.isin(LABELS, np.argsort(-norms)[:2])] = 0
        np.testing.assert_allclose(x, X, atol=1e-10)


def test_normalised_iht_never_raises_the_error():
    Phi, _, Y = problem(5, L=3, n=10, m=30, k=3)
    errors = []
    ms.solvers.iht(Phi, Y, sparsity=3, callback=lambda t, X: errors.append(np.linalg.norm(Y - X @ Phi.T, axis=(1, 2))))
    assert (np.diff(errors, axis=0) <= 1e-9).all()


@pytest.mark.parametrize("method", ["omp", "sbl", "l1", "exact"])
def test_compression_changes_nothing(method, monkeypatch):
    Phi, _, Y = problem(6, L=20, complex_=True, noise=0.05)
    options = {"sparsity": 2} if method == "omp" else {"noise": 0.07}
    compressed = ms.solve(Phi, Y, method, **options)
    monkeypatch.setattr(Structure, "compressed", lambda self, rows: (rows, None))
    whole = ms.solve(Phi, Y, method, **options)
    np.testing.assert_allclose(compressed.coef, whole.coef, atol=1e-6)
    np.testing.assert_allclose(compressed.residual, whole.residual, rtol=1e-6)


# ℓ1


@pytest.mark.parametrize("k", [1, 4, 7])
def test_positive_l1_is_a_linear_program(k):
    Phi, _, Y = problem(7, N=10, L=1, n=10, m=25, k=k, positive=True)
    result = ms.solvers.l1(Phi, Y[:, 0], positive=True)
    assert result.converged.all()
    for y, x in zip(Y[:, 0], result.coef, strict=True):
        program = linprog(np.ones(25), A_eq=Phi, b_eq=y)
        assert x.sum() == pytest.approx(program.fun, rel=1e-6)
        np.testing.assert_allclose(Phi @ x, y, atol=1e-9)
        assert (x >= 0).all()


def test_positive_l1_without_a_solution_has_not_converged():
    Phi = np.abs(problem(8)[0])
    result = ms.solvers.l1(Phi, -np.ones((1, 8)), positive=True)
    assert not result.converged[0]
    assert not result.coef.any()


def test_joint_l1_is_multi_task_lasso():
    Phi, _, Y = problem(9, N=3, L=4, n=15, m=40, k=3, noise=0.1)
    result = ms.solvers.l1(Phi, Y, noise=0.1)
    assert result.converged.all()
    np.testing.assert_allclose(result.residual, 0.1 * np.sqrt(60), rtol=2e-6)
    for y, x in zip(Y, result.coef, strict=True):
        alpha = np.linalg.norm((y - x @ Phi.T) @ Phi, axis=0).max() / 15
        lasso = MultiTaskLasso(alpha=alpha, fit_intercept=False, tol=1e-10, max_iter=100_000).fit(Phi, y.T)
        np.testing.assert_allclose(x, lasso.coef_, atol=1e-4)


@pytest.mark.parametrize("complex_", [False, True])
def test_group_basis_pursuit_is_minimal_on_the_feasible_set(complex_):
    """The norm rises along every direction of the null space, and a convex function has no other minimum."""
    Phi, _, Y = problem(10, N=5, L=2, labels=LABELS, complex_=complex_)
    result = ms.solvers.l1(Phi, Y, groups=LABELS)
    assert result.converged.all()
    assert (result.residual <= 1e-6 * np.linalg.norm(Y, axis=(1, 2))).all()
    null = np.linalg.svd(Phi)[2][8:].conj()
    rng = np.random.default_rng(0)

    def cost(X):
        return sum(np.linalg.norm(X[..., b == LABELS], axis=(-2, -1)) for b in range(8))

    for x in result.coef:
        moves = normal(rng, 500, 2, 4, complex_=complex_) @ null
        for step in (1e-3, 1e-1):
            assert (cost(x + step * moves) >= cost(x[None]) * (1 - 2e-6)).all()


def test_l1_says_which_methods_combine_signs_and_groups():
    Phi, _, Y = problem(11, positive=True)
    for options in ({"groups": LABELS}, {}):
        rows = Y[:, 0] if options else Y
        with pytest.raises(ValueError, match=r"l1 cannot combine positive=True .* use 'omp', 'sbl' or 'exact'"):
            ms.solvers.l1(Phi, rows, positive=True, **options)


# Signs


def test_second_moments_are_those_of_a_truncated_normal():
    for mean in (-8.0, -1.0, 0.0, 0.5, 30.0):
        for variance in (1e-4, 1.0, 9.0):
            if mean / np.sqrt(variance) < -30:
                continue
            deviation = np.sqrt(variance)
            expected = truncnorm(-mean / deviation, np.inf, mean, deviation).moment(2)
            assert second_moment(mean, variance) == pytest.approx(expected, rel=1e-3)
    assert second_moment(-1.0, 0.0) == 0.0


@pytest.mark.parametrize("name", ["gaussian", "decaying"])
def test_knowing_the_sign_helps_sbl(name):
    Phi = getattr(ms.dictionaries, name)(20, 60, rng=0)
    X = np.abs(ms.signals.sample(Phi, 60, sparsity=8, rng=1)[0])
    free, signed = (ms.solvers.sbl(Phi, X @ Phi.T, precondition=True, positive=sign) for sign in (False, True))
    shares = [ms.metrics.strict_accuracy(X, result.scores) for result in (free, signed)]
    assert shares[1] > shares[0] + 0.1
    right = ((signed.scores > 1e-3) == (X > 0)).all(axis=1)
    np.testing.assert_allclose(signed.coef[right], X[right], atol=1e-3)


# Non-negative least squares


@pytest.mark.parametrize("shape", [(20, 50), (40, 15), (2, 3), (3, 1)])
def test_nnls_is_scipys(shape):
    rng = np.random.default_rng(0)
    Phi, Y = rng.standard_normal(shape), rng.standard_normal((50, shape[0]))
    result = ms.solvers.nnls(Phi, Y)
    assert result.converged.all()
    for y, x, residual in zip(Y, result.coef, result.residual, strict=True):
        expected, norm = scipy_nnls(Phi, y)
        assert residual <= norm + 1e-9
        if norm > 1e-6:  # otherwise there are many
            np.testing.assert_allclose(x, expected, atol=1e-9)
        slope = Phi.T @ (y - Phi @ x)  # no coefficient wants to grow, and those in use are at rest
        assert slope.max() < 1e-8
        assert np.abs(slope[x > 0]).max(initial=0.0) < 1e-8


def test_nnls_on_nearly_dependent_atoms():
    grid = np.linspace(0, 1, 60)
    Phi = np.exp(-0.5 * ((grid[:, None] - np.linspace(0, 1, 150)) / 0.05) ** 2)  # condition 1e16
    rng = np.random.default_rng(0)
    Y = rng.dirichlet(np.full(150, 0.05), 20) @ Phi.T + 1e-4 * rng.standard_normal((20, 60))
    result = ms.solvers.nnls(Phi, Y)
    expected = [scipy_nnls(Phi, y)[1] for y in Y]
    np.testing.assert_allclose(result.residual, expected, rtol=1e-8)


@pytest.mark.parametrize("precondition", [False, True])
def test_sum_to_one_meets_the_optimality_conditions(precondition):
    rng = np.random.default_rng(1)
    Phi = np.abs(rng.standard_normal((30, 12)))
    Y = rng.dirichlet(np.full(12, 0.3), 40) @ Phi.T + 0.05 * rng.standard_normal((40, 30))
    result = ms.solvers.nnls(Phi, Y, sum_to_one=True, precondition=precondition)
    assert result.converged.all()
    assert (result.coef >= 0).all()
    np.testing.assert_allclose(result.coef.sum(axis=1), 1.0, atol=1e-12)
    W = ms.theory.precondition(Phi)[0] if precondition else np.eye(30)
    gradient = (Y - result.coef @ Phi.T) @ W.T @ (W @ Phi)
    for g, x in zip(gradient, result.coef, strict=True):  # the multiplier on the support, and no more outside
        np.testing.assert_allclose(g[x > 0], g[x > 0].mean(), atol=1e-9)
        assert (g <= g[x > 0].mean() + 1e-9).all()


def test_nnls_options():
    rng = np.random.default_rng(2)
    Phi, Y = np.abs(rng.standard_normal((20, 10))), np.abs(rng.standard_normal((5, 20)))
    assert (ms.solvers.nnls(Phi, Y, tol=0.9).support.sum(axis=1) < ms.solvers.nnls(Phi, Y).support.sum(axis=1)).any()
    loose = ms.solvers.nnls(Phi, Y, noise=10.0)
    assert not loose.coef.any()
    assert loose.converged.all()
    assert not ms.solvers.nnls(Phi, Y, max_iter=1).converged.all()
    with pytest.raises(ValueError, match="positive=False is not possible here"):
        ms.solvers.nnls(Phi, Y, positive=False)
    with pytest.raises(ValueError, match="sum_to_one=True and sparsity exclude each other"):
        ms.solvers.nnls(Phi, Y, sum_to_one=True, sparsity=2)
    with pytest.raises(ValueError, match="D of precondition must be positive"):
        ms.solvers.nnls(Phi, Y, precondition=(np.eye(20), -np.ones(10)))


def test_plain_calls_compile_nothing_of_this():
    code = """
import numpy as np
import maxsparse as ms
from maxsparse.solvers import _block_omp
ms.solvers.omp(np.eye(3), np.eye(3), sparsity=1)
kernels = [getattr(_block_omp, name) for name in dir(_block_omp)]
own = [kernel for kernel in kernels if hasattr(kernel, "signatures") and "_block" in kernel.__module__]
print(len(own) > 3 and sum(len(kernel.signatures) for kernel in own))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "0"
