"""Figures: what is drawn is what the result holds."""

import matplotlib
import numpy as np
import pytest

import maxsparse as ms

matplotlib.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def Phi():
    return ms.dictionaries.gaussian(10, 30, rng=0)


def points(axes, label):
    (found,) = [item for item in axes.collections if item.get_label() == label]
    return np.asarray(found.get_offsets())


def test_coefficients_truth_and_rivals(Phi):
    near = np.column_stack([Phi, Phi[:, 4] + 1e-3 * Phi[:, 5]])
    x = np.zeros(31)
    x[[4, 9]] = 1.0, -0.5
    Y = (near @ x + 0.05 * np.random.default_rng(0).standard_normal(10))[None]
    result = ms.SparseRecoverer(near, noise=0.05, names=[f"n{j}" for j in range(31)]).recover(Y)
    axes = result.plot(0, truth=x)
    used = np.flatnonzero(result.support[0])
    np.testing.assert_allclose(points(axes, "answer"), np.column_stack([used, result.coef[0, used]]))
    np.testing.assert_allclose(points(axes, "truth"), [[4, 1.0], [9, -0.5]])
    rival = ({4, 30} - set(used.tolist())).pop()
    rivals = points(axes, "not in the answer, but possible")
    assert rivals[rivals[:, 0] == rival, 1] == pytest.approx(1.0, abs=0.1)  # as large as the atom it stands for
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [f"n{j}" for j in used]
    assert f"confidence {result.confidence[0]:.2f}" in axes.get_title()


def test_snapshots_and_complex_numbers_are_magnitudes(Phi):
    rng = np.random.default_rng(0)
    X = np.zeros((1, 3, 30), dtype=complex)
    X[0, :, [2, 5]] = rng.standard_normal((2, 3)) + 1j
    result = ms.solve(Phi, X @ Phi.T, method="exact", sparsity=2)
    _, own = plt.subplots()
    assert result.plot(axes=own) is own
    assert own.get_ylabel() == "magnitude"
    np.testing.assert_allclose(points(own, "answer")[:, 1], np.linalg.norm(X[0][:, [2, 5]], axis=0))


def test_wrong_calls(Phi):
    result = ms.solve(Phi, Phi.T[:2], method="omp", sparsity=1)
    with pytest.raises(IndexError, match="signal 2 is out of range: there are 2 signals"):
        result.plot(2)
    with pytest.raises(ValueError, match=r"truth must be the coefficients of this one signal, shape \(30,\)"):
        result.plot(0, truth=np.zeros((2, 30)))
    with pytest.raises(ValueError, match="curve 'a' must be"):
        ms.plotting.phase_curves({"a": [[1, 2]]})
    with pytest.raises(ValueError, match="curve 'a' has parts of shapes"):
        ms.plotting.phase_curves({"a": ([1, 2], [0.1])})
    with pytest.raises(ValueError, match="from 0 to 1"):
        ms.plotting.reliability([0.5, 2.0], [True, False])
    with pytest.raises(ValueError, match="of one length"):
        ms.plotting.reliability([0.5], [True, False])


def test_empty_answer(Phi):
    result = ms.solve(Phi, np.zeros((1, 10)), method="omp", sparsity=1)
    assert "0 nonzeros" in result.plot().get_title()


def test_reliability_by_hand():
    axes = ms.plotting.reliability([0.2, 0.2, 0.9, 0.9], [False, True, True, True], bins=2)
    assert axes.get_title() == "expected calibration error 0.2, 4 answers"
    line = next(line for line in axes.get_lines() if np.array_equal(line.get_xdata(), [0.2, 0.9]))
    assert line.get_ydata().tolist() == [0.5, 1.0]


def test_phase_curves_with_spread():
    axes = ms.plotting.phase_curves({"a": ([1, 2], [1.0, 0.5], [0.0, 0.1]), "b": ([1, 2], [0.9, 0.2])})
    assert [line.get_label() for line in axes.get_lines()] == ["a", "b"]
    assert len(axes.collections) == 1  # the band of a
