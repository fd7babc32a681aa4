"""What fit(Y) learns of the coefficients, and what becomes of it."""

import warnings

import numpy as np
import pytest

import maxsparse as ms
from maxsparse._core import modelfile
from maxsparse.recovery.law import usual_law

NOISE = 0.12


@pytest.fixture(scope="module")
def Phi():
    return ms.dictionaries.gaussian(20, 60, rng=0)


@pytest.fixture(scope="module")
def model(Phi):
    _, Y = ms.signals.sample(Phi, 80, sparsity=4, amplitudes="unit", noise=NOISE, rng=1)
    return ms.SparseRecoverer(Phi, noise=NOISE, budget="10ms").fit(Y)


def test_more_is_right_and_confidence_is(Phi, model):
    """The figures of 400 signals that fit has not seen; the truth is never told."""
    X, Y = ms.signals.sample(Phi, 400, sparsity=4, amplitudes="unit", noise=NOISE, rng=2)
    before, after = ms.SparseRecoverer(Phi, noise=NOISE, budget="10ms").recover(Y), model.recover(Y)
    right = [(result.support == (X != 0)).all(axis=1).mean() for result in (before, after)]
    assert right[1] > right[0] - 0.01
    assert abs(after.confidence.mean() - right[1]) < 0.04
    assert abs(before.confidence.mean() - right[0]) > abs(after.confidence.mean() - right[1])


def test_signals_are_still_judged_alone(Phi, model):
    _, Y = ms.signals.sample(Phi, 5, sparsity=4, amplitudes="unit", noise=NOISE, rng=3)
    np.testing.assert_array_equal(model.recover(Y).confidence[3:4], model.recover(Y[3:4]).confidence)


def test_it_is_saved(Phi, model, tmp_path):
    _, Y = ms.signals.sample(Phi, 5, sparsity=4, amplitudes="unit", noise=NOISE, rng=3)
    model.save(tmp_path / "model.safetensors")
    again = ms.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.recover(Y).confidence, model.recover(Y).confidence)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("law.sizes", np.zeros(3)),
        ("law.sizes", np.full(20, 1.0)),
        ("law.shapes", np.zeros((0, 3))),
        ("law.shapes", np.full((2, 3), np.nan)),
        ("law.slab", np.array([-1.0])),
        ("law.typical", np.array([0.0, -1.0])),
        ("law.typical", np.zeros(3)),
    ],
)
def test_a_file_with_a_wrong_law_is_refused(model, tmp_path, name, value):
    path = tmp_path / "model.safetensors"
    model.save(path)
    file = modelfile.read(path, "recoverer")
    modelfile.write(path, file.arrays | {name: value}, file.header)
    with pytest.raises(ValueError, match=r"law of the coefficients|law\.typical"):
        ms.load(path)


def test_too_few_signals_leave_what_is_usual(Phi):
    _, Y = ms.signals.sample(Phi, 6, sparsity=4, noise=NOISE, rng=1)
    model = ms.SparseRecoverer(Phi, noise=NOISE).fit(Y)
    np.testing.assert_array_equal(
        model.recover(Y).confidence, ms.SparseRecoverer(Phi, noise=NOISE).recover(Y).confidence
    )


def test_without_noise_there_is_nothing_to_learn(Phi):
    _, Y = ms.signals.sample(Phi, 20, sparsity=3, rng=1)
    assert ms.SparseRecoverer(Phi).fit(Y).law_ is None


@pytest.mark.parametrize("size", [2.0, 5.0, 300.0])
def test_signals_of_another_kind_are_reported_and_judged_by_themselves(Phi, model, size):
    X, like = ms.signals.sample(Phi, 30, sparsity=4, amplitudes="unit", rng=5)
    noise = NOISE * np.random.default_rng(6).standard_normal(like.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.recover(like + noise)
    with pytest.warns(UserWarning, match=r"30 of 30 signals are not like those that fit\(Y\) learned from"):
        found = model.recover(size * like + noise)
    alone = ms.SparseRecoverer(Phi, noise=NOISE, budget="10ms").recover(size * like + noise)
    np.testing.assert_array_equal(found.coef, alone.coef)
    np.testing.assert_array_equal(found.confidence, alone.confidence)
    assert (found.support == (X != 0)).all(axis=1).mean() > 0.9


def test_trust_falls_only_far_below_what_is_typical():
    whole = np.random.default_rng(0).normal(-300.0, 4.0, 400)
    law = usual_law(10).seen(whole)
    assert law.trust(whole).min() > 0.99
    trust = law.trust(-300.0 - 4.0 * np.array([-20.0, 0.0, 4.0, 8.0]))
    assert (trust[:3] > 0.99).all()
    assert trust[3] < 1e-3


def test_signals_that_a_short_search_misses_are_found_by_a_longer_one():
    """After fit, a support that is not the true one shows itself by its probability, and is searched for again."""
    Phi = ms.dictionaries.gaussian(20, 100, rng=1)
    options = {"sparsity": 8, "noise": 0.002}
    X, Y = ms.signals.sample(Phi, 80, **options, rng=2)
    model = ms.SparseRecoverer(Phi, noise=0.002, budget="4ms")
    before = model.recover(Y)
    model.fit(ms.signals.sample(Phi, 60, **options, rng=3)[1])
    after = model.recover(Y)
    right = [(result.support == (X != 0)).all(axis=1) for result in (before, after)]
    assert right[1].sum() > right[0].sum()
    assert after.confidence[~right[1]].max(initial=0.0) < 0.2
