"""What a scene refuses, and what it computes."""

import numpy as np
import pytest

from maxsparse import stereo

LIGHTS = stereo.hemisphere_lights(6, rng=0)


def test_integers_are_scaled_by_their_type_and_floats_are_not():
    for dtype, top in ((np.uint8, 255), (np.uint16, 65535)):
        scene = stereo.make_scene(np.full((6, 3, 2), 51, dtype=dtype), LIGHTS)
        np.testing.assert_allclose(scene.readings, 51 / top, rtol=1e-6)
    np.testing.assert_allclose(stereo.make_scene(np.full((6, 3, 2), 51.0), LIGHTS).readings, 51)


def test_grey_is_luma_and_intensities_divide_each_channel():
    images = np.zeros((6, 1, 1, 3))
    images[..., 0], images[..., 1], images[..., 2] = 2.0, 6.0, 12.0
    scene = stereo.make_scene(images, LIGHTS, intensities=np.tile([2.0, 3.0, 4.0], (6, 1)))
    np.testing.assert_allclose(scene.readings, 0.299 * 1 + 0.587 * 2 + 0.114 * 3, rtol=1e-6)
    np.testing.assert_allclose(scene.chroma[0], np.array([1, 2, 3]) / (0.299 + 1.174 + 0.342), rtol=1e-6)


def test_lights_are_scaled_to_length_one():
    scene = stereo.make_scene(np.ones((6, 2, 2)), 3 * LIGHTS)
    np.testing.assert_allclose(scene.lights, LIGHTS, rtol=1e-12)


def test_pixels_of_a_mask_come_in_row_major_order():
    mask = np.array([[1, 0, 1], [0, 1, 1]])
    images = np.arange(6 * 6, dtype=float).reshape(6, 2, 3)
    whole = stereo.make_scene(images, LIGHTS, mask=mask)
    listed = stereo.make_scene(images[:, mask != 0], LIGHTS, mask=mask)
    np.testing.assert_array_equal(whole.readings, listed.readings)
    np.testing.assert_array_equal(whole.readings[:, 0], [0, 2, 4, 5])
    np.testing.assert_array_equal(whole.picture(np.arange(1, 5)), [[1, 0, 2], [0, 3, 4]])


@pytest.mark.parametrize(
    ("lights", "message"),
    [
        (LIGHTS[:5], "6 images but 5 lights"),
        (LIGHTS.T, "fit transposed"),
        (np.c_[LIGHTS, LIGHTS[:, :1]], "3 columns"),
        (LIGHTS * np.array([1, 0, 1]), "lights are coplanar"),
        (np.r_[LIGHTS[:5], np.zeros((1, 3))], "light 5 is the zero vector"),
        (np.where(np.arange(6)[:, None] == 2, np.nan, LIGHTS), "lights holds NaN at row 2"),
    ],
)
def test_bad_lights(lights, message):
    with pytest.raises(ValueError, match=message):
        stereo.make_scene(np.ones((6, 2, 2)), lights)


def test_too_few_lights_and_bad_selection():
    with pytest.raises(ValueError, match="3 lights; at least 4 are needed"):
        stereo.make_scene(np.ones((3, 2, 2)), LIGHTS[:3])
    scene = stereo.make_scene(np.ones((6, 2, 2)), LIGHTS, names="abcdef")
    assert scene.select([5, 1, 2, 3]).names == ("f", "b", "c", "d")
    with pytest.raises(ValueError, match="at least 4"):
        scene.select([0, 1])


def test_lights_behind_the_object_and_lights_almost_in_a_plane_are_told():
    with pytest.warns(stereo.FrameWarning, match="z < 0"):
        stereo.make_scene(np.ones((6, 2, 2)), LIGHTS * np.array([1, 1, -1]))
    with pytest.warns(stereo.LightsWarning, match="almost coplanar"):
        stereo.make_scene(np.ones((6, 2, 2)), LIGHTS * np.array([1, 1e-3, 1]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask": np.zeros((2, 2))}, "at least one pixel"),
        ({"mask": np.ones((3, 2))}, "hold 2 pixels, but the mask has 6|images are 2×2"),
        ({"intensities": np.zeros(6)}, "positive"),
        ({"intensities": np.ones((6, 2))}, "intensities must have shape"),
        ({"normals": np.ones((5, 3))}, "true normals have shape"),
    ],
)
def test_bad_companions(options, message):
    with pytest.raises(ValueError, match=message):
        stereo.make_scene(np.ones((6, 2, 2)), LIGHTS, **options)


def test_nan_in_the_mask_is_refused_and_outside_it_is_ignored():
    images = np.ones((6, 2, 2))
    images[3, 0, 0] = np.nan
    with pytest.raises(ValueError, match="image 3 holds NaN"):
        stereo.make_scene(images, LIGHTS)
    mask = np.array([[0, 1], [1, 1]])
    assert np.isfinite(stereo.make_scene(images, LIGHTS, mask=mask).readings).all()


def test_lights_are_chosen_by_numbers_or_by_a_mask():
    scene = stereo.make_scene(np.ones((6, 2, 2)), LIGHTS, names="abcdef")
    kept = np.array([True, False, True, True, False, True])
    assert scene.select(kept).names == ("a", "c", "d", "f")
    assert scene.select([-1, 0, 1, 2]).names == ("f", "a", "b", "c")
    for bad, message in (
        (kept[:5], r"must have shape \(6,\)"),
        ([0, 1, 2, 6], "lights 0 to 5, got 6"),
        ([0, 1, 2, -7], "got -7"),
        ([0.0, 1.0, 2.0, 3.0], "whole numbers"),
        ([[0, 1, 2, 3]], "whole numbers"),
        ([], "at least 4"),
    ):
        with pytest.raises(ValueError, match=message):
            scene.select(bad)


def test_what_no_scene_can_be_made_of():
    images = np.ones((6, 2, 2))
    with pytest.raises(ValueError, match="mask holds NaN"):
        stereo.make_scene(images, LIGHTS, mask=[[1, np.nan], [0, 1]])
    with pytest.raises(ValueError, match="contain no pixels"):
        stereo.make_scene(np.ones((6, 0, 2)), LIGHTS)
    normals = np.zeros((2, 2, 3))
    normals[0, 1] = np.nan
    with pytest.raises(ValueError, match="true normals hold NaN"):
        stereo.make_scene(images, LIGHTS, normals=normals)
    mask = np.array([[1, 0], [1, 1]])  # outside the mask nobody looks
    assert stereo.make_scene(images, LIGHTS, mask=mask, normals=normals).normals[0, 1].tolist() == [0, 0, 0]
