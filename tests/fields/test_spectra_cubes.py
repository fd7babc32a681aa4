"""Images: ENVI headers, missing bands and pixels, and maps of verdicts, residuals, errors and probabilities."""

import numpy as np
import pytest

from maxsparse.fields.spectra import Spectra, open_cube, read_spectra, unmix, unmix_cube


@pytest.fixture
def envi():
    return pytest.importorskip("spectral.io.envi")


def test_a_library_with_bad_bands_a_scale_and_missing_values(envi, tmp_path, library):
    stored = np.round(10_000 * library.values).astype(np.int16)
    stored[3, 5] = -999
    header = {
        "wavelength": (library.wavelength / 1000).tolist(),
        "wavelength units": "Micrometers",
        "bbl": [0 if band in (0, 30) else 1 for band in range(60)],
        "reflectance scale factor": 10_000,
        "data ignore value": -999,
    }
    envi.SpectralLibrary(stored, header, None).save(str(tmp_path / "a"))
    text = (tmp_path / "a.hdr").read_text()
    # The writer stores float32 and says so; a header of other programs is put in its place.
    stored.astype("<i2").tofile(tmp_path / "a.sli")
    lines = [line for line in text.splitlines() if not line.startswith(("data type", "data ignore", "byte order"))]
    (tmp_path / "a.hdr").write_text("\n".join([*lines, "data type = 2", "byte order = 0", "data ignore value = -999"]))
    found = read_spectra(tmp_path / "a.hdr")
    assert found.unit == "µm"
    expected = library.values.copy()
    expected[:, [0, 30]], expected[3, 5] = np.nan, np.nan
    np.testing.assert_allclose(found.values, expected, atol=1e-4)


def test_an_image_with_bad_bands_a_scale_and_missing_values(envi, tmp_path, library, mixed):
    X, Y = mixed
    stored = np.round(10_000 * Y).astype(np.int16)[None, :3].repeat(2, axis=0)  # (2, 3, 60)
    stored[:, :, 20] = 30_000  # a bad band that would ruin everything
    stored[1, 0] = -999
    stored[1, 1, 40] = -999
    header = {"wavelength": (library.wavelength / 1000).tolist(), "wavelength units": "Micrometers"}
    header |= {"bbl": [int(band != 20) for band in range(60)]}
    header |= {"reflectance scale factor": 10_000, "data ignore value": -999}
    envi.save_image(str(tmp_path / "scene.hdr"), stored, metadata=header, dtype=np.int16)
    cube, wavelength = open_cube(tmp_path / "scene.hdr")
    assert cube.shape == (2, 3, 60)
    assert np.isnan(cube[0][:, 20]).all()
    np.testing.assert_allclose(np.delete(cube[0], 20, axis=1), np.delete(Y[:3], 20, axis=1), atol=1e-4)
    np.testing.assert_allclose(wavelength, library.wavelength / 1000)
    pure = Spectra(library.values, library.wavelength, library.names, unit="nm")
    maps = unmix_cube(pure, tmp_path / "scene.hdr", tmp_path / "maps", noise=0.003)
    for pixel, truth in (((0, 0), X[0]), ((0, 1), X[1]), ((1, 1), X[1]), ((1, 2), X[2])):
        np.testing.assert_array_equal(maps.abundance[pixel] > 0, truth > 0)
    for name in ("abundance", "error", "probability", "confidence", "verdict", "residual"):
        assert np.isnan(getattr(maps, name)[1, 0]).all()
        assert np.isfinite(np.load(tmp_path / "maps" / f"{name}.npy")[0]).all()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bbl = {1, 0}", "2 flags in 'bbl' for 60 bands"),
        ("reflectance scale factor = much", "'much' in 'reflectance scale factor', not a number"),
    ],
)
def test_headers_that_are_not_understood(envi, tmp_path, library, line, words):
    envi.SpectralLibrary(library.values, {}, None).save(str(tmp_path / "a"))
    with (tmp_path / "a.hdr").open("a") as stream:
        stream.write(f"\n{line}\n")
    with pytest.raises(ValueError, match=words):
        read_spectra(tmp_path / "a.hdr")


def test_maps_hold_what_spectra_do_one_by_one(library, mixed, tmp_path):
    comb = 1.0 + 0.5 * np.sign(np.sin(np.arange(60)))
    peak = mixed[1][0] + 0.1 * np.exp(-(((library.wavelength - 1300) / 40) ** 2))
    cube = np.stack([mixed[1][0], comb, peak, mixed[1][1], np.full(60, np.nan), np.zeros(60)]).reshape(2, 3, 60)
    cube[1, 0, [3, 4]] = np.nan
    maps = unmix_cube(library, cube, tmp_path, budget="fast")
    assert repr(maps) == "CubeMaps(2 × 3 pixels, 10 materials)"
    words = ("fits", "incomplete", "none of the library")
    for pixel in ((0, 0), (0, 1), (0, 2), (1, 0)):
        alone = unmix(library, cube[pixel], budget="fast")
        assert words[int(maps.verdict[pixel])] == alone.verdict()
        for name in ("abundance", "error", "probability"):
            np.testing.assert_allclose(getattr(maps, name)[pixel], getattr(alone, name)[0], atol=1e-5)
        size = np.sqrt(np.nanmean(alone.residual**2))
        assert maps.residual[pixel] == pytest.approx(size, rel=1e-5)
    assert [int(v) for v in maps.verdict[0]] == [0, 2, 1]
    for pixel in ((1, 1), (1, 2)):
        assert np.isnan(maps.verdict[pixel])
        assert np.isnan(maps.confidence[pixel])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "2 fits, 1 incomplete, 1 none of the library" in page
    titles = [axes.get_title() for axes in maps.plot().axes]
    assert {"confidence", "verdict"} <= set(titles)


def test_a_library_of_an_array_with_names(library, mixed, tmp_path):
    maps = unmix_cube(library.values, mixed[1][None], tmp_path, names=library.names, noise=0.003, budget="fast")
    assert maps.names == library.names
    np.testing.assert_array_equal(maps.abundance[0] > 0, mixed[0] > 0)
