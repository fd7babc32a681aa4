"""Lights from the photographs alone: a body whose normals are known in closed form, painted, shadowed and glossy."""

import warnings

import numpy as np
import pytest

from maxsparse import stereo
from maxsparse.metrics import angular_error
from maxsparse.stereo.self_calibration.cues import collect, lights_of, residuals
from maxsparse.stereo.self_calibration.factorise import Factors, factorise, shrink


def body(size=72):
    """Return normals (H, W, 3) and mask of an ellipsoid with a bump beside its middle, from the derivatives of z."""
    y, x = np.mgrid[1 : -1 : size * 1j, -1 : 1 : size * 1j]
    room = 1 - (x / 0.95) ** 2 - (y / 0.8) ** 2
    inside = room > 0.02
    root = np.sqrt(np.maximum(room, 0.02)) / 0.7
    bump = 0.25 * np.exp(-12 * ((x - 0.25) ** 2 + (y - 0.1) ** 2))
    p = -x / 0.95**2 / root - 24 * (x - 0.25) * bump
    q = -y / 0.8**2 / root - 24 * (y - 0.1) * bump
    normals = np.dstack([-p, -q, np.ones_like(p)])
    return normals / np.linalg.norm(normals, axis=2, keepdims=True), inside


def photographs(q=14, rng=0, gloss=0.3):
    generator = np.random.default_rng(rng)
    normals, inside = body()
    lights = stereo.hemisphere_lights(q, lowest=0.45, rng=generator)
    intensities = np.exp(0.2 * generator.standard_normal(q))
    rows, columns = np.indices(inside.shape)
    albedo = np.where(np.sin(rows / 7) + np.sin(columns / 9) > 0.2, 0.4, 0.8)
    shading = np.maximum(np.einsum("hwi,qi->qhw", normals, lights), 0)
    half = lights + np.array([0, 0, 1])
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    shine = gloss * np.maximum(np.einsum("hwi,qi->qhw", normals, half), 0) ** 80
    images = (albedo * shading + shine * (shading > 0)) * intensities[:, None, None]
    images *= 1 + 0.01 * generator.standard_normal(images.shape)
    return images, lights, intensities, inside, normals


@pytest.fixture(scope="module")
def shot():
    return photographs()


def test_lights_and_normals_without_calibration(shot):
    images, lights, intensities, inside, normals = shot
    unknown = stereo.make_scene(images, None, mask=inside, normals=normals)
    assert not unknown.lights_known
    assert "directions unknown" in repr(unknown)
    with pytest.raises(ValueError, match='no light directions; pass lights="estimate"'):
        stereo.estimate_normals(unknown)
    result = stereo.estimate_normals(unknown, lights="estimate")
    found = result.light_estimate
    off = angular_error(found.lights, lights)
    assert found.determined
    assert off.mean() < 3.0
    assert (off < 3 * found.error).all()
    ratio = found.intensities / intensities
    assert np.abs(ratio / np.median(ratio) - 1).mean() < 0.1
    known = stereo.estimate_normals(
        stereo.make_scene(images, lights, mask=inside, normals=normals, intensities=intensities)
    )
    assert result.mean_error < known.mean_error + 2.5
    assert result.scene.lights is found.lights
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(stereo.estimate_lights(unknown).lights, found.lights)


def test_intensities_alone(shot):
    images, lights, intensities, inside, normals = shot
    scene = stereo.make_scene(images, lights, mask=inside, normals=normals)
    wrong = stereo.estimate_normals(scene)
    result = stereo.estimate_normals(scene, intensities="estimate")
    ratio = result.light_estimate.intensities / intensities
    assert np.abs(ratio / np.median(ratio) - 1).max() < 0.04
    assert result.mean_error < 0.5 * wrong.mean_error
    with pytest.warns(stereo.LightsWarning, match="check the directions and their order"):
        stereo.estimate_intensities(stereo.make_scene(images, lights[::-1], mask=inside))
    with pytest.raises(ValueError, match="no light directions"):
        stereo.estimate_intensities(stereo.make_scene(images, None, mask=inside))


def test_convex_or_hollow_is_said_to_be_open_where_no_silhouette_is_seen(shot):
    images, lights, _, _, _ = shot
    with pytest.warns(stereo.LightsWarning, match="hollow object under the opposite lights"):
        found = stereo.estimate_lights(stereo.make_scene(images[:, 22:50, 18:54], None))
    assert not found.determined
    assert found.rival is not None
    # One of the two is right.
    errors = [angular_error(candidate, lights).mean() for candidate in (found.lights, found.rival)]
    assert min(errors) < 12 < max(errors)


def test_a_flat_object_determines_nothing():
    lights = stereo.hemisphere_lights(10, lowest=0.5, rng=1)
    noise = np.random.default_rng(0).standard_normal((10, 40, 40))
    images = lights[:, 2, None, None] * (1 + 0.003 * noise)
    with pytest.warns(stereo.LightsWarning, match="do not determine the lights"):
        found = stereo.estimate_lights(stereo.make_scene(images, None))
    assert not found.determined
    assert "not determined" in repr(found)


def test_too_little_is_refused():
    images = np.ones((5, 20, 20))
    with pytest.raises(ValueError, match="5 photographs; at least 6"):
        stereo.estimate_lights(stereo.make_scene(images, None))
    with pytest.raises(ValueError, match="at least 200 are needed"):
        stereo.estimate_lights(stereo.make_scene(np.ones((8, 10, 10)), None))
    with pytest.raises(ValueError, match="at least 4"):
        stereo.make_scene(images[:3], None)
    with pytest.raises(ValueError, match="lights must be one of"):
        stereo.estimate_normals(stereo.make_scene(np.ones((5, 2, 2)), None), lights="guess")


def test_the_factors_have_rank_three_in_spite_of_shadows_and_highlights(shot):
    images, lights, intensities, inside, _ = shot
    factors = factorise(images[:, inside].T, np.random.default_rng(0))
    A, *_ = np.linalg.lstsq(factors.lights, lights * intensities[:, None], rcond=None)
    assert angular_error(factors.lights @ A, lights).mean() < 1.0
    plain = np.linalg.svd(images[:, inside], full_matrices=False)[0][:, :3]
    A, *_ = np.linalg.lstsq(plain, lights * intensities[:, None], rcond=None)
    assert angular_error(plain @ A, lights).mean() > 2.0


def test_cues_are_zero_for_the_truth_and_only_for_it():
    normals, inside = body(120)
    lights = stereo.hemisphere_lights(9, lowest=0.45, rng=2)
    factors = Factors(normals[inside], lights)
    cues = collect(factors, inside, np.random.default_rng(0))
    N, M = len(cues.up), len(cues.first)

    def parts(A):
        squares = residuals(A / np.linalg.norm(A), cues) ** 2
        return squares[:N].sum(), squares[N : N + M].sum(), squares.sum()

    curl, albedo, best = parts(np.eye(3))
    assert curl < 4
    assert albedo < 1e-9
    relief = np.array([[1, 0, 0.2], [0, 1, -0.1], [0, 0, 0.7]])
    bas_relief, uneven, cost = parts(relief)
    assert bas_relief == pytest.approx(curl, rel=0.5)  # integrability allows bas-reliefs, albedo does not
    assert uneven > 20
    assert cost > best + 20
    turn = np.array([[np.cos(0.5), -np.sin(0.5), 0], [np.sin(0.5), np.cos(0.5), 0], [0, 0, 1]])
    assert parts(turn)[0] > 10 * curl  # no surface has normals turned about the line of sight
    directions, intensities = lights_of(relief, lights)
    np.testing.assert_allclose(directions * intensities[:, None] @ relief, lights, atol=1e-12)


def test_shrinking_averages_blocks():
    mask = np.ones((6, 9), dtype=bool)
    mask[0, 0] = False
    values = np.arange(53.0)[:, None] * [1, 2]
    small, kept = shrink(values, mask, 10)
    assert kept.shape == (2, 3)
    assert not kept[0, 0]
    picture = np.zeros(mask.shape)
    picture[mask] = values[:, 1]
    assert small[0, 1] == pytest.approx(picture[:3, 3:6].mean())
    same, whole = shrink(values, mask, 100)
    assert whole is mask
    np.testing.assert_array_equal(same, values)
