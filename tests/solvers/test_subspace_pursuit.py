"""Subspace pursuit against a plain version of the published algorithm."""

import numpy as np

import maxsparse as ms


def published(Phi, y, k):
    """Dai and Milenkovic's Algorithm 1."""

    def fit(S):
        return np.linalg.lstsq(Phi[:, S], y, rcond=None)[0]

    def top(v, count):
        return sorted(np.argsort(-np.abs(v), kind="stable")[:count])

    S = top(Phi.T @ y, k)
    r = y - Phi[:, S] @ fit(S)
    while True:
        merged = sorted(set(S) | set(top(Phi.T @ r, k)))
        trial = [merged[i] for i in top(fit(merged), k)]
        fresh = y - Phi[:, trial] @ fit(trial)
        if np.linalg.norm(fresh) >= np.linalg.norm(r):
            break
        S, r = trial, fresh
        if np.linalg.norm(r) <= 1e-8 * np.linalg.norm(y):
            break
    x = np.zeros(Phi.shape[1])
    x[S] = fit(S)
    return x


def test_against_the_published_algorithm():
    Phi = ms.dictionaries.gaussian(30, 70, rng=0)
    _, Y = ms.signals.sample(Phi, 40, sparsity=7, rng=1)
    expected = np.array([published(Phi, y, 7) for y in Y])
    np.testing.assert_allclose(ms.solvers.subspace_pursuit(Phi, Y, sparsity=7).coef, expected, atol=1e-9)


def test_beats_omp_near_its_limit():
    Phi = ms.dictionaries.gaussian(60, 120, rng=0)
    X, Y = ms.signals.sample(Phi, 200, sparsity=18, amplitudes="gaussian", rng=1)
    pursuit, omp = (
        ms.metrics.exact_recovery(X, solver(Phi, Y, sparsity=18).coef)
        for solver in (ms.solvers.subspace_pursuit, ms.solvers.omp)
    )
    assert pursuit > omp
