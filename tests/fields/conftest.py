"""A small library of smooth spectra, and mixtures of it."""

import numpy as np
import pytest

from maxsparse.fields.spectra import Spectra

BANDS = np.linspace(400.0, 2400.0, 60)


@pytest.fixture(scope="session")
def library():
    rng = np.random.default_rng(3)
    centers, widths = rng.uniform(400, 2400, (10, 5, 1)), rng.uniform(60, 250, (10, 5, 1))
    pure = 0.2 + (rng.uniform(0.2, 1.0, (10, 5, 1)) * np.exp(-(((BANDS - centers) / widths) ** 2))).sum(axis=1)
    return Spectra(pure, BANDS, [f"mineral {letter}" for letter in "abcdefghij"])


@pytest.fixture(scope="session")
def mixed(library):
    """Return abundances (4, 10) and noisy spectra (4, 60)."""
    rng = np.random.default_rng(4)
    X = np.zeros((4, 10))
    for row, chosen in zip(X, ([0, 3], [1, 4, 8], [9], [2, 5]), strict=True):
        row[chosen] = rng.dirichlet(np.full(len(chosen), 4.0))
    return X, X @ library.values + 0.003 * rng.standard_normal((4, 60))
