"""IHT against its definition, its error bound and its adaptive rule."""

import itertools

import numpy as np
import pytest

import maxsparse as ms


def threshold(v, k):
    keep = sorted(range(len(v)), key=lambda j: (-abs(v[j]), j))[:k]
    return np.where(np.isin(np.arange(len(v)), keep), v, 0.0)


def rip(Phi, k):
    """Exact RIP constant by enumeration."""
    G = Phi.T @ Phi
    extremes = [np.linalg.eigvalsh(G[np.ix_(S, S)])[[0, -1]] for S in itertools.combinations(range(len(G)), k)]
    return max(1 - np.min(extremes), np.max(extremes) - 1)


@pytest.mark.parametrize("step", ["fixed", 0.3])
def test_definition(step):
    Phi = ms.dictionaries.gaussian(8, 20, rng=0)
    Y = np.random.default_rng(1).standard_normal((5, 8))
    mu = 1 / np.linalg.norm(Phi, 2) ** 2 if step == "fixed" else step
    expected = np.zeros((5, 20))
    for _ in range(25):
        expected = np.array([threshold(x + mu * Phi.T @ (y - Phi @ x), 3) for x, y in zip(expected, Y, strict=True)])
    np.testing.assert_allclose(
        ms.solvers.iht(Phi, Y, sparsity=3, step=step, max_iter=25, tol=0.0).coef, expected, atol=1e-12
    )


def test_error_bound_where_the_condition_holds():
    # ‖x_t − x*‖ ≤ 2^-t ‖x*‖ if δ_3k < 1/√32; near-orthogonal atoms meet the condition for k = 1.
    rng = np.random.default_rng(0)
    found = 0
    for seed in range(20):
        Q, _ = np.linalg.qr(rng.standard_normal((40, 12)))
        Phi = Q + 0.02 * rng.standard_normal((40, 12))
        Phi /= np.linalg.norm(Phi, axis=0)
        if rip(Phi, 3) >= 1 / np.sqrt(32):
            continue
        found += 1
        X, Y = ms.signals.sample(Phi, 10, sparsity=1, rng=seed)
        errors = []

        def watch(t, estimate, X=X, errors=errors):
            errors.append((t, np.linalg.norm(estimate - X, axis=1)))

        ms.solvers.iht(Phi, Y, sparsity=1, step=1.0, max_iter=20, tol=0.0, callback=watch)
        size = np.linalg.norm(X, axis=1)
        for t, error in errors:
            assert (error <= 2.0**-t * size + 1e-14).all()
    assert found >= 10


def test_general_layer_is_the_stated_iteration():
    rng = np.random.default_rng(0)
    Phi = ms.dictionaries.gaussian(8, 20, rng=0)
    Gamma = 0.1 * rng.standard_normal((20, 8))
    Y = rng.standard_normal((4, 8))
    Psi = np.eye(20) - Gamma @ Phi
    expected = np.zeros((4, 20))
    for _ in range(10):
        expected = np.array([threshold(Psi @ x + Gamma @ y, 3) for x, y in zip(expected, Y, strict=True)])
    np.testing.assert_allclose(
        ms.solvers.iht(Phi, Y, sparsity=3, Gamma=Gamma, max_iter=10, tol=0.0).coef, expected, atol=1e-12
    )


def test_general_layer_holds_preconditioning():
    # Γ = D²ΦᵀWᵀW is IHT on WΦD, mapped back.
    Phi = ms.dictionaries.decaying(10, 25, rng=0)
    X, Y = ms.signals.sample(Phi, 50, sparsity=1, rng=1)
    W, D = ms.theory.precondition(Phi)
    mu = 1 / np.linalg.norm(W @ Phi * D, 2) ** 2
    whitened = ms.solvers.iht(Phi, Y, sparsity=1, precondition=(W, D), step="fixed", max_iter=5, tol=0.0).coef / D
    # In the coordinates x/D the layer is Γ = μ(WΦD)ᵀW for the dictionary ΦD.
    layer = ms.solvers.iht(Phi * D, Y, sparsity=1, Gamma=mu * (W @ Phi * D).T @ W, max_iter=5, tol=0.0).coef
    np.testing.assert_allclose(layer, whitened, rtol=1e-8, atol=1e-10)
    assert ms.metrics.strict_accuracy(X, np.abs(whitened)) > 0.5


def test_fixed_step_never_raises_the_error():
    Phi = ms.dictionaries.decaying(10, 40, rng=0)
    Y = np.random.default_rng(1).standard_normal((20, 10))
    errors = []
    ms.solvers.iht(
        Phi,
        Y,
        sparsity=3,
        step="fixed",
        max_iter=100,
        callback=lambda t, X: errors.append(((Y - X @ Phi.T) ** 2).sum(axis=1)),
    )
    assert (np.diff(errors, axis=0) <= 1e-12).all()


def test_normalised_step_lowers_the_error_and_is_faster():
    Phi = ms.dictionaries.gaussian(40, 80, rng=0)
    X, Y = ms.signals.sample(Phi, 100, sparsity=5, rng=1)
    errors = []
    adaptive = ms.solvers.iht(
        Phi, Y, sparsity=5, callback=lambda t, X: errors.append(((Y - X @ Phi.T) ** 2).sum(axis=1))
    )
    assert (np.diff(errors, axis=0) <= 1e-12).all()
    fixed = ms.solvers.iht(Phi, Y, sparsity=5, step="fixed")
    assert ms.metrics.exact_recovery(X, adaptive.coef) >= ms.metrics.exact_recovery(X, fixed.coef)
    assert np.median(adaptive.iterations) < np.median(fixed.iterations) / 2


def test_a_step_that_is_too_long_is_not_called_converged():
    Phi = ms.dictionaries.decaying(20, 100, rng=0)
    _, Y = ms.signals.sample(Phi, 5, sparsity=3, rng=0)
    assert not ms.solvers.iht(Phi, Y, sparsity=3, step=1.0).converged.any()


def test_bad_arguments():
    Phi, Y = np.eye(4), np.ones((1, 4))
    for arguments, message in (
        ({"step": "fast"}, "step must be one of 'normalised', 'fixed', got 'fast'"),
        ({"step": 0.0}, "step must be positive"),
        ({"Gamma": np.ones((3, 4))}, r"Gamma must have shape \(m, n\) = \(4, 4\)"),
        ({"Gamma": np.eye(4), "precondition": True}, "Gamma is for the caller's Phi"),
    ):
        with pytest.raises(ValueError, match=message):
            ms.solvers.iht(Phi, Y, sparsity=1, **arguments)
    with pytest.raises(TypeError, match="sparsity"):
        ms.solvers.iht(Phi, Y)
