"""Scenes with a known answer."""

import numpy as np
import pytest

from maxsparse import stereo


def ball(size=48):
    """Return normals (H, W, 3) and mask of a ball, y up."""
    y, x = np.mgrid[1 : -1 : size * 1j, -1 : 1 : size * 1j]
    inside = x**2 + y**2 < 0.85
    normals = np.dstack([x, y, np.sqrt(np.maximum(1 - x**2 - y**2, 0))])
    return np.where(inside[..., None], normals, 0), inside


@pytest.fixture(scope="session")
def matt_ball():
    """A matt ball under 14 lights, one photograph black and one with a bright spot."""
    normals, inside = ball()
    lights = stereo.hemisphere_lights(14, lowest=0.4, rng=3)
    images = np.maximum(np.einsum("hwi,qi->qhw", normals, lights), 0) * 0.6
    images[2] = 0.0
    images[5, 20:30, 20:30] += 0.7
    return stereo.make_scene(images, lights, mask=inside, normals=normals)
