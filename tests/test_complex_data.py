import numpy as np
import pytest

from maxsparse import complex_data


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_stacking_keeps_the_product(dtype):
    rng = np.random.default_rng(0)
    Phi, X = ((rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(dtype) for s in ((4, 7), (3, 7)))
    Y = X @ Phi.T
    stacked = complex_data.stack_signals(X) @ complex_data.stack_dictionary(Phi).T
    assert stacked.dtype == np.finfo(dtype).dtype
    np.testing.assert_allclose(complex_data.unstack(stacked), Y, rtol=1e-5)
    np.testing.assert_array_equal(complex_data.unstack(complex_data.stack_signals(Y)), Y)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="even number of columns"):
        complex_data.unstack([[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="Y holds NaN"):
        complex_data.stack_signals([[1.0 + 1j * np.nan]])
    with pytest.raises(ValueError, match="Phi must be 2-D"):
        complex_data.stack_dictionary([1j, 2])
