"""What ``auto`` adds to its network: a refit that doubts highlights, and neighbours that decide."""

import numpy as np
import pytest

from maxsparse import stereo
from maxsparse.metrics import angular_error
from maxsparse.stereo.fitting.neighbours import decide
from maxsparse.stereo.fitting.redescending import redescending
from maxsparse.stereo.methods import find_method


def glossy(P=80, q=20, seed=0):
    """Return readings (P, q), lights and normals of points with a broad highlight."""
    rng = np.random.default_rng(seed)
    lights = stereo.hemisphere_lights(q, lowest=0.4, rng=rng)
    n = rng.standard_normal((P, 3)) * 0.3 + [0, 0, 1]
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    half = lights + np.array([0, 0, 1])
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    o = 0.5 * np.maximum(n @ lights.T, 0) + 0.4 * np.maximum(n @ half.T, 0) ** 60
    return np.maximum(o + 0.002 * rng.standard_normal(o.shape), 0), lights, n


def by_hand(o, lights, lit, guess):
    """Reweight with numpy, pixel by pixel."""
    x = guess.normals * guess.albedo[:, None]
    supports = np.empty(len(o))
    for row in range(len(o)):
        r = (o[row] - np.maximum(lights @ x[row], 0))[guess.inliers[row]]
        scatter = np.sqrt((r**2).sum() / max(len(r) - 3, 1)) / np.linalg.norm(x[row])
        sigma = np.clip(2 * scatter, 0.006, 0.05)

        def weights(row=row, sigma=sigma):
            r = (o[row] - np.maximum(lights @ x[row], 0)) / np.linalg.norm(x[row]) / sigma
            return np.where(lit[row], (1 + (r / np.where(r > 0, 1, 3)) ** 2) ** -2.0, 0)

        for _ in range(4):
            w = weights()
            if w.sum() < 4.5:
                break
            x[row] = np.linalg.solve(lights.T * w @ lights, lights.T * w @ o[row])
        supports[row] = weights().sum()
    return x, supports


def test_the_refit_is_reweighted_least_squares_and_beats_consensus_under_highlights():
    o, lights, n = glossy()
    lit = o > 0.02
    guess = find_method("consensus")(o, lights)
    refit = redescending(o, lights, lit, guess)
    scaled, supports = by_hand(o, lights, lit, guess)
    np.testing.assert_allclose(refit.scaled, scaled, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(refit.support, supports, rtol=1e-6)
    assert angular_error(refit.scaled, n).mean() < angular_error(guess.normals, n).mean()
    assert (refit.error[refit.support < 4.5] == 90).all()


@pytest.fixture
def roof():
    """Two planes that meet in an edge, (20, 24): normals, mask, and a fit that is right everywhere."""
    mask = np.ones((20, 24), dtype=bool)
    mask[:2, :3] = False
    n = np.zeros((20, 24, 3))
    n[:, :12], n[:, 12:] = [-0.5, 0, np.sqrt(0.75)], [0.5, 0, np.sqrt(0.75)]
    flat = n[mask]
    fit = stereo.Fit(flat, np.full(len(flat), 0.5), np.ones((len(flat), 6), dtype=bool), np.full(len(flat), 0.8))
    return flat, mask, fit


def test_neighbours_choose_the_rival_that_fits_and_keep_the_edge(roof):
    truth, mask, fit = roof
    rng = np.random.default_rng(0)
    rivals = np.zeros((len(truth), 2, 3))
    wrong = rng.permutation(len(truth))[:40]
    off = rng.standard_normal((40, 3)) * 0.3 + [0, 0.8, 0.6]
    fit.normals[wrong] = off / np.linalg.norm(off, axis=1, keepdims=True)
    rivals[wrong, 1] = 0.5 * truth[wrong]
    tempted = np.setdiff1d(np.arange(len(truth)), wrong)[::3]  # these are right and have a wrong rival
    rivals[tempted, 0] = 0.5 * np.array([0.0, -0.8, 0.6])
    result = decide(stereo.Fit(fit.normals, fit.albedo, fit.inliers, fit.confidence, rivals), mask)
    assert angular_error(result.normals, truth).max() < 1e-3
    np.testing.assert_allclose(result.albedo, 0.5)
    assert result.rivals is None


def test_pixels_without_rivals_or_without_neighbours_stay(roof):
    truth, mask, fit = roof
    np.testing.assert_array_equal(decide(fit, mask).normals, truth)
    alone = np.zeros((5, 5), dtype=bool)
    alone[2, 2] = True
    one = stereo.Fit(truth[:1], np.ones(1), np.ones((1, 6), dtype=bool), np.ones(1), np.array([[[0.0, 1.0, 0.0]]]))
    np.testing.assert_array_equal(decide(one, alone).normals, truth[:1])
    none = stereo.Fit(truth[:0], np.ones(0), np.ones((0, 6), dtype=bool), np.ones(0), np.zeros((0, 1, 3)))
    assert len(decide(none, np.zeros((3, 3), dtype=bool)).normals) == 0


def test_a_brighter_scene_has_the_same_normals(roof):
    truth, mask, fit = roof
    rivals = np.full((len(truth), 1, 3), 0.3)
    both = [
        decide(stereo.Fit(fit.normals, s * fit.albedo, fit.inliers, fit.confidence, s * rivals), mask).normals
        for s in (1.0, 1000.0)
    ]
    np.testing.assert_allclose(both[0], both[1], atol=1e-12)
