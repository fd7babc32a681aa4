"""What must hold for every problem and every method, on random small problems.

`make test` draws a few problems, always the same; `make test-long` draws many more, different ones every time.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_problems import problems

import maxsparse as ms
from maxsparse.solvers import METHODS

NEEDS_SPARSITY = {"omp", "iht", "subspace_pursuit", "aiht"}
# ℓ1 with one optimum, and methods that walk without ties: rounding cannot lead them elsewhere, but for a null set.
RTOL = 1e-5
# AIHT keeps some atoms and drops others at every one of hundreds of steps, and a rounding that decides one of them
# leads elsewhere, for a few signals in a thousand. Its first steps commute with what is done to the problem.
SHORT_WALK = {"aiht": {"max_iter": 5}}


@pytest.fixture(params=sorted(METHODS), scope="module")
def method(request):
    return request.param


def draw_for(data, method):
    return data.draw(problems(clustered=method == "aiht"))


def solve(method, Phi, Y, d, **options):
    if method in NEEDS_SPARSITY:
        options["sparsity"] = d
    return METHODS[method](Phi, Y, **options)


def rearranged(dictionary, order, signs):
    """Return Φ with its atoms in another order and with other signs; whole clusters are flipped at once."""
    if not hasattr(dictionary, "centers"):
        return dictionary[:, order] * signs
    return replace(
        dictionary,
        matrix=dictionary.matrix[:, order],
        details=dictionary.details[:, order],
        labels=dictionary.labels[order],
        scales=dictionary.scales[order],
        norms=dictionary.norms[order],
    )


def close(found, expected, Y):
    """Equal to rounding, as large as it grows on its way through a method."""
    size = np.abs(expected).max(axis=1, keepdims=True, initial=0.0)
    return (np.abs(found - expected) <= RTOL * size + 1e-300).all()


@pytest.mark.parametrize("precondition", [False, True])
@given(data=st.data())
def test_rearranging_atoms_rearranges_the_answer(method, precondition, data):
    Phi, _, Y, d = draw_for(data, method)
    m = Phi.shape[1]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    order = rng.permutation(m)
    signs = np.ones(m) if method in ("aiht", "nnls") else rng.choice([-1.0, 1.0], m)
    before = solve(method, Phi, Y, d, precondition=precondition, **SHORT_WALK.get(method, {}))
    after = solve(method, rearranged(Phi, order, signs), Y, d, precondition=precondition, **SHORT_WALK.get(method, {}))
    assert close(after.coef, before.coef[:, order] * signs, Y)


@pytest.mark.parametrize("precondition", [False, True])
@given(data=st.data())
def test_scaling_a_signal_scales_the_answer(method, precondition, data):
    Phi, _, Y, d = draw_for(data, method)
    scale = data.draw(st.sampled_from([1e-12, 1e-3, 3.0, 1e12])) * (
        1 if method == "nnls" else data.draw(st.sampled_from([-1, 1]))
    )
    before = solve(method, Phi, Y, d, precondition=precondition, **SHORT_WALK.get(method, {}))
    after = solve(method, Phi, Y * scale, d, precondition=precondition, **SHORT_WALK.get(method, {}))
    assert close(after.coef / scale, before.coef, Y)


@pytest.mark.parametrize("precondition", [False, True])
@given(data=st.data())
def test_scaling_by_a_power_of_two_changes_no_bit(method, precondition, data):
    Phi, _, Y, d = draw_for(data, method)
    scale = 2.0 ** data.draw(st.integers(-60, 60))
    before = solve(method, Phi, Y, d, precondition=precondition)
    after = solve(method, Phi, Y * scale, d, precondition=precondition)
    np.testing.assert_array_equal(after.coef / scale, before.coef)


@given(data=st.data())
def test_one_by_one_gives_the_same_bits(method, data):
    Phi, _, Y, d = draw_for(data, method)
    precondition = data.draw(st.booleans())
    noise = 0.0 if method == "reweighted_l1" else data.draw(st.sampled_from([0.0, 0.01]))
    options = {"precondition": precondition, "noise": noise}
    whole = solve(method, Phi, Y, d, **options)
    for row in range(len(Y)):
        alone = solve(method, Phi, Y[row : row + 1], d, **options)
        for name in ("coef", "residual", "iterations", "converged"):
            np.testing.assert_array_equal(getattr(alone, name)[0], getattr(whole, name)[row])


@pytest.mark.two_threads
@given(data=st.data())
def test_threads_change_no_bit(method, data):
    Phi, _, Y, d = draw_for(data, method)
    Y = np.tile(Y, (20, 1))
    one, two = (solve(method, Phi, Y, d, n_threads=count) for count in (1, 2))
    np.testing.assert_array_equal(one.coef, two.coef)


@given(data=st.data())
def test_results_are_consistent(method, data):
    Phi, _, Y, d = draw_for(data, method)
    result = solve(method, Phi, Y, d, precondition=data.draw(st.booleans()))
    matrix = np.asarray(Phi)
    assert np.isfinite(result.coef).all()
    size = np.linalg.norm(Y, axis=1) + np.abs(result.coef) @ np.linalg.norm(matrix, axis=0)
    assert (np.abs(result.residual - np.linalg.norm(Y - result.coef @ matrix.T, axis=1)) <= 1e-13 * size).all()
    assert not result.certified.any()
    if method in NEEDS_SPARSITY:
        assert (result.support.sum(axis=1) <= d).all()


@given(data=st.data())
def test_float32_finds_what_float64_finds(method, data):
    """On well-conditioned dictionaries: an answer that is right in float64 is the same in float32, up to rounding."""
    clustered = method == "aiht"
    Phi, X, Y, d = data.draw(problems(clustered=clustered, kinds=("gaussian",)))
    # Whitening divides by what the atoms of a cluster differ in, so its rounding errors may lead AIHT elsewhere.
    options = {"precondition": data.draw(st.booleans()) and not clustered, **SHORT_WALK.get(method, {})}
    double, single = (solve(method, *as_dtype(Phi, Y, dtype), d, **options) for dtype in (np.float64, np.float32))
    assert single.coef.dtype == single.residual.dtype == np.float32
    size = np.abs(X).max(axis=1, keepdims=True, initial=0.0)
    right = (np.abs(double.coef - X) <= 1e-4 * size).all(axis=1)
    assert (np.abs(single.coef - double.coef) <= 1e-3 * size)[right].all()


def as_dtype(dictionary, Y, dtype):
    if not hasattr(dictionary, "centers"):
        return dictionary.astype(dtype), Y.astype(dtype)
    names = ("matrix", "centers", "details", "scales", "norms")
    return replace(dictionary, **{name: getattr(dictionary, name).astype(dtype) for name in names}), Y.astype(dtype)


def same_bits(one, other):
    for name in ("coef", "scores", "residual", "iterations", "converged", "certified", "argument"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.two_threads
@given(data=st.data())
def test_recoverer_threads_and_batches_change_no_bit(data):
    Phi, _, Y, _ = data.draw(problems(widest=20))
    model = ms.SparseRecoverer(Phi, budget=100, n_threads=2)
    whole = model.recover(Y)
    model.n_threads = 1
    same_bits(model.recover(Y), whole)
    for row in range(len(Y)):
        same_bits(model.recover(Y[row : row + 1]), whole[row : row + 1])


@given(data=st.data())
def test_recoverer_scaling_by_a_power_of_two_keeps_answers_and_certificates(data):
    """But for the last bit: the network may list the same atoms in another order, in which they are fitted then."""
    Phi, _, Y, _ = data.draw(problems(widest=20))
    scale = 2.0 ** data.draw(st.integers(-60, 60))
    before, after = (ms.SparseRecoverer(Phi, budget=100).recover(signals) for signals in (Y, Y * scale))
    np.testing.assert_array_equal(before.certified, after.certified)
    np.testing.assert_array_equal(before.support[before.certified], after.support[before.certified])
    np.testing.assert_allclose(before.coef[before.certified], after.coef[before.certified] / scale, rtol=1e-8)


@given(data=st.data())
def test_recoverer_rearranging_atoms_rearranges_certified_answers(data):
    """The search draws other sets then, so one of them may find what the other did not; never another answer."""
    Phi, _, Y, _ = data.draw(problems(widest=20))
    m = Phi.shape[1]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    order, signs = rng.permutation(m), rng.choice([-1.0, 1.0], m)
    before = ms.SparseRecoverer(Phi, budget=100).recover(Y)
    after = ms.SparseRecoverer(Phi[:, order] * signs, budget=100).recover(Y)
    both = before.certified & after.certified
    np.testing.assert_array_equal(after.support[both], before.support[both][:, order])
    assert close(after.coef[both], (before.coef[:, order] * signs)[both], Y)


@given(data=st.data())
def test_recoverer_float32_certifies_no_other_answer(data):
    Phi, _, Y, _ = data.draw(problems(widest=20))
    double = ms.SparseRecoverer(Phi, budget=100).recover(Y)
    single = ms.SparseRecoverer(Phi.astype(np.float32), budget=100).recover(Y.astype(np.float32))
    both = double.certified & single.certified
    np.testing.assert_array_equal(single.support[both], double.support[both])
