"""Restricted isometry constants against brute force over all subsets, written without any code of the package."""

import itertools
import math

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import maxsparse as ms
from maxsparse.theory._rip_bounds import upper_bounds
from maxsparse.theory.rip import _extremes


def brute_force(Phi, k):
    """δ_k by singular values of every submatrix; the package uses Cholesky factors of Gram blocks."""
    worst = 0.0
    for S in itertools.combinations(range(Phi.shape[1]), k):
        sigma = scipy.linalg.svdvals(Phi[:, S])
        smallest = sigma[-1] ** 2 if k <= Phi.shape[0] else 0.0
        worst = max(worst, sigma[0] ** 2 - 1.0, 1.0 - smallest)
    return worst


@st.composite
def problems(draw):
    """Small dictionaries of every kind: random, coherent, scaled, with repeated and with orthogonal atoms."""
    n, m = draw(st.integers(1, 7)), draw(st.integers(1, 9))
    k = draw(st.integers(1, min(m, 5)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    Phi = rng.standard_normal((n, m))
    kind = draw(st.sampled_from(["random", "unit", "rank one", "repeated", "orthogonal", "whole numbers"]))
    if kind == "unit":
        Phi /= np.linalg.norm(Phi, axis=0)
    elif kind == "rank one":
        Phi = 0.01 * Phi + np.outer(rng.standard_normal(n), rng.standard_normal(m))
    elif kind == "repeated" and m > 1:
        Phi[:, -1] = 2.0 * Phi[:, 0]
    elif kind == "orthogonal":
        Phi = np.eye(n)[:, rng.integers(0, n, m)]
    elif kind == "whole numbers":
        Phi = rng.integers(-2, 3, (n, m)) + np.eye(n, m) * 3.0
        Phi[0, ~Phi.any(axis=0)] = 1.0
    return Phi * draw(st.sampled_from([0.1, 1.0, 3.0])), k


@pytest.mark.filterwarnings("ignore::maxsparse._core.validation.DuplicateAtomsWarning")
@settings(max_examples=400, deadline=None)
@given(problem=problems(), seed=st.integers(0, 10))
def test_lower_exact_upper(problem, seed):
    Phi, k = problem
    truth = brute_force(Phi, k)
    close = 1e-9 * (1.0 + truth)
    exact = ms.theory.rip_constant(Phi, k, method="exact", trials=10)
    assert exact.exact
    assert float(exact) == pytest.approx(truth, abs=close)
    assert brute_force(Phi[:, exact.support], k) == pytest.approx(truth, abs=close)
    bounds = ms.theory.rip_constant(Phi, k, method="bounds", trials=10, rng=seed)
    assert not bounds.exact
    assert bounds.lower <= truth + close
    assert bounds.upper >= truth - close
    assert brute_force(Phi[:, bounds.support], k) == pytest.approx(bounds.lower, abs=close)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_every_single_upper_bound_holds(seed):
    """The best of several bounds may hide a wrong one, so each argument is forced to stand alone."""
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((6, 9))
    Phi /= np.linalg.norm(Phi, axis=0) * rng.uniform(0.7, 1.3, 9)
    G, k = Phi.T @ Phi, 4
    values = [np.linalg.eigvalsh(G[np.ix_(S, S)]) for S in itertools.combinations(range(9), k)]
    largest, smallest = max(v[-1] for v in values), min(v[0] for v in values)
    for limit in (1, 10**6):  # without and with the bound from an exact constant of lower order
        top, bottom, _ = upper_bounds(G, k, limit, np.random.default_rng(0), _extremes)
        assert top >= largest - 1e-9
        assert bottom <= smallest + 1e-9
    off = G - np.diag(np.diag(G))
    high, low = _extremes(off, 3, np.random.default_rng(0))
    assert np.diag(G).max() + 1.5 * high >= largest - 1e-9
    assert np.diag(G).min() + 1.5 * low <= smallest + 1e-9


def test_larger_sizes_against_brute_force():
    Phi = ms.dictionaries.decaying(12, 16, rng=0)
    for k in (6, 8):
        assert float(ms.theory.rip_constant(Phi, k)) == pytest.approx(brute_force(Phi, k), rel=1e-9)


def test_known_constants():
    # Two orthonormal bases with coherence μ: a atoms of one and b of the other deviate by μ√(ab) at most, and by
    # exactly that for Hadamard matrices and sizes that are powers of two.
    n = 16
    both = np.hstack([np.eye(n), scipy.linalg.hadamard(n) / np.sqrt(n)])
    assert float(ms.theory.rip_constant(both, 2)) == pytest.approx(1 / 4)
    assert float(ms.theory.rip_constant(both, 3)) == pytest.approx(np.sqrt(2) / 4)
    assert float(ms.theory.rip_constant(both, 4)) == pytest.approx(2 / 4)
    assert float(ms.theory.rip_constant(np.eye(5), 3)) == pytest.approx(0.0, abs=1e-12)
    # Atoms of unit norm with all cosines equal to c: eigenvalues 1 + (k − 1)c and 1 − c.
    G = np.full((6, 6), 0.3) + 0.7 * np.eye(6)
    assert float(ms.theory.rip_constant(np.linalg.cholesky(G).T, 4)) == pytest.approx(0.9)


def test_constants_of_unit_atoms_grow_with_k_and_start_at_the_coherence():
    Phi = ms.dictionaries.gaussian(8, 14, rng=3)
    delta = [float(ms.theory.rip_constant(Phi, k)) for k in range(1, 8)]
    assert delta[0] == pytest.approx(0.0, abs=1e-12)
    assert delta[1] == pytest.approx(ms.theory.coherence(Phi))
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(delta))


def test_exact_does_not_depend_on_the_search():
    Phi = ms.dictionaries.gaussian(10, 20, rng=0)
    values = {float(ms.theory.rip_constant(Phi, 4, trials=1, rng=seed)) for seed in range(5)}
    assert max(values) - min(values) < 1e-9


def test_the_enumeration_itself_finds_the_extremes():
    """Started from extremes that are far off, it ends at the right ones: the search is not what makes it exact."""
    from maxsparse.theory._enumeration import extreme_eigenvalues

    for seed in range(20):
        Phi = ms.dictionaries.gaussian(7, 11, rng=seed)
        G = Phi.T @ Phi
        blocks = [np.linalg.eigvalsh(G[np.ix_(S, S)]) for S in itertools.combinations(range(11), 4)]
        prefixes = np.column_stack(np.triu_indices(11, 1))
        highs, lows, high_supports, _ = extreme_eigenvalues(G, 4, prefixes, 1e-3, 10.0, 1e-10)
        assert highs.max() == pytest.approx(max(v[-1] for v in blocks))
        assert lows.min() == pytest.approx(min(v[0] for v in blocks))
        S = high_supports[highs.argmax()]
        S = S[S >= 0]
        assert np.linalg.eigvalsh(G[np.ix_(S, S)])[-1] == pytest.approx(highs.max())


def test_bounds_are_close_where_it_matters():
    """On the paper's dictionary the interval is narrow enough to say that IHT has no guarantee, raw or whitened."""
    Phi = ms.dictionaries.decaying(20, 100, rng=0)
    W, D = ms.theory.precondition(Phi)
    for dictionary in (Phi, W @ Phi * D):
        bounds = ms.theory.rip_constant(dictionary, 6, rng=0)
        assert not bounds.exact
        assert bounds.below() is False
        assert bounds.upper < 1.25 * bounds.lower


def test_guarantee_can_be_certified_for_overcomplete_dictionaries():
    n = 256
    both = np.hstack([np.eye(n), scipy.linalg.hadamard(n) / np.sqrt(n)])
    constant = ms.theory.rip_constant(both, 3, limit=1, rng=0)
    assert constant.below() is True
    assert constant.lower == pytest.approx(np.sqrt(2) / 16)
    assert constant.below(0.1) is None


def test_scaled():
    Phi = ms.dictionaries.gaussian(8, 12, rng=0)
    constant = ms.theory.rip_constant(Phi, 3)
    (low, high), a, b = constant.scaled, constant.smallest[0], constant.largest[0]
    assert low == high == pytest.approx((b - a) / (b + a))
    best = ms.theory.rip_constant(Phi * np.sqrt(2 / (a + b)), 3)
    assert float(best) == pytest.approx(low)
    assert float(constant.times(2 / (a + b))) == pytest.approx(float(best))


def test_the_result_says_what_it_is():
    Phi = ms.dictionaries.gaussian(8, 40, rng=0)
    exact, bounds = ms.theory.rip_constant(Phi, 2), ms.theory.rip_constant(Phi, 9, rng=0)
    assert repr(exact).startswith("RipConstant(δ_2 = ")
    assert bounds.subsets == math.comb(40, 9)
    assert "≤ δ_9 ≤" in repr(bounds)
    with pytest.raises(ValueError, match="only bounds are known"):
        float(bounds)


def test_inputs_of_all_kinds():
    Phi = ms.dictionaries.gaussian(6, 20, rng=0)
    expected = float(ms.theory.rip_constant(Phi[:, ::2], 3))
    readonly = Phi.copy()
    readonly.flags.writeable = False
    assert float(ms.theory.rip_constant(readonly[:, ::2], 3)) == expected
    assert float(ms.theory.rip_constant(Phi[:, ::2].astype(np.float32), 3)) == pytest.approx(expected, rel=1e-5)
    clusters = ms.dictionaries.clustered(6, 12, clusters=3, epsilon=0.1, rng=0)
    assert float(ms.theory.rip_constant(clusters, 2)) == pytest.approx(ms.theory.coherence(clusters.matrix))
    assert float(ms.theory.rip_constant(np.array([[2.0]]), 1)) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must be from 1 to 40, got 0"),
        ({"k": 41}, "k must be from 1 to 40, got 41"),
        ({"k": 3, "method": "guess"}, "method must be one of 'auto', 'exact', 'bounds', got 'guess'"),
        ({"k": 3, "limit": 0}, "limit must be at least 1"),
        ({"k": 20, "method": "exact"}, r"needs 137,846,528,820 subsets, more than limit=20,000,000; raise limit"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        ms.theory.rip_constant(ms.dictionaries.gaussian(8, 40, rng=0), **arguments)
