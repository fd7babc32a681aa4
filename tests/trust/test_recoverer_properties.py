"""What must hold for every answer of SparseRecoverer with noise, signs, complex numbers, snapshots and groups.

`make test` draws a few problems, always the same; `make test-long` draws many more, different ones every time.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maxsparse as ms

KINDS = ("noise", "positive", "complex", "joint", "groups", "groups of complex snapshots")
SURE = 0.99  # confidence of answers that must not depend on how a problem is written down
CLOSE = 0.02  # difference of confidences that two searches for the same answer may have
FIELDS = ("coef", "mean", "scores", "residual", "confidence", "inclusion", "noise", "certified", "lower", "upper")


class Problem(NamedTuple):
    """Φ (n, m), signals (N, n) or (N, L, n), their noise level, and what SparseRecoverer is told."""

    Phi: Any
    Y: Any
    sigma: float
    options: dict[str, Any]

    def recover(self, **changes):
        return ms.SparseRecoverer(self.Phi, noise=self.sigma, budget=200, **self.options, **changes).recover(self.Y)


@st.composite
def problems(draw, kind, noisy=None):
    """Draw a problem with few nonzeros, so that most answers are clear."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m = draw(st.integers(8, 14)), draw(st.integers(10, 24))
    N, L = draw(st.integers(1, 3)), draw(st.integers(2, 5)) if kind in ("joint", KINDS[-1]) else 1
    complex_too, grouped = "complex" in kind, "groups" in kind
    Phi = _normal(rng, (n, m), complex_too)
    Phi /= np.linalg.norm(Phi, axis=0)
    labels = np.sort(rng.integers(0, m // 2, m)) if grouped else np.arange(m)
    names = np.unique(labels)
    X = np.zeros((N, L, m), dtype=Phi.dtype)
    for x in X:
        used = np.isin(labels, rng.choice(names, draw(st.integers(0, 2)), replace=False))
        x[:, used] = _normal(rng, (L, used.sum()), complex_too)
        x[:, used] += np.sign(x[:, used].real)  # not near zero
    X = np.abs(X) if kind == "positive" else X
    sigma = 0.01 if (draw(st.booleans()) if noisy is None else noisy) else 0.0
    Y = X @ Phi.T + sigma * _normal(rng, (N, L, n), complex_too)
    options = {"positive": True} if kind == "positive" else {}
    options |= {"groups": labels} if grouped else {}
    return Problem(Phi, Y if L > 1 else Y[:, 0], sigma, options)


def _normal(rng, shape, complex_too):
    real = rng.standard_normal(shape)
    return (real + 1j * rng.standard_normal(shape)) / np.sqrt(2) if complex_too else real


@pytest.fixture(params=KINDS, scope="module")
def kind(request):
    return request.param


def same_bits(one, other):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def sure(*results):
    return np.logical_and.reduce([(result.confidence > SURE) for result in results])


def similar(before, after, coef):
    """Check that both give the same answer where one of them is sure; `coef` is what `after` says of the first."""
    clear = sure(before)
    np.testing.assert_allclose(after.confidence[clear], before.confidence[clear], atol=CLOSE)
    used = coef != 0 if coef.ndim == 2 else (coef != 0).any(axis=1)
    np.testing.assert_array_equal(used[clear], before.support[clear])
    size = np.abs(before.coef[clear]).max(initial=1e-300)
    np.testing.assert_allclose(coef[clear], before.coef[clear], atol=1e-5 * size)


@pytest.mark.two_threads
@given(data=st.data())
def test_threads_and_batches_change_no_bit(kind, data):
    problem = data.draw(problems(kind))
    whole = problem.recover(n_threads=2)
    same_bits(problem.recover(n_threads=1), whole)
    for row in range(len(problem.Y)):
        same_bits(problem._replace(Y=problem.Y[row : row + 1]).recover(), whole[row : row + 1])


@given(data=st.data())
def test_scale_sign_and_phase_of_signals(kind, data):
    problem = data.draw(problems(kind))
    scale: Any = data.draw(st.sampled_from([2.0**-40, 1e-6, 3.0, 1e8]))
    factor = scale * (1 if kind == "positive" else data.draw(st.sampled_from([-1, 1])))
    if "complex" in kind:
        factor = factor * np.exp(1j * data.draw(st.floats(0.0, 6.0)))
    after = problem._replace(Y=problem.Y * factor, sigma=problem.sigma * scale).recover()
    similar(problem.recover(), after, after.coef / factor)


@given(data=st.data())
def test_order_and_signs_of_atoms(kind, data):
    problem = data.draw(problems(kind))
    m = problem.Phi.shape[1]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    order, signs = rng.permutation(m), rng.choice([-1.0, 1.0], m)
    signs = np.ones(m) if kind == "positive" else signs
    if "complex" in kind:
        signs = np.exp(2j * np.pi * rng.random(m))
    options = dict(problem.options)
    if "groups" in options:
        options["groups"] = options["groups"][order]
    after = problem._replace(Phi=problem.Phi[:, order] * signs, options=options).recover()
    back = np.zeros_like(after.coef)
    back[..., order] = after.coef * signs
    similar(problem.recover(), after, back)


@given(data=st.data())
def test_single_precision_finds_the_same(kind, data):
    problem = data.draw(problems(kind, noisy=True))
    single = np.complex64 if "complex" in kind else np.float32
    before = problem.recover()
    after = problem._replace(Phi=problem.Phi.astype(single), Y=problem.Y.astype(single)).recover()
    assert after.coef.dtype == single
    clear = sure(before, after)
    np.testing.assert_array_equal(after.support[clear], before.support[clear])
    assert (after.confidence[sure(before)] > 0.5).all()


@given(data=st.data())
def test_answers_are_consistent(kind, data):
    problem = data.draw(problems(kind))
    result = problem.recover()
    for name in FIELDS:
        assert np.isfinite(getattr(result, name)).all(), name
    for name in ("confidence", "inclusion"):
        assert ((getattr(result, name) >= 0) & (getattr(result, name) <= 1 + 1e-9)).all()
    left = np.linalg.norm((problem.Y - result.coef @ problem.Phi.T).reshape(len(problem.Y), -1), axis=1)
    np.testing.assert_allclose(result.residual, left, atol=1e-10 * max(1.0, np.abs(problem.Y).max()))
    assert (result.lower <= result.upper).all()
    if kind == "positive":
        assert (result.coef >= 0).all()
        assert (result.mean >= -1e-12).all()
    if "groups" in problem.options:
        labels = problem.options["groups"]
        for used in result.support:
            assert set(labels[used]).isdisjoint(labels[~used])
