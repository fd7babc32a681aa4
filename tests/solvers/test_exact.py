"""Enumeration against a plain loop over supports, and against itself."""

import itertools

import numpy as np
import pytest

import maxsparse as ms


def brute_force(Phi, y, goal):
    for k in range(Phi.shape[1] + 1):
        fits = []
        for S in itertools.combinations(range(Phi.shape[1]), k):
            x = np.linalg.lstsq(Phi[:, S], y, rcond=None)[0] if S else np.zeros(0)
            fits.append((np.linalg.norm(y - Phi[:, S] @ x), S))
        residual, S = min(fits)
        if residual <= goal:
            return set(S)
    return None


@pytest.mark.parametrize("kind", ["gaussian", "decaying"])
@pytest.mark.parametrize("d", [0, 1, 2, 3, 4])
def test_against_brute_force(kind, d):
    Phi = getattr(ms.dictionaries, kind)(5, 9, rng=d)
    _, Y = ms.signals.sample(Phi, 8, sparsity=d, rng=1)
    result = ms.solvers.exact(Phi, Y)
    assert result.converged.all()
    for y, support in zip(Y, result.support, strict=True):
        assert set(np.flatnonzero(support)) == brute_force(Phi, y, 1e-8 * np.linalg.norm(y))


def test_under_noise_against_brute_force():
    Phi = ms.dictionaries.gaussian(6, 10, rng=0)
    _, Y = ms.signals.sample(Phi, 20, sparsity=2, noise=0.02, rng=1)
    result = ms.solvers.exact(Phi, Y, noise=0.03)
    for y, support, residual in zip(Y, result.support, result.residual, strict=True):
        assert set(np.flatnonzero(support)) == brute_force(Phi, y, 0.03 * np.sqrt(6))
        assert residual <= 0.03 * np.sqrt(6)


def test_permuting_atoms_permutes_the_answer():
    rng = np.random.default_rng(0)
    Phi = ms.dictionaries.decaying(7, 14, rng=0)
    _, Y = ms.signals.sample(Phi, 40, sparsity=(1, 4), rng=1)
    order, signs = rng.permutation(14), rng.choice([-1.0, 1.0], 14)
    straight = ms.solvers.exact(Phi, Y).coef
    changed = ms.solvers.exact(Phi[:, order] * signs, Y).coef
    np.testing.assert_allclose(changed, straight[:, order] * signs, rtol=1e-6, atol=1e-9)


def test_signals_that_nothing_explains():
    Phi = ms.dictionaries.gaussian(6, 12, rng=0)
    Y = np.random.default_rng(0).standard_normal((3, 6))
    result = ms.solvers.exact(Phi, Y, sparsity=2)
    assert not result.converged.any()
    assert not result.coef.any()
    assert result.iterations.tolist() == [2, 2, 2]


def test_refuses_with_the_count():
    Phi = ms.dictionaries.gaussian(20, 100, rng=0)
    message = r"try 7.94e\+07 supports of up to 5 of 100 atoms, more than max_supports = 1e\+07"
    with pytest.raises(ValueError, match=message):
        ms.solvers.exact(Phi, np.ones((1, 20)), sparsity=5)


def test_one_signal_that_needs_too_many_supports_does_not_lose_the_others():
    Phi = ms.dictionaries.gaussian(8, 16, rng=0)
    X, Y = ms.signals.sample(Phi, 30, sparsity=2, rng=1)
    Y[7] = np.random.default_rng(2).standard_normal(8)  # needs all eight
    with pytest.warns(
        RuntimeWarning, match=r"1 of 30 signals are left without an answer: .* supports of up to 4 of 16"
    ):
        result = ms.solvers.exact(Phi, Y, max_supports=1 + 16 + 120 + 560)
    others = np.arange(30) != 7
    assert result.converged.tolist() == others.tolist()
    np.testing.assert_allclose(result.coef[others], X[others], atol=1e-9)
    assert not result.coef[7].any()
    assert result.iterations[7] == 3


def test_dependent_atoms_are_skipped():
    Phi = np.array([[1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    with pytest.warns(UserWarning, match="duplicate"):
        result = ms.solvers.exact(Phi, np.array([[1.0, 2.0, 0.0]]))
    assert result.support.sum() == 2
    assert result.residual[0] < 1e-12
