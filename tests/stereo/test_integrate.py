"""Depth against surfaces with a formula, and against measured depth."""

import numpy as np
import pytest

from maxsparse import stereo
from maxsparse.stereo.images import read_image


def normals_of(p, q):
    """Return unit normals of a height field with slopes p = ∂z/∂x and q = ∂z/∂y, y up."""
    n = np.stack([-p, -q, np.ones_like(p)], axis=-1)
    return n / np.linalg.norm(n, axis=-1, keepdims=True)


def test_orthographic_bump():
    y, x = np.mgrid[40:-40:81j, -50:50:101j]
    z = 12 * np.exp(-(x**2 + 2 * y**2) / 500)
    n = normals_of(-2 * x / 500 * z, -4 * y / 500 * z)
    depth = stereo.integrate(n)
    np.testing.assert_allclose(depth - depth.mean(), z - z.mean(), atol=0.02)


def test_masked_parts_are_settled_separately():
    mask = np.zeros((20, 31), dtype=bool)
    mask[2:18, 2:14], mask[4:10, 18:29], mask[15, 25] = True, True, True
    n = normals_of(np.full(mask.shape, 0.5), np.full(mask.shape, -0.25))
    depth = stereo.integrate(n, mask)
    assert np.isnan(depth[~mask]).all()
    assert depth[15, 25] == 0
    for part in (np.s_[2:18, 2:14], np.s_[4:10, 18:29]):
        piece = depth[part]
        np.testing.assert_allclose(np.diff(piece, axis=1), 0.5, atol=1e-9)
        np.testing.assert_allclose(np.diff(piece, axis=0), 0.25, atol=1e-9)  # down is against y
        assert piece.mean() == pytest.approx(0, abs=1e-9)


def test_perspective_plane():
    K = np.array([[300.0, 0, 40], [0, 320.0, 30], [0, 0, 1]])
    rows, columns = np.mgrid[:60, :80]
    n = np.array([0.3, -0.2, 0.93])
    n /= np.linalg.norm(n)
    rays = np.stack([(columns - 40) / 300, -(rows - 30) / 320, -np.ones((60, 80))], axis=-1)  # y up, z to the camera
    truth = -1 / (rays @ n)  # the plane nᵀX = −1
    depth = stereo.integrate(np.broadcast_to(n, (60, 80, 3)), K=K)
    np.testing.assert_allclose(depth / np.median(depth), truth / np.median(truth), rtol=2e-5)


def test_a_jump_survives_with_discontinuities():
    """A flap that is attached to the ground along one edge only and rises from it."""
    rows, columns = np.mgrid[:80, :60]
    flap = (columns >= 20) & (columns < 40) & (rows < 60)
    slope = 0.3
    truth = np.where(flap, slope * (60.0 - rows), 0.0)
    n = normals_of(np.zeros((80, 60)), np.where(flap, slope, 0.0))
    away = np.abs(columns[:-1] - 29.5) > 11
    away |= (np.abs(columns[:-1] - 29.5) < 9) & (np.abs(rows[:-1] - 59.5) > 1)
    bend, jump = [], []
    for rounds in (0, 30):
        depth = stereo.integrate(n, discontinuities=rounds)
        bend.append(np.abs(np.diff(depth, axis=0) - np.diff(truth, axis=0))[away].mean())
        jump.append(depth[0, 22] - depth[0, 17])
    assert jump[0] < 5  # smeared out; the truth is 18
    assert jump[1] > 8
    assert bend[1] < 0.5 * bend[0]


@pytest.mark.parametrize(("name", "millimetres"), [("cat", 1.0), ("reading", 1.0)])
def test_measured_depth(data, name, millimetres):
    folder = data(f"depth/{name}")
    n = read_image(folder / "normal_map.png") / 65535 * 2 - 1
    truth = np.load(folder / "depth_gt.npz")["depth_gt"]
    mask = (read_image(folder / "mask.png") > 127) & np.isfinite(truth)
    n /= np.linalg.norm(n, axis=2, keepdims=True)
    depth = stereo.integrate(n, mask, K=stereo.read_lights(folder / "K.txt"), discontinuities=8)
    scaled = depth[mask] * np.median(truth[mask] / depth[mask])
    assert np.abs(scaled - truth[mask]).mean() < millimetres  # the objects are about 65 mm deep


def test_bad_input():
    n = np.zeros((4, 4, 3))
    with pytest.raises(ValueError, match="mask contains no normals"):
        stereo.integrate(n)
    with pytest.raises(ValueError, match="normals must be"):
        stereo.integrate(np.ones((4, 4)))
    with pytest.raises(ValueError, match="K must be 3×3"):
        stereo.integrate(n + np.array([0, 0, 1]), K=np.zeros((3, 3)))


def test_a_skewed_camera_is_refused():
    n = np.broadcast_to(np.array([0.0, 0.0, 1.0]), (4, 4, 3))
    with pytest.raises(ValueError, match="skew"):
        stereo.integrate(n, K=[[500, 3, 2], [0, 500, 2], [0, 0, 1]])
