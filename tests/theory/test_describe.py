"""What `describe` says, against the functions and the facts it stands on."""

import numpy as np
import pytest
import scipy.linalg

import maxsparse as ms


def test_numbers_are_those_of_the_functions():
    Phi = ms.dictionaries.decaying(10, 30, rng=0)
    d = ms.theory.describe(3.0 * Phi, max_sparsity=4, samples=100)
    W, D = ms.theory.precondition(Phi)
    assert d.shape == (10, 30)
    assert d.rank == 10
    assert d.coherence == pytest.approx(ms.theory.coherence(Phi))
    assert d.whitened_coherence == pytest.approx(ms.theory.coherence(W @ Phi * D))
    assert float(d.delta) == pytest.approx(float(ms.theory.rip_constant(Phi, 3)))
    assert d.guaranteed_iht == 0
    sigma = np.linalg.svd(Phi, compute_uv=False)
    assert d.condition == pytest.approx(sigma[0] / sigma[-1])


def test_forecast_is_what_omp_recovers():
    Phi = ms.dictionaries.decaying(20, 60, rng=0)
    d = ms.theory.describe(Phi, max_sparsity=4, samples=200)
    for k in (2, 4):
        X, Y = ms.signals.sample(Phi, 2000, sparsity=k, rng=k)
        for whitened, forecast in ((False, d.plain), (True, d.whitened)):
            found = ms.solvers.omp(Phi, Y, sparsity=k, precondition=whitened)
            assert forecast.omp[k - 1] == pytest.approx(ms.metrics.strict_accuracy(X, found.scores), abs=0.12)
    assert d.whitened.up_to("omp") > d.plain.up_to("omp")
    assert "whiten (precondition=True)" in str(d)


def test_orthonormal_atoms_are_easy():
    d = ms.theory.describe(np.eye(6), max_sparsity=3)
    assert d.guaranteed == 5
    assert d.guaranteed_iht == 2
    assert d.plain.omp == d.plain.l1 == [1.0, 1.0, 1.0]
    assert d.spark.unique_up_to == 6
    assert "whitening is not needed" in d.advice


def test_guarantees_of_two_bases():
    d = ms.theory.describe(np.hstack([np.eye(64), scipy.linalg.hadamard(64) / 8]), max_sparsity=1, samples=20)
    # μ₁(j) = j/8: μ₁(k − 1) + μ₁(k) < 1 up to k = 4
    assert d.guaranteed == 4


@pytest.mark.filterwarnings("ignore::maxsparse._core.validation.DuplicateAtomsWarning")
def test_duplicates_and_single_atoms():
    d = ms.theory.describe(np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]]), samples=10)
    assert d.duplicates == [(0, 1)]
    assert "1 pairs of atoms are multiples" in str(d)
    assert d.spark.upper == 2
    assert ms.theory.describe(np.ones((3, 1)), samples=5).guaranteed == 1
