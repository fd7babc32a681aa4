"""Every layout and every format, and every way they can be broken."""

import numpy as np
import pytest

from maxsparse import stereo
from maxsparse.stereo.readers import photographs, read_lights

cv2 = pytest.importorskip("cv2")
Image = pytest.importorskip("PIL.Image")

RNG = np.random.default_rng(0)
LIGHTS = stereo.hemisphere_lights(12, rng=0)
COLOUR8 = RNG.integers(0, 256, (12, 10, 14, 3), dtype=np.uint8)


def write(path, image):
    """Write an RGB or grey image with a library that is not the one under test where there is a choice."""
    if path.suffix == ".exr":
        OpenEXR = pytest.importorskip("OpenEXR")
        name = "RGB" if image.ndim == 3 else "Y"
        header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
        with OpenEXR.File(header, {name: image}) as stream:
            stream.write(str(path))
    elif image.dtype == np.uint8 and path.suffix in (".png", ".tga", ".bmp", ".tif"):
        Image.fromarray(image).save(path)
    else:
        stored = image[..., ::-1] if image.ndim == 3 else image
        lossless = [cv2.IMWRITE_TIFF_COMPRESSION, 1] if path.suffix == ".tif" else []  # OpenCV 4: lossy for floats
        assert cv2.imwrite(str(path), np.ascontiguousarray(stored), lossless)


def make_folder(folder, images, suffix):
    np.savetxt(folder / "lights.txt", LIGHTS)
    for i, image in enumerate(images):
        write(folder / f"shot{i}{suffix}", image)
    return folder


@pytest.mark.parametrize("suffix", [".png", ".tga", ".bmp", ".tif"])
@pytest.mark.parametrize("grey", [False, True])
def test_8_bit_formats(tmp_path, suffix, grey):
    images = COLOUR8[..., 0] if grey else COLOUR8
    scene = stereo.load(make_folder(tmp_path, images, suffix))
    expected = stereo.make_scene(images, LIGHTS)
    np.testing.assert_array_equal(scene.readings, expected.readings)
    assert scene.names[:3] == (f"shot0{suffix}", f"shot1{suffix}", f"shot2{suffix}")  # 2 comes before 10
    assert (scene.chroma is None) == grey


@pytest.mark.parametrize("suffix", [".png", ".tiff"])
@pytest.mark.parametrize("grey", [False, True])
def test_16_bit_formats(tmp_path, suffix, grey):
    images = COLOUR8.astype(np.uint16) * 257 - (COLOUR8 > 100)
    images = images[..., 0] if grey else images
    scene = stereo.load(make_folder(tmp_path, images, suffix))
    np.testing.assert_array_equal(scene.readings, stereo.make_scene(images, LIGHTS).readings)


@pytest.mark.parametrize(("suffix", "tolerance"), [(".exr", 0), (".tif", 0), (".pfm", 0), (".hdr", 0.01)])
def test_float_formats(tmp_path, suffix, tolerance):
    images = (COLOUR8 / 37.0).astype(np.float32)
    scene = stereo.load(make_folder(tmp_path, images, suffix))
    expected = stereo.make_scene(images, LIGHTS).readings
    np.testing.assert_allclose(scene.readings, expected, rtol=1e-6, atol=tolerance * images.max())


def test_jpeg_and_gamma(tmp_path):
    images = np.full((12, 16, 16, 3), 128, dtype=np.uint8)
    scene = stereo.load(make_folder(tmp_path, images, ".jpg"), gamma=2.2)
    np.testing.assert_allclose(scene.readings, (128 / 255) ** 2.2, rtol=0.03)


def test_stacks_give_the_same_scene(tmp_path):
    mask = RNG.random((10, 14)) < 0.5
    intensities = RNG.uniform(0.5, 2, (12, 3))
    normals = np.zeros((mask.sum(), 3)) + np.array([0, 0, 1])
    expected = stereo.make_scene(COLOUR8, LIGHTS, mask=mask, intensities=intensities, normals=normals)
    np.savez(tmp_path / "a.npz", I=COLOUR8, L=LIGHTS, Lint=intensities, mask=mask, normal=normals)
    np.savez(tmp_path / "b.npz", I=COLOUR8[:, mask], L=LIGHTS, Lint=intensities, mask=mask, normal=normals)
    folder = tmp_path / "folder"
    folder.mkdir()
    np.save(folder / "images.npy", COLOUR8)
    np.save(folder / "lights.npy", LIGHTS)
    np.save(folder / "intensities.npy", intensities)
    write(folder / "mask.png", np.where(mask, 255, 0).astype(np.uint8))
    for source in (tmp_path / "a.npz", tmp_path / "b.npz", folder, folder / "images.npy"):
        scene = stereo.load(source)
        np.testing.assert_array_equal(scene.readings, expected.readings)
        np.testing.assert_array_equal(scene.mask, mask)
    np.testing.assert_array_equal(stereo.load(tmp_path / "a.npz").normals, expected.normals)
    np.savez(tmp_path / "c.npz", shots=COLOUR8, L=LIGHTS)
    with pytest.raises(ValueError, match="no array I or images; select one of shots, L"):
        stereo.load(tmp_path / "c.npz")
    assert stereo.load(tmp_path / "c.npz", key="shots").readings.shape == (140, 12)


def test_benchmark_layout(tmp_path):
    from scipy.io import savemat

    folder = make_folder(tmp_path, COLOUR8, ".png")
    (folder / "lights.txt").unlink()
    order = RNG.permutation(12)
    (folder / "filenames.txt").write_text("".join(f"shot{i}.png\n" for i in order))
    np.savetxt(folder / "light_directions.txt", LIGHTS[order])
    intensities = RNG.uniform(0.5, 2, (12, 3))
    np.savetxt(folder / "light_intensities.txt", intensities[order])
    mask = np.zeros((10, 14), dtype=np.uint8)
    mask[2:8, 3:9] = 255
    write(folder / "mask.png", mask)
    truth = np.zeros((10, 14, 3)) + np.array([0.0, 0.6, 0.8])
    savemat(folder / "Normal_gt.mat", {"Normal_gt": truth})
    scene = stereo.load(folder)
    expected = stereo.make_scene(COLOUR8, LIGHTS, mask=mask, intensities=intensities).select(order)
    np.testing.assert_allclose(scene.readings, expected.readings, rtol=1e-6)
    assert scene.names == tuple(f"shot{i}.png" for i in order)
    np.testing.assert_array_equal(scene.normals[mask > 0], truth[mask > 0])
    assert not scene.normals[mask == 0].any()


def test_results_beside_photographs_are_not_taken_for_them(tmp_path):
    folder = make_folder(tmp_path, COLOUR8, ".png")
    for name in ("mask", "normals", "normal_map", "albedo", "shot.mask", "confidence", "error"):
        write(folder / f"{name}.png", COLOUR8[0, ..., 0])
    assert len(photographs(folder)) == 12


def test_lights_with_a_count_in_the_first_line(tmp_path):
    (tmp_path / "l.txt").write_text("# made by hand\n2\n0 0 1\n0.6, 0, 0.8\n")
    np.testing.assert_array_equal(read_lights(tmp_path / "l.txt"), [[0, 0, 1], [0.6, 0, 0.8]])
    for text, message in (
        ("a b c\n", "line 1: 'a b c' is not"),
        ("1 2 3\n1 2\n", "all equally long"),
        ("", "0 rows of numbers; it needs at least one"),
    ):
        (tmp_path / "l.txt").write_text(text)
        with pytest.raises(ValueError, match=message):
            read_lights(tmp_path / "l.txt")


@pytest.mark.parametrize("suffix", [".png", ".tif", ".tga", ".jpg", ".hdr", ".exr"])
def test_truncated_images_are_named(tmp_path, suffix):
    images = (COLOUR8 / 37.0).astype(np.float32) if suffix in (".hdr", ".exr") else COLOUR8
    folder = make_folder(tmp_path, images, suffix)
    whole = (folder / f"shot7{suffix}").read_bytes()
    for length in (len(whole) // 2, 0):
        (folder / f"shot7{suffix}").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=f"shot7{suffix}.*(damaged|empty)"):
            stereo.load(folder)


def test_what_a_folder_can_lack(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        stereo.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="holds no photographs"):
        stereo.load(tmp_path)
    folder = make_folder(tmp_path, COLOUR8, ".png")
    (folder / "lights.txt").rename(folder / "elsewhere.txt")
    with pytest.raises(FileNotFoundError, match=r"no light directions.*calibrate"):
        stereo.load(folder)
    assert stereo.load(folder, lights=folder / "elsewhere.txt").lights.shape == (12, 3)
    with pytest.raises(ValueError, match="12 images but 9 lights"):
        stereo.load(folder, lights=LIGHTS[:9])
    (folder / "filenames.txt").write_text("shot0.png\nshot99.png\nshot1.png\nshot2.png\n")
    with pytest.raises(FileNotFoundError, match=r"shot99.png.*missing"):
        stereo.load(folder, lights=LIGHTS[:4])
    (folder / "filenames.txt").write_text("../secret.png\n")
    with pytest.raises(ValueError, match="only files in its own folder"):
        stereo.load(folder, lights=LIGHTS[:4])


def test_sizes_that_differ_and_masks_that_do_not_fit(tmp_path):
    folder = make_folder(tmp_path, COLOUR8, ".png")
    write(folder / "shot4.png", COLOUR8[4, :9])
    with pytest.raises(ValueError, match=r"'shot4.png' is 9×14, but 'shot0.png' is 10×14"):
        stereo.load(folder)
    write(folder / "shot4.png", COLOUR8[4])
    with pytest.raises(ValueError, match="photographs are"):
        stereo.load(folder, mask=np.ones((3, 3)))
    with pytest.raises(ValueError, match="all black"):
        stereo.load(folder, mask=np.zeros((10, 14)))


def test_damaged_archives_and_other_files(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK not really")
    with pytest.raises(ValueError, match="damaged or truncated"):
        stereo.load(tmp_path / "a.npz")
    (tmp_path / "a.txt").write_text("1")
    with pytest.raises(ValueError, match="neither a folder nor"):
        stereo.load(tmp_path / "a.txt")


def test_real_folder_and_real_archive_agree(data):
    with pytest.warns(stereo.LightsWarning):  # these twelve stand in one row of the rig
        folder = stereo.load(data("diligent_layout/ballPNG"))
    archive = stereo.load(data("diligent_ball.npz"))
    chosen = [int(name[:3]) - 1 for name in folder.names]
    np.testing.assert_array_equal(folder.readings, archive.readings[:, chosen])
    np.testing.assert_allclose(folder.lights, archive.lights[chosen], atol=1e-4)
    np.testing.assert_allclose(folder.normals, archive.normals, atol=1e-6)
