"""Metrics against their definitions, written as plain loops over sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import maxsparse as ms


def top(scores, count):
    """Indices of the `count` largest scores; of equal ones the lower index first."""
    return set(sorted(range(len(scores)), key=lambda j: (-scores[j], j))[:count])


problems = st.tuples(st.integers(1, 6), st.integers(1, 8)).flatmap(
    lambda shape: st.tuples(
        arrays(float, shape, elements=st.sampled_from([0.0, 0.0, 1.0, -2.0])),
        arrays(float, shape, elements=st.sampled_from([0.0, 0.25, 0.5, 1.0, -1.0])),  # many ties
        st.integers(1, shape[1]),
    )
)


@given(problems)
def test_accuracies_against_sets(problem):
    X, scores, n = problem
    truth = [set(np.flatnonzero(x)) for x in X]
    strict = [t == top(s, len(t)) for t, s in zip(truth, scores, strict=True)]
    loose = [len(t & top(s, n)) / len(t) if t else 1.0 for t, s in zip(truth, scores, strict=True)]
    recall = [len(t & top(s, len(t))) / len(t) if t else 1.0 for t, s in zip(truth, scores, strict=True)]
    assert ms.metrics.strict_accuracy(X, scores) == pytest.approx(np.mean(strict))
    assert ms.metrics.loose_accuracy(X, scores, n) == pytest.approx(np.mean(loose))
    assert ms.metrics.recall(X, scores) == pytest.approx(np.mean(recall))


def test_random_guessing_has_the_loose_accuracy_of_the_paper():
    # "with m = 5n, random guessing will lead to a loose accuracy value of 0.20"
    rng = np.random.default_rng(0)
    X, _ = ms.signals.sample(np.eye(100), 20_000, sparsity=5, rng=1)
    assert ms.metrics.loose_accuracy(X, rng.random(X.shape), 20) == pytest.approx(0.2, abs=0.005)


def test_exact_recovery():
    X = np.array([[1.0, 0.0, -2.0], [0.0, 0.0, 0.0], [1e-9, 0.0, 0.0]])
    assert ms.metrics.exact_recovery(X, X) == 1.0
    assert ms.metrics.exact_recovery(X, X + 1e-12) == pytest.approx(1 / 3)  # relative to the signal's own size
    assert ms.metrics.exact_recovery(X * 1e12, X * 1e12 * (1 + 1e-9)) == 1.0


def test_normalised_error():
    X = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0]])
    coef = np.array([[3.0, 4.5], [0.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(ms.metrics.normalised_error(X, coef), [0.1, 0.0, np.inf])


@pytest.mark.parametrize("degrees", [1e-9, 1e-4, 30.0, 90.0, 179.99, 180.0])
def test_angular_error_is_accurate_at_every_angle(degrees):
    a = np.array([[1.0, 0.0, 0.0]])
    b = 7.0 * np.array([[np.cos(np.radians(degrees)), np.sin(np.radians(degrees)), 0.0]])
    assert ms.metrics.angular_error(a, b)[0] == pytest.approx(degrees, rel=1e-10)


def test_angular_error_of_nothing():
    assert np.isnan(ms.metrics.angular_error([[0.0, 0.0, 0.0]], [[0.0, 0.0, 1.0]])[0])


def test_empty_batches_have_no_accuracy():
    empty = np.zeros((0, 5))
    assert np.isnan(ms.metrics.strict_accuracy(empty, empty))
    assert np.isnan(ms.metrics.exact_recovery(empty, empty))
    assert ms.metrics.normalised_error(empty, empty).shape == (0,)


def test_bad_input():
    with pytest.raises(ValueError, match=r"X and scores must have the same shape, got \(2, 3\) and \(2, 4\)"):
        ms.metrics.strict_accuracy(np.ones((2, 3)), np.ones((2, 4)))
    with pytest.raises(ValueError, match="scores holds NaN"):
        ms.metrics.recall(np.ones((1, 2)), [[np.nan, 1.0]])
    with pytest.raises(ValueError, match="n must be at least 1"):
        ms.metrics.loose_accuracy(np.ones((1, 2)), np.ones((1, 2)), 0)
