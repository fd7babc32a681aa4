"""Landscapes whose shadows and bounced light can be worked out by hand."""

import numpy as np

from maxsparse.stereo import hemisphere_lights
from maxsparse.stereo.learned import landscape
from maxsparse.stereo.learned.landscape import SIDE, sample_heights, sample_points, slopes


def light(height):
    """A light to the right, this many radians above the horizon."""
    return np.array([[np.cos(height), 0.0, np.sin(height)]])


def test_a_plane_shades_nothing_and_faces_the_sky():
    z = 0.7 * np.arange(SIDE)[None, :] * np.ones((SIDE, 1))
    n = slopes(z)
    np.testing.assert_allclose(n, np.broadcast_to(np.array([-0.7, 0, 1]) / np.hypot(0.7, 1), n.shape))
    lights = np.vstack([light(h) for h in (0.62, 0.9, 1.5)])  # the plane rises at 0.61 radians
    assert (landscape._visibility(z, n, lights) == 1).all()
    assert (landscape._faced(z, n, np.random.default_rng(0).random((16, 2))) < 0).mean() > 0.99


def test_rows_go_down_and_y_goes_up():
    z = np.repeat(np.arange(SIDE)[::-1, None] * 0.5, SIDE, axis=1)  # rises towards row 0, so towards +y
    np.testing.assert_allclose(slopes(z)[5, 5], np.array([0, -0.5, 1]) / np.hypot(0.5, 1))


def test_a_wall_casts_a_shadow_as_long_as_it_is_high():
    z = np.zeros((SIDE, SIDE))
    z[:, 30:] = 12.0
    visible = landscape._visibility(z, slopes(z), light(np.pi / 4))[:, 0].reshape(SIDE, SIDE)
    lit = visible[SIDE // 2, 2:28]
    edge = np.flatnonzero(lit == 0)[0] + 2
    assert abs(30 - edge - 12) <= 2
    assert (lit[: edge - 2] == 1).all()
    assert (lit[edge - 2 :] == 0).all()


def test_the_floor_beside_a_long_high_wall_faces_it_with_half_of_its_rays():
    z = np.zeros((SIDE, SIDE))
    z[:, 30:] = 500.0
    faced = landscape._faced(z, slopes(z), np.random.default_rng(0).random((400, 2)))
    beside = faced.reshape(SIDE, SIDE, -1)[SIDE // 2, 27]
    # Seen from the middle of the floor beside it, the wall fills half of the cosine-weighted sky but for its ends.
    assert 0.35 < (beside >= 0).mean() < 0.52
    assert (beside[beside >= 0] % SIDE >= 29).all()


def test_points_are_what_they_claim():
    lights = hemisphere_lights(12, rng=0)
    for seed in range(5):
        n, visible, bounced = sample_points(lights, 300, np.random.default_rng(seed))
        assert n.shape == (300, 3)
        assert visible.shape == bounced.shape == (300, 12)
        np.testing.assert_allclose(np.linalg.norm(n, axis=1), 1.0)
        assert (n[:, 2] > 0).all()
        assert not visible[n @ lights.T < 0].any()
        assert ((bounced >= 0) & (bounced < 1)).all()
    assert sample_heights(np.random.default_rng(0)).shape == (SIDE, SIDE)
