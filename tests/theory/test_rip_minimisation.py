"""Lower constants by projection and by gradient search, judged on supports outside the training."""

import numpy as np
import pytest

import maxsparse as ms


def test_projection_is_the_corollary():
    """With the range of Δ known, WΦD is WA with atoms of norm 1: the low-rank term is gone to rounding."""
    rng = np.random.default_rng(0)
    n, m, r = 12, 30, 3
    A, U, V = rng.standard_normal((n, m)), rng.standard_normal((n, r)), rng.standard_normal((r, m))
    Phi = 1e-4 * A + U @ V
    Phi /= np.linalg.norm(Phi, axis=0)
    W, D = ms.theory.null_low_rank(Phi, r, low_rank=U @ V)
    assert W.shape == (n - r, n)
    np.testing.assert_allclose(W @ W.T, np.eye(n - r), atol=1e-12)
    np.testing.assert_allclose(W @ U, 0.0, atol=1e-12)
    expected = W @ A / np.linalg.norm(W @ A, axis=0)
    np.testing.assert_allclose(W @ Phi * D, expected, atol=1e-9)


def test_projection_from_the_dictionary_alone():
    """The singular vectors of Φ stand in for Δ; the constant is like that of a random dictionary with r rows less."""
    for seed in range(5):
        Phi = ms.dictionaries.low_rank_plus(20, 40, rank=2, epsilon=1e-4, rng=seed)
        W, D = ms.theory.null_low_rank(Phi, 2)
        random = ms.dictionaries.gaussian(18, 40, rng=seed)
        assert float(ms.theory.rip_constant(Phi, 3)) > 1.9
        nulled = float(ms.theory.rip_constant(W @ Phi * D, 3))
        assert nulled < 1.3 * float(ms.theory.rip_constant(random, 3))


def test_projection_needs_something_to_be_left():
    Phi = np.eye(3)
    with pytest.raises(ValueError, match=r"atom \d lies in the 1 directions to remove"):
        ms.theory.null_low_rank(Phi, 1)
    with pytest.raises(ValueError, match="rank must be from 0 to 2, got 3"):
        ms.theory.null_low_rank(Phi, 3)
    with pytest.raises(ValueError, match="low_rank must have n = 3 rows like Phi"):
        ms.theory.null_low_rank(Phi, 1, low_rank=np.ones((2, 2)))


def test_gradient_search_lowers_the_constant_on_supports_it_never_saw():
    Phi = ms.dictionaries.decaying(10, 16, rng=0)
    result = ms.theory.minimise_rip(Phi, 3, steps=60, held_out=300, rng=0)
    assert float(result.after) < min(float(result.before), result.start_lower) - 0.02
    assert result.held_out_after.mean() < 0.7 * result.held_out_before.mean()
    assert result.held_out_after.shape == (300,)
    # The figures reported are those of WΦD for the caller's Φ.
    changed = result.W @ Phi * result.D
    assert float(ms.theory.rip_constant(changed, 3)) == pytest.approx(float(result.after), abs=1e-8)
    assert result.held_out_after.max() <= float(result.after) + 1e-9


def test_closed_form_alone_and_seeds():
    Phi = 3.0 * ms.dictionaries.low_rank_plus(8, 12, epsilon=0.01, rng=0)
    first, second = (ms.theory.minimise_rip(Phi, 3, steps=0, rng=4) for _ in range(2))
    assert float(first.after) == pytest.approx(first.start_lower)
    assert float(first.after) < float(first.before)
    np.testing.assert_array_equal(first.W, second.W)
    np.testing.assert_array_equal(first.D, second.D)
    a, b = (ms.theory.minimise_rip(Phi, 3, steps=10, rng=4) for _ in range(2))
    np.testing.assert_array_equal(a.W, b.W)


def test_bad_arguments():
    Phi = ms.dictionaries.gaussian(4, 6, rng=0)
    for arguments, message in [
        ({"k": 7}, "k must be from 1 to 6"),
        ({"k": 2, "steps": -1}, "steps must be at least 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            ms.theory.minimise_rip(Phi, **arguments)
