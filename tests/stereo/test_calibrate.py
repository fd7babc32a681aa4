"""Lights from a chrome ball, drawn and photographed."""

import numpy as np
import pytest

from maxsparse import stereo
from maxsparse.metrics import angular_error

Image = pytest.importorskip("PIL.Image")


def draw_ball(folder, lights, size=201, radius=80.0, center=(105.0, 92.0)):
    """Mirror every light as a small gaussian spot where its reflection is."""
    rows, columns = np.mgrid[:size, :size]
    x, y = (columns - center[0]) / radius, (center[1] - rows) / radius
    inside = x**2 + y**2 <= 1
    Image.fromarray(np.where(inside, 255, 0).astype(np.uint8)).save(folder / "mask.png")
    for i, light in enumerate(lights):
        n = light + np.array([0, 0, 1])
        n /= np.linalg.norm(n)
        spot = np.exp(-((x - n[0]) ** 2 + (y - n[1]) ** 2) / 2 / 0.02**2)
        Image.fromarray(np.clip(10 + 600 * spot, 0, 255).astype(np.uint8)).save(folder / f"ball{i:02}.png")
    return folder


def test_drawn_ball(tmp_path):
    lights = stereo.hemisphere_lights(9, lowest=0.3, rng=1)
    found = stereo.calibrate_lights(draw_ball(tmp_path, lights))
    assert found.center == pytest.approx((105, 92), abs=0.2)
    assert found.radius == pytest.approx(80, abs=0.5)
    assert angular_error(found.lights, lights).max() < 0.7  # a pixel is 1.4°


def test_real_ball(data):
    found = stereo.calibrate_lights(data("uw/chrome"))
    error = angular_error(found.lights, stereo.read_lights(data("uw/lights.txt")))
    # The reference lies up to nine pixels beside the saturated spot in two of the photographs.
    assert np.median(error) < 2.5
    assert error.max() < 9


def test_what_is_not_a_ball(tmp_path):
    draw_ball(tmp_path, stereo.hemisphere_lights(4, rng=1))
    with pytest.raises(ValueError, match="not a disc"):
        stereo.calibrate_lights(tmp_path, mask=np.arange(201)[None, :] < 100 + np.zeros((201, 1)))
    Image.fromarray(np.full((201, 201), 30, dtype=np.uint8)).save(tmp_path / "ball02.png")
    with pytest.raises(ValueError, match=r"ball02.png.*no highlight"):
        stereo.calibrate_lights(tmp_path)
    (tmp_path / "mask.png").unlink()
    with pytest.raises(ValueError, match="no mask of the ball"):
        stereo.calibrate_lights(tmp_path)
    with pytest.raises(FileNotFoundError, match="not a folder"):
        stereo.calibrate_lights(tmp_path / "nowhere")
