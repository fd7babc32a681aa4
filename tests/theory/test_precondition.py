"""Whitening against its definition."""

import numpy as np
import pytest
import scipy.linalg

import maxsparse as ms


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_definition(noise):
    Phi = ms.dictionaries.decaying(8, 30, rng=0)
    W, D = ms.theory.precondition(Phi, noise=noise)
    S = Phi @ Phi.T + noise**2 * np.linalg.norm(Phi) ** 2 / 8 * np.eye(8)
    np.testing.assert_allclose(W @ S @ W.T, np.eye(8), atol=1e-8)
    # equal to the symmetric root up to a rotation of the rows
    root = scipy.linalg.fractional_matrix_power(S, -0.5)
    np.testing.assert_allclose(W.T @ W, root @ root, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(W @ Phi * D, axis=0), 1.0)


def test_noise_level_makes_the_measurements_white():
    # For random x and noise at the stated relative level, W y has a covariance proportional to the identity.
    rng = np.random.default_rng(0)
    Phi, relative = ms.dictionaries.decaying(6, 40, rng=1), 0.2
    X = rng.standard_normal((200_000, 40))
    clean = X @ Phi.T
    Y = clean + relative * np.sqrt((clean**2).mean()) * rng.standard_normal(clean.shape)
    W, _ = ms.theory.precondition(Phi, noise=relative)
    C = np.cov((Y @ W.T).T)
    np.testing.assert_allclose(C / np.trace(C) * 6, np.eye(6), atol=0.03)


def test_whitening_lowers_coherence():
    for seed in range(10):
        Phi = ms.dictionaries.decaying(20, 100, rng=seed)
        W, D = ms.theory.precondition(Phi)
        assert ms.theory.coherence(W @ Phi * D) < 0.95 < ms.theory.coherence(Phi)


def test_rank_deficient_and_tall():
    rng = np.random.default_rng(0)
    low = rng.standard_normal((6, 3)) @ rng.standard_normal((3, 12))
    W, _ = ms.theory.precondition(low)
    assert W.shape == (3, 6)
    np.testing.assert_allclose(W @ low @ low.T @ W.T, np.eye(3), atol=1e-9)
    assert ms.theory.precondition(rng.standard_normal((6, 3)))[0].shape == (3, 6)
    assert ms.theory.precondition(low, noise=0.1)[0].shape == (6, 6)


def test_float32():
    W, D = ms.theory.precondition(ms.dictionaries.gaussian(5, 9, rng=0).astype(np.float32))
    assert W.dtype == D.dtype == np.float32
