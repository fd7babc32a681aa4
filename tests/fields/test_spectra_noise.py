"""The noise of every band: learned from mixtures, against the true one, and what it is worth in unmixing."""

import os
from pathlib import Path

import numpy as np
import pytest

from maxsparse.fields.spectra import band_noise, unmix, unmix_cube
from maxsparse.fields.spectra.blocks import Work, learned_noise

DATA = Path(os.environ.get("MAXSPARSE_DATA", "")) / "usgs_1995.npz"


def mixtures(pure, sigma, N, rng):
    """Return abundances (N, m) of two materials each, and noisy spectra (N, n)."""
    X = np.zeros((N, len(pure)))
    for x in X:
        x[rng.choice(len(pure), 2, replace=False)] = 0.05 + 0.9 * rng.dirichlet([3.0, 3.0])
    return X, X @ pure + sigma * rng.standard_normal((N, pure.shape[1]))


def levels(kind, n, rng):
    sigma = np.full(n, 0.001)
    if kind == "uneven":
        sigma[rng.choice(n, n // 6, replace=False)] = 0.05
    if kind == "ramp":
        sigma *= np.exp(np.linspace(0, 3, n))
    return sigma


@pytest.mark.parametrize("kind", ["white", "uneven", "ramp"])
@pytest.mark.parametrize("N", [60, 300])
def test_every_band_is_near_the_truth(library, kind, N):
    rng = np.random.default_rng(5)
    sigma = levels(kind, 60, rng)
    learned = band_noise(mixtures(library.values, sigma, N, rng)[1], library.values)
    assert np.abs(np.log2(learned / sigma)).max() < 1
    assert np.median(np.abs(np.log(learned / sigma))) < (0.12 if N == 60 else 0.06)


@pytest.mark.parametrize("kind", ["white", "uneven"])
@pytest.mark.skipif(not DATA.is_file(), reason="usgs_1995.npz is not in MAXSPARSE_DATA")
def test_a_library_with_more_spectra_than_bands(kind):
    """Where materials fit a band exactly, its noise was taken for zero once, and that band ruled all others."""
    stored = np.load(DATA)
    pure = stored["spectra"].T[stored["pruned"]]
    rng = np.random.default_rng(0)
    sigma = levels(kind, pure.shape[1], rng)
    learned = band_noise(mixtures(pure, sigma, 60, rng)[1], pure)
    off = np.abs(np.log2(learned / sigma))
    assert np.mean(off > 1) < 0.02
    assert off.max() < 2
    assert np.median(learned / sigma) == pytest.approx(1.0, abs=0.1)


def test_learned_noise_is_worth_more_than_one_level(library):
    rng = np.random.default_rng(1)
    sigma = np.where(np.arange(60) % 3 == 0, 0.3, 0.005)
    X, Y = mixtures(library.values, sigma, 50, rng)
    exact, errors = {}, {}
    for name, noise in {"one level": "auto", "learned": band_noise(Y, library.values)}.items():
        found = unmix(library, Y[:12], noise=noise, budget="none")
        exact[name] = int(((found.abundance > 0) == (X[:12] > 0)).all(axis=1).sum())
        errors[name] = np.linalg.norm(found.mean - X[:12])
    assert exact["learned"] >= max(11, exact["one level"])
    assert errors["learned"] < 0.2 * errors["one level"]


def test_a_baseline_is_not_taken_for_noise(library):
    rng = np.random.default_rng(2)
    Y = mixtures(library.values, 0.003, 60, rng)[1] + rng.uniform(0, 0.3, (60, 1))
    found = unmix(library, Y, noise="bands", baseline=0, budget="none")
    assert np.median(found.noise) == pytest.approx(0.003, rel=0.15)
    assert found.weight.max() / found.weight.min() < 2.5


def test_an_image_learns_it_once_from_all_of_it(library, tmp_path):
    """A block of 20 pixels has too few to learn from."""
    rng = np.random.default_rng(3)
    sigma = np.where(np.arange(60) % 3 == 0, 0.05, 0.002)
    X, Y = mixtures(library.values, sigma, 50, rng)
    cube, options = Y.reshape(5, 10, 60), {"noise": "bands", "budget": "none"}
    maps = unmix_cube(library, cube, tmp_path / "a", block=20, **options)
    assert ((maps.abundance.reshape(50, 10) > 0) == (X > 0)).all(axis=1).sum() >= 47
    with pytest.raises(ValueError, match="at least 50 spectra, got 20"):
        unmix_cube(library, cube[:2], tmp_path / "b", **options)
    with pytest.raises(ValueError, match="no pixels with data"):
        unmix_cube(library, 0 * cube, tmp_path / "c", **options)


def test_images_with_falling_wavelengths(library):
    """Bands that are bad, missing or noisy are those of the image, from long to short waves."""
    rng = np.random.default_rng(4)
    cube = mixtures(library.values, np.geomspace(0.001, 0.02, 60), 60, rng)[1].reshape(6, 10, 60)
    rising = Work(library, library.wavelength, None, np.array([7]), {})
    falling = Work(library, library.wavelength[::-1], None, np.array([52]), {})
    learned = [learned_noise(*pair).sigma for pair in ((rising, cube), (falling, cube[:, :, ::-1]))]
    np.testing.assert_allclose(learned[0], learned[1])
    assert learned[0][-1] > 5 * learned[0][0]
    for one, other in zip(rising.prepared(cube[0]), falling.prepared(cube[0, :, ::-1]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_cannot_work_is_refused(library):
    with pytest.raises(ValueError, match=r"at least 50 spectra, got 4; use noise='auto', or give"):
        band_noise(np.ones((4, 60)), library.values)
    with pytest.raises(ValueError, match=r"got shapes \(60, 50\) and \(10, 60\)"):
        band_noise(np.ones((60, 50)), library.values)
    with pytest.raises(ValueError, match="must be finite"):
        band_noise(np.full((60, 60), np.nan), library.values)
    with pytest.raises(ValueError, match="zero in all bands"):
        band_noise(np.zeros((60, 60)), library.values)
