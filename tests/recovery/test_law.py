"""What fit(Y) learns of the coefficients, and what becomes of it."""

import numpy as np
import pytest

import maxsparse as ms
from maxsparse._core import modelfile

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
    ],
)
def test_a_file_with_a_wrong_law_is_refused(model, tmp_path, name, value):
    path = tmp_path / "model.safetensors"
    model.save(path)
    file = modelfile.read(path, "recoverer")
    modelfile.write(path, file.arrays | {name: value}, file.header)
    with pytest.raises(ValueError, match="law of the coefficients"):
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
