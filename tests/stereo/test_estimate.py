"""From a scene to a normal map."""

from dataclasses import replace

import numpy as np
import pytest

from maxsparse import stereo
from maxsparse.stereo import fit_scene
from maxsparse.stereo.methods import METHODS


def test_normals_are_zero_outside_the_mask(matt_ball):
    result = stereo.estimate_normals(matt_ball)
    assert result.normals.shape == (48, 48, 3)
    assert result.inliers.shape == (48, 48, 14)
    for picture in (result.normals, result.confidence, result.albedo, result.inliers):
        assert not picture[~matt_ball.mask].any()
    assert np.isnan(result.error[~matt_ball.mask]).all()
    assert result.mean_error == pytest.approx(np.mean(result.error[matt_ball.mask]))
    assert result.mean_error < 1.0
    assert "mean error" in repr(result)


def test_robust_methods_beat_least_squares(matt_ball):
    error = {name: stereo.estimate_normals(matt_ball, name).mean_error for name in METHODS if name != "network"}
    assert error["ls"] > 5
    assert error["consensus"] < 0.1
    assert error["l1"] < error["ls"]
    assert error["sbl"] < error["ls"]
    assert error["auto"] < 1.0


@pytest.mark.parametrize("method", ["consensus", "auto"])
def test_chunks_and_threads_change_nothing(matt_ball, monkeypatch, method):
    whole = stereo.estimate_normals(matt_ball, method, n_threads=1)
    monkeypatch.setattr(fit_scene, "CHUNK_PIXELS", 100)
    parts = stereo.estimate_normals(matt_ball, method)
    np.testing.assert_array_equal(whole.normals, parts.normals)


def test_a_seed_gives_the_same_numbers(matt_ball):
    first, second, third = (stereo.estimate_normals(matt_ball, "rnd4", rng=seed).normals for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert (first != third).any()


@pytest.mark.parametrize(("flip", "message"), [([1, -1, 1], "one axis is flipped"), ([-1, 1, 1], "is flipped")])
def test_a_mirrored_frame_is_told(matt_ball, flip, message):
    images = np.stack([matt_ball.picture(column) for column in matt_ball.readings.T])
    scene = stereo.make_scene(images, matt_ball.lights * np.array(flip), mask=matt_ball.mask)
    with pytest.warns(stereo.FrameWarning, match=message):
        stereo.estimate_normals(scene, "consensus")


def test_normals_that_point_away_are_told(matt_ball):
    images = np.stack([matt_ball.picture(column) for column in matt_ball.readings.T])
    with pytest.warns(stereo.FrameWarning):
        scene = stereo.make_scene(images, matt_ball.lights * np.array([1, 1, -1]), mask=matt_ball.mask)
    with pytest.warns(stereo.FrameWarning, match="point away from the camera"):
        stereo.estimate_normals(scene, "ls")


def test_pixels_that_are_black_under_every_light_are_counted(matt_ball):
    readings = matt_ball.readings.copy()
    readings[:7] = 0
    result = stereo.estimate_normals(replace(matt_ball, readings=readings))
    assert result.missing == 7
    assert "7 pixels without" in repr(result)
    assert np.isnan(result.error[matt_ball.mask]).sum() == 7
    assert result.mean_error < 1


def test_unknown_method_and_own_method(matt_ball, registries):
    with pytest.raises(ValueError, match="there is no stereo method 'nonsense'"):
        stereo.estimate_normals(matt_ball, "nonsense")
    with pytest.raises(ValueError, match="already exists"):
        stereo.register("ls", lambda readings, lights: None)

    def upright(readings, lights, *, tilt=0.0):
        """Say that every surface faces the camera."""
        scaled = np.tile([tilt, 0.0, 0.5], (len(readings), 1))
        return stereo.Fit.from_scaled(scaled, np.ones(readings.shape, dtype=bool), np.ones(len(readings)))

    stereo.register("upright", upright)
    result = stereo.estimate_normals(matt_ball, "upright")
    np.testing.assert_array_equal(result.normals[matt_ball.mask], np.tile([0.0, 0.0, 1.0], (matt_ball.mask.sum(), 1)))
    assert (result.albedo[matt_ball.mask] == 0.5).all()
    tilted = stereo.estimate_normals(matt_ball, "upright", tilt=0.5).normals[matt_ball.mask]
    np.testing.assert_allclose(tilted, np.tile([0.5, 0.0, 0.5], (len(tilted), 1)) * np.sqrt(2))


def test_colour_is_the_albedo_times_the_tint():
    images = np.zeros((5, 8, 8, 3))
    lights = stereo.hemisphere_lights(5, lowest=0.5, rng=0)
    images[...] = (lights[:, 2, None, None, None] * 0.5) * np.array([1.0, 0.5, 0.25])
    result = stereo.estimate_normals(stereo.make_scene(images, lights), "ls")
    np.testing.assert_allclose(result.colour[0, 0], [0.5, 0.25, 0.125], rtol=1e-5)
