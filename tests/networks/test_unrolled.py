"""ISTA-Net and IHT-Net before training are the algorithms they unfold."""

import numpy as np
import pytest
import torch

import maxsparse as ms

PHI = ms.dictionaries.gaussian(15, 40, rng=0)
X, Y = ms.signals.sample(PHI, 30, sparsity=3, rng=1)


def iterate(Phi, Y, threshold, steps):
    """Plain gradient steps and thresholds in double precision."""
    L = np.linalg.norm(Phi, 2) ** 2
    x = np.zeros((len(Y), Phi.shape[1]))
    for _ in range(steps):
        x = threshold(x + (Y - x @ Phi.T) @ Phi / L)
    return x


def soft(theta):
    return lambda x: np.sign(x) * np.maximum(np.abs(x) - theta, 0)


def outputs(network):
    with torch.no_grad():
        return network.eval()(torch.from_numpy(Y)).numpy()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("steps", [1, 2, 20])
@pytest.mark.parametrize("scaled", [True, False])
def test_ista_net_starts_as_ista(tied, steps, scaled):
    network = ms.networks.build("ista_net", PHI, Y=Y if scaled else None, depth=steps, theta=0.01, tied=tied)
    np.testing.assert_allclose(outputs(network), iterate(PHI, Y, soft(0.01), steps), atol=2e-6)


def test_ista_net_starts_as_ista_on_the_whitened_problem():
    network = ms.networks.build("ista_net", PHI, Y=Y, depth=20, theta=0.01, whiten=True)
    W, D = ms.theory.precondition(PHI)
    expected = iterate(W @ PHI * D, Y @ W.T, soft(0.01 / D), 20) * D
    assert (expected != 0).any()
    np.testing.assert_allclose(outputs(network), expected, atol=2e-6)


@pytest.mark.parametrize("tied", [True, False])
def test_iht_net_starts_as_iterative_hard_thresholding(tied):
    # A ramp this narrow is met by no number here: HELU is the hard threshold.
    theta = 0.02
    network = ms.networks.build("iht_net", PHI, Y=Y, depth=20, theta=theta, sigma=1e-6, tied=tied)
    expected = iterate(PHI, Y, lambda x: x * (np.abs(x) >= theta), 20)
    assert 0 < np.count_nonzero(expected) < expected.size
    np.testing.assert_allclose(outputs(network), expected, atol=2e-6)


@pytest.mark.parametrize("name", ["ista_net", "iht_net"])
def test_scores_are_magnitudes_of_an_estimate(name):
    network = ms.networks.build(name, PHI, Y=Y, theta=0.01)
    np.testing.assert_array_equal(network.scores(Y), np.abs(outputs(network)))


@pytest.mark.parametrize("name", ["ista_net", "iht_net"])
def test_logits_rank_by_magnitude(name):
    estimate = ms.networks.build(name, PHI, Y=Y, theta=1e-6, output="estimate").scores(Y)
    logits = ms.networks.build(name, PHI, Y=Y, theta=1e-6, output="logits").scores(Y)
    assert ms.metrics.recall((ms.metrics.ranks(estimate) < 5).astype(float), logits) > 0.99


def test_untied_layers_learn_apart():
    network = ms.networks.build("ista_net", PHI, depth=3, tied=False)
    network(torch.from_numpy(Y)).square().sum().backward()
    gradients = [parameter.grad for parameter in network.Psi[1:]]
    assert len(network.Psi) == 3
    assert not torch.allclose(*gradients)


@pytest.mark.parametrize("output", ["estimate", "logits"])
@pytest.mark.parametrize(("depth", "tied"), [(1, True), (3, True), (3, False)])
def test_every_parameter_that_is_trained_is_used(output, depth, tied):
    # DistributedDataParallel waits for the gradients of all of them.
    network = ms.networks.build("ista_net", PHI, depth=depth, tied=tied, output=output)
    network(torch.from_numpy(Y)).square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters() if parameter.requires_grad)


@pytest.mark.parametrize("steps", [3, 25])
def test_ista_net_starts_as_the_solver(steps):
    theta = 0.01
    lam = theta * np.linalg.norm(PHI, 2) ** 2
    solved = ms.solvers.ista(PHI, Y, lam=lam, max_iter=steps, tol=0.0)
    network = ms.networks.build("ista_net", PHI, Y=Y, depth=steps, theta=theta)
    np.testing.assert_allclose(outputs(network), solved.coef, atol=2e-6)
