"""Photographs taken in the field: exposures, dark frames, masks, a shaken camera, raw files."""

import struct
import sys
import warnings

import numpy as np
import pytest

from maxsparse import stereo
from maxsparse.stereo.capture import Alignment, exposures
from maxsparse.stereo.images import read_image

cv2 = pytest.importorskip("cv2")
Image = pytest.importorskip("PIL.Image")

LIGHTS = stereo.hemisphere_lights(6, lowest=0.5, rng=0)


def shots(size=64):
    """Return photographs (6, H, W) of a painted ball in front of black, and its mask."""
    y, x = np.mgrid[1 : -1 : size * 1j, -1 : 1 : size * 1j]
    inside = x**2 + y**2 < 0.6
    z = np.sqrt(np.maximum(0.6 - x**2 - y**2, 0))
    normals = np.dstack([x, y, z]) / np.sqrt(0.6)
    paint = np.where((np.sin(9 * x) + np.sin(8 * y)) > 0, 1.0, 0.5)
    return np.maximum(np.einsum("hwi,qi->qhw", normals, LIGHTS), 0) * paint * inside, inside


def write(folder, images, times=None, suffix=".png"):
    folder.mkdir(exist_ok=True)
    np.savetxt(folder / "lights.txt", LIGHTS)
    for i, image in enumerate(images):
        stored = np.rint(image * 60000).clip(0, 65535).astype(np.uint16)
        if times is None:
            cv2.imwrite(str(folder / f"shot{i}{suffix}"), stored)
            continue
        exif = Image.Exif()
        exif[0x8769] = {0x829A: times[i], 0x829D: 4.0, 0x8827: 200 if i == 0 else 100}
        Image.fromarray((stored >> 8).astype(np.uint8)).save(folder / f"shot{i}.png", exif=exif)
    return folder


def test_exposures_from_exif_are_divided_out(tmp_path):
    images, inside = shots()
    times = np.array([0.005, 0.02, 0.01, 0.01, 0.005, 0.01])
    factors = times * [2, 1, 1, 1, 1, 1] / 0.01
    folder = write(tmp_path / "a", images * factors[:, None, None] / 2.2, times)
    np.testing.assert_allclose(exposures(sorted(folder.glob("*.png"))), factors, rtol=1e-6)
    with pytest.warns(stereo.CaptureWarning, match=r"factor of 4;.*EXIF"):
        scene = stereo.load(folder, mask=inside)
    np.testing.assert_allclose(scene.readings, images[:, inside].T / 2.2 * (60000 / 65535), atol=2 / 255)
    with warnings.catch_warnings():  # given intensities hold exposures already
        warnings.simplefilter("error")
        given = stereo.load(folder, mask=inside, intensities=factors)
    np.testing.assert_allclose(given.readings, scene.readings, rtol=1e-6)
    (folder / "shot0.png").unlink()
    cv2.imwrite(str(folder / "shot0.png"), np.zeros((64, 64), np.uint8))
    assert exposures(sorted(folder.glob("*.png"))) is None


def test_the_dark_frame_is_subtracted(tmp_path):
    images, inside = shots()
    glow = np.linspace(0.0, 0.08, 64) * np.ones((64, 64))
    folder = write(tmp_path / "d", images + glow)
    before = stereo.load(folder, mask=inside)
    cv2.imwrite(str(folder / "dark.png"), np.rint(glow * 60000).astype(np.uint16))
    after = stereo.load(folder, mask=inside)
    expected = images[:, inside].T * (60000 / 65535)
    assert np.abs(before.readings - expected).max() > 0.06
    np.testing.assert_allclose(after.readings, expected, atol=3e-5)
    cv2.imwrite(str(folder / "dark.png"), np.zeros((10, 10), np.uint16))
    with pytest.raises(ValueError, match=r"dark frame 'dark.png' is \(10, 10\)"):
        stereo.load(folder)


def test_the_mask_is_found_before_a_dark_background(tmp_path):
    images, inside = shots()
    noise = np.abs(np.random.default_rng(0).normal(0, 0.01, images.shape))
    folder = write(tmp_path / "m", images + noise)
    found = stereo.load(folder, mask="auto").mask
    assert (found & inside).sum() / (found | inside).sum() > 0.97
    with pytest.raises(ValueError, match="stands out from the background"):
        stereo.load(write(tmp_path / "n", np.full((6, 32, 32), 0.5)), mask="auto")


def test_a_shaken_camera_is_reported(tmp_path):
    images, inside = shots(128)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stereo.load(write(tmp_path / "still", images), mask=inside)
    images[2] = np.roll(images[2], (3, -4), axis=(0, 1))
    alignment = Alignment()
    for image in images:
        alignment.add(image)
    expected = np.zeros((6, 2))
    expected[2] = [-4, 3]
    np.testing.assert_array_equal(alignment.shifts(), expected)
    with pytest.warns(stereo.CaptureWarning, match=r"moved between the photographs: shot2.png by 5 pixels; align"):
        stereo.load(write(tmp_path / "shaken", images), mask=inside)


def test_a_pattern_that_repeats_itself_is_not_a_shaken_camera():
    """Light from the other side moves the shading of waves by a part of their length."""
    x, y = np.meshgrid(np.arange(1000) / 20.0, np.arange(750) / 20.0)
    n = np.dstack([0.3 * np.sin(x), 0.3 * np.cos(y), np.ones_like(x)])
    lights = stereo.hemisphere_lights(20, lowest=0.5, rng=0)
    photographs = np.maximum(n @ lights.T, 0) + 0.002 * np.random.default_rng(0).standard_normal((750, 1000, 1))
    alignment = Alignment()
    for i in range(20):
        alignment.add(photographs[..., i])
    np.testing.assert_array_equal(alignment.shifts(), 0.0)


def test_real_photographs_on_a_tripod_are_not_reported(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error", stereo.CaptureWarning)
        stereo.load(data("diligent_layout/ballPNG"))
        stereo.load(data("uw/cat"), lights="unknown")


def write_dng(path, mosaic, time=(1, 50)):
    """Write the least DNG file that decoders accept: 16 bits, RGGB, uncompressed, camera colours that are sRGB."""
    h, w = mosaic.shape
    data = mosaic.astype("<u2").tobytes()
    xyz = [32405, -15371, -4985, -9693, 18760, 416, 556, -2040, 10572]  # XYZ to linear sRGB, in 1/10000
    matrix = b"".join(struct.pack("<ii", value, 10000) for value in xyz)
    short, long_, ratio, text, byte, signed = 3, 4, 5, 2, 1, 10
    entries = [
        (254, long_, 1, 0),
        (256, long_, 1, w),
        (257, long_, 1, h),
        (258, short, 1, 16),
        (259, short, 1, 1),
        (262, short, 1, 32803),
        (271, text, 5, b"Test\0"),
        (272, text, 5, b"Test\0"),
        (273, long_, 1, "data"),
        (277, short, 1, 1),
        (278, long_, 1, h),
        (279, long_, 1, len(data)),
        (33421, short, 2, struct.pack("<HH", 2, 2)),
        (33422, byte, 4, bytes([0, 1, 1, 2])),
        (0x829A, ratio, 1, struct.pack("<II", *time)),
        (50706, byte, 4, bytes([1, 4, 0, 0])),
        (50708, text, 10, b"Test Test\0"),
        (50714, short, 1, 0),
        (50717, long_, 1, 65535),
        (50721, signed, 9, matrix),
        (50728, ratio, 3, struct.pack("<IIIIII", 1, 1, 1, 1, 1, 1)),
        (50778, short, 1, 21),
    ]
    start = 8 + 2 + 12 * len(entries) + 4
    extra = b""
    directory = struct.pack("<H", len(entries))
    total = sum(len(value) + len(value) % 2 for *_, value in entries if isinstance(value, bytes) and len(value) > 4)
    for tag, kind, count, value in entries:
        if value == "data":
            value = start + total
        if isinstance(value, int):
            field = struct.pack("<HH", value, 0) if kind == short else struct.pack("<I", value)
        elif len(value) <= 4:
            field = value.ljust(4, b"\0")
        else:
            field = struct.pack("<I", start + len(extra))
            extra += value + b"\0" * (len(value) % 2)
        directory += struct.pack("<HHI", tag, kind, count) + field
    path.write_bytes(b"II*\0" + struct.pack("<I", 8) + directory + b"\0\0\0\0" + extra + data)


def test_raw_files_are_linear(tmp_path):
    pytest.importorskip("rawpy")
    ramp = np.tile(np.linspace(1000, 50000, 64), (48, 1))
    write_dng(tmp_path / "shot1.dng", ramp)
    write_dng(tmp_path / "shot2.dng", ramp / 4, time=(1, 200))
    one, other = read_image(tmp_path / "shot1.dng"), read_image(tmp_path / "shot2.dng")
    assert one.dtype == np.uint16
    assert one.shape[2] == 3
    middle = np.s_[10:-10, 10:-10, 1]
    slope = np.polyfit(np.arange(one.shape[1])[10:-10], one[middle].mean(axis=0), 1)
    line = np.polyval(slope, np.arange(one.shape[1])[10:-10])
    assert np.abs(one[middle].mean(axis=0) / line - 1).max() < 0.01
    np.testing.assert_allclose(one[middle] / other[middle], 4, rtol=0.02)
    np.testing.assert_allclose(exposures([tmp_path / "shot1.dng", tmp_path / "shot2.dng"]), [1.6, 0.4])
    (tmp_path / "shot1.dng").write_bytes((tmp_path / "shot1.dng").read_bytes()[:300])
    with pytest.raises(ValueError, match="damaged or truncated"):
        read_image(tmp_path / "shot1.dng")


def test_without_rawpy_the_message_says_what_to_install(tmp_path, monkeypatch):
    write_dng(tmp_path / "shot.dng", np.full((16, 16), 1000.0))
    monkeypatch.setitem(sys.modules, "rawpy", None)
    with pytest.raises(ImportError, match=r"reading .dng files needs rawpy: pip install 'maxsparse\[raw\]'"):
        read_image(tmp_path / "shot.dng")


def test_damaged_tags_state_no_exposure(tmp_path):
    pytest.importorskip("PIL")
    path = tmp_path / "shot.dng"
    write_dng(path, np.full((16, 16), 1000.0))
    assert exposures([path]) is not None
    whole = path.read_bytes()
    for end in range(8, 300, 7):  # in the middle of an entry
        path.write_bytes(whole[:end])
        assert exposures([path]) is None or end > 8 + 2 + 12 * 15
    path.write_bytes(whole.replace(struct.pack("<II", 1, 50), struct.pack("<II", 0, 0)))
    assert exposures([path]) is None
