"""Compiled functions that solvers share, against numpy."""

import numpy as np
import pytest

from maxsparse._core.linalg import NEAR, first_largest, magnitude_bits, times


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


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("shape", [(1, 1), (3, 50), (20, 100), (70, 130)])
def test_a_row_of_a_product_does_not_depend_on_the_others(dtype, shape):
    rng = np.random.default_rng(0)
    assert (4 * shape[0] * shape[1] > NEAR) == (shape[0] == 70)  # both ways are tested, in single precision too
    Y, matrix = (rng.standard_normal(s).astype(dtype) for s in ((700, shape[0]), shape))
    whole = times(Y, matrix)
    np.testing.assert_allclose(whole, Y @ matrix, rtol=0, atol=1e3 * np.finfo(dtype).eps)
    for rows in (slice(0, 1), slice(3, 8), slice(650, 700)):
        np.testing.assert_array_equal(times(Y[rows].copy(), matrix), whole[rows])
