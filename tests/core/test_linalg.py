"""Compiled functions that solvers share, against numpy."""

import numpy as np
import pytest

from maxsparse._core.linalg import first_largest, magnitude_bits


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [1, 7, 100, 1000])
def test_first_largest_is_the_first_of_numpy(dtype, m):
    rng = np.random.default_rng(m)
    magnitude = magnitude_bits(np.dtype(dtype))
    for scale in (0, 1e-40, 1.0, 1e30):  # zeros of both signs, subnormal numbers in single precision
        for x in (rng.standard_normal(m), rng.integers(-3, 4, m)):
            numbers = (scale * x).astype(dtype)
            assert first_largest(numbers, magnitude) == np.argmax(np.abs(numbers))


def test_infinity_is_the_largest():
    assert first_largest(np.array([1e308, -np.inf, np.inf]), magnitude_bits(np.dtype(float))) == 1
