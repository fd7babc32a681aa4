"""What must hold for every problem and every method, on random small problems.

`make test` draws a few problems, always the same; `make test-long` draws many more, different ones every time.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maxsparse as ms
from maxsparse.solvers import METHODS

NEEDS_SPARSITY = {"omp", "iht", "subspace_pursuit", "aiht"}
# ℓ1 with one optimum, and methods that walk without ties: rounding cannot lead them elsewhere, but for a null set.
RTOL = 1e-5


@st.composite
def problems(draw, clustered=False, widest=14):
    """Draw (Φ, X, Y, d): a dictionary of some kind with d-sparse signals that are in general position."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    n = draw(st.integers(2, 8))
    m = draw(st.integers(3, widest))
    if clustered:
        n, m = n + 4, m + 4
        dictionary = ms.dictionaries.clustered(n, m, clusters=draw(st.integers(2, m // 2)), epsilon=0.3, rng=rng)
    else:
        kind = draw(st.sampled_from(["gaussian", "decaying", "scaled", "low_rank_plus"]))
        if kind == "low_rank_plus":
            dictionary = ms.dictionaries.low_rank_plus(n, m, rank=1, epsilon=0.5, rng=rng)
        elif kind == "scaled":
            dictionary = ms.dictionaries.gaussian(n, m, rng=rng) * 10.0 ** rng.uniform(-2, 2, m)
        else:
            dictionary = getattr(ms.dictionaries, kind)(n, m, rng=rng)
    d = draw(st.integers(0, max(1, min(n, m) // 2)))
    X, Y = ms.signals.sample(dictionary, draw(st.integers(1, 5)), sparsity=d, rng=rng)
    return dictionary, X, Y, d


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
    signs = np.ones(m) if method == "aiht" else rng.choice([-1.0, 1.0], m)
    before = solve(method, Phi, Y, d, precondition=precondition)
    after = solve(method, rearranged(Phi, order, signs), Y, d, precondition=precondition)
    assert close(after.coef, before.coef[:, order] * signs, Y)


@pytest.mark.parametrize("precondition", [False, True])
@given(data=st.data())
def test_scaling_a_signal_scales_the_answer(method, precondition, data):
    Phi, _, Y, d = draw_for(data, method)
    scale = data.draw(st.sampled_from([1e-12, 1e-3, 3.0, 1e12])) * data.draw(st.sampled_from([-1, 1]))
    before = solve(method, Phi, Y, d, precondition=precondition)
    after = solve(method, Phi, Y * scale, d, precondition=precondition)
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
