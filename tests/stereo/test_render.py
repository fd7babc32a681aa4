"""Rendered scenes against a shape with a formula."""

import numpy as np
import pytest

from maxsparse import stereo
from maxsparse.metrics import angular_error

pytest.importorskip("mitsuba", reason="mitsuba is not installed")
trimesh = pytest.importorskip("trimesh")
LIGHTS = stereo.hemisphere_lights(5, lowest=0.5, rng=0)


@pytest.fixture(scope="module")
def sphere_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("mesh") / "sphere.obj"
    trimesh.creation.icosphere(subdivisions=5).export(path)
    return path


def test_a_matt_sphere_has_the_normals_and_the_shading_of_a_sphere(sphere_file):
    scene = stereo.render(LIGHTS, mesh=sphere_file, size=40, material="diffuse", samples=16)
    row, column = np.nonzero(scene.mask)
    x, y = ((column + 0.5) / 20 - 1) * 1.1, (1 - (row + 0.5) / 20) * 1.1  # the picture is 1.1 times the sphere
    n = np.stack([x, y, np.sqrt(np.maximum(1 - x**2 - y**2, 0))], axis=1)
    inner = n[:, 2] > 0.4
    assert inner.sum() > 600
    assert angular_error(scene.normals[scene.mask][inner], n[inner]).max() < 3  # a pixel is that wide
    expected = 0.5 * np.maximum(scene.normals[scene.mask] @ LIGHTS.T, 0)
    lit = inner[:, None] & (expected > 0.1)
    np.testing.assert_allclose(scene.readings[lit], expected[lit], rtol=0.05, atol=0.02)
    facing = scene.readings.min(axis=1) > 0.05  # no attached shadow
    error = stereo.estimate_normals(scene, "ls").error[scene.mask]
    assert np.median(error[facing]) < 1


def test_normals_point_to_the_camera_however_the_triangles_are_wound(sphere_file, tmp_path):
    mesh = trimesh.load(sphere_file)
    mesh.invert()
    mesh.export(tmp_path / "inside-out.ply")
    options = {"size": 24, "material": "diffuse", "samples": 16}
    scene, other = (stereo.render(LIGHTS, mesh=path, **options) for path in (sphere_file, tmp_path / "inside-out.ply"))
    assert (other.normals[other.mask][:, 2] > 0).all()
    both = scene.mask & other.mask
    assert angular_error(other.normals[both], scene.normals[both]).mean() < 3
    np.testing.assert_allclose(other.readings.mean(), scene.readings.mean(), rtol=0.05)


def test_highlights_and_shadows_on_the_bunny():
    pytest.importorskip("pymeshfix", reason="pymeshfix, which carries the Bunny, is not installed")
    scene = stereo.render(stereo.hemisphere_lights(8, rng=1), size=40, samples=4)
    assert 400 < scene.mask.sum() < 1200
    predicted = 0.5 * np.maximum(scene.normals[scene.mask] @ scene.lights.T, 0)
    assert ((predicted > 0.2) & (scene.readings < 0.01)).mean() > 0.01  # cast shadows
    assert (scene.readings > predicted + 0.3).mean() > 0.005  # highlights
    again = stereo.render(stereo.hemisphere_lights(8, rng=1), size=40, samples=4)
    np.testing.assert_array_equal(again.readings, scene.readings)


def test_bad_requests(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        stereo.render(LIGHTS, mesh=tmp_path / "none.ply")
    (tmp_path / "bad.ply").write_text("ply\nformat ascii 1.0\n")
    with pytest.raises(ValueError, match="header does not end"):
        stereo.render(LIGHTS, mesh=tmp_path / "bad.ply")
    with pytest.raises(ValueError, match="material must be one of"):
        stereo.render(LIGHTS, material="velvet")
    with pytest.raises(ValueError, match="variant must be one of"):
        stereo.render(LIGHTS, variant="nonsense")
