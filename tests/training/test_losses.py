"""Losses against their formulas, one number at a time."""

import math

import numpy as np
import pytest
import torch

from maxsparse.training.losses import LOSSES, least_squares, sigmoid, softmax

RNG = np.random.default_rng(0)
OUTPUTS = RNG.standard_normal((6, 9)) * 3
X = RNG.standard_normal((6, 9)) * (RNG.random((6, 9)) < 0.4)


def by_hand(name):
    total = 0.0
    for a, x in zip(OUTPUTS, X, strict=True):
        for j in range(len(a)):
            if name == "softmax" and x[j] != 0:
                total -= math.log(math.exp(a[j]) / sum(math.exp(value) for value in a))
            if name == "sigmoid":
                p = 1 / (1 + math.exp(-a[j]))
                total -= math.log(p if x[j] != 0 else 1 - p)
            if name == "least_squares":
                total += (a[j] - x[j]) ** 2
    return total / len(X)


@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients(name):
    outputs = torch.from_numpy(OUTPUTS).requires_grad_()
    loss = LOSSES[name](outputs, torch.from_numpy(X))
    assert loss.item() == pytest.approx(by_hand(name), rel=1e-12)
    assert torch.autograd.gradcheck(lambda a: LOSSES[name](a, torch.from_numpy(X)), (outputs,))


@pytest.mark.parametrize("d", [1, 2, 5])
def test_floor_of_softmax(d):
    X = torch.zeros(1, 10)
    X[0, :d] = 0.3
    outputs = torch.where(X != 0, 50.0, -50.0)
    assert softmax(outputs, X).item() == pytest.approx(d * math.log(d), abs=1e-4)
    assert sigmoid(outputs, X).item() == pytest.approx(0.0, abs=1e-6)
    assert least_squares(X, X).item() == 0.0


def test_huge_outputs_stay_finite():
    outputs = torch.tensor([[1e4, -1e4, 3e4]])
    for loss in (softmax, sigmoid):
        assert torch.isfinite(loss(outputs, torch.tensor([[1.0, 0.0, 1.0]])))
