"""SBL against a plain reference, its objective, and what was measured before."""

import numpy as np
import pytest

import maxsparse as ms


def reference(Phi, y, update, iterations, schedule):
    """SBL as one would write it down: dense inverses, float64, one signal."""
    scale = np.sqrt(np.mean(y**2))
    y = y / scale
    n, m = Phi.shape
    gamma, lam = np.ones(m), schedule[0]
    for _ in range(iterations):
        S = np.linalg.inv(Phi @ np.diag(gamma) @ Phi.T + lam * np.eye(n))
        u, q = Phi.T @ S @ y, np.einsum("im,ij,jm->m", Phi, S, Phi)
        x = gamma * u
        lam = max(lam * 0.8, schedule[1])
        if update == "em":
            gamma = x**2 + gamma - gamma**2 * q
        elif update == "convex":
            gamma = np.abs(x) / np.sqrt(q)
        else:
            gamma = x**2 / (gamma * q)
    return x * scale


@pytest.mark.parametrize("update", ["em", "convex", "mackay"])
def test_against_the_reference(update):
    Phi = ms.dictionaries.gaussian(10, 25, rng=0)
    _, Y = ms.signals.sample(Phi, 10, sparsity=3, rng=1)
    result = ms.solvers.sbl(Phi, Y, update=update, max_iter=20, tol=0.0, schedule=(1e-1, 1e-3))
    expected = np.array([reference(Phi, y, update, 20, (1e-1, 1e-3)) for y in Y])
    np.testing.assert_allclose(result.coef, expected, atol=1e-8)


def objective(Phi, y, gamma, lam):
    S = Phi @ np.diag(gamma) @ Phi.T + lam * np.eye(len(y))
    return y @ np.linalg.solve(S, y) + np.linalg.slogdet(S)[1]


@pytest.mark.parametrize("update", ["em", "convex"])
def test_objective_never_rises_at_fixed_noise(update):
    # x_t = γ_t u(γ_t) shows γ only indirectly, so γ is rebuilt by the update's formula from the reported x.
    Phi = ms.dictionaries.gaussian(8, 20, rng=0)
    _, Y = ms.signals.sample(Phi, 1, sparsity=3, noise=0.05, rng=1)
    scale = np.sqrt(np.mean(Y[0] ** 2))
    y, lam = Y[0] / scale, (0.05 / scale) ** 2
    gamma, values = np.ones(20), []

    def watch(t, X):
        nonlocal gamma
        values.append(objective(Phi, y, gamma, lam))
        x = X[0] / scale
        S = np.linalg.inv(Phi @ np.diag(gamma) @ Phi.T + lam * np.eye(8))
        np.testing.assert_allclose(x, gamma * (Phi.T @ S @ y), atol=1e-9)
        q = np.einsum("im,ij,jm->m", Phi, S, Phi)
        gamma = x**2 + gamma - gamma**2 * q if update == "em" else np.abs(x) / np.sqrt(q)

    ms.solvers.sbl(Phi, Y, update=update, noise=0.05, max_iter=60, tol=0.0, callback=watch)
    assert len(values) == 60
    assert (np.diff(values) <= 1e-9).all()


def test_learned_noise_does_what_the_true_level_does():
    Phi = ms.dictionaries.gaussian(80, 40, rng=0)  # more measurements than atoms: only then is the level identifiable
    X, Y = ms.signals.sample(Phi, 100, sparsity=3, noise=0.02, rng=1)
    learned = ms.solvers.sbl(Phi, Y, noise="learn")
    given = ms.solvers.sbl(Phi, Y, noise=0.02)
    for result in (learned, given):
        assert ms.metrics.recall(X, result.scores) > 0.95
    assert np.median(learned.residual / given.residual) == pytest.approx(1.0, abs=0.1)


def test_noise_level_shrinks():
    Phi = ms.dictionaries.gaussian(30, 60, rng=0)
    _, Y = ms.signals.sample(Phi, 50, sparsity=3, noise=0.02, rng=1)
    residual = [np.median(ms.solvers.sbl(Phi, Y, noise=noise).residual) for noise in (0.002, 0.02, 0.2)]
    assert residual[0] < residual[1] < residual[2]


def test_pruning_keeps_the_answer_of_em():
    Phi = ms.dictionaries.decaying(20, 60, rng=0)
    X, Y = ms.signals.sample(Phi, 100, sparsity=3, rng=1)
    kept, pruned = (ms.solvers.sbl(Phi, Y, precondition=True, prune=prune) for prune in (0.0, 1e-6))
    assert ms.metrics.strict_accuracy(X, pruned.scores) == pytest.approx(
        ms.metrics.strict_accuracy(X, kept.scores), abs=0.02
    )
    assert (pruned.support.sum(axis=1) <= kept.support.sum(axis=1)).all()


def test_em_ends_in_a_sparse_answer():
    Phi = ms.dictionaries.decaying(20, 100, rng=0)
    X, Y = ms.signals.sample(Phi, 200, sparsity=4, rng=1)
    result = ms.solvers.sbl(Phi, Y, precondition=True)
    right = (result.support == (X != 0)).all(axis=1)
    assert right.mean() > 0.9
    assert (result.support.sum(axis=1) <= 20).all()
    assert np.median(ms.metrics.normalised_error(X, result.coef)[right]) < 1e-4


def test_bad_arguments():
    Phi, Y = np.eye(3), np.ones((1, 3))
    for arguments, message in (
        ({"update": "newton"}, "update must be one of 'em', 'convex', 'mackay'"),
        ({"noise": "guess"}, 'noise must be a number, "auto" or "learn"'),
        ({"schedule": (1e-6, 1e-2)}, r"schedule\[1\] must be from"),
        ({"schedule": 0.1}, "schedule must be a pair"),
        ({"prune": 2.0}, "prune must be from"),
    ):
        with pytest.raises(ValueError, match=message):
            ms.solvers.sbl(Phi, Y, **arguments)


# Strict accuracy measured with 1000 to 2000 signals per d on the follow-up's dictionary; SBL there is the convex update
# with λ = max(1e-6, 1e-2 · 0.8^t) for signals that were not scaled.
MEASURED = {
    ("omp", False): {2: 0.02, 4: 0.00, 7: 0.00},
    ("omp", True): {2: 0.98, 4: 0.72, 6: 0.31, 7: 0.14, 8: 0.04},
    ("sbl", False): {2: 0.87, 4: 0.47, 6: 0.07, 7: 0.02, 8: 0.01},
    ("sbl", True): {2: 1.00, 4: 0.96, 6: 0.69, 7: 0.45, 8: 0.22},
}


@pytest.mark.parametrize(("method", "whitened"), MEASURED)
def test_measured_table(data, method, whitened):
    Phi = ms.dictionaries.load(data("authors_20x100.npz"), key="Phi")
    for d, expected in MEASURED[method, whitened].items():
        X, Y = ms.signals.sample(Phi, 600, sparsity=d, rng=d)
        options = {"sparsity": d}
        if method == "sbl":
            power = d * np.mean(X[X != 0] ** 2) / 20 * (20 / 100 if whitened else 1)  # mean square of a measurement
            options = {"update": "convex", "schedule": (1e-2 / power, 1e-6 / power)}
        result = ms.solve(Phi, Y, method=method, precondition=whitened, **options)
        error = 3.5 * np.sqrt(max(expected * (1 - expected), 0.01) * (1 / 600 + 1 / 1000))
        assert ms.metrics.strict_accuracy(X, result.scores) == pytest.approx(expected, abs=error), d


def test_em_recovers_far_more_than_the_convex_update(data):
    Phi = ms.dictionaries.load(data("authors_20x100.npz"), key="Phi")
    X, Y = ms.signals.sample(Phi, 400, sparsity=7, rng=0)
    em, convex = (
        ms.metrics.strict_accuracy(X, ms.solve(Phi, Y, method="sbl", update=update, precondition=True).scores)
        for update in ("em", "convex")
    )
    assert em > 0.6
    assert em > convex + 0.2
