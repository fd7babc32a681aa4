"""Lamps at one distance: found in photographs whose readings are known in closed form, and used for the normals."""

import numpy as np
import pytest

from maxsparse import stereo
from maxsparse.metrics import angular_error

SIZE = 72
DISTANCE = 2.5  # widths of the picture


def hills():
    """Return heights and normals (H, W, 3) of a smooth surface, in pixels; its places do not follow from directions."""
    x = np.arange(SIZE) - (SIZE - 1) / 2
    x, y = np.meshgrid(x, -x)
    waves = ((0.10, 0.07, 0.3), (-0.08, 0.12, 1.1), (0.05, -0.15, 2.0), (0.16, 0.02, 0.7))
    height = 4.0 * sum(np.sin(a * x + b * y + c) for a, b, c in waves)
    slope_x = 4.0 * sum(a * np.cos(a * x + b * y + c) for a, b, c in waves)
    slope_y = 4.0 * sum(b * np.cos(a * x + b * y + c) for a, b, c in waves)
    normals = np.stack([-slope_x, -slope_y, np.ones_like(x)], axis=2)
    points = np.stack([x, y, height - height.mean()], axis=2)
    return points, normals / np.linalg.norm(normals, axis=2, keepdims=True)


def photographed(distance, q=20, noise=0.0, intensities=1.0):
    points, normals = hills()
    lights = stereo.hemisphere_lights(q, lowest=0.6, rng=0)
    towards = lights[:, None, None] - (0.0 if distance is None else points / (distance * SIZE))
    images = np.maximum((towards * normals).sum(axis=3), 0) / np.linalg.norm(towards, axis=3) ** 3
    images = images * (1 + noise * np.random.default_rng(1).standard_normal(images.shape))
    return stereo.make_scene(images * np.reshape(intensities, (-1, 1, 1)), lights, normals=normals)


def test_the_distance_is_found_and_its_bias_is_gone():
    scene = photographed(DISTANCE, noise=0.002)
    found = stereo.estimate_lamp_distance(scene)
    assert found.determined
    assert found.gain > 0.5
    assert found.distance == pytest.approx(DISTANCE, rel=0.05)
    far = stereo.estimate_normals(scene, lamp_distance="far")
    near = stereo.estimate_normals(scene)
    assert far.lamp_distance == np.inf
    assert near.lamp_distance == found.distance
    assert far.mean_error > 3
    assert near.mean_error < 0.4  # lights count as parallel within 4×4 pixels, 1.3 degrees of a lamp this near
    given = stereo.estimate_normals(scene, "consensus", lamp_distance=DISTANCE)
    assert given.mean_error < 0.4
    assert stereo.estimate_normals(scene, "consensus").lamp_distance == np.inf


def test_intensities_and_distance_together():
    true = np.exp(0.3 * np.random.default_rng(3).standard_normal(20))
    scene = photographed(DISTANCE, noise=0.002, intensities=true)

    def worst(distance):
        ratio = stereo.estimate_intensities(scene, lamp_distance=distance).intensities / true
        return np.abs(ratio / np.median(ratio) - 1).max()

    assert worst(np.inf) > 0.03
    assert worst(DISTANCE) < 0.005
    assert worst(None) < 0.02
    result = stereo.estimate_normals(scene, intensities="estimate")
    assert result.lamp_distance == pytest.approx(DISTANCE, rel=0.1)
    assert result.mean_error < 0.6


def test_several_objects_of_a_rig_are_pooled():
    scene = photographed(DISTANCE)
    dull = photographed(None, noise=0.01)
    alone = stereo.estimate_lamp_distance(scene)
    assert stereo.estimate_lamp_distance([scene, scene]).distance == pytest.approx(alone.distance, rel=0.02)
    assert stereo.estimate_lamp_distance([scene, dull]) == alone  # what does not determine it has no say


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_distant_lights_stay_distant(noise):
    scene = photographed(None, noise=noise)
    assert not stereo.estimate_lamp_distance(scene).determined
    result = stereo.estimate_normals(scene)
    assert result.lamp_distance == np.inf
    assert result.mean_error < (0.3 if noise else 0.1)


def test_directions_seen_from_a_pixel():
    from maxsparse.stereo.near import NearLamps

    lights, points = stereo.hemisphere_lights(5, rng=0), np.random.default_rng(0).standard_normal((4, 3))
    lamps = NearLamps(lights, points, 10.0)
    some = np.array([2, 0])
    towards = 10.0 * lights[None] - points[some][:, None]
    np.testing.assert_allclose(
        angular_error(lamps.seen_from(some).reshape(-1, 3), towards.reshape(-1, 3)), 0, atol=1e-6
    )
    squares = (towards**2).sum(axis=2) / 100.0
    np.testing.assert_allclose(lamps.equalised(np.ones((2, 5)), some), squares, rtol=1e-12)
    assert sorted(np.concatenate(lamps.tiles(np.ones((9, 13), dtype=bool)))) == list(range(117))


def test_bad_use():
    scene = photographed(None, q=6)
    with pytest.raises(ValueError, match="lamp_distance must be one of 'estimate', 'far', got 'near'"):
        stereo.estimate_normals(scene, lamp_distance="near")
    for value in (-1.0, 0, np.nan):
        with pytest.raises(ValueError, match="lamp_distance must be"):
            stereo.estimate_normals(scene, lamp_distance=value)
    with pytest.raises(ValueError, match="omit camera="):
        stereo.estimate_normals(scene, lamp_distance=3.0, camera=np.diag([100.0, 100.0, 1.0]))
    with pytest.raises(ValueError, match="context=True needs the expected errors of method='auto', got method='ls'"):
        stereo.estimate_normals(scene, "ls", context=True)
    with pytest.raises(ValueError, match="at least one scene"):
        stereo.estimate_lamp_distance([])
    other = stereo.make_scene(np.ones((6, 4, 5)), scene.lights)
    with pytest.raises(ValueError, match="same width"):
        stereo.estimate_lamp_distance([scene, other])
    assert not stereo.estimate_lamp_distance(other).determined
