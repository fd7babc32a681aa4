"""Easy first: the same answers, and the network's scores when somebody asks."""

import pickle

import numpy as np
import pytest

import maxsparse as ms


@pytest.fixture(scope="module")
def problem():
    Phi = ms.dictionaries.decaying(20, 100, rng=0)
    X, Y = ms.signals.sample(Phi, 120, sparsity=(1, 9), rng=1)
    return Phi, X, Y


@pytest.fixture(scope="module")
def both(problem):
    Phi, _, Y = problem
    model = ms.SparseRecoverer(Phi, budget="fast")
    return [model.recover(Y, easy_first=easy) for easy in (True, False)]


def test_the_answer_does_not_depend_on_the_step_that_found_it(both):
    first, without = both
    assert 20 < (first._waiting >= 0).sum() < 110  # OMP has some of them, and not all
    assert (without._waiting < 0).all()
    same = without.certified
    assert (first.certified >= same).all()
    for name in ("coef", "residual", "certified", "argument", "converged"):
        np.testing.assert_array_equal(getattr(first, name)[same], getattr(without, name)[same])


def test_scores_are_the_networks_bit_for_bit(problem):
    Phi, _, Y = problem
    model = ms.SparseRecoverer(Phi, budget="fast")
    expected = model.recover(Y, easy_first=False).scores
    result = model.recover(Y)
    waiting = result._waiting >= 0
    part, single = result[::-2], result[3]
    np.testing.assert_array_equal(part.scores, expected[::-2])
    np.testing.assert_array_equal(single.scores, expected[3:4])
    np.testing.assert_array_equal(result.scores, expected)
    assert waiting.any()
    assert not (result._waiting >= 0).any()


def test_scores_are_not_computed_before_they_are_read(problem):
    Phi, _, Y = problem
    seen = []

    class Watched:
        def scores(self, signals):
            seen.append(len(signals))
            return np.abs(signals @ Phi)

    model = ms.SparseRecoverer(Phi, network=Watched(), noise=0)
    result = model.recover(Y)
    easy = (result._waiting >= 0).sum()
    assert seen == [len(Y) - easy]
    np.testing.assert_array_equal(result.scores, np.abs(Y @ Phi).astype(np.float32))
    result.scores  # noqa: B018
    assert seen == [len(Y) - easy, easy]


def test_a_record_goes_elsewhere_with_its_scores(problem):
    Phi, _, Y = problem
    model = ms.SparseRecoverer(Phi, budget="fast")
    result = model.recover(Y[:10])
    there = pickle.loads(pickle.dumps(result))
    assert there._unscored is None
    np.testing.assert_array_equal(there.scores, model.recover(Y[:10], easy_first=False).scores)
    np.testing.assert_array_equal(there.coef, result.coef)


def test_noise_takes_the_other_road(problem):
    Phi, _, Y = problem
    result = ms.SparseRecoverer(Phi, noise=1e-3).recover(Y[:5])
    assert (result._waiting < 0).all()
    assert not result.certified.any()
