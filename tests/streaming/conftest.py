"""One small problem for all tests of streaming."""

import numpy as np
import pytest

import maxsparse as ms


@pytest.fixture(scope="session")
def problem():
    """Return Φ (12, 30), X and Y of 300 signals, some of them too hard for OMP."""
    Phi = ms.dictionaries.decaying(12, 30, rng=0)
    X, Y = ms.signals.sample(Phi, 300, sparsity=(1, 5), rng=1)
    return Phi, X, Y


@pytest.fixture
def files(problem, tmp_path):
    """Return a folder with Phi.npy and Y.npy."""
    Phi, _, Y = problem
    np.save(tmp_path / "Phi.npy", Phi)
    np.save(tmp_path / "Y.npy", Y)
    return tmp_path
