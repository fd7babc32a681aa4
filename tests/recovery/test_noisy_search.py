"""The search with noise against plain numpy formulas and against enumeration of all supports."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import maxsparse as ms
from maxsparse.recovery._chain import begin, jump, list_jumps, make_chain, note_time
from maxsparse.recovery._climb import Task, make_pool, start_from
from maxsparse.recovery._neighbours import make_mass, weigh
from maxsparse.recovery._shapes import flip_gains_humped, settle, swap_gains_humped
from maxsparse.recovery._sweep import (
    add,
    best_swap,
    clear,
    flip_gains,
    make_sweep,
    may_gain,
    penalise,
    remove,
    swap_gains,
)
from maxsparse.recovery.law import Law, learn_weights, usual_law, wide_law
from maxsparse.recovery.noisy_search import noisy_search

VARIANCE, SLAB = 1e-3, 0.2


def evidence(Q, y, S, variance=VARIANCE, slab=SLAB):
    C = variance * np.eye(len(Q)) + slab * Q[:, S] @ Q[:, S].T
    return multivariate_normal.logpdf(y, np.zeros(len(Q)), C) + 0.5 * len(Q) * math.log(2 * math.pi)


def problem(seed, n=8, m=14, d=2, noise=0.03):
    Q = ms.dictionaries.gaussian(n, m, rng=seed)
    X, Y = ms.signals.sample(Q, 1, sparsity=d, noise=noise, rng=seed + 100)
    return Q, X[0], Y[0]


def even_sizes(most):
    return Law(0.0, np.zeros((1, 3)), np.full(most + 1, -math.log(most + 1)))


def task_of(Q, y, most, variance=VARIANCE, slab=SLAB, hump=0.0):
    n, m = Q.shape
    base = -0.5 * (n * math.log(variance) + y @ y / variance)
    return Task(Q.T @ y, np.zeros(m), even_sizes(most).prior(m), base, variance, slab, hump, np.inf)


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


@pytest.mark.parametrize("kind", ["gaussian", "decaying"])
@pytest.mark.parametrize("variance", [1e-1, 1e-4, 1e-9])
def test_exchanges_that_are_skipped_gain_less(kind, variance):
    """The best exchange is that of looking at all of them, and so is whether one gains as much as asked for."""
    Phi = getattr(ms.dictionaries, kind)(12, 40, rng=3)
    rng = np.random.default_rng(4)
    s = make_sweep(40, 8)
    for _ in range(20):
        y = Phi @ np.where(rng.random(40) < 0.1, rng.normal(size=40), 0.0) + math.sqrt(variance) * rng.normal(size=12)
        clear(s, Phi.T @ y, variance, SLAB)
        for j in rng.choice(40, rng.integers(1, 8), replace=False):
            add(s, Phi.T @ Phi, variance, SLAB, int(j))
        table = []
        for a in range(s.size[0]):
            swap_gains(s, SLAB, a)
            table.append(s.gains.copy())
        gains = np.array(table)
        leave, enter = np.unravel_index(gains.argmax(), gains.shape)
        gain, *atoms = best_swap(s, SLAB, -np.inf)
        assert gain == pytest.approx(gains.max(), abs=1e-6)
        assert atoms == [s.support[leave], enter]
        assert best_swap(s, SLAB, gains.max() + 1e-2)[1:] == (-1, -1)
        for least in np.quantile(gains[np.isfinite(gains)], [0.1, 0.9, 0.999]):
            penalise(s)
            may = np.array([may_gain(s, a, least) for a in range(s.size[0])])
            assert not (~may & (gains.max(axis=1) > least)).any()
            assert not may[gains.max(axis=1) < least - 100.0].any()  # and it does skip


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


def humped(Q, y, S, variance, tau2, mu):
    """Return the evidence under x_i ~ ½N(μ, τ²) + ½N(−μ, τ²), summed over all signs."""
    S, n = list(S), len(Q)
    C = variance * np.eye(n) + tau2 * Q[:, S] @ Q[:, S].T
    patterns = itertools.product((-mu, mu), repeat=len(S)) if mu > 0 else [(0.0,) * len(S)]
    values = [multivariate_normal.logpdf(y, Q[:, S] @ np.array(x, dtype=float), C) for x in patterns]
    return np.logaddexp.reduce(values) - math.log(len(values)) + 0.5 * n * math.log(2 * math.pi)


def shaped(Q, y, S, variance, slab, law):
    """Return the evidence averaged over the slabs of a law."""
    values = []
    for factor, ratio, weight in law.shapes:
        tau2 = slab * math.exp(factor) / (1 + ratio**2)
        values.append(weight + humped(Q, y, S, variance, tau2, ratio * math.sqrt(tau2)))
    return np.logaddexp.reduce(values)


def test_gains_of_all_neighbours_under_a_slab_with_humps():
    """A support with large coefficients, so that one sign of each is all that counts."""
    Q, _, _ = problem(2)
    S, tau2, mu = [3, 7, 11], 0.01, 0.3
    y = Q[:, S] @ [0.4, -0.3, 0.25] + 0.03 * np.random.default_rng(0).standard_normal(8)
    task = task_of(Q, y, 6, slab=tau2, hump=mu)
    s = make_sweep(14, 7)
    fixed, summed = settle(s, task, Q.T @ Q, np.array(S), 3)

    def log_posterior(T):
        return humped(Q, y, sorted(T), VARIANCE, tau2, mu) + task.prior[len(T)]

    assert summed == pytest.approx(log_posterior(S), abs=1e-6)
    flip_gains_humped(s, task, -np.inf)
    flips = s.gains.copy()
    for j in range(14):
        assert fixed + flips[j] == pytest.approx(log_posterior(set(S) ^ {j}), abs=1e-3)
    for a in range(3):
        swap_gains_humped(s, task, a, -np.inf)
        for j in set(range(14)) - set(S):
            assert fixed + s.gains[j] == pytest.approx(log_posterior(set(S) - {S[a]} | {j}), abs=1e-3)
    flip_gains_humped(s, task, 0.0)
    assert np.isneginf(s.gains[s.place < 0]).any()
    np.testing.assert_array_equal(s.gains[flips > 0.0], flips[flips > 0.0])


def dense(Q, y, variance):
    """Return evidence and prior probability of x ~ N(0, vI), and the posterior mean of x."""
    n, m = Q.shape
    v = (y @ y - n * variance) / m * np.array([0.5, 1.0, 2.0])
    C = [variance * np.eye(n) + one * Q @ Q.T for one in v]
    values = np.array([multivariate_normal.logpdf(y, np.zeros(n), c) for c in C]) + 0.5 * n * math.log(2 * math.pi)
    weights = np.exp(values - np.logaddexp.reduce(values))
    mean = sum(w * one * Q.T @ np.linalg.solve(c, y) for w, one, c in zip(weights, v, C, strict=True))
    directions = sum(w * one * np.trace(np.linalg.solve(c, Q @ Q.T)) for w, one, c in zip(weights, v, C, strict=True))
    return np.logaddexp.reduce(values) - math.log(3), math.log(n / directions) / math.log(n), mean


@pytest.mark.parametrize("problems", [6, pytest.param(15, marks=pytest.mark.long)])
def test_the_answer_is_the_most_probable_of_all_supports(problems):
    """Probabilities are those of enumeration under the same slabs and shapes, next to a dense explanation."""
    n, m = 6, 9
    law = usual_law(n - 1)
    supports = list(all_supports(m, n - 1))
    for seed in range(problems):
        Q, _, y = problem(seed, n=n, m=m, noise=0.02)
        variance = 4e-4
        answer = noisy_search(Q, y[None], np.zeros((1, m)), np.array([variance]), starts=200)
        prior = law.prior(m)
        log_posterior = np.array([shaped(Q, y, S, variance, answer.slab[0], law) + prior[len(S)] for S in supports])
        whole = np.logaddexp.reduce(log_posterior)
        assert answer.whole[0] == pytest.approx(whole, abs=0.05)
        rival, weight, mean = dense(Q, y, variance)
        sparse = 1 / (1 + 10 * weight / (1 - weight) * math.exp(rival - whole))  # ten to one, for caution
        probability = sparse * np.exp(log_posterior - whole)
        best = supports[int(probability.argmax())]
        assert tuple(np.flatnonzero(answer.support()[0])) == best
        assert answer.probability[0, 0] == pytest.approx(probability.max(), abs=0.02)
        inclusion = [sum(p for p, S in zip(probability, supports, strict=True) if j in S) for j in range(m)]
        spread = (1 - sparse) * 0.25 * n / m
        np.testing.assert_allclose(answer.inclusion[0], np.array(inclusion) + spread, atol=0.02)
        learned = Law(float(answer.slab[0]), law.shapes, law.sizes)  # no signal is dense then
        alone = noisy_search(Q, y[None], np.zeros((1, m)), np.array([variance]), starts=200, law=learned)
        np.testing.assert_allclose(alone.probability[0, 0], probability.max() / sparse, atol=0.02)
        np.testing.assert_allclose(answer.mean[0], sparse * alone.mean[0] + (1 - sparse) * mean, atol=1e-3)


def test_message_passing_has_half_a_say_where_supports_are_many():
    """At a low signal-to-noise ratio; and none where it did not converge, or its support is far less probable."""
    Q = ms.dictionaries.gaussian(40, 120, rng=0)
    _, Y = ms.signals.sample(Q, 8, sparsity=8, noise=0.15, rng=1)
    law = Law(0.1, usual_law(39).shapes, usual_law(39).sizes)
    arguments = (Q, Y, np.zeros((8, 120)), np.full(8, 0.15**2))
    plain = noisy_search(*arguments, starts=20, law=law)
    many = plain.share[1:6] < 1
    assert many.any()
    passed = np.random.default_rng(0).standard_normal((8, 120))
    passed[0] = np.nan
    support = plain.support()
    support[6:] = np.arange(120) < 20
    other = noisy_search(*arguments, starts=20, law=law, passed=passed, candidates=(support,))
    np.testing.assert_allclose(other.probability, plain.probability, atol=0.1)
    np.testing.assert_allclose(other.mean[[0, 6, 7]], plain.mean[[0, 6, 7]], atol=0.1)
    half = 0.5 * (plain.mean + passed)[1:6]
    np.testing.assert_allclose(other.mean[1:6][many], half[many], atol=0.1)
    np.testing.assert_allclose(other.mean[1:6][~many], plain.mean[1:6][~many], atol=0.1)


def test_a_chain_spends_time_in_proportion_to_the_posterior():
    """Long chains on a small problem against enumeration, where probability is spread over many supports."""
    m, most, steps = 8, 4, 40_000
    Q, _, y = problem(1, n=6, m=m, noise=0.3)
    task = task_of(Q, y, most, variance=0.05)
    supports = list(all_supports(m, most))
    log_posterior = np.array([evidence(Q, y, list(S), 0.05) + task.prior[len(S)] for S in supports])
    probability = np.exp(log_posterior - np.logaddexp.reduce(log_posterior))
    assert probability.max() < 0.5
    s, chain, nothing = make_sweep(m, most + 1), make_chain(m, most), make_mass(m, most, 64)
    begin(chain, s, task, Q.T @ Q, np.array([0]), 1)
    rng, spent = np.random.default_rng(0), dict.fromkeys(supports, 0.0)
    for _ in range(steps):
        count, rate = list_jumps(chain, s, task)
        assert not note_time(chain, nothing, 1 / rate)
        spent[tuple(sorted(s.support[: s.size[0]].tolist()))] += 1 / rate
        jump(chain, s, task, Q.T @ Q, count, rate * rng.random())
    S = sorted(s.support[: s.size[0]].tolist())
    assert chain.value[0] == pytest.approx(evidence(Q, y, S, 0.05) + task.prior[len(S)], abs=1e-6)
    times = np.array([spent[S] for S in supports])
    assert times.sum() == pytest.approx(chain.time[0])
    np.testing.assert_allclose(times / times.sum(), probability, atol=0.02)


def test_what_enumeration_misses_is_noticed():
    """With next to no signal, thousands of supports share the probability; the answer must not claim much of it."""
    Phi = ms.dictionaries.gaussian(50, 200, rng=0)
    _, Y = ms.signals.sample(Phi, 20, sparsity=14, snr_db=8, rng=1)
    answer = noisy_search(Phi, Y, np.zeros((20, 200)), np.full(20, np.mean(Y**2) / 7.3), starts=20)
    assert np.median(answer.share) < 0.5
    assert np.median(answer.probability[:, 0]) < 0.1
    assert (answer.inclusion <= 1.0).all()


def test_a_law_is_learned_from_many_signals():
    """Sizes and amplitudes of 60 signals, none of which says them alone; more supports are right, and confidence is."""
    Phi = ms.dictionaries.gaussian(20, 60, rng=0)
    most = 19

    def signals(N, seed):
        return ms.signals.sample(Phi, N, sparsity=4, amplitudes="unit", noise=0.12, rng=seed)

    X, Y = signals(60, 1)
    variance = np.full(60, 0.12**2)
    law = wide_law(1.0, most)
    first = noisy_search(Phi, Y, np.zeros(X.shape), variance, starts=100, law=law, evidence=True)
    learned = learn_weights(law, first.evidence)
    assert learned.sizes.argmax() == 4
    assert np.exp(learned.shapes[:, 2]) @ learned.shapes[:, 1] > 6.0  # humps of nearly equal amplitudes
    assert np.exp(learned.shapes[:, 2]).sum() == pytest.approx(1.0)
    X, Y = signals(200, 2)
    variance = np.full(200, 0.12**2)
    plain, told = (noisy_search(Phi, Y, np.zeros(X.shape), variance, starts=100, law=law) for law in (None, learned))
    right = [(answer.support() == (X != 0)).all(axis=1).mean() for answer in (plain, told)]
    assert right[1] >= right[0]
    assert told.probability[:, 0].mean() == pytest.approx(right[1], abs=0.05)
    assert abs(plain.probability[:, 0].mean() - right[0]) > 0.05


def test_weights_of_a_law_are_those_that_explain_the_data():
    """Against direct maximisation: 300 signals from three known densities."""
    rng = np.random.default_rng(0)
    law = wide_law(1.0, 2)
    P = len(law.shapes)
    density = rng.random((P, 3, 40))
    density /= density.sum(axis=2, keepdims=True)
    slabs, sizes = np.zeros(P), np.array([0.2, 0.7, 0.1])
    slabs[[3, 10]] = 0.25, 0.75
    joint = np.einsum("p,k,pky->y", slabs, sizes, density)
    seen = rng.choice(40, 4000, p=joint)
    evidence = np.log(density[:, :, seen]).transpose(2, 0, 1) + law.shapes[:, 2][:, None] + law.sizes
    learned = learn_weights(law, evidence)
    weights = np.zeros(P)
    for factor, ratio, weight in learned.shapes:
        weights[np.flatnonzero((law.shapes[:, 0] == factor) & (law.shapes[:, 1] == ratio))] = math.exp(weight)
    mixed = np.einsum("p,k,pky->y", weights, np.exp(learned.sizes), density)
    truth = np.log(joint[seen]).mean()
    assert np.log(mixed[seen]).mean() >= truth - 1e-3


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
