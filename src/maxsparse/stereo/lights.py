"""Light rigs for rendering and tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import RandomState, check_integer, check_number, check_rng
from maxsparse.stereo.scene import MIN_LIGHTS

__all__ = ["hemisphere_lights"]


def hemisphere_lights(q: int, *, lowest: float = 0.2, rng: RandomState = None) -> NDArray[np.float64]:
    """Draw light directions uniformly from the hemisphere, above a minimum height.

    Parameters
    ----------
    q : int
        Number of lights, at least 4.
    lowest : float, default=0.2
        Smallest z of a light: the sine of its height above the horizon.
    rng : int, numpy.random.Generator or None, default=None

    Returns
    -------
    lights : ndarray of shape (q, 3)
        Unit vectors: x right, y up, z to the camera.

    Examples
    --------
    >>> import maxsparse as ms
    >>> L = ms.stereo.hemisphere_lights(20, rng=0)
    >>> L.shape, bool((L[:, 2] >= 0.2).all())
    ((20, 3), True)
    """
    q = check_integer(q, "q", low=MIN_LIGHTS)
    lowest = check_number(lowest, "lowest", low=0.0, high=0.99)
    generator = check_rng(rng)
    # On a sphere z is uniform, so even coverage is a uniform z and a uniform angle.
    z = generator.uniform(lowest, 1.0, q)
    angle = generator.uniform(0.0, 2.0 * np.pi, q)
    across = np.sqrt(1.0 - z * z)
    return np.stack([across * np.cos(angle), across * np.sin(angle), z], axis=1)
