"""Near lamps and a perspective camera, against a sphere whose points, normals and readings are known in closed form."""

import numpy as np
import pytest

from maxsparse import stereo
from maxsparse.metrics import angular_error

K = np.array([[110.0, 0, 31.5], [0, 110.0, 31.5], [0, 0, 1]])
CENTRE, RADIUS = np.array([15.0, -10.0, -400.0]), 90.0  # mm
LAMPS = np.array([[150, 60, -20], [-180, 40, 0], [30, 190, -30], [-40, -170, -10], [120, -130, 10], [-20, 15, 30.0]])


def sphere():
    """Return points and normals (H, W, 3) of a sphere that the camera at the origin sees, and its mask."""
    rows, columns = np.indices((64, 64))
    ray = np.stack([(columns - K[0, 2]) / K[0, 0], -(rows - K[1, 2]) / K[1, 1], -np.ones(rows.shape)], axis=2)
    a, b, c = (ray**2).sum(2), ray @ CENTRE, CENTRE @ CENTRE - RADIUS**2
    inside = b**2 - a * c > 0.03 * b**2 * 0.05
    depth = (b - np.sqrt(np.maximum(b**2 - a * c, 0))) / a
    points = depth[..., None] * ray
    return points, (points - CENTRE) / RADIUS, inside, depth


def test_near_lamps():
    points, normals, inside, depth = sphere()
    towards = LAMPS[:, None, None] - points
    squares = (towards**2).sum(axis=3)
    images = 1e5 * np.maximum((towards * normals).sum(axis=3), 0) / squares**1.5
    middle = np.median(points[inside], axis=0)
    distant = stereo.make_scene(images, LAMPS - middle, mask=inside, normals=normals)
    naive = stereo.estimate_normals(distant, "consensus")
    unknown = stereo.make_scene(images, None, mask=inside, normals=normals)
    distance = float(np.median(depth[inside]))
    result = stereo.estimate_normals(unknown, "consensus", camera=K, positions=LAMPS, distance=distance)
    assert naive.mean_error > 5
    assert result.mean_error < 1.5
    assert angular_error(result.scene.lights, LAMPS - middle).max() < 4
    assert result.residuals.max() < 0.2
    found = stereo.integrate(result.normals, inside, K=K, distance=distance)
    assert np.abs(found - depth)[inside].mean() < 3  # mm, of a sphere of 180


def test_a_perspective_camera_and_distant_lights():
    """Shading that depends on the view, (n·l)(1 + n·v), separates viewing rays from the optical axis."""
    points, normals, inside, _ = sphere()
    lights = stereo.hemisphere_lights(12, lowest=0.6, rng=0)
    view = -points / np.linalg.norm(points, axis=2, keepdims=True)
    images = np.maximum(np.einsum("hwi,qi->qhw", normals, lights), 0)

    def method(readings, directions):
        # Knows only that the camera looks along −z: the most probable normal is the mean of light and view.
        weights = readings / np.maximum(readings.sum(axis=1, keepdims=True), 1e-12)
        scaled = weights @ directions + np.array([0.0, 0.0, 1.0])
        return stereo.Fit.from_scaled(scaled, readings > 0, np.ones(len(readings)))

    expected = np.einsum("qhw,qi->hwi", images / images.sum(axis=0), lights) + view
    expected /= np.linalg.norm(expected, axis=2, keepdims=True)
    from maxsparse.stereo.near import fit_near

    scene = stereo.make_scene(images, lights, mask=inside)
    fit = fit_near(scene, method, K)
    parallel = method(scene.readings.astype(float), lights)
    assert angular_error(fit.normals, expected[inside]).mean() < 0.6
    assert angular_error(parallel.normals, expected[inside]).mean() > 2


def test_what_near_lamps_need():
    scene = stereo.make_scene(np.ones((6, 4, 4)), LAMPS)
    with pytest.raises(ValueError, match="need the camera matrix"):
        stereo.estimate_normals(scene, "ls", positions=LAMPS)
    with pytest.raises(ValueError, match="need the distance"):
        stereo.estimate_normals(scene, "ls", positions=LAMPS, camera=K)
    with pytest.raises(ValueError, match=r"shape \(6, 3\), one lamp per photograph"):
        stereo.estimate_normals(scene, "ls", positions=LAMPS[:4], camera=K, distance=1.0)
    with pytest.raises(ValueError, match="omit camera="):
        stereo.estimate_normals(scene, "ls", lights="estimate", camera=K)
    with pytest.raises(ValueError, match="omit camera="):
        stereo.estimate_normals(scene, "ls", material=True, camera=K)
