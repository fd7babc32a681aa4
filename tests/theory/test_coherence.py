"""Coherence against brute force."""

import itertools

import numpy as np
import pytest

import maxsparse as ms


@pytest.fixture
def Phi():
    return np.random.default_rng(0).standard_normal((5, 8)) * np.arange(1, 9)


def test_coherence_against_pairs(Phi):
    def cosine(i, j):
        return abs(Phi[:, i] @ Phi[:, j]) / np.linalg.norm(Phi[:, i]) / np.linalg.norm(Phi[:, j])

    brute = max(cosine(i, j) for i, j in itertools.combinations(range(8), 2))
    assert ms.theory.coherence(Phi) == pytest.approx(brute)


def test_cumulative_coherence_against_subsets(Phi):
    unit = Phi / np.linalg.norm(Phi, axis=0)
    G = np.abs(unit.T @ unit)
    brute = [
        max(
            sum(G[i, s] for s in S)
            for i in range(8)
            for S in itertools.combinations([j for j in range(8) if j != i], k)
        )
        for k in range(1, 8)
    ]
    np.testing.assert_allclose(ms.theory.cumulative_coherence(Phi, 7), brute)


def test_edges():
    assert ms.theory.coherence(np.ones((3, 1))) == 0.0
    assert ms.theory.coherence(np.eye(4)) == 0.0
    with pytest.raises(ValueError, match="k must be from 1 to 7, got 8"):
        ms.theory.cumulative_coherence(np.random.default_rng(0).standard_normal((3, 8)), 8)
