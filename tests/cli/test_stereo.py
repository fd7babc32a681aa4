"""``maxsparse stereo`` as a user meets it."""

import json

import numpy as np
import pytest

from maxsparse import stereo

cv2 = pytest.importorskip("cv2")


@pytest.fixture
def run(command):
    return lambda *arguments: command("stereo", *arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photographs")
    y, x = np.mgrid[1:-1:40j, -1:1:40j]
    inside = x**2 + y**2 < 0.85
    normals = np.dstack([x, y, np.sqrt(np.maximum(1 - x**2 - y**2, 0))])
    lights = stereo.hemisphere_lights(8, lowest=0.5, rng=0)
    for i, light in enumerate(lights):
        image = np.where(inside, np.maximum(normals @ light, 0), 0)
        cv2.imwrite(str(folder / f"{i}.png"), np.rint(image * 60000).astype(np.uint16))
    cv2.imwrite(str(folder / "mask.png"), np.where(inside, 255, 0).astype(np.uint8))
    np.savetxt(folder / "lights.txt", lights)
    np.save(folder / "truth.npy", normals * inside[..., None])
    return folder


def test_a_folder_becomes_normals_a_mesh_and_a_page(folder, tmp_path, run):
    out = tmp_path / "out"
    done = run(str(folder), "-o", str(out), "--mesh", "ply")
    assert done.returncode == 0, done.stderr
    assert "drag the light" in done.stdout
    normals, truth = np.load(out / "normals.npy"), np.load(folder / "truth.npy")
    inside = truth[..., 2] > 0
    assert np.median((normals * truth).sum(axis=2)[inside]) > 0.999
    assert {path.name for path in out.glob("mesh.*")} == {"mesh.ply"}
    assert (out / "viewer.html").stat().st_size > 10_000


def test_figures_as_json(folder, tmp_path, run):
    done = run(str(folder), "-o", str(tmp_path), "--mesh", "", "--no-viewer", "--method", "ls", "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["method"] == "ls"
    assert figures["pixels"] == (np.load(folder / "truth.npy")[..., 2] > 0).sum()
    assert str(tmp_path / "normals.npy") in figures["files"]


def test_help_and_bad_use(folder, tmp_path, run):
    shown = run("--help")
    assert shown.returncode == 0
    assert "calibrate" in shown.stdout
    assert "--method" in run("estimate", "--help").stdout
    missing = run(str(tmp_path / "nowhere"))
    assert missing.returncode == 1
    assert missing.stderr.startswith("maxsparse: ")
    assert "Traceback" not in missing.stderr
    wrong = run(str(folder), "--method", "magic", "-o", str(tmp_path / "o"))
    assert wrong.returncode == 2
    assert "there is no stereo method" in wrong.stderr


def test_a_mirrored_frame_is_said_in_one_line(folder, tmp_path, run):
    lights = np.loadtxt(folder / "lights.txt") * [1, -1, 1]
    np.savetxt(tmp_path / "l.txt", lights)
    done = run(str(folder), "--lights", str(tmp_path / "l.txt"), "-o", str(tmp_path / "o"), "--mesh", "", "--no-viewer")
    assert done.returncode == 0
    assert "warning: the normals form a surface only if one axis is flipped" in done.stderr
    assert ".py" not in done.stderr


def test_calibrate_writes_lights_that_load(data, tmp_path, run):
    done = run("calibrate", str(data("uw/chrome")), "-o", str(tmp_path / "lights.txt"))
    assert done.returncode == 0, done.stderr
    scene = stereo.load(data("uw/cat"), lights=tmp_path / "lights.txt")
    assert scene.lights.shape == (12, 3)
    figures = json.loads(run("calibrate", str(data("uw/chrome")), "-o", str(tmp_path / "l.txt"), "--json").stdout)
    np.testing.assert_allclose([row["light"] for row in figures["lights"]], np.loadtxt(tmp_path / "l.txt"), atol=1e-6)


def test_what_cannot_be_written_is_said_before_anything_is_estimated(folder, tmp_path, run):
    (tmp_path / "file").write_text("")
    (tmp_path / "K.txt").write_text("1 0 0\n0 -1 0\n0 0 1\n")
    out = ["-o", str(tmp_path / "out")]
    for arguments, message in (
        (["-o", str(tmp_path / "file" / "sub")], "file"),
        ([*out, "--mesh", "ply,stl"], "a mesh's format must be one of"),
        ([*out, "--camera", str(tmp_path / "K.txt")], "K must be 3×3"),
    ):
        done = run(str(folder), *arguments)
        assert done.returncode == 1
        assert message in done.stderr
        assert "magic" not in done.stderr
        assert "Traceback" not in done.stderr


def test_intensities_are_taken(folder, tmp_path, run):
    np.savetxt(tmp_path / "i.txt", np.full(8, 2.0))
    common = ("--mesh", "", "--no-viewer", "--method", "ls")
    plain = run(str(folder), "-o", str(tmp_path / "a"), *common)
    brighter = run(str(folder), "-o", str(tmp_path / "b"), "--intensities", str(tmp_path / "i.txt"), *common)
    assert plain.returncode == brighter.returncode == 0, plain.stderr + brighter.stderr
    a, b = (np.load(tmp_path / name / "albedo.npy") for name in "ab")
    np.testing.assert_allclose(b, a / 2, rtol=1e-5)


def test_the_network_is_tuned_to_the_rig_once(folder, tmp_path, monkeypatch, run):
    monkeypatch.setenv("MAXSPARSE_CACHE", str(tmp_path / "cache"))
    common = (str(folder), "--mesh", "", "--no-viewer", "-o", str(tmp_path / "out"))
    done = run(*common, "--minutes", "0.002")
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "cache").iterdir()
    normals, written = np.load(tmp_path / "out" / "normals.npy"), path.stat().st_mtime_ns
    for option, value in (("--minutes", "0.002"), ("--model", str(path))):
        assert run(*common, option, value).returncode == 0
        np.testing.assert_array_equal(np.load(tmp_path / "out" / "normals.npy"), normals)
    assert path.stat().st_mtime_ns == written
    refused = run(*common, "--minutes", "1", "--method", "ls")
    assert refused.returncode == 1
    assert "method 'ls' has no option 'minutes'" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_lights_and_mask_from_the_photographs(folder, tmp_path, run):
    unknown = ("--lights", "unknown", "--mask", "auto", "--mesh", "", "--no-viewer", "--method", "ls")
    done = run(str(folder), "-o", str(tmp_path), *unknown)
    assert done.returncode == 0, done.stderr
    assert "Lights estimated from the photographs, expected error" in done.stdout
    found, truth = np.loadtxt(tmp_path / "lights.txt"), np.loadtxt(folder / "lights.txt")
    assert np.degrees(np.arccos((found * truth).sum(axis=1))).mean() < 6
    assert np.loadtxt(tmp_path / "intensities.txt").shape == (8,)
    mask = cv2.imread(str(tmp_path / "mask.png"), cv2.IMREAD_UNCHANGED) > 0
    assert (mask == (np.load(folder / "truth.npy")[..., 2] > 0)).mean() > 0.95


def test_near_lamps_and_a_scale(folder, tmp_path, run):
    lights = np.loadtxt(folder / "lights.txt")
    np.savetxt(tmp_path / "lamps.txt", 1e6 * lights + [0, 0, -500])  # as good as at infinity
    np.savetxt(tmp_path / "K.txt", [[4000.0, 0, 19.5], [0, 4000.0, 19.5], [0, 0, 1]])
    near = ("--positions", str(tmp_path / "lamps.txt"), "--camera", str(tmp_path / "K.txt"), "--distance", "500")
    done = run(str(folder), "-o", str(tmp_path), *near, "--mesh", "glb", "--method", "ls")
    assert done.returncode == 0, done.stderr
    normals, truth = np.load(tmp_path / "normals.npy"), np.load(folder / "truth.npy")
    assert np.median((normals * truth).sum(axis=2)[truth[..., 2] > 0]) > 0.999
    assert np.nanmedian(np.load(tmp_path / "depth.npy")) == pytest.approx(500, rel=1e-4)
    page = (tmp_path / "viewer.html").read_text(encoding="utf-8")
    json.loads(page.split('id="data">')[1].split("</script>")[0], parse_constant=pytest.fail)  # browsers refuse NaN
    refused = run(str(folder), "-o", str(tmp_path), "--perspective")
    assert refused.returncode == 1
    assert "--perspective needs --camera" in refused.stderr
