"""Active places of a linear problem: likelihoods against dense formulas, answers against enumeration."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from maxsparse.fields.brain import solver
from maxsparse.fields.brain.gain import Gain
from maxsparse.fields.brain.locate import _posterior_mean, located
from maxsparse.fields.brain.screen import Screen
from maxsparse.fields.brain.weigh import ONE_MORE, SLABS, weighed


def smooth_gain(n, B, o, seed=0):
    """Return the gain of sensors over a line of places: neighbours are similar."""
    rng = np.random.default_rng(seed)
    where = np.linspace(0, 1, B)[:, None]
    sensors = rng.uniform(0, 1, n)
    columns = [np.exp(-(((where - sensors) / 0.15) ** 2)) * np.cos(9 * (i + 1) * (where - sensors)) for i in range(o)]
    return np.stack(columns, axis=2).transpose(1, 0, 2).reshape(n, B * o)


def measured(G, o, places, *, sigma=0.1, T=30, rank=None, seed=1):
    rng = np.random.default_rng(seed)
    courses = rng.standard_normal((rank or len(places), T))
    mixing = rng.standard_normal((len(places), len(courses))) if rank else np.eye(len(places))
    columns = np.concatenate([G[:, p * o : p * o + o] @ rng.standard_normal((o, 1)) for p in places], axis=1)
    columns *= 3 / np.linalg.norm(columns, axis=0)
    return columns @ mixing @ courses + sigma * rng.standard_normal((len(G), T))


@pytest.mark.parametrize("o", [1, 3])
def test_gains_are_differences_of_log_likelihoods(o):
    G = smooth_gain(24, 30, o)
    screen = Screen(measured(G, o, [4, 20]), Gain(G, o))

    def direct(S):
        A = np.concatenate([G[:, b * o : b * o + o] for b in S], axis=1) if S else np.zeros((24, 1))
        left = screen.Z - A @ np.linalg.pinv(A) @ screen.Z
        return -12 * np.linalg.slogdet(left.T @ left)[1]

    for S in ([], [4], [3, 21]):
        expected = np.array([direct(sorted({*S, b})) - direct(S) for b in range(30)])
        np.testing.assert_allclose(screen.gains(S), expected, rtol=1e-4, atol=1e-4)
        assert screen.value(S) == pytest.approx(direct(S), rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(screen.own_gains([3, 21]), [direct([3, 21]) - direct([b]) for b in (21, 3)], rtol=1e-5)


def test_courses_of_sources_are_counted_and_their_noise_is_white():
    G = smooth_gain(40, 50, 1)
    screen = Screen(measured(G, 1, [5, 25, 44], sigma=0.3, T=80), Gain(G, 1))
    assert screen.r == 3
    rows, level = screen.rows([5, 25, 44], None)
    assert level == pytest.approx(0.3, rel=0.05)
    A = G[:, [5, 25, 44]]
    left = rows.T - A @ np.linalg.pinv(A) @ rows.T
    np.testing.assert_allclose(left.T @ left / 37, np.eye(3), atol=1e-6)


def test_probabilities_are_those_of_gaussians():
    rng = np.random.default_rng(2)
    G = smooth_gain(8, 12, 1)
    rows = 3 * rng.standard_normal((2, 8))
    supports = [np.array([], dtype=int), np.array([3]), np.array([3, 9])]
    logs = []
    for S in supports:
        slabs = SLABS / np.mean(np.sum(G**2, axis=0))
        densities = [
            sum(multivariate_normal.logpdf(y, cov=np.eye(8) + slab * G[:, S] @ G[:, S].T) for y in rows)
            for slab in slabs
        ]
        choices = len(list(combinations(range(50), len(S))))
        logs.append(np.logaddexp.reduce(densities) + len(S) * np.log(ONE_MORE) - np.log(choices))
    expected = np.exp(logs - np.logaddexp.reduce(logs))
    np.testing.assert_allclose(weighed(rows, G, supports, 1, 50), expected, rtol=1e-6)


def test_posterior_mean_is_a_ridge_regression():
    """AᵀM − AᵀA X = σ²/δ X, with one δ."""
    rng = np.random.default_rng(3)
    A, M = rng.standard_normal((10, 4)), rng.standard_normal((10, 50))
    X = _posterior_mean(M, A, 0.5)
    ratios = (A.T @ (M - A @ X)) / X  # the same number everywhere
    np.testing.assert_allclose(ratios, np.median(ratios), rtol=1e-6)
    assert 0.25 / np.median(ratios) == pytest.approx(np.mean(X**2), rel=0.5)  # δ is the power of the sources


@pytest.mark.parametrize("o", [1, 3])
def test_the_answer_is_the_most_probable_of_all_sets(o):
    """Few places, much noise: sets of up to three places, enumerated, in the courses that were looked at."""
    right, trials, certain = 0, 6, []
    for seed in range(trials):
        G = smooth_gain(16, 9, o, seed)
        M = measured(G, o, [2, 6], sigma=0.6, seed=seed)
        found = located(M, G, o)
        rows, _ = Screen(M, Gain(G, o)).rows(found.places.tolist(), None)
        sets = [S for k in range(4) for S in combinations(range(9), k)]
        every = weighed(rows, G, [np.array(S, dtype=int) for S in sets], o, 9)
        right += sets[int(np.argmax(every))] == tuple(found.places)
        inclusion = np.array([sum(p for p, S in zip(every, sets, strict=True) if b in S) for b in range(9)])
        certain.append(np.abs(inclusion - found.inclusion).max())
    assert right >= trials - 1
    assert np.median(certain) < 0.1


@pytest.mark.parametrize(("o", "rank"), [(1, None), (3, None), (1, 1)])
def test_sources_are_found_among_similar_places(o, rank):
    G = smooth_gain(40, 200, o)
    places = [20, 100, 170]
    X, active = solver(measured(G, o, places, sigma=0.05, rank=rank), G, o)
    np.testing.assert_array_equal(np.flatnonzero(active), [o * p + i for p in places for i in range(o)])
    assert X.shape == (3 * o, 30)


def test_the_unit_and_the_noise_level_do_not_matter():
    G = smooth_gain(30, 60, 1)
    M = measured(G, 1, [10, 45])
    found, same = located(M, G, 1), located(1e-9 * M, 1e3 * G, 1)
    np.testing.assert_array_equal(found.places, same.places)
    np.testing.assert_allclose(same.X, 1e-12 * found.X, rtol=1e-6, atol=1e-17)
    assert same.noise == pytest.approx(1e-9 * found.noise)
    told = located(M, G, 1, noise=0.1)
    np.testing.assert_array_equal(told.places, [10, 45])
    assert told.noise == 0.1


def test_noise_alone_has_no_source():
    rng = np.random.default_rng(5)
    G = smooth_gain(30, 100, 3)
    found = [located(rng.standard_normal((30, 40)), G, 3) for _ in range(20)]
    false = [answer.confidence for answer in found if len(answer.places)]
    assert len(false) <= 2
    assert all(confidence < 0.9 for confidence in false)
    smooth = np.array([np.convolve(row, np.ones(8), "valid") for row in rng.standard_normal((30, 47))])
    assert not len(located(smooth, G, 3).places)  # noise with a colour in time


def test_edges():
    G = smooth_gain(12, 20, 1)
    M = measured(G, 1, [4], T=5)
    X, active = solver(np.zeros((12, 5)), G, 1)
    assert X.shape == (0, 5)
    assert not active.any()
    frozen = M.copy()[:, ::-1]
    frozen.flags.writeable = False
    np.testing.assert_array_equal(np.flatnonzero(solver(frozen, np.asfortranarray(G), 1)[1]), [4])
    rows = np.vstack([M, np.zeros((2, 5))]), np.vstack([G, np.zeros((2, 20))])  # as projectors leave them
    np.testing.assert_allclose(solver(*rows, 1)[0], solver(M, G, 1)[0])
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((14, 14)))[0]
    np.testing.assert_allclose(solver(turn @ rows[0], turn @ rows[1], 1)[0], solver(M, G, 1)[0])
    assert np.flatnonzero(solver(M[:, :1], G, 1)[1]).tolist() == [4]
    exact = located(np.outer(G[:, 4], [1.0, -2.0]), G, 1)
    np.testing.assert_array_equal(exact.places, [4])
    np.testing.assert_allclose(exact.X, [[1.0, -2.0]], rtol=1e-4)


@pytest.mark.parametrize("o", [1, 3])
def test_similar_places_explain_most_of_a_field(o):
    G = smooth_gain(24, 30, o)
    screen = Screen(measured(G, o, [4, 20]), Gain(G, o))
    X = np.random.default_rng(0).standard_normal((o, 2))
    F = G[:, 12 * o : 12 * o + o] @ X
    blocks = [G[:, b * o : b * o + o] for b in range(30)]
    explained = np.array([np.sum((A @ np.linalg.pinv(A) @ F) ** 2) for A in blocks])
    expected = [b for b in np.argsort(-explained) if b != 12][:5]
    np.testing.assert_array_equal(screen.similar(12, X, 5), expected)


@pytest.mark.parametrize("o", [1, 3])
def test_a_source_between_places_is_one_place_next_to_it(o):
    fine = smooth_gain(40, 401, o)  # every fourth place of it, 0.01 apart, is one of the grid
    G = fine.reshape(40, 401, o)[:, ::4].reshape(40, -1)
    M = measured(fine, o, [122, 290], sigma=0.003)  # at 30.5 and 72.5
    several, found = located(M, G, o, between=False), located(M, G, o)
    assert len(several.places) > 2
    assert len(found.places) == 2
    np.testing.assert_allclose(found.places, [30.5, 72.5], atol=1)
    at_places = measured(fine, o, [120, 128, 288], sigma=0.003)  # two of them next to each other but one
    for between in (False, True):  # two places explain it better than one source between them
        np.testing.assert_array_equal(located(at_places, G, o, between=between).places, [30, 32, 72])


def test_a_direction_without_a_field_stays_still():
    """Radial currents in a sphere have no magnetic field."""
    G = smooth_gain(30, 50, 3)
    G[:, 2::3] *= 1e-12
    X, active = solver(measured(G, 3, [12, 40]), G, 3)
    np.testing.assert_array_equal(np.flatnonzero(active)[::3] // 3, [12, 40])
    assert np.abs(X[2::3]).max() < 1e-6 * np.abs(X).max()


def test_many_places_take_seconds():
    import time

    rng = np.random.default_rng(0)
    G = smooth_gain(64, 20_000, 1) + 0.05 * rng.standard_normal((64, 20_000))
    M = measured(G, 1, [3000, 9000, 15_000], T=100)
    solver(M[:, :10], G[:, ::100], 1)  # compiles
    begun = time.process_time()
    active = solver(M, G, 1)[1]
    assert time.process_time() - begun < 5.0
    assert np.flatnonzero(active).tolist() == [3000, 9000, 15_000]


@pytest.mark.parametrize(
    ("M", "G", "o", "message"),
    [
        (np.ones((5, 3)), np.ones((4, 6)), 1, "M has 5 sensors, G has 4"),
        (np.ones((4, 3)), np.ones((4, 7)), 3, "7 columns, which is not a multiple of n_orient=3"),
        (np.full((4, 3), np.nan), np.ones((4, 6)), 1, "M"),
        (np.ones((4, 3)), np.ones((4, 6)), 0, "n_orient"),
        (np.ones(4), np.ones((4, 6)), 1, "M"),
    ],
)
def test_bad_input(M, G, o, message):
    with pytest.raises(ValueError, match=message):
        solver(M, G, o)
