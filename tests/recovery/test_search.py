import numpy as np
import pytest

from maxsparse import dictionaries, signals
from maxsparse._core.prepared import Prepared
from maxsparse._core.threads import threads
from maxsparse.recovery._tableau import build, equal_ratios, pair_ratios, pivot
from maxsparse.recovery.decode import decode_exact, fit_supports
from maxsparse.recovery.search import SearchBudget, check_budget, search


@pytest.fixture(scope="module")
def problem():
    return Prepared(dictionaries.decaying(12, 40, rng=0)).problem()


def draw(problem, N, sparsity, rng=1):
    return signals.sample(problem.atoms.T, N, sparsity=sparsity, rng=rng)


def test_tableau_is_the_inverse_of_its_basis(problem):
    n, m = problem.Q.shape
    z = np.random.default_rng(0).standard_normal(n)
    T, basis, place = np.empty((n, m + 1)), np.empty(n, np.int64), np.empty(m, np.int64)
    assert build(problem.Q, z, np.arange(m), T, basis, place)
    for step in range(20):
        B = problem.Q[:, basis]
        np.testing.assert_allclose(B @ T, np.column_stack([problem.Q, z]), atol=1e-9)
        row, column = step % n, next(j for j in range(m) if j not in basis and abs(T[step % n, j]) > 0.1)
        pivot(T, row, column)
        basis[row] = column


def test_pair_test_finds_exactly_the_dependent_pairs():
    """Three rows: y is planted in the span of two columns; brute force over all pairs is the reference."""
    rng = np.random.default_rng(3)
    m = 40
    rows = rng.standard_normal((3, m + 1))
    rows[:, m] = 0.7 * rows[:, 11] - 1.3 * rows[:, 29]
    alpha, beta = np.empty(m), np.empty(m)
    pair_ratios(rows, 0, 1, 2, alpha, beta)
    pairs = np.empty((16, 2), np.int64)
    table = np.zeros(1024, np.int64)
    count = equal_ratios(alpha.view(np.int64), beta, rows[0], np.arange(m), table, 1, pairs)
    assert equal_ratios(alpha.view(np.int64), beta, rows[0], np.arange(11), table, 2, pairs[count:]) == 0
    dependent = [
        (i, j)
        for i in range(m)
        for j in range(i + 1, m)
        if abs(np.linalg.det(np.column_stack([rows[:, [i, j]], rows[:, m]]))) < 1e-9
    ]
    assert [tuple(pair) for pair in pairs[:count].tolist()] == dependent == [(11, 29)]


def test_blind_search_finds_the_sparsest(problem):
    """Scores that say nothing: only the walk and the pair test are at work."""
    X, Y = draw(problem, 50, 4)
    found_X, found, sets = search(problem, Y, np.zeros_like(X), budget=SearchBudget(20_000))
    assert found.all()
    assert sets.min() >= 1
    np.testing.assert_allclose(found_X, X, atol=1e-8)


def test_good_scores_need_few_sets(problem):
    X, Y = draw(problem, 50, 6)
    _, _, blind = search(problem, Y, np.zeros_like(X), budget=SearchBudget(3_000))
    _, found, guided = search(problem, Y, 4.0 * (X != 0) - 2.0, budget=SearchBudget(3_000))
    assert found.all()
    assert guided.mean() < 0.1 * blind.mean()


def test_two_missing_atoms_are_found_in_the_first_set(problem):
    X, Y = draw(problem, 30, 5)
    scores = 8.0 * (X != 0) - 4.0
    for row in scores:
        row[np.flatnonzero(row > 0)[:2]] = -8.0  # worse than every other atom
    found_X, found, sets = search(problem, Y, scores, budget=SearchBudget(1))
    assert found.all()
    assert (sets == 1).all()
    np.testing.assert_allclose(found_X, X, atol=1e-8)


def test_noise_is_never_explained(problem):
    Y = np.random.default_rng(0).standard_normal((30, 12))
    _, found, sets = search(problem, Y, np.zeros((30, 40)), budget=SearchBudget(3_000))
    assert not found.any()
    assert (sets == 3_000).all()


def test_seed_decides_and_batch_and_threads_do_not(problem):
    X, Y = draw(problem, 40, 6)
    scores = np.random.default_rng(0).standard_normal(X.shape)
    options = {"budget": SearchBudget(2_000), "seed": 3}
    whole = search(problem, Y, scores, **options)
    for a, b in zip(whole, search(problem, Y, scores, **options), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(whole, search(problem, Y[7:9], scores[7:9], **options), strict=True):
        np.testing.assert_array_equal(a[7:9], b)
    with threads(1):
        for a, b in zip(whole, search(problem, Y, scores, **options), strict=True):
            np.testing.assert_array_equal(a, b)
    other = search(problem, Y, scores, budget=SearchBudget(2_000), seed=4)
    assert (whole[2] != other[2]).any()


def test_a_larger_budget_keeps_what_a_smaller_one_found(problem):
    X, Y = draw(problem, 60, 7)
    _, few, _ = search(problem, Y, np.zeros_like(X), budget=SearchBudget(300))
    _, many, _ = search(problem, Y, np.zeros_like(X), budget=SearchBudget(3_000))
    assert (many | ~few).all()
    assert many.sum() > few.sum()


def test_budgets():
    assert check_budget("fast").sets < check_budget("normal").sets < check_budget("thorough").sets
    assert check_budget(123) == SearchBudget(123)
    assert check_budget("2.5ms").milliseconds == 2.5
    for bad in ("soon", -1, 1.5, "ms"):
        with pytest.raises(ValueError, match="budget"):
            check_budget(bad)


def test_a_budget_of_time_ends(problem):
    import time

    Y = np.random.default_rng(0).standard_normal((20, 12))
    begun = time.monotonic()
    search(problem, Y, np.zeros((20, 40)), budget=check_budget("10ms"))
    assert time.monotonic() - begun < 5.0


def test_square_and_tiny_dictionaries_are_left_alone():
    for n, m in ((6, 6), (3, 9), (2, 5)):
        small = Prepared(dictionaries.gaussian(n, m, rng=0)).problem()
        _, found, _ = search(small, np.ones((2, n)), np.zeros((2, m)), budget=SearchBudget(100))
        assert not found.any()


def test_decoding_needs_the_support_among_the_top_n_only(problem):
    X, Y = draw(problem, 100, 5)
    rng = np.random.default_rng(0)
    scores = np.where(X != 0, -1.0, rng.uniform(-3, -2, X.shape))
    for row in scores:
        row[rng.choice(np.flatnonzero(row < -1.5), 7, replace=False)] = 1.0  # seven wrong atoms come first
    decoded, found = decode_exact(problem, Y, scores)
    assert found.all()
    np.testing.assert_allclose(decoded, X, atol=1e-8)
    _, missed = decode_exact(problem, Y, -scores)
    assert not missed.any()


def test_decoding_of_zero_and_of_a_single_atom(problem):
    Y = np.stack([np.zeros(12), 3.0 * problem.atoms[7]])
    decoded, found = decode_exact(problem, Y, np.zeros((2, 40)) + (np.arange(40) == 7))
    assert found.all()
    assert np.flatnonzero(decoded[0]).size == 0
    assert np.flatnonzero(decoded[1]).tolist() == [7]


def test_fits_are_least_squares_on_each_support():
    Phi = dictionaries.gaussian(20, 50, rng=0)
    X, Y = signals.sample(Phi, 30, sparsity=(0, 6), noise=0.01, rng=1)
    for x, y, truth in zip(fit_supports(np.ascontiguousarray(Phi.T), Y, X != 0), Y, X, strict=True):
        S = np.flatnonzero(truth)
        np.testing.assert_allclose(x[S], np.linalg.lstsq(Phi[:, S], y, rcond=None)[0], atol=1e-12)
        assert not x[truth == 0].any()
