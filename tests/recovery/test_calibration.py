"""Confidence against the truth: answers given with confidence .8 are right in 80 of 100 cases, after fit(Y)."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import maxsparse as ms

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "calibration.py"


def test_confidence_is_the_share_of_right_answers():
    """2,000 signals whose smallest coefficients drown in noise: about four of five supports are right."""
    rng = np.random.default_rng(0)
    Phi = ms.dictionaries.gaussian(20, 100, rng=1)
    X, _ = ms.signals.sample(Phi, 2100, sparsity=4, amplitudes=lambda rng, size: rng.standard_normal(size), rng=2)
    Y = X @ Phi.T
    sigma = float(np.sqrt(np.mean(Y**2)) * 10 ** (-30 / 20))
    Y += sigma * rng.standard_normal(Y.shape)
    model = ms.SparseRecoverer(Phi, noise=sigma, budget="5ms").fit(Y[:100])
    result = model.recover(Y[100:])
    right = (result.support == (X[100:] != 0)).all(axis=1)
    assert 0.7 < right.mean() < 0.95
    assert abs(result.confidence.mean() - right.mean()) < 0.03  # its standard error is .008
    for low, high in ((0.0, 0.5), (0.5, 0.9), (0.9, 1.01)):
        inside = (result.confidence >= low) & (result.confidence < high)
        error = 3 * np.sqrt(0.25 / inside.sum())
        assert abs(result.confidence[inside].mean() - right[inside].mean()) < error + 0.02
    sets = [(i, s) for i in range(300) for s in result.credible_sets(i)]
    assert np.mean([X[100 + i, s.atoms].any() for i, s in sets]) > 0.95


@pytest.mark.long
@pytest.mark.skipif(not BENCHMARK.exists(), reason="needs benchmarks/")
@pytest.mark.parametrize("number", range(30))
def test_every_cell_of_the_benchmark(number):
    spec = importlib.util.spec_from_file_location("calibration", BENCHMARK)
    calibration = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(calibration)
    row, _, _ = calibration.measure(number, 800, None)
    error = 3 * np.sqrt(max(row["right"] * (1 - row["right"]), 0.01) / 800)
    assert abs(row["confidence"] - row["right"]) < 0.02 + error
    assert row["of them with a true atom"] > 0.95
