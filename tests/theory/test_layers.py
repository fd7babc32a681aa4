"""The propositions on shared weights: fixed points, the bound 2^-t, and what W and D buy."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import maxsparse as ms


def two_bases(n):
    """[I, H/√n]: twice overcomplete, coherence 1/√n, so that δ_3k < 1/√32 can be proved at moderate n."""
    return np.hstack([np.eye(n), scipy.linalg.hadamard(n) / np.sqrt(n)])


def assert_halves(path, X, D=1.0):
    size = np.linalg.norm(X / D, axis=1)
    for t, estimate in enumerate(path):
        error = np.linalg.norm((estimate - X) / D, axis=1)
        assert (error <= size * (2.0**-t + 1e-12)).all(), t


def test_hard_threshold_keeps_the_largest():
    X = np.array([[3.0, -5.0, 1.0, 5.0], [0.0, 0.0, 0.0, 0.0]])
    assert ms.theory.hard_threshold(X, 2).tolist() == [[0.0, -5.0, 0.0, 5.0], [0.0] * 4]
    assert ms.theory.hard_threshold(X, 1)[0].tolist() == [0.0, -5.0, 0.0, 0.0]
    assert not ms.theory.hard_threshold(X, 0).any()
    np.testing.assert_array_equal(ms.theory.hard_threshold(X, 4), X)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000))
def test_the_form_of_the_proposition_keeps_every_sparse_solution_fixed(seed):
    rng = np.random.default_rng(seed)
    Phi = ms.dictionaries.decaying(8, 20, rng=rng)
    Gamma = rng.standard_normal((20, 8))
    X, Y = ms.signals.sample(Phi, 50, sparsity=(1, 4), rng=rng)
    layer = ms.theory.generalised_iht_layer(Phi, 4, Gamma=Gamma)
    np.testing.assert_allclose(layer(X, Y), X, atol=1e-10)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["one entry", "everywhere", "another dictionary"]))
def test_any_other_form_moves_some_sparse_solution(seed, kind):
    """The proof's own x*: one entry at 1, the others at a small ε."""
    rng = np.random.default_rng(seed)
    n, m, k = 8, 20, 3
    Phi = ms.dictionaries.gaussian(n, m, rng=rng)
    Gamma = rng.standard_normal((m, n))
    Psi = np.eye(m) - Gamma @ Phi
    if kind == "one entry":
        Psi[rng.integers(m), rng.integers(m)] += 0.1
    elif kind == "everywhere":
        Psi += 0.01 * rng.standard_normal((m, m))
    else:
        Psi = np.eye(m) - Gamma @ ms.dictionaries.gaussian(n, m, rng=rng)
    X = np.zeros((m, m))
    for i in range(m):
        others = rng.choice(np.delete(np.arange(m), i), k - 1, replace=False)
        X[i, others], X[i, i] = 1e-4, 1.0
    layer = ms.theory.generalised_iht_layer(Phi, k, Gamma=Gamma, Psi=Psi)
    moved = np.abs(layer(X, X @ Phi.T) - X).max(axis=1) > 1e-3
    assert moved.any()
    kept = ms.theory.generalised_iht_layer(Phi, k, Gamma=Gamma)(X, X @ Phi.T)
    np.testing.assert_allclose(kept, X, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.0, 0.06), st.integers(1, 2))
def test_error_halves_wherever_the_exact_constant_allows(seed, disturbance, k):
    """Nearly orthogonal dictionaries on both sides of the condition: where δ_3k < 1/√32, no trial breaks the bound."""
    rng = np.random.default_rng(seed)
    m = 12
    Phi = scipy.linalg.orth(rng.standard_normal((40, m))) + disturbance * rng.standard_normal((40, m)) / np.sqrt(m)
    if not ms.theory.rip_constant(Phi, 3 * k, method="exact").below():
        return
    X, Y = ms.signals.sample(Phi, 20, sparsity=k, amplitudes="unit", rng=rng)
    assert_halves(ms.theory.generalised_iht_layer(Phi, k).iterate(Y, 30), X)


def test_the_condition_is_met_by_enough_trials():
    rng = np.random.default_rng(0)
    met = 0
    for _ in range(20):
        Phi = scipy.linalg.orth(rng.standard_normal((40, 12))) + 0.03 * rng.standard_normal((40, 12)) / np.sqrt(12)
        met += ms.theory.rip_constant(Phi, 6, method="exact").below() is True
    assert met >= 15


@pytest.mark.parametrize(("n", "k"), [(128, 1), (512, 2)])
def test_error_halves_for_an_overcomplete_dictionary(n, k):
    Phi = two_bases(n)
    # a atoms of one basis and b of the other deviate by √(ab/n) at most
    assert np.sqrt((3 * k // 2) * (3 * k - 3 * k // 2) / n) < ms.theory.IHT_THRESHOLD
    X, Y = ms.signals.sample(Phi, 200, sparsity=k, rng=0)
    path = ms.theory.generalised_iht_layer(Phi, k).iterate(Y, 30)
    assert_halves(path, X)
    np.testing.assert_allclose(path[-1], X, atol=1e-8)


def test_w_and_d_restore_the_guarantee_that_a_rank_one_term_destroys():
    n, k = 512, 2
    rng = np.random.default_rng(0)
    A = np.vstack([two_bases(n), np.zeros((1, 2 * n))])
    u = np.eye(n + 1)[:, -1:]
    Phi = 1e-3 * A + u @ rng.uniform(0.5, 1.5, (1, 2 * n))
    Phi /= np.linalg.norm(Phi, axis=0)
    assert ms.theory.coherence(Phi) > 0.999
    W, D = ms.theory.null_low_rank(Phi, 1, low_rank=u)
    # Up to a rotation WΦD is [I, H/√n], with δ_6 = 3/√n.
    changed, bases = W @ Phi * D, two_bases(n)
    np.testing.assert_allclose(changed.T @ changed, bases.T @ bases, atol=1e-9)
    X, Y = ms.signals.sample(Phi, 50, sparsity=k, rng=1)
    path = ms.theory.generalised_iht_layer(Phi, k, precondition=(W, D)).iterate(Y, 30)
    assert_halves(path, X, D)
    assert ms.metrics.strict_accuracy(X, np.abs(path[-1])) == 1.0
    step = 1 / np.linalg.norm(Phi, 2) ** 2
    plain = ms.theory.generalised_iht_layer(Phi, k, Gamma=step * Phi.T).iterate(Y, 40)[-1]
    assert ms.metrics.strict_accuracy(X, np.abs(plain)) < 0.6


def test_preconditioned_layer_is_iht_on_the_changed_problem():
    Phi = ms.dictionaries.decaying(8, 20, rng=0)
    W, D = ms.theory.precondition(Phi)
    _, Y = ms.signals.sample(Phi, 10, sparsity=2, rng=1)
    one = ms.theory.generalised_iht_layer(Phi, 2, precondition=(W, D)).iterate(Y, 5)[-1]
    other = ms.theory.generalised_iht_layer(W @ Phi * D, 2).iterate(Y @ W.T, 5)[-1] * D
    np.testing.assert_allclose(one, other, atol=1e-9)


def test_bad_arguments():
    Phi = ms.dictionaries.gaussian(4, 9, rng=0)
    for arguments, message in [
        ({"Gamma": Phi}, r"Gamma must have shape \(9, 4\), got \(4, 9\); it fits transposed, pass Gamma.T"),
        ({"Psi": np.eye(4)}, r"Psi must have shape \(9, 9\), got \(4, 4\)"),
        ({"Gamma": Phi.T, "precondition": ms.theory.precondition(Phi)}, "give Gamma or precondition, not both"),
        ({"precondition": (np.eye(3), np.ones(9))}, r"must be \(·, 4\) and \(9,\), got \(3, 3\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            ms.theory.generalised_iht_layer(Phi, 2, **arguments)
    with pytest.raises(ValueError, match="sparsity must be from 0 to 9"):
        ms.theory.generalised_iht_layer(Phi, 10)
    with pytest.raises(ValueError, match="Y fits transposed"):
        ms.theory.generalised_iht_layer(Phi, 2)(np.zeros((3, 9)), np.zeros((4, 3)))


def test_rows_of_x_and_y_belong_together():
    layer = ms.theory.generalised_iht_layer(ms.dictionaries.gaussian(6, 10, rng=0), 2)
    with pytest.raises(ValueError, match=r"X must have shape \(3, 10\) for these Y, got \(1, 10\)"):
        layer(np.zeros((1, 10)), np.zeros((3, 6)))
