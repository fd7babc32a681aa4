import itertools

import numpy as np
import pytest
import scipy.linalg

from maxsparse import dictionaries, signals
from maxsparse._core.prepared import Prepared
from maxsparse.recovery import certify, spark_bound
from maxsparse.recovery.refit import tolerance


def exact_spark(Phi):
    n, m = Phi.shape
    for k in range(1, n + 1):
        for columns in itertools.combinations(range(m), k):
            if np.linalg.matrix_rank(Phi[:, columns]) < k:
                return k
    return n + 1


@pytest.mark.parametrize("seed", range(5))
def test_spark_bound_is_a_lower_bound(seed):
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((4, 8))
    Phi[:, 7] = Phi[:, 0] + Phi[:, 1]  # spark 3
    assert 2 <= spark_bound(Phi) <= exact_spark(Phi) == 3
    orthogonal = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    assert spark_bound(orthogonal) == 6


def test_true_answers_are_certified_and_wrong_ones_are_not():
    Phi = dictionaries.decaying(20, 100, rng=0)
    X, Y = signals.sample(Phi, 200, sparsity=(1, 14), rng=1)
    certificates = certify(Phi, Y, X)
    assert certificates.certified.all()
    assert (certificates.residual <= certificates.tolerance).all()
    assert set(certificates.argument[np.count_nonzero(X, axis=1) > 5]) == {"generic"}
    wrong = X.copy()
    for row in wrong:  # one atom exchanged
        inside, outside = np.flatnonzero(row)[0], np.flatnonzero(row == 0)[0]
        row[outside], row[inside] = row[inside], 0.0
    assert not certify(Phi, Y, wrong).certified.any()
    assert not certify(Phi, Y, X * (1 + 1e-9)).certified.any()
    assert not certify(Phi, Y, np.zeros_like(X)).certified.any()


def test_one_atom_is_proven_by_the_spark():
    Phi = dictionaries.gaussian(20, 60, rng=0)
    X, Y = signals.sample(Phi, 20, sparsity=1, rng=1)
    assert set(certify(Phi, Y, X).argument) == {"spark"}
    assert certify(Phi, np.zeros((1, 20)), np.zeros((1, 60))).argument.tolist() == ["spark"]


def test_as_many_atoms_as_equations_certify_nothing():
    Phi = dictionaries.gaussian(8, 20, rng=0)
    y = np.random.default_rng(1).standard_normal((1, 8))
    x = np.zeros((1, 20))
    x[0, :8] = np.linalg.solve(Phi[:, :8], y[0])
    assert not certify(Phi, y, x).certified.any()


def test_near_duplicates_are_certified_only_while_roundings_can_tell():
    rng = np.random.default_rng(0)
    Phi = dictionaries.gaussian(20, 60, rng=0)
    direction = rng.standard_normal(20)
    outcomes = []
    for distance in (1e-3, 1e-5, 1e-9):
        near = Phi.copy()
        near[:, 1] = near[:, 0] + distance * direction
        x = np.zeros((1, 60))
        x[0, [0, 5, 9]] = [0.3, -0.2, 0.4]
        outcomes.append(bool(certify(near, x @ near.T, x).certified[0]))
    assert outcomes == [True, True, False]


def test_an_atom_in_the_span_of_the_support_forbids_a_certificate():
    Phi = dictionaries.gaussian(10, 30, rng=0)
    Phi[:, 3] = (Phi[:, 0] + Phi[:, 1]) / np.linalg.norm(Phi[:, 0] + Phi[:, 1])
    x = np.zeros((2, 30))
    x[0, [0, 1]] = [0.3, 0.2]  # could be atoms 0 and 3 as well
    x[1, [4, 5]] = [0.3, 0.2]
    assert certify(Phi, x @ Phi.T, x).certified.tolist() == [False, True]


def test_what_chance_explains_is_not_certified():
    # One equation more than atoms: among the millions of supports of that size, some leave as little of y as roundings.
    Phi = dictionaries.gaussian(10, 30, rng=0)
    X, Y = signals.sample(Phi, 5, sparsity=(7, 9), rng=0)
    certified = certify(Phi, Y, X).certified
    sparsity = np.count_nonzero(X, axis=1)
    np.testing.assert_array_equal(certified, sparsity < 9)
    assert 0 < certified.sum() < len(certified)


def test_a_large_term_does_not_vouch_for_small_ones():
    # One atom explains nearly all of y. Coherent atoms with huge coefficients explain the rest to the precision that
    # coefficients so large have: far too coarse to tell the right small terms from wrong ones.
    grid = np.arange(63) + 0.5
    Phi = np.cos(np.pi / 63 * np.arange(10)[:, None] * grid)
    x = np.zeros(63)
    x[[11, 31, 34, 35, 36, 37]] = np.array([1.7e-2, 1.1e-2, 4e-7, 8e-6, 2.8e-3, 1.1e-3])
    x[20] = 6000.0
    y = Phi @ x
    wrong = [20, 29, 30, 32, 33, 50]
    answer = np.zeros((1, 63))
    answer[0, wrong] = np.linalg.lstsq(Phi[:, wrong], y, rcond=None)[0]
    assert not certify(Phi, y[None], answer).certified.any()


def test_coarse_data_get_a_coarse_tolerance():
    Phi = dictionaries.gaussian(20, 60, rng=0)
    X, Y = signals.sample(Phi, 20, sparsity=4, rng=1)
    rounded = Y.astype(np.float32).astype(np.float64)
    assert not certify(Phi, rounded, X).certified.any()
    assert certify(Phi, rounded, X, rtol=1e-7).certified.all()


def test_bad_shapes_are_named():
    Phi = dictionaries.gaussian(5, 9, rng=0)
    with pytest.raises(ValueError, match="X must have shape"):
        certify(Phi, np.zeros((2, 5)), np.zeros((3, 9)))


def test_equal_magnitudes_are_certified_by_spark_or_not_at_all():
    """Where entries are ±1, unit amplitudes have twins as sparse; a spark bound holds whatever the amplitudes are."""
    Phi = np.random.default_rng(0).choice([-1.0, 1.0], (14, 60))
    X, Y = signals.sample(Phi, 50, sparsity=4, rng=1)
    assert certify(Phi, Y, X).certified.all()
    unit = np.sign(X)
    assert not certify(Phi, unit @ Phi.T, unit).certified.any()
    lengths = 1.0 + np.arange(60)  # the same terms from atoms of other lengths
    assert not certify(Phi * lengths, unit @ Phi.T, unit / lengths).certified.any()
    pair = np.hstack([np.eye(16), scipy.linalg.hadamard(16) / 4.0])  # coherence 1/4
    two = np.zeros((1, 32))
    two[0, [3, 20]] = 1.0
    assert certify(pair, two @ pair.T, two).argument.tolist() == ["spark"]


def test_long_answers_in_simple_proportions_are_not_generic():
    """Thirteen of these cosines can be an exact sum of seven others with whole amplitudes."""
    n, m = 23, 49
    rows = np.random.default_rng(2).choice(m, n, replace=False)
    Phi = np.cos(np.pi / m * rows[:, None] * (np.arange(m) + 0.5))
    X, Y = signals.sample(Phi, 50, sparsity=12, rng=1)
    assert certify(Phi, Y, X).certified.all()
    whole = np.sign(X) * np.random.default_rng(3).permuted(np.tile(np.arange(1.0, m + 1), (50, 1)), axis=1)
    assert not certify(Phi, whole @ Phi.T, whole).certified.any()
    few = np.where(np.cumsum(X != 0, axis=1) <= 3, whole, 0.0)
    assert certify(Phi, few @ Phi.T, few).certified.all()


def test_terms_that_cancel_explain_nothing():
    """Terms far larger than y have roundings that explain any y: the tolerance does not grow with them for ever."""
    Phi = dictionaries.gaussian(10, 40, rng=0)
    problem = Prepared(Phi).problem()
    y, support = Phi[:, 7].copy(), np.arange(6)
    allowed = [tolerance(y, problem, support, 6, np.full(6, size)) for size in (1.0, 1e3, 1e8, 1e13)]
    assert allowed[0] < allowed[1] < allowed[2] == allowed[3]
    assert allowed[3] <= 1e5 * 2.0 * np.finfo(np.float64).eps * np.sqrt(10) * np.linalg.norm(y) * (1 + 1e-12)


def test_three_atoms_that_are_dependent_to_rounding_explain_each_other():
    """φ₂ = 1.5 φ₁ − φ₀/25 up to 1e-13: x on {1, 2} has a twin on {0, 2}, behind coefficients of 40."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(200):
        Phi = dictionaries.gaussian(19, 46, rng=rng)
        Phi[:, 2] = 1.5 * Phi[:, 1] - 0.04 * Phi[:, 0] + 1e-13 * rng.standard_normal(19)
        x = np.zeros((1, 46))
        x[0, [1, 2, 7, 20, 31]] = rng.uniform(0.002, 0.5, 5)
        wrong += certify(Phi, x @ Phi.T, x).certified[0]
    assert wrong == 0


def test_dependent_atoms_all_in_the_support_forbid_a_certificate():
    """A combination of three atoms that is zero up to 1e-12 can be added to any x without a trace in y."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(200):
        Phi = dictionaries.gaussian(24, 72, rng=rng)
        Phi[:, 2] = Phi[:, :2] @ rng.standard_normal(2) + 10.0 ** rng.uniform(-13, -11) * rng.standard_normal(24)
        x = np.zeros((1, 72))
        x[0, 3 + rng.choice(69, 8, replace=False)] = rng.standard_normal(8)
        y = x @ Phi.T
        x[0, :3] = np.linalg.svd(Phi[:, :3])[2][2] * 10.0 ** rng.uniform(-4, 1)
        wrong += certify(Phi, y, x).certified[0]
    assert wrong == 0
