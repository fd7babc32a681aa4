"""Dictionaries of thousands of atoms: searches are confined to promising atoms, certificates are not."""

import tracemalloc

import numpy as np
import pytest

import maxsparse as ms
from maxsparse._core import blocks
from maxsparse._core.prepared import Prepared, WideWhitened
from maxsparse.recovery import noise_level, noisy_search, pipeline
from maxsparse.recovery import search as search_module
from maxsparse.recovery.certificate import certify_rows
from maxsparse.recovery.decode import decode_exact
from maxsparse.recovery.search import check_budget, search, search_promising
from maxsparse.recovery.wide_separation import wide_separation


@pytest.fixture
def wide(monkeypatch):
    """Take every dictionary of more than 100 atoms for a wide one."""
    for module in (pipeline, noise_level, noisy_search):
        monkeypatch.setattr(module, "WIDE", 100)


def test_answers_of_wide_dictionaries_are_those_of_others(wide, monkeypatch):
    Phi = ms.dictionaries.gaussian(30, 300, rng=0)
    X, Y = ms.signals.sample(Phi, 30, sparsity=(1, 6), rng=1)
    noisy = Y[:6] + 0.003 * np.random.default_rng(2).standard_normal((6, 30))
    model = ms.SparseRecoverer(Phi)
    found = model.recover(Y), model.recover(noisy)
    np.testing.assert_array_equal(model.recover(Y[4:7]).coef, found[0].coef[4:7])
    for module in (pipeline, noise_level, noisy_search):
        monkeypatch.setattr(module, "WIDE", 10**9)
    expected = model.recover(Y), model.recover(noisy)
    both = found[0].certified & expected[0].certified
    assert both.mean() > 0.9
    assert not (found[0].certified & (found[0].support != (X != 0)).any(axis=1)).any()
    np.testing.assert_array_equal(found[0].coef[both], expected[0].coef[both])
    sure = expected[1].confidence > 0.9
    np.testing.assert_array_equal(found[1].support[sure], expected[1].support[sure])


def test_search_on_promising_atoms_finds_what_scores_show(monkeypatch):
    monkeypatch.setattr(search_module, "PROMISING", 40)  # that is 4n: 80 of 200
    Phi = ms.dictionaries.gaussian(20, 200, rng=0)
    X, Y = ms.signals.sample(Phi, 8, sparsity=6, rng=1)
    problem = Prepared.of(Phi).problem()
    scores = np.where(X != 0, 3.0, 0.0) + np.random.default_rng(0).standard_normal(X.shape)
    options = {"budget": check_budget(2000), "seed": 0}
    found, hit, sets = search_promising(problem, Y, scores, **options)
    assert hit.mean() >= search(problem, Y, scores, **options)[1].mean() - 0.2
    assert hit.any()
    np.testing.assert_allclose(found[hit], X[hit], atol=1e-8)
    assert (sets[~hit] == 2000).all()
    alone = search_promising(problem, Y[2:3], scores[2:3], **options)
    np.testing.assert_array_equal(alone[0][0], found[2])


@pytest.fixture
def by_parts(wide, monkeypatch):
    """Take every dictionary of more than 100 atoms for one that is not copied either."""
    monkeypatch.setattr(blocks, "WIDE", 100)


def test_parts_of_a_wide_dictionary_are_those_of_the_whole(by_parts, monkeypatch):
    Phi = ms.dictionaries.decaying(20, 150, rng=0)
    X, Y = ms.signals.sample(Phi, 12, sparsity=4, rng=1)
    prepared = Prepared.of(Phi)
    problem = prepared.problem()
    found = certify_rows(problem, Y, X.copy(), prepared.spark), decode_exact(problem, Y, np.abs(X))
    unit = prepared.unit.some(np.arange(150)), prepared.unit.correlate(Y)
    monkeypatch.setattr(blocks, "WIDE", 10**9)
    whole = Prepared.of(Phi)
    expected = certify_rows(whole.problem(), Y, X.copy(), whole.spark), decode_exact(whole.problem(), Y, np.abs(X))
    assert isinstance(problem, WideWhitened)
    assert prepared.spark == whole.spark
    np.testing.assert_array_equal(found[0].certified, expected[0].certified)
    np.testing.assert_array_equal(found[1][1], expected[1][1])
    np.testing.assert_allclose(found[1][0], expected[1][0], atol=1e-8)
    np.testing.assert_allclose(unit[0], Phi / np.linalg.norm(Phi, axis=0))
    np.testing.assert_allclose(unit[1], Y @ unit[0], atol=1e-12)


def test_distance_to_the_next_support_against_all_exchanges(by_parts):
    Phi = ms.dictionaries.decaying(12, 130, rng=3)
    prepared = Prepared.of(Phi)
    problem = prepared.problem()
    whitened = problem.W @ Phi * problem.D
    S = np.array([3, 40, 77, 101])
    x = np.array([0.3, -0.2, 0.5, 0.1])
    z = whitened[:, S] @ (x / problem.D[S])
    smallest, sizes = np.inf, []
    for i in range(4):
        rest = np.delete(S, i)
        sizes.append(np.linalg.lstsq(whitened[:, rest], z, rcond=None)[1][0] ** 0.5)
        for j in np.delete(np.arange(130), S):
            other = np.linalg.lstsq(whitened[:, [*rest, j]], z, rcond=None)[1][0] ** 0.5
            smallest = min(smallest, other)
    gap, found = wide_separation(problem, problem.of(S), S, x)
    assert gap == pytest.approx(smallest, rel=1e-8)
    np.testing.assert_allclose(found, sizes, rtol=1e-8)


def test_message_passing_without_right_singular_vectors(by_parts, monkeypatch):
    Phi = ms.dictionaries.gaussian(61, 303, rng=0)  # no multiples of what goes together
    Y = ms.signals.sample(Phi, 11, sparsity=(4, 12), noise=0.01, rng=1)[1]
    found = ms.solvers.vamp(Phi, Y)
    for rows in (slice(0, 1), slice(3, 9)):
        np.testing.assert_array_equal(ms.solvers.vamp(Phi, Y[rows]).scores, found.scores[rows])
    monkeypatch.setattr(blocks, "WIDE", 10**9)
    np.testing.assert_allclose(found.coef, ms.solvers.vamp(Phi, Y).coef, atol=1e-3)


def test_a_wide_dictionary_that_changes_in_place_is_noticed(by_parts):
    Phi = ms.dictionaries.gaussian(20, 150, rng=0)
    prepared = Prepared.of(Phi)
    assert prepared.matches(Phi, None)
    Phi[7, 31] *= 1 + 1e-15
    assert not prepared.matches(Phi, None)


def test_memory_of_a_wide_dictionary_stays_below_another_copy():
    """Python's own arrays, after a first call: kernels allocate a few rows of one signal only."""
    Phi = ms.dictionaries.gaussian(150, 20_000, rng=0)
    Y = ms.signals.sample(Phi, 4, sparsity=12, noise=0.01, rng=1)[1]
    model = ms.SparseRecoverer(Phi)
    model.recover(Y[:1])
    tracemalloc.start()
    model = ms.SparseRecoverer(Phi)
    model.recover(Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.95 * Phi.nbytes
