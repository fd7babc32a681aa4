"""Recovery where Φ is an operator: the answers of the matrix, and no certificate that all atoms do not bear out."""

import pickle

import numpy as np
import pytest
from scipy.fft import dct, idct
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import maxsparse as ms
from maxsparse.recovery import screened


@pytest.fixture(scope="module")
def problem():
    """A random half-band of a cosine transform: 40 measurements of 400 coefficients."""
    rows = np.sort(np.random.default_rng(0).choice(400, 40, replace=False))
    matrix = idct(np.eye(400), norm="ortho", axis=0)[rows]

    def back(r):
        y = np.zeros(400)
        y[rows] = r.reshape(-1)
        return dct(y, norm="ortho")

    forward = lambda x: idct(x.reshape(-1), norm="ortho")[rows]  # noqa: E731
    return LinearOperator((40, 400), matvec=forward, rmatvec=back, dtype=np.float64), matrix


def test_exact_answers_are_certified_over_all_atoms(problem):
    operator, matrix = problem
    X, Y = ms.signals.sample(matrix, 6, sparsity=5, rng=1)
    X, Y = np.vstack([X, 0 * X[:1]]), np.vstack([Y, 0 * Y[:1]])
    model = ms.SparseRecoverer(operator, noise=0, budget="fast")
    found = model.recover(Y)
    right = (found.support == (X != 0)).all(axis=1)
    assert right.mean() > 0.7
    assert found.certified[right].all()
    assert not found.certified[~right].any()
    assert set(found.argument[right]) == {"generic"}
    np.testing.assert_allclose(found.coef[right], X[right], atol=1e-8)
    np.testing.assert_array_equal(found.lower[right], (X[right] != 0).sum(axis=1))
    np.testing.assert_array_equal(model.recover(Y[2:3]).coef[0], found.coef[2])
    assert repr(model) == "SparseRecoverer(Phi=<40×400>, noise=0, budget='fast')"


def test_noisy_answers_come_with_probabilities_of_all_atoms(problem):
    operator, matrix = problem
    _, Y = ms.signals.sample(matrix, 4, sparsity=3, noise=1e-3, rng=3)
    found = ms.SparseRecoverer(operator, noise=1e-3, budget="fast").recover(Y)
    expected = ms.SparseRecoverer(matrix, noise=1e-3, budget="fast").recover(Y)
    sure = expected.confidence > 0.9
    assert sure.any()
    np.testing.assert_array_equal(found.support[sure], expected.support[sure])
    np.testing.assert_allclose(found.inclusion[sure], expected.inclusion[sure], atol=0.1)
    assert not found.certified.any()
    i = int(np.flatnonzero(sure)[0])
    np.testing.assert_array_equal(found.alternatives(i)[0][0], np.flatnonzero(found.support[i]))
    sets = [set(s.atoms) for s in pickle.loads(pickle.dumps(found)).credible_sets(i)]
    assert len(sets) == found.support[i].sum()
    assert all(any(atom in s for s in sets) for atom in np.flatnonzero(found.support[i]))


def test_a_rival_that_was_not_looked_up_takes_the_certificate_away(monkeypatch):
    """φ_m lies in the span of the support, so another support is as sparse; the screen is made blind to it."""
    rng = np.random.default_rng(5)
    matrix = ms.dictionaries.gaussian(20, 60, rng=0)
    rival = matrix[:, :3] @ np.array([1.0, -0.7, 0.4])
    with_rival = np.column_stack([matrix, rival / np.linalg.norm(rival)])
    x = np.zeros(61)
    x[:3] = rng.standard_normal(3)
    honest = screened._merit

    def blind(Phi, y):
        merit = honest(Phi, y)
        merit[-1] = -2.0
        return merit

    monkeypatch.setattr(screened, "LEAST", 30)
    monkeypatch.setattr(screened, "_merit", blind)
    found = ms.SparseRecoverer(aslinearoperator(with_rival), noise=0).recover((with_rival @ x)[None])
    assert found.support[0].sum() == 3
    assert not found.support[0, -1]
    assert not found.certified[0]
    assert found.lower[0] == 1
    without = ms.SparseRecoverer(aslinearoperator(matrix), noise=0).recover((with_rival @ x)[None])
    assert without.certified[0]


def test_what_needs_a_matrix_is_refused(problem, tmp_path):
    operator, _ = problem
    Y = np.ones((2, 40))
    for options in ({"positive": True}, {"groups": np.arange(400) // 2}, {"network": "residual"}):
        with pytest.raises(ValueError, match="matrix"):
            ms.SparseRecoverer(operator, **options).recover(Y)
    model = ms.SparseRecoverer(operator)
    for call in (lambda: model.fit(Y), lambda: model.recover(Y, prove=1.0), lambda: model.recover(Y[:, None])):
        with pytest.raises(ValueError, match="matrix"):
            call()
    with pytest.raises(ValueError, match="operator is code"):
        model.save(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="fits transposed"):
        model.recover(np.ones((40, 3)))
    assert model.recover(Y[:0]).coef.shape == (0, 400)
