"""Dictionaries of thousands of atoms: searches are confined to promising atoms, certificates are not."""

import numpy as np
import pytest

import maxsparse as ms
from maxsparse._core.prepared import Prepared
from maxsparse.recovery import noise_level, noisy_search, pipeline
from maxsparse.recovery import search as search_module
from maxsparse.recovery.search import check_budget, search, search_promising


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
