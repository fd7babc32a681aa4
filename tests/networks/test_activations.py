"""The hand-made activations against their formulas and against finite differences."""

import numpy as np
import pytest
import torch

from maxsparse.networks.activations import HELU, helu, soft_threshold


def helu_by_cases(x, sigma):
    """The paper's four cases, written out."""
    if abs(x) <= 1 - sigma:
        return 0.0
    if 1 - sigma < x < 1:
        return (x - 1 + sigma) / sigma
    if -1 < x < sigma - 1:
        return (x + 1 - sigma) / sigma
    return x


def away_from_kinks(sigma, count=400):
    """Points at which a finite difference sees one linear piece only."""
    x = torch.from_numpy(np.random.default_rng(0).uniform(-2, 2, count))
    kinks = torch.tensor([-1.0, sigma - 1, 0.0, 1 - sigma, 1.0], dtype=torch.float64)
    return x[(x[:, None] - kinks).abs().min(1).values > 1e-3].requires_grad_()


@pytest.mark.parametrize("sigma", [0.05, 0.2, 0.7, 1.0])
def test_helu_is_the_papers(sigma):
    x = np.concatenate([np.linspace(-2, 2, 401), [1 - sigma, sigma - 1, 1.0, -1.0]])
    expected = [helu_by_cases(value, sigma) for value in x]
    np.testing.assert_allclose(helu(torch.from_numpy(x), sigma), expected, atol=1e-12)


@pytest.mark.parametrize("sigma", [0.05, 0.2, 0.7, 1.0])
def test_helu_gradient_against_finite_differences(sigma):
    x = away_from_kinks(sigma)
    assert len(x) > 300
    assert torch.autograd.gradcheck(lambda x: helu(x, sigma), (x,))
    (gradient,) = torch.autograd.grad(helu(x, sigma).sum(), x)
    assert set(gradient.unique().numpy().round(6)) <= {0.0, 1.0, round(1 / sigma, 6)}


def test_helu_is_continuous():
    x = torch.linspace(-2, 2, 400_001, dtype=torch.float64)
    steps = HELU(0.2)(x).diff().abs()
    assert steps.max() <= 1e-5 / 0.2 * 1.001


def test_soft_threshold():
    rng = np.random.default_rng(0)
    x, theta = rng.standard_normal((50, 4)), np.array([0.0, 0.1, 0.5, 2.0])
    expected = np.sign(x) * np.maximum(np.abs(x) - theta, 0)
    np.testing.assert_allclose(soft_threshold(torch.from_numpy(x), torch.from_numpy(theta)), expected, atol=1e-15)


def test_soft_threshold_gradients_against_finite_differences():
    rng = np.random.default_rng(1)
    theta = torch.tensor([0.1, 0.5, 1.0], dtype=torch.float64, requires_grad=True)
    x = torch.from_numpy(rng.uniform(-2, 2, (40, 3)))
    x = x[((x.abs() - theta).abs() > 1e-3).all(1)].requires_grad_()
    assert torch.autograd.gradcheck(soft_threshold, (x, theta))
