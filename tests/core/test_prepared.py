"""Φ prepared once: what is computed from it, and when a recoverer prepares it again."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import maxsparse as ms
from maxsparse._core import modelfile, prepared
from maxsparse._core.prepared import LEVELS, Form, Prepared, level_of, noise_levels


@pytest.fixture
def Phi():
    return ms.dictionaries.decaying(8, 24, rng=0)


@pytest.fixture
def whitenings(monkeypatch):
    """Count how often anything is whitened."""
    calls, real = [], prepared.whiten
    monkeypatch.setattr(prepared, "whiten", lambda *given: calls.append(given) or real(*given))
    return calls


def test_forms_are_what_they_say(Phi):
    form = Prepared(Phi).form()
    np.testing.assert_allclose(form.W @ Phi @ (form.W @ Phi).T, np.eye(8), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(form.Q, axis=0), 1.0)
    np.testing.assert_allclose(form.Q, form.W @ Phi * form.D)
    np.testing.assert_array_equal(form.columns, form.Q.T)
    np.testing.assert_allclose(form.gram, form.Q.T @ form.Q)
    noisy = Prepared(Phi).form(-3)
    expected = Phi @ Phi.T + 2.0**-6 * np.sum(Phi**2) / 8 * np.eye(8)
    np.testing.assert_allclose(noisy.W.T @ noisy.W, np.linalg.inv(expected), rtol=1e-8)
    np.testing.assert_allclose(noisy.variance, np.diag(noisy.W @ noisy.W.T))
    # The mean power of noise is what it is after W
    assert noisy.noise(0.5) == pytest.approx(0.5 * np.sqrt(np.trace(noisy.W @ noisy.W.T) / 8))
    assert Form(None, None, Phi).noise(0.5) == 0.5


def test_single_precision_holds_every_pair_of_rows(Phi):
    form = Prepared(Phi).form()
    rows, columns = np.tril_indices(8)
    for atom in (0, 23):
        expected = np.outer(form.Q[:, atom], form.Q[:, atom])[rows, columns]
        np.testing.assert_allclose(form.single.outer[atom], expected, rtol=1e-6)
    tiny = Prepared(Phi * 1e-40).form().single
    assert np.isfinite(tiny.variance).all()
    assert (tiny.variance > 0).all()


def test_noise_levels_are_those_of_the_signal_without_noise():
    Y = np.array([[1.0, -1.0], [4.0, 4.0], [1e-9, 0.0], [1e30, 0.0]])
    levels = {row: level for level, rows in noise_levels(Y, 0.5) for row in rows}
    assert levels[0] == round(np.log2(0.5 / np.sqrt(1 - 0.25)))
    assert levels[1] == round(np.log2(0.5 / np.sqrt(16 - 0.25)))
    assert (levels[2], levels[3]) == (LEVELS[-1], LEVELS[0])
    assert [level for level, _ in noise_levels(Y, 0.0)] == [None]
    assert level_of(0.3) == -2


def test_the_second_call_prepares_nothing(Phi, whitenings, monkeypatch):
    reads, real = [], modelfile.read
    monkeypatch.setattr(modelfile, "read", lambda *given: reads.append(given) or real(*given))
    model = ms.SparseRecoverer(Phi)
    _, Y = ms.signals.sample(Phi, 5, sparsity=4, rng=1)
    first = model.recover(Y, easy_first=False)
    before = len(whitenings), len(reads)
    assert before[0] == 1
    second = model.recover(Y, easy_first=False)
    model.recover(Y).scores  # noqa: B018
    ms.SparseRecoverer(Phi).network_arrays()
    assert (len(whitenings), len(reads)) == before
    np.testing.assert_array_equal(first.coef, second.coef)
    noisy = model.set_params(noise=0.01)  # the same Φ: only the level of noise is new
    noisy.recover(Y[:1] + 0.01 * np.random.default_rng(0).standard_normal((1, Y.shape[1])))
    assert len(whitenings) == before[0] + 1


def test_a_dictionary_that_changed_is_prepared_anew(Phi):
    model = ms.SparseRecoverer(Phi)
    X, Y = ms.signals.sample(Phi, 5, sparsity=2, rng=1)
    assert model.recover(Y).certified.all()
    kept = Phi.copy()
    Phi[:, 0], Phi[:, 1] = kept[:, 1], kept[:, 0]  # in place
    swapped = model.recover(Y)
    order = np.r_[1, 0, 2:24]
    np.testing.assert_array_equal(swapped.support, (X != 0)[:, order])
    np.testing.assert_allclose(swapped.coef, X[:, order], atol=1e-9)
    model.set_params(Phi=kept)
    np.testing.assert_array_equal(model.recover(Y).support, X != 0)
    Phi[0, 0] = np.nan
    with pytest.raises(ValueError, match="Phi holds NaN"):
        ms.SparseRecoverer(Phi).recover(Y)
    model.set_params(Phi=Phi)
    with pytest.raises(ValueError, match="Phi holds NaN"):
        model.recover(Y)


def test_what_result_holds_does_not_follow_the_dictionary(Phi):
    model = ms.SparseRecoverer(Phi)
    _, Y = ms.signals.sample(Phi, 5, sparsity=1, rng=1)
    expected = ms.SparseRecoverer(Phi.copy()).recover(Y.copy()).scores
    result = model.recover(Y)
    Phi[:] = 1.0
    Y[:] = 1.0
    np.testing.assert_array_equal(result.scores, expected)


@pytest.mark.parametrize("kind", ["list", "int", "sparse", "float32", "fortran", "readonly"])
def test_every_kind_of_dictionary_is_kept(kind, whitenings):
    Phi = np.random.default_rng(0).integers(-9, 10, (6, 14))
    given = {
        "list": Phi.tolist(),
        "int": Phi,
        "sparse": sparse.csr_array(Phi.astype(float)),
        "float32": Phi.astype(np.float32),
        "fortran": np.asfortranarray(Phi, dtype=float),
        "readonly": np.require(Phi, float, ["O"]),
    }[kind]
    if kind == "readonly":
        given.setflags(write=False)
    model = ms.SparseRecoverer(given)
    Y = Phi[:, :3].T * 1.7
    for _ in range(2):
        result = model.recover(Y)
        np.testing.assert_array_equal(result.support, np.eye(3, 14, dtype=bool))
    assert len(whitenings) == 1
    assert result.coef.dtype == np.float64


def test_copies_clones_and_pickles_answer_alike(Phi):
    model = ms.SparseRecoverer(Phi, budget="fast")
    _, Y = ms.signals.sample(Phi, 20, sparsity=3, rng=1)
    expected = model.recover(Y)
    for other in (clone(model), copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        result = other.recover(Y)
        np.testing.assert_array_equal(result.coef, expected.coef)
        np.testing.assert_array_equal(result.scores, expected.scores)
    assert set(vars(model)) == set(model.get_params())  # nothing but its parameters


def test_a_loaded_preconditioner_is_not_used_for_another_dictionary(Phi, tmp_path):
    ms.SparseRecoverer(Phi).save(tmp_path / "model.safetensors")
    model = ms.load(tmp_path / "model.safetensors")
    other = ms.dictionaries.gaussian(8, 24, rng=5)
    X, Y = ms.signals.sample(other, 20, sparsity=2, rng=1)
    expected = ms.SparseRecoverer(other).recover(Y)
    result = model.set_params(Phi=other).recover(Y)
    np.testing.assert_array_equal(result.coef, expected.coef)
    assert result.certified.all()
    np.testing.assert_array_equal(result.support, X != 0)


def test_solvers_take_what_is_prepared(Phi, whitenings, monkeypatch):
    monkeypatch.setattr("maxsparse.solvers._contract._last", None)
    _, Y = ms.signals.sample(Phi, 10, sparsity=2, rng=1)
    ready = Prepared.of(Phi)
    for method in ("omp", "sbl", "l1"):
        for precondition in (False, True):
            expected = ms.solve(Phi, Y, method=method, precondition=precondition)
            result = ms.solve(ready, Y, method=method, precondition=precondition)
            np.testing.assert_array_equal(result.coef, expected.coef)
    assert len(whitenings) == 2  # of Φ, which solvers keep, and of what is prepared
