"""Unsure normals lean on their neighbours: against the fixed point in closed form."""

import numpy as np
import pytest
from scipy.optimize import brentq

from maxsparse._core.threads import threads
from maxsparse.stereo.fitting.fit import Fit
from maxsparse.stereo.fitting.lean import BEND, EDGE, UNSURE, lean_on_neighbours
from maxsparse.stereo.methods.auto import HALF_SURE, expected_error


def tilted(degrees):
    angle = np.radians(degrees)
    return np.stack([np.sin(angle), np.zeros_like(angle), np.cos(angle)], axis=-1)


def fit_of(normals):
    P = len(normals)
    return Fit(normals, np.ones(P), np.ones((P, 4), dtype=bool), np.ones(P))


def test_one_unsure_normal_is_the_weighted_mean():
    degrees = np.zeros(25)
    degrees[12] = 10.0
    expected = np.full(25, 1.0)
    expected[12] = 8.0
    before = fit_of(tilted(degrees))
    after = lean_on_neighbours(before, np.ones((5, 5), dtype=bool), expected)

    def balance(t):  # torque of the readings against that of four neighbours at 0°
        weight = 4 / (BEND**2 * (1 + (t / EDGE) ** 2))
        return np.sin(np.radians(10.0 - t)) / 8.0**2 - weight * np.sin(np.radians(t))

    np.testing.assert_allclose(after.normals[12], tilted(brentq(balance, 0.0, 10.0)), atol=1e-6)
    others = np.arange(25) != 12
    np.testing.assert_array_equal(after.normals[others], before.normals[others])


def test_sure_normals_and_missing_ones_stay_as_they_are():
    rng = np.random.default_rng(0)
    normals = rng.standard_normal((30, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    normals[7] = 0.0
    mask = np.zeros((6, 8), dtype=bool)
    mask[:, :5] = True
    expected = np.full(30, UNSURE)
    same = lean_on_neighbours(fit_of(normals), mask, expected)
    np.testing.assert_array_equal(same.normals, normals)
    expected[:] = 30.0
    changed = lean_on_neighbours(fit_of(normals), mask, expected).normals
    assert not changed[7].any()
    np.testing.assert_allclose(np.linalg.norm(np.delete(changed, 7, axis=0), axis=1), 1.0, atol=1e-12)


def test_a_noisy_patch_of_a_smooth_surface_gets_better_and_threads_do_not_matter():
    rng = np.random.default_rng(1)
    truth = tilted(np.tile(np.linspace(-30, 30, 40), 40))
    noisy = truth + 0.25 * rng.standard_normal(truth.shape)
    noisy /= np.linalg.norm(noisy, axis=1, keepdims=True)
    mask, expected = np.ones((40, 40), dtype=bool), np.full(1600, 15.0)
    found = []
    for count in (1, 2):
        with threads(count):
            found.append(lean_on_neighbours(fit_of(noisy), mask, expected).normals)
    np.testing.assert_array_equal(*found)

    def error(n):
        return np.degrees(np.arccos(np.clip((n * truth).sum(axis=1), -1, 1))).mean()

    assert error(found[0]) < 0.4 * error(noisy)


def test_expected_errors_are_those_of_the_confidence():
    degrees = np.array([0.5, 2.0, 6.0, 30.0])
    assert expected_error(1 / (1 + (degrees / HALF_SURE) ** 2)) == pytest.approx(degrees)
