"""Files read back by other programs than the one that wrote them."""

import numpy as np
import pytest

from maxsparse import stereo
from maxsparse.stereo.mesh import display

cv2 = pytest.importorskip("cv2")
trimesh = pytest.importorskip("trimesh")


@pytest.fixture(scope="module")
def written(matt_ball, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out") / "deep" / "er"
    result = stereo.estimate_normals(matt_ball, "consensus")
    return result, folder, stereo.write_all(result, folder)


def test_everything_is_there(written):
    _, folder, paths = written
    names = {path.name for path in paths}
    assert names == {path.name for path in folder.iterdir()}
    arrays = {f"{name}.{kind}" for name in ("normals", "confidence", "albedo", "error") for kind in ("npy", "png")}
    assert names == arrays | {"depth.npy", "mesh.ply", "mesh.obj", "mesh.glb", "viewer.html"}


def test_normals_survive_sixteen_bits(written):
    result, folder, _ = written
    stored = cv2.imread(str(folder / "normals.png"), cv2.IMREAD_UNCHANGED)[..., ::-1]
    assert stored.dtype == np.uint16
    np.testing.assert_allclose(stored[result.mask] / 65535 * 2 - 1, result.normals[result.mask], atol=2e-5)
    assert not stored[~result.mask].any()
    np.testing.assert_allclose(np.load(folder / "normals.npy"), result.normals, atol=1e-6)
    confidence = cv2.imread(str(folder / "confidence.png"), cv2.IMREAD_UNCHANGED) / 65535
    np.testing.assert_allclose(confidence, result.confidence, atol=1e-5)


def test_depth_is_the_ball(written):
    result, folder, _ = written
    depth, mask = np.load(folder / "depth.npy"), result.mask
    truth = 47 / 2 * result.scene.normals[..., 2]  # the ball's radius is half the picture
    assert np.isnan(depth[~mask]).all()
    off = (depth - truth)[mask]
    assert np.abs(off - np.median(off)).mean() < 0.3


@pytest.mark.parametrize("kind", ["ply", "obj", "glb"])
def test_meshes(written, kind):
    result, folder, _ = written
    mesh = trimesh.load(folder / f"mesh.{kind}", force="mesh", process=False)
    assert len(mesh.vertices) == result.mask.sum()
    assert mesh.is_winding_consistent
    assert (mesh.face_normals[:, 2] > 0).mean() > 0.99  # the front faces the camera
    np.testing.assert_allclose(np.linalg.norm(mesh.vertices[:, :2], axis=1).max(), 47 / 2 * np.sqrt(0.85), atol=1)
    agree = (mesh.vertex_normals * result.normals[result.mask]).sum(axis=1)
    assert np.median(agree) > 0.99
    if kind == "glb":  # every vertex shows its own pixel of the texture
        picture = np.asarray(mesh.visual.material.baseColorTexture.convert("RGB"))
        assert picture.shape[:2] == result.mask.shape
        shown = mesh.visual.uv * [result.mask.shape[1], result.mask.shape[0]]
        rows, columns = (result.mask.shape[0] - shown[:, 1]).astype(int), shown[:, 0].astype(int)
        assert (np.stack([rows, columns], 1) == np.argwhere(result.mask)).all()
        np.testing.assert_array_equal(picture, display(result.colour, np.where(result.mask, 0.0, np.nan)))
    else:
        assert mesh.visual.vertex_colors.shape == (len(mesh.vertices), 4)


def test_mesh_of_fewer_vertices_and_perspective():
    n = np.zeros((50, 60, 3)) + np.array([0, 0, 1])
    mesh = stereo.make_mesh(stereo.integrate(n), n, max_vertices=500)
    assert 200 < len(mesh.vertices) <= 500
    K = np.array([[100.0, 0, 30], [0, 100.0, 25], [0, 0, 1]])
    mesh = stereo.make_mesh(np.full((50, 60), 2.0), n, K=K)
    np.testing.assert_allclose(mesh.vertices[0], [-0.6, 0.5, -2.0])
    flat = stereo.integrate(n, K=K, distance=250.0)  # mm
    np.testing.assert_allclose(flat, 250.0, rtol=1e-6)
    across = np.ptp(stereo.make_mesh(flat, n, K=K).vertices[:, 0])
    assert across == pytest.approx(59 / 100 * 250)  # 59 pixels of 1/100 rad at that distance
    with pytest.raises(ValueError, match="only together with the camera"):
        stereo.integrate(n, distance=250.0)
    with pytest.raises(ValueError, match="distance must be positive"):
        stereo.integrate(n, K=K, distance=0.0)
    with pytest.raises(ValueError, match="suffix of the mesh"):
        stereo.write_mesh(mesh, "mesh.xyz")


def test_display_is_srgb():
    colour = np.zeros((2, 2, 3)) + 0.5
    colour[0, 0] = 0.25
    shown = display(colour, np.zeros((2, 2)))
    assert shown[1, 1].tolist() == [255, 255, 255]
    assert shown[0, 0].tolist() == [188, 188, 188]  # half of the light
