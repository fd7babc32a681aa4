"""The search with noise against plain numpy formulas and against enumeration of all supports."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import maxsparse as ms
from maxsparse.recovery._climb import Task, make_pool, start_from
from maxsparse.recovery._neighbours import make_mass, weigh
from maxsparse.recovery._shapes import RATIOS, SCALES
from maxsparse.recovery._sweep import add, clear, flip_gains, make_sweep, remove, swap_gains
from maxsparse.recovery.noisy_search import SLABS, noisy_search, size_prior

VARIANCE, SLAB = 1e-3, 0.2


def evidence(Q, y, S, variance=VARIANCE, slab=SLAB):
    C = variance * np.eye(len(Q)) + slab * Q[:, S] @ Q[:, S].T
    return multivariate_normal.logpdf(y, np.zeros(len(Q)), C) + 0.5 * len(Q) * math.log(2 * math.pi)


def problem(seed, n=8, m=14, d=2, noise=0.03):
    Q = ms.dictionaries.gaussian(n, m, rng=seed)
    X, Y = ms.signals.sample(Q, 1, sparsity=d, noise=noise, rng=seed + 100)
    return Q, X[0], Y[0]


def task_of(Q, y, most, variance=VARIANCE, slab=SLAB):
    n, m = Q.shape
    base = -0.5 * (n * math.log(variance) + y @ y / variance)
    return Task(Q.T @ y, np.zeros(m), size_prior(m, most), base, variance, slab, np.inf)


@pytest.mark.parametrize("variance", [1e-1, 1e-4, 1e-9])
def test_sweep_holds_means_variances_and_evidence(variance):
    """After any sequence of additions and removals, everything is what the textbook formulas give."""
    Q, _, y = problem(0, n=10, m=25)
    G, b = Q.T @ Q, Q.T @ y
    rng = np.random.default_rng(1)
    s = make_sweep(25, 9)
    clear(s, b, variance, SLAB)
    value = evidence(Q, y, [], variance)
    for _ in range(60):
        k = s.size[0]
        if k == 9 or (k > 0 and rng.random() < 0.4):
            value += remove(s, SLAB, int(s.support[rng.integers(k)]))
        else:
            value += add(s, G, variance, SLAB, int(rng.choice(np.flatnonzero(s.place < 0))))
        S = s.support[: s.size[0]]
        assert value == pytest.approx(evidence(Q, y, S, variance), rel=1e-6, abs=1e-6)
        C = variance * np.eye(10) + SLAB * Q[:, S] @ Q[:, S].T
        outside = np.flatnonzero(s.place < 0)
        inverse = np.linalg.inv(C)
        np.testing.assert_allclose(s.u[outside], Q[:, outside].T @ inverse @ y, rtol=1e-4, atol=1e-4 / SLAB)
        t = 1 / SLAB + np.einsum("ij,ik,kj->j", Q[:, outside], inverse, Q[:, outside])
        np.testing.assert_allclose(s.t[outside], t, rtol=1e-4)
        if len(S):
            Sigma = np.linalg.inv(G[np.ix_(S, S)] / variance + np.eye(len(S)) / SLAB)
            np.testing.assert_allclose(s.t[S], np.diag(Sigma), rtol=1e-5)
            np.testing.assert_allclose(s.u[S], Sigma @ b[S] / variance, rtol=1e-5, atol=1e-7)


def test_gains_of_all_neighbours():
    Q, _, y = problem(2)
    m, most = 14, 6
    task = task_of(Q, y, most)
    s = make_sweep(m, most + 1)
    value = start_from(s, task, Q.T @ Q, np.array([3, 7, 11]), 3)

    def log_posterior(S):
        return evidence(Q, y, sorted(S)) + task.prior[len(S)]

    S = {3, 7, 11}
    assert value == pytest.approx(log_posterior(S))
    flip_gains(s, SLAB, task.prior)
    for j in range(m):
        assert value + s.gains[j] == pytest.approx(log_posterior(S ^ {j}), abs=1e-4)
    for a in range(3):
        i = int(s.support[a])
        swap_gains(s, SLAB, a)
        for j in set(range(m)) - S:
            assert value + s.gains[j] == pytest.approx(log_posterior(S - {i} | {j}), abs=1e-4)
        assert np.isneginf(s.gains[list(S)]).all()


def test_a_full_support_takes_no_more_atoms():
    Q, _, y = problem(3)
    task = task_of(Q, y, 3)
    s = make_sweep(14, 4)
    start_from(s, task, Q.T @ Q, np.array([0, 1, 2]), 3)
    flip_gains(s, SLAB, task.prior)
    assert np.isneginf(s.gains[3:]).all()
    assert np.isfinite(s.gains[:3]).all()


def all_supports(m, most):
    return itertools.chain.from_iterable(itertools.combinations(range(m), k) for k in range(most + 1))


@pytest.mark.parametrize("seed", range(4))
def test_neighbours_hold_the_whole_mass(seed):
    """Total, inclusion and mean are those of enumerating every support, where the posterior is concentrated."""
    Q, _, y = problem(seed, n=6, m=9)
    m, most = 9, 5
    task = task_of(Q, y, most)
    supports = list(all_supports(m, most))
    log_posterior = np.array([evidence(Q, y, list(S)) + task.prior[len(S)] for S in supports])
    reference = log_posterior.max()
    weights = np.exp(log_posterior - reference)
    inclusion, mean = np.zeros(m), np.zeros(m)
    for weight, S in zip(weights, supports, strict=True):
        S = list(S)
        inclusion[S] += weight
        A = Q[:, S].T @ Q[:, S] / VARIANCE + np.eye(len(S)) / SLAB
        mean[S] += weight * np.linalg.solve(A, Q[:, S].T @ y / VARIANCE)
    found = make_pool(4, most)
    best = np.array(supports[int(log_posterior.argmax())])
    found.atoms[0, : len(best)], found.size[0], found.filled[0] = best, len(best), 1
    mass = make_mass(m, most, 64)
    weigh(make_sweep(m, most + 1), task, Q.T @ Q, found, mass, -reference, 200)
    assert mass.total[0] == pytest.approx(weights.sum(), rel=2e-3)
    np.testing.assert_allclose(mass.inclusion, inclusion, rtol=5e-3, atol=2e-3 * weights.sum())
    np.testing.assert_allclose(mass.mean, mean, rtol=5e-3, atol=2e-3 * weights.sum())


def shaped(Q, y, S, variance, slab):
    """Return the evidence averaged over slabs and shapes, signs given by the gaussian's posterior mean."""
    S, n = list(S), len(Q)
    gaussian = [evidence(Q, y, S, variance, slab * math.exp(f)) for f in SLABS]
    total = np.logaddexp.reduce(gaussian) - math.log(len(gaussian))

    def humps(ratio, signs):
        values = []
        for scale in SCALES:
            tau2 = slab * scale / (1 + ratio**2)
            C = variance * np.eye(n) + tau2 * Q[:, S] @ Q[:, S].T
            centre = ratio * math.sqrt(tau2) * Q[:, S] @ signs
            values.append(multivariate_normal.logpdf(y, centre, C) + 0.5 * n * math.log(2 * math.pi))
        return np.logaddexp.reduce(values)

    A = Q[:, S].T @ Q[:, S] / variance + np.eye(len(S)) / slab
    signs = np.sign(np.linalg.solve(A, Q[:, S].T @ y)) if S else np.zeros(0)
    plain = humps(0.0, np.zeros(len(S)))
    return total + math.log(1 + sum(math.exp(humps(r, signs) - len(S) * math.log(2) - plain) for r in RATIOS))


def test_the_answer_is_the_most_probable_of_all_supports():
    """Probabilities are those of enumeration under the same slabs and shapes."""
    for seed in range(25):
        n, m = 6, 9
        Q, _, y = problem(seed, n=n, m=m, noise=0.02)
        variance = 4e-4
        answer = noisy_search(Q, y[None], np.zeros((1, m)), np.array([variance]), starts=200)
        supports = list(all_supports(m, n - 1))
        prior = size_prior(m, n - 1)
        log_posterior = np.array([shaped(Q, y, S, variance, answer.slab[0]) + prior[len(S)] for S in supports])
        probability = np.exp(log_posterior - np.logaddexp.reduce(log_posterior))
        best = supports[int(probability.argmax())]
        assert tuple(np.flatnonzero(answer.support()[0])) == best
        assert answer.probability[0, 0] == pytest.approx(probability.max(), abs=0.05)
        inclusion = [sum(p for p, S in zip(probability, supports, strict=True) if j in S) for j in range(m)]
        np.testing.assert_allclose(answer.inclusion[0], inclusion, atol=0.05)  # 64 supports are listed, not all


def test_never_less_probable_than_a_candidate():
    Phi = ms.dictionaries.gaussian(20, 60, rng=0)
    X, Y = ms.signals.sample(Phi, 30, sparsity=9, noise=0.01, rng=1)
    misled = np.where(X != 0, -3.0, 3.0 * np.random.default_rng(0).random(X.shape))
    variance = np.full(30, 1e-4)
    blind = noisy_search(Phi, Y, misled, variance, starts=0)
    told = noisy_search(Phi, Y, misled, variance, starts=0, candidates=(X != 0,))
    right = (told.support() == (X != 0)).all(axis=1).mean()
    assert right > 0.6 > (blind.support() == (X != 0)).all(axis=1).mean()


def test_answers_do_not_depend_on_batch_or_threads():
    from maxsparse._core.threads import threads

    Phi = ms.dictionaries.gaussian(20, 80, rng=0)
    _, Y = ms.signals.sample(Phi, 12, sparsity=5, noise=0.02, rng=1)
    scores, variance = np.zeros((12, 80)), np.full(12, 4e-4)
    together = noisy_search(Phi, Y, scores, variance, starts=20)
    with threads(1):
        alone = noisy_search(Phi, Y[5:6], scores[5:6], variance[5:6], starts=20)
    np.testing.assert_array_equal(together.probability[5], alone.probability[0])
    np.testing.assert_array_equal(together.mean[5], alone.mean[0])


def test_zero_signal_and_no_signal():
    Phi = ms.dictionaries.gaussian(10, 30, rng=0)
    answer = noisy_search(Phi, np.zeros((2, 10)), np.zeros((2, 30)), np.full(2, 1e-2), starts=3)
    assert not answer.support().any()
    assert np.isfinite(answer.mean).all()
    assert noisy_search(Phi, np.zeros((0, 10)), np.zeros((0, 30)), np.zeros(0), starts=3).mean.shape == (0, 30)
