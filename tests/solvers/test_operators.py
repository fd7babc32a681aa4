"""Φ as an operator, and as a tensor: the answers of the matrix."""

import numpy as np
import pytest
from scipy.fft import dct, idct
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import maxsparse as ms
from maxsparse._core import products
from maxsparse.solvers import METHODS


def subsampled_dct(n, m, rng=0):
    """Return n rows of the inverse cosine transform of m points as an operator, and as a matrix."""
    rows = np.sort(np.random.default_rng(rng).choice(m, n, replace=False))

    def back(r):
        y = np.zeros(m, dtype=np.result_type(r))
        y[rows] = r.reshape(-1)
        return dct(y, norm="ortho")

    forward = lambda x: idct(x.reshape(-1), norm="ortho")[rows]  # noqa: E731
    Phi = LinearOperator((n, m), matvec=forward, rmatvec=back, dtype=np.float64)
    return Phi, idct(np.eye(m), norm="ortho", axis=0)[rows]


@pytest.fixture(scope="module")
def problem():
    operator, matrix = subsampled_dct(40, 120)
    return operator, matrix, *ms.signals.sample(matrix, 12, sparsity=4, rng=1)


CALLS = [
    ("omp", {"sparsity": 4}),
    ("omp", {}),
    ("omp", {"noise": 0.02}),
    ("omp", {"sparsity": np.arange(12)}),
    ("iht", {"sparsity": 4}),
    ("iht", {"sparsity": 4, "step": "fixed"}),
    ("iht", {"sparsity": np.arange(12), "max_iter": 50}),
    ("ista", {"lam": 0.01}),
    ("fista", {"lam": 0.01, "tol": 1e-10}),
    ("fista", {"sparsity": 4}),
    ("fista", {"noise": 0.01}),
]


def check_same(found, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(found.coef), expected.coef, atol=tolerance)
    np.testing.assert_allclose(np.asarray(found.residual), expected.residual, atol=tolerance)
    np.testing.assert_array_equal(np.asarray(found.converged), expected.converged)
    assert (np.abs(np.asarray(found.iterations) - expected.iterations) <= 0.02 * expected.iterations + 10).all()


@pytest.mark.parametrize(("method", "options"), CALLS)
def test_an_operator_gives_the_answers_of_its_matrix(problem, method, options):
    operator, matrix, _, Y = problem
    found = ms.solve(operator, Y, method=method, **options)
    check_same(found, ms.solve(matrix, Y, method=method, **options))
    if np.ndim(options.get("sparsity")) == 0:  # bitwise, whatever the batch
        np.testing.assert_array_equal(ms.solve(operator, Y[3:4], method=method, **options).coef[0], found.coef[3])


@pytest.mark.parametrize(("method", "options"), CALLS)
def test_tensors_in_tensors_out(problem, method, options, monkeypatch):
    torch = pytest.importorskip("torch")
    _, matrix, _, Y = problem
    expected = ms.solve(matrix, Y, method=method, **options)
    P, Z = torch.tensor(matrix), torch.tensor(Y)
    compiled = ms.solve(P, Z, method=method, **options)
    assert isinstance(compiled.coef, torch.Tensor)
    assert isinstance(compiled.support, torch.Tensor)
    np.testing.assert_array_equal(compiled.coef.numpy(), expected.coef)
    assert repr(compiled) == repr(expected)
    assert compiled[2].table() == expected[2].table()
    monkeypatch.setattr(products, "COMPILED", "none")  # the way of other devices, on this one
    found = ms.solve(P, Z, method=method, **options)
    assert all(isinstance(value, torch.Tensor) for value in (found.coef, found.residual, found.iterations))
    check_same(found, expected)
    single = ms.solve(P.float(), Z.float(), method=method, **{**options, "tol": 1e-4})
    assert single.coef.dtype == single.scores.dtype == torch.float32
    check_same(ms.solve(P, Y, method=method, **options), expected)  # one of them a tensor
    assert ms.solve(P, Z[:0], method=method, **options | {"sparsity": 2}).coef.shape == (0, 120)


@pytest.mark.parametrize("method", ["omp", "iht"])
def test_complex_operators(method):
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(64, 30, replace=False))
    matrix = np.fft.fft(np.eye(64), norm="ortho")[rows]

    def back(r):
        y = np.zeros(64, dtype=complex)
        y[rows] = r.reshape(-1)
        return np.fft.ifft(y, norm="ortho")

    Phi = LinearOperator((30, 64), matvec=lambda x: np.fft.fft(x, norm="ortho")[rows], rmatvec=back, dtype=complex)
    X = np.zeros((5, 64), dtype=complex)
    for x in X:
        x[rng.choice(64, 3, replace=False)] = rng.standard_normal(3) + 1j * rng.standard_normal(3)
    found = ms.solve(Phi, X @ matrix.T, method=method, sparsity=3)
    np.testing.assert_allclose(found.coef, X, atol=1e-6)


def test_callback_sees_every_iteration(problem):
    operator, matrix, _, Y = problem
    seen = {}
    for name, Phi in (("operator", operator), ("matrix", matrix)):
        steps = seen[name] = []
        ms.solvers.omp(Phi, Y, sparsity=3, callback=lambda t, X, steps=steps: steps.append((t, X.copy())))
    for (t, X), (u, Z) in zip(*seen.values(), strict=True):
        assert t == u
        np.testing.assert_allclose(X, Z, atol=1e-10)


def test_single_precision_and_operators_of_dense_matrices(problem):
    _, matrix, X, Y = problem
    found = ms.solvers.omp(aslinearoperator(matrix.astype(np.float32)), Y.astype(np.float32), sparsity=4)
    assert found.coef.dtype == np.float32
    np.testing.assert_allclose(found.coef, X, atol=1e-4)
    assert ms.solvers.omp(aslinearoperator(matrix), Y[:0], sparsity=4).coef.shape == (0, 120)
    assert not ms.solvers.fista(aslinearoperator(matrix), 0 * Y).coef.any()


def test_what_operators_cannot_do_is_said_with_a_way_out(problem):
    operator, matrix, _, Y = problem
    for method in sorted(set(METHODS) - set(METHODS.able("operators"))):
        with pytest.raises(ValueError, match=r"operator.*use 'omp'|operator.*use .*'fista'|ClusteredDictionary"):
            ms.solve(operator, Y, method=method, sparsity=3)
    for options in ({"precondition": True}, {"noise": "auto"}, {"positive": True}, {"groups": np.arange(120) // 2}):
        with pytest.raises(ValueError, match="operator"):
            ms.solvers.omp(operator, Y, sparsity=2, **options)
    with pytest.raises(ValueError, match="fits transposed"):
        ms.solvers.omp(operator, np.ones((40, 3)), sparsity=2)
    with pytest.raises(ValueError, match="snapshots"):
        ms.solvers.omp(operator, Y[:, None], sparsity=2)
    wrong = LinearOperator((40, 120), matvec=lambda x: matrix @ x, rmatvec=lambda r: 2 * matrix.T @ r)
    with pytest.raises(ValueError, match="not the adjoint"):
        ms.solvers.omp(wrong, Y, sparsity=2)
    with pytest.raises(ValueError, match="without rmatvec"):
        ms.solvers.omp(LinearOperator((40, 120), matvec=lambda x: matrix @ x), Y, sparsity=2)


def test_tensors_on_other_devices_ask_for_methods_that_can(problem, monkeypatch):
    torch = pytest.importorskip("torch")
    _, matrix, _, Y = problem
    monkeypatch.setattr(products, "COMPILED", "none")
    with pytest.raises(ValueError, match=r"device.*'omp'"):
        ms.solvers.sbl(torch.tensor(matrix), torch.tensor(Y))
    with pytest.raises(ValueError, match=r"Y\.detach"):
        ms.solvers.omp(matrix, torch.tensor(Y, requires_grad=True), sparsity=2)
    with pytest.raises(ValueError, match="NaN"):
        ms.solvers.omp(matrix, torch.full((2, 40), torch.nan), sparsity=2)


def test_sbl_of_few_atoms_is_that_of_the_matrix(problem):
    operator, matrix, _, Y = problem  # 120 atoms: all of them are looked up, in another order
    found, expected = (ms.solvers.sbl(Phi, Y[:3], noise=0.01) for Phi in (operator, matrix))
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-3)
    assert (found.support == expected.support).mean() > 0.99


@pytest.mark.parametrize("noise", [0.0, 0.001])
def test_sbl_on_screened_atoms_is_optimal_over_all(noise):
    operator, matrix = subsampled_dct(40, 1000)
    X, Y = ms.signals.sample(matrix, 4, sparsity=4, noise=noise, rng=2)
    found = ms.solvers.sbl(operator, Y, noise=noise)
    expected = ms.solvers.sbl(matrix, Y, noise=noise)
    assert found.converged.all()
    for x, own, other, y in zip(X, found.coef, expected.coef, Y, strict=True):
        assert set(np.flatnonzero(x)) <= set(np.argsort(-np.abs(own))[:6])
        # The objective, of the variances that belong to the coefficients at convergence, is not worse than that of EM.
        values = []
        for coef in (own, other):
            S = (matrix * coef**2) @ matrix.T + max(noise**2, 1e-6 * np.mean(y**2)) * np.eye(40)
            values.append(y @ np.linalg.solve(S, y) + np.linalg.slogdet(S)[1])
        assert values[0] <= values[1] + 1.0
