"""The result object."""

import dataclasses

import numpy as np
import pytest

from maxsparse import Result
from maxsparse.recovery import Recovery


@pytest.fixture
def result():
    coef = np.array([[0.0, 1.0, 0.0], [2.0, 0.0, -3.0], [0.0, 0.0, 0.0]])
    return Result(
        coef,
        residual=np.array([0.1, 0.2, 0.3]),
        iterations=np.array([1, 2, 3]),
        converged=np.array([True, True, False]),
        certified=np.array([True, False, False]),
        method="test",
    )


def test_derived_fields(result):
    np.testing.assert_array_equal(result.support, result.coef != 0)
    np.testing.assert_array_equal(result.scores, np.abs(result.coef))


def test_own_scores(result):
    scores = np.random.default_rng(0).random((3, 3))
    scored = dataclasses.replace(result, explicit_scores=scores)
    np.testing.assert_array_equal(scored.scores, scores)
    np.testing.assert_array_equal(scored[1:].scores, scores[1:])


def test_frozen(result):
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.coef = None


@pytest.mark.parametrize("index", [1, -2, slice(1, 2), [1], np.array([False, True, False])])
def test_slicing_by_signal(result, index):
    part = result[index]
    assert len(part) == 1
    np.testing.assert_array_equal(part.coef, [[2.0, 0.0, -3.0]])
    assert part.residual.tolist() == [0.2]
    assert part.iterations.tolist() == [2]
    assert part.method == "test"


def test_out_of_range(result):
    with pytest.raises(IndexError, match="signal 3 is out of range: there are 3 signals"):
        result[3]
    assert len(list(result)) == 3  # iteration ends


def test_repr(result):
    assert repr(result) == (
        "Result(test: 3 signals × 3 atoms, 1 nonzeros (median), residual 2.0e-01 (median), 2 converged, 1 certified)"
    )
    assert repr(result[:0]) == "Result(test: 0 signals × 3 atoms)"
    assert "1 signal ×" in repr(result[0])


def test_to_npz(result, tmp_path):
    result.to_npz(tmp_path / "result.npz")
    with np.load(tmp_path / "result.npz", allow_pickle=False) as stored:
        for name in ("coef", "support", "scores", "residual", "certified", "iterations", "converged"):
            np.testing.assert_array_equal(stored[name], getattr(result, name))
        assert str(stored["method"]) == "test"


def test_a_recovery_says_what_it_is_and_keeps_all_of_it(result, tmp_path):
    values = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    known = {"argument": np.array(["spark", "", ""]), "confidence": np.array([1.0, 0.5, 0.0])}
    bounds = {"lower": np.array([1, 1, 0]), "upper": np.array([1, 2, 4]), "noise": np.array([0.0, 0.1, 0.1])}
    noisy = {"explicit_mean": 2.0 * result.coef, "explicit_inclusion": np.full(result.coef.shape, 0.25)}
    recovery = Recovery(**values, **known, **bounds, **noisy, _waiting=np.full(3, -1))
    assert repr(recovery).startswith("Recovery(test: 3 signals")
    assert repr(recovery[:0]).startswith("Recovery(test: 0 signals")
    recovery.to_npz(tmp_path / "recovery.npz")
    result.to_npz(tmp_path / "result.npz")
    with np.load(tmp_path / "recovery.npz", allow_pickle=False) as stored, np.load(tmp_path / "result.npz") as plain:
        assert stored["argument"].tolist() == ["spark", "", ""]
        assert stored["confidence"].tolist() == [1.0, 0.5, 0.0]
        np.testing.assert_array_equal(stored["mean"], 2.0 * result.coef)
        assert set(stored) == set(plain) | {
            *("argument", "confidence", "lower", "upper", "noise", "mean", "inclusion"),
        }
        assert set(plain) == {
            *("coef", "support", "scores", "residual", "certified", "iterations", "converged", "method"),
        }


def test_shapes_are_checked(result):
    with pytest.raises(ValueError, match=r"residual has shape \(2,\), but coef \(3, 3\) needs \(3,\)"):
        dataclasses.replace(result, residual=np.zeros(2))
