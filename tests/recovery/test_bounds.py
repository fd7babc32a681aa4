"""Bounds against full enumeration, by numpy's own least squares."""

import itertools

import numpy as np
import pytest

import maxsparse as ms
from maxsparse.recovery import noise_radius, prove
from maxsparse.recovery._blocks import COMPLETE, FOUND, all_supports, make_search
from maxsparse.recovery._proof import Limits, nothing_proven, prove_rows, search_cost
from maxsparse.recovery.bounds import similar_neighbours


def distances(Phi, Y, size):
    """Return the distances (supports, N) of signals from the spans of all supports of a size, and these supports."""
    supports = list(itertools.combinations(range(Phi.shape[1]), size))
    out = np.empty((len(supports), len(Y)))
    for row, support in enumerate(supports):
        Q, s, _ = np.linalg.svd(Phi[:, list(support)], full_matrices=False)
        Q = Q[:, s > 1e-11]
        out[row] = np.linalg.norm(Y.T - Q @ (Q.T @ Y.T), axis=0)
    return out, supports


def by_enumeration(Phi, Y, epsilon):
    """Return the fewest atoms within epsilon (m + 1 for none), and how many supports of that size are."""
    fewest, count = np.full(len(Y), Phi.shape[1] + 1), np.zeros(len(Y), dtype=int)
    for size in range(Phi.shape[1], -1, -1):
        within = (distances(Phi, Y, size)[0] <= epsilon).sum(axis=0)
        fewest[within > 0], count[within > 0] = size, within[within > 0]
    return fewest, count


def gaussian(rng, n, m):
    return ms.dictionaries.gaussian(n, m, rng=rng)


def duplicates(rng, n, m):
    Phi = ms.dictionaries.gaussian(n, m, rng=rng)
    Phi[:, 3] = Phi[:, 0]
    Phi[:, 5] = -2.0 * Phi[:, 1]
    return Phi


def dependent(rng, n, m):
    Phi = ms.dictionaries.gaussian(n, m, rng=rng)
    Phi[:, 2] = Phi[:, 0] + Phi[:, 1]
    Phi[:, 4] = Phi[:, 0] - Phi[:, 3] + 1e-4 * rng.standard_normal(n)
    return Phi


def coherent(rng, n, m):
    return ms.dictionaries.low_rank_plus(n, m, rank=1, epsilon=0.1, rng=rng)


def flat(rng, n, m):
    return ms.dictionaries.gaussian(n - 2, m, rng=rng)[np.r_[: n - 2, 0, 0]] * np.r_[np.ones(n - 1), 0.0][:, None]


def decaying(rng, n, m):
    return ms.dictionaries.decaying(n, m, rng=rng)


KINDS = [gaussian, duplicates, dependent, coherent, flat, decaying]


@pytest.mark.filterwarnings("ignore::maxsparse._core.validation.DuplicateAtomsWarning")
@pytest.mark.parametrize("cheap", [0.0, 1e9], ids=["groups", "atoms"])
@pytest.mark.parametrize("shape", [(6, 10), (9, 7), (7, 7), (2, 6), (5, 12)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_agree_with_enumeration(kind, shape, cheap):
    rng = np.random.default_rng(shape[0])
    n, m = shape
    N = 40
    if kind is flat and n < 4:
        pytest.skip("needs more rows")
    Phi = kind(rng, n, m)
    X = np.zeros((N, m))
    for x in X:
        x[rng.choice(m, rng.integers(1, min(n, 4) + 1), replace=False)] = rng.standard_normal()
    Y = X @ Phi.T + 0.03 * rng.standard_normal((N, n))
    epsilon = 0.03 * np.sqrt(n) * rng.choice([0.3, 1.0, 3.0, 20.0], N)
    fewest, count = by_enumeration(Phi, Y, epsilon)
    bounds = prove(Phi, Y, X, epsilon=epsilon, milliseconds=1000)
    if cheap == 0.0:  # groups even where the problem is too small to need them
        atoms = np.ascontiguousarray(Phi.T) / np.linalg.norm(Phi, axis=0)[:, None]
        proven = nothing_proven(X != 0)
        prove_rows(0, 1, atoms, similar_neighbours(atoms), Y, epsilon, Limits(1e5, 1e9, cheap), proven)
        best, lower, upper, unique, _ = proven
    else:
        lower, upper, unique, best = bounds.lower, bounds.upper, bounds.optimal, bounds.support
    np.testing.assert_array_equal(lower, fewest)
    np.testing.assert_array_equal(upper, fewest)
    # any n atoms of more than n explain y: supports of n atoms are not searched
    np.testing.assert_array_equal(unique, (count == 1) & ((fewest < n) | (m == n)))
    np.testing.assert_array_equal(best.sum(axis=1)[fewest <= m], fewest[fewest <= m])


@pytest.mark.parametrize("s", [1, 2, 3, 5])
@pytest.mark.parametrize("j", [1, 2, 3])
def test_search_finds_every_support_exactly_once(s, j):
    rng = np.random.default_rng(10 * s + j)
    n, m = 16, 18
    Phi = ms.dictionaries.gaussian(n, m, rng=rng)
    groups = np.full((-(-m // s), s), -1)
    groups.flat[:m] = rng.permutation(m)
    for _ in range(20):
        y = Phi[:, rng.choice(m, j, replace=False)] @ rng.standard_normal(j) + 0.05 * rng.standard_normal(n)
        distance, supports = distances(Phi, y[None], j)
        within = np.flatnonzero(distance[:, 0] <= 0.4)
        smaller = min((distances(Phi, y[None], size)[0].min() for size in range(j)), default=np.inf)
        if smaller <= 0.4:
            continue
        search = make_search(np.ascontiguousarray(Phi.T), y, groups, 0.16, j, 0.0, 1e12)
        assert all_supports(search) == COMPLETE
        assert search.state[FOUND] == min(len(within), 2)
        found = {tuple(sorted(support)) for support in search.found[: int(search.state[FOUND])]}
        assert len(found) == search.state[FOUND]
        assert found <= {supports[row] for row in within}


def test_a_thousand_problems_with_groups_of_several_atoms():
    Phi = ms.dictionaries.gaussian(16, 30, rng=0)
    X, Y = ms.signals.sample(Phi, 300, sparsity=(1, 4), noise=0.02, rng=1)
    epsilon = noise_radius(16, 0.02)
    exact = ms.solvers.exact(Phi, Y, noise=epsilon / 4.0)  # it takes σ√n
    atoms = np.ascontiguousarray(Phi.T)
    proven = nothing_proven(X != 0)
    prove_rows(0, 1, atoms, similar_neighbours(atoms), Y, np.full(300, epsilon), Limits(1e5, 1e10, 0.0), proven)
    support, lower, upper, unique, _ = proven
    np.testing.assert_array_equal(lower, exact.support.sum(axis=1))
    np.testing.assert_array_equal(upper, lower)
    np.testing.assert_array_equal(support[unique], exact.support[unique])


def test_a_budget_gives_a_valid_lower_bound_and_more_of_it_a_better_one():
    Phi = ms.dictionaries.gaussian(20, 100, rng=0)
    X, Y = ms.signals.sample(Phi, 4, sparsity=5, noise=0.005, rng=1)
    before = np.zeros(4)
    for milliseconds in (0.0, 0.2, 2.0, 20.0, 500.0):
        bounds = prove(Phi, Y, X, epsilon=noise_radius(20, 0.005), milliseconds=milliseconds)
        assert np.all(before <= bounds.lower)
        assert np.all(bounds.lower <= 5)
        assert np.all(bounds.upper == 5)
        assert np.all(bounds.work <= 1.3 * milliseconds)
        before = bounds.lower
    assert np.all(bounds.optimal)


def test_a_bad_guess_is_completed_and_improved():
    Phi = ms.dictionaries.gaussian(12, 30, rng=0)
    X, Y = ms.signals.sample(Phi, 20, sparsity=2, noise=0.001, rng=1)
    wrong = np.roll(X, 1, axis=1)
    for guess in (None, wrong, np.ones_like(X)):
        bounds = prove(Phi, Y, guess, epsilon=noise_radius(12, 0.001))
        assert np.all(bounds.optimal)
        np.testing.assert_array_equal(bounds.support, X != 0)


@pytest.mark.two_threads
def test_a_signal_does_not_depend_on_its_batch_nor_on_threads():
    Phi = ms.dictionaries.decaying(12, 40, rng=0)
    X, Y = ms.signals.sample(Phi, 30, sparsity=4, noise=1e-4, rng=1)
    epsilon = noise_radius(12, 1e-4)
    whole = prove(Phi, Y, X, epsilon=epsilon, milliseconds=5)
    for rows, n_threads in ((slice(7, 8), 1), (slice(5, 25), 2), (slice(0, 0), 1)):
        part = prove(Phi, Y[rows], X[rows], epsilon=epsilon, milliseconds=5, n_threads=n_threads)
        for name in ("lower", "upper", "optimal", "support", "work"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[rows])


def test_ties_within_rounding_errors_are_neither_proven_nor_excluded():
    """y at a distance of ε from its support, up to a few rounding errors: no bound may rest on them."""
    Phi = ms.dictionaries.gaussian(10, 20, rng=0)
    rng = np.random.default_rng(1)
    for _ in range(50):
        Q = np.linalg.qr(np.column_stack([Phi[:, :2], rng.standard_normal(10)]))[0]
        y = Phi[:, :2] @ [1.0, -0.7] + 0.1 * Q[:, 2]
        for epsilon in 0.1 * (1.0 + np.array([-4e-16, -1e-16, 0.0, 1e-16, 4e-16, 1e-12, -1e-12])):
            bounds = prove(Phi, y[None], epsilon=epsilon)
            assert bounds.lower[0] <= 2
            if epsilon < 0.1 * (1.0 - 1e-15):
                assert bounds.upper[0] > 2


@pytest.mark.parametrize("epsilon", [3e-9, 3e-8, 3e-7, 3e-6])
def test_a_tiny_epsilon_excludes_nothing_by_rounding_errors(epsilon):
    """Here ε² is of the size of the rounding errors of ‖y‖²."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        Phi = rng.standard_normal((5, 6))
        Q = np.linalg.qr(np.column_stack([Phi[:, :2], rng.standard_normal(5)]))[0]
        y = Phi[:, :2] @ [1.0, -0.7] + epsilon * Q[:, 2]
        assert prove(Phi, y[None], epsilon=epsilon * (1 + 1e-6) + 1e-15).lower[0] <= 2


def test_scales_and_dtypes():
    Phi = ms.dictionaries.gaussian(12, 30, rng=0)
    X, Y = ms.signals.sample(Phi, 10, sparsity=3, noise=0.01, rng=1)
    epsilon = noise_radius(12, 0.01)
    one = prove(Phi, Y, X, epsilon=epsilon)
    scaled = prove(Phi * np.logspace(-6, 6, 30), 1e-8 * Y, X, epsilon=1e-8 * np.full(10, epsilon))
    single = prove(np.float32(Phi), np.float32(Y), X, epsilon=epsilon)
    for other in (scaled, single):
        np.testing.assert_array_equal(one.lower, other.lower)
        np.testing.assert_array_equal(one.optimal, other.optimal)
    Y.flags.writeable = False
    again = prove(np.asfortranarray(Phi), Y, X, epsilon=epsilon)
    np.testing.assert_array_equal(one.work, again.work)


def test_what_is_wrong_is_named():
    Phi, Y = np.eye(3), np.ones((2, 3))
    with pytest.raises(ValueError, match=r"support must have shape \(2, 3\)"):
        prove(Phi, Y, np.ones((2, 4)), epsilon=0.1)
    with pytest.raises(ValueError, match=r"epsilon must be a number or have shape \(2,\)"):
        prove(Phi, Y, epsilon=np.ones(3))
    with pytest.raises(ValueError, match="epsilon must be finite"):
        prove(Phi, Y, epsilon=-1.0)
    with pytest.raises(ValueError, match="milliseconds"):
        prove(Phi, Y, epsilon=0.1, milliseconds=-1)


def test_groups_save_work():
    assert search_cost(20, 50, 2, 5) < 0.1 * search_cost(20, 100, 1, 5)
