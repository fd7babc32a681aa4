"""Coherence against brute force."""

import itertools

import numpy as np
import pytest
import scipy.linalg

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


def complex_dictionary(n, m):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, m)) + 1j * rng.standard_normal((n, m))


def test_complex_atoms():
    Phi = complex_dictionary(6, 9)
    unit = Phi / np.linalg.norm(Phi, axis=0)
    G = np.abs(unit.conj().T @ unit) - np.eye(9)
    assert ms.theory.coherence(Phi) == pytest.approx(G.max())
    assert ms.theory.coherence(Phi * np.exp(1j * np.arange(9))) == pytest.approx(G.max())  # phases do not matter
    np.testing.assert_allclose(ms.theory.cumulative_coherence(Phi, 3)[2], np.sort(G, axis=1)[:, -3:].sum(axis=1).max())


@pytest.mark.parametrize("Phi", [complex_dictionary(6, 9), complex_dictionary(6, 9).real], ids=["complex", "real"])
def test_groups_have_the_angles_of_their_spans(Phi):
    labels = np.array([0, 1, 0, 2, 1, 2, 0, 3, 3])
    angles = [
        scipy.linalg.subspace_angles(Phi[:, labels == a], Phi[:, labels == b]).min() for a in range(4) for b in range(a)
    ]
    assert ms.theory.coherence(Phi, groups=labels) == pytest.approx(np.cos(min(angles)))
    sums = ms.theory.cumulative_coherence(Phi, 3, groups=labels)
    assert sums.shape == (3,)
    assert sums[0] == pytest.approx(np.cos(min(angles)))
    with pytest.raises(ValueError, match="k must be from 1 to 3"):
        ms.theory.cumulative_coherence(Phi, 4, groups=labels)


def test_spark_of_a_complex_dictionary_is_bounded():
    Phi = complex_dictionary(5, 8)
    spark = ms.theory.spark(Phi)
    assert 2 <= spark.lower <= 6 == spark.upper
    assert np.linalg.matrix_rank(Phi[:, spark.support]) < spark.support.size
    assert int(ms.theory.spark(complex_dictionary(8, 5))) == 6  # independent
    two = np.concatenate([np.eye(4), np.fft.fft(np.eye(4)) / 2], axis=1)  # spikes and sines: coherence ½
    assert ms.theory.spark(two).lower == 3


def test_groups_are_whitened_together():
    Phi = complex_dictionary(5, 8)
    labels = np.array([0, 1, 0, 2, 1, 2, 0, 3])
    W, D = ms.theory.precondition(Phi, groups=labels)
    for label in range(4):
        assert len(set(D[labels == label])) == 1
        norms = np.linalg.norm(W @ Phi[:, labels == label], axis=0) * D[labels == label]
        assert np.mean(norms**2) == pytest.approx(1.0)
