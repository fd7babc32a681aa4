"""Spark against ranks of all subsets, and what it promises about solutions."""

import itertools

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import maxsparse as ms

pytestmark = pytest.mark.filterwarnings("ignore::maxsparse._core.validation.DuplicateAtomsWarning")


def brute_force(Phi):
    m = Phi.shape[1]
    for size in range(1, m + 1):
        for S in itertools.combinations(range(m), size):
            if np.linalg.matrix_rank(Phi[:, S], tol=1e-9) < size:
                return size
    return m + 1


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 8), st.integers(1, 3))
def test_against_ranks(seed, n, m, entries):
    # Small whole numbers make dependent sets of every size.
    rng = np.random.default_rng(seed)
    Phi = rng.integers(-entries, entries + 1, (n, m)).astype(float)
    Phi[0, ~Phi.any(axis=0)] = 1.0
    truth = brute_force(Phi)
    result = ms.theory.spark(Phi)
    assert result.exact
    assert int(result) == truth
    if result.support.size:
        assert result.support.size == truth
        assert np.linalg.matrix_rank(Phi[:, result.support], tol=1e-9) < truth
    bounds = ms.theory.spark(Phi, limit=1)
    assert bounds.lower <= truth <= bounds.upper


def test_known_sparks():
    both = np.hstack([np.eye(4), scipy.linalg.hadamard(4) / 2])
    assert int(ms.theory.spark(both)) == 2 * 2  # the picket fence: √n of each basis
    assert int(ms.theory.spark(ms.dictionaries.gaussian(6, 11, rng=0))) == 7
    assert int(ms.theory.spark(np.eye(4))) == 5
    assert ms.theory.spark(np.eye(4)).unique_up_to == 4
    assert int(ms.theory.spark(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]))) == 2


def test_sparse_solutions_below_half_the_spark_are_unique():
    """Enumerates every support: no other solution with as few nonzeros exists."""
    Phi = ms.dictionaries.decaying(6, 10, rng=0)
    result = ms.theory.spark(Phi)
    k = result.unique_up_to
    assert (int(result), k) == (7, 3)
    X, Y = ms.signals.sample(Phi, 5, sparsity=k, rng=1)
    for x, y in zip(X, Y, strict=True):
        solutions = []
        for S in map(list, itertools.combinations(range(10), k)):
            coef = np.linalg.lstsq(Phi[:, S], y, rcond=None)[0]
            if np.linalg.norm(Phi[:, S] @ coef - y) < 1e-9:
                solutions.append(S)
        assert solutions == [np.flatnonzero(x).tolist()]


def test_bounds_for_large_dictionaries():
    Phi = ms.dictionaries.gaussian(20, 100, rng=0)
    result = ms.theory.spark(Phi, limit=10_000)
    assert not result.exact
    assert (result.lower, result.upper) == (3, 21)
    with pytest.raises(ValueError, match="only bounds are known, 3 ≤ spark ≤ 21"):
        int(result)
    # A planted dependency of five atoms is found by ℓ1 even where it cannot be enumerated.
    planted = Phi.copy()
    planted[:, 50] = planted[:, [3, 7, 11, 60]] @ [1.0, -2.0, 0.5, 1.0]
    found = ms.theory.spark(planted, limit=10_000)
    assert found.upper == 5
    assert found.support.tolist() == [3, 7, 11, 50, 60]


def test_coherence_bounds_the_spark():
    n = 256
    both = np.hstack([np.eye(n), scipy.linalg.hadamard(n) / 16])
    assert ms.theory.spark(both, limit=1).lower == 17  # 1 + 1/μ, far beyond what can be enumerated
