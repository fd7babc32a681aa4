"""Unmixing: materials, abundances, alternatives, nuisances, verdicts, and errors in the words of the field."""

import shutil

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from maxsparse.fields.spectra import Spectra, band_noise, sunsal, unmix, unmix_cube
from maxsparse.fields.spectra.nuisance import complement


def names_of(found, i=0):
    return {material.name for material in found.materials(i)}


def true_names(library, x):
    return {library.names[j] for j in np.flatnonzero(x)}


@pytest.fixture(scope="module")
def found(library, mixed):
    return unmix(library, Spectra(mixed[1], library.wavelength, ["one", "two", "three", "<four>"]))


def test_materials_abundances_and_errors(library, mixed, found):
    X, Y = mixed
    for i in range(4):
        assert names_of(found, i) == true_names(library, X[i])
        for material in found.materials(i):
            j = library.names.index(material.name)
            assert abs(material.abundance - X[i, j]) < 4 * material.error + 1e-6
            assert 0 < material.error < 0.02
            assert material.probability > 0.9
            assert material.alternatives[0][0] == material.name
        assert found.verdict(i) == "fits"
    np.testing.assert_allclose(found.fit + found.residual, Y)
    assert found.confidence.min() > 0.5
    assert found.noise == pytest.approx(np.full(4, 0.003), rel=0.4)
    assert repr(found) == "Unmixing(4 spectra, library of 10, 2 materials (median), 60 of 60 bands)"


def test_materials_that_cannot_be_told_apart_are_named_together(library, mixed):
    twin = library.values[3] + 1e-4 * np.sin(np.arange(60))
    double = Spectra([*library.values, twin], library.wavelength, [*library.names, "twin of d"])
    found = unmix(double, mixed[1][0], noise=0.003)
    sets = [dict(material.alternatives) for material in found.materials()]
    (shared,) = [names for names in sets if "twin of d" in names]
    assert set(shared) == {"mineral d", "twin of d"}
    assert sum(shared.values()) == pytest.approx(1.0, abs=0.05)
    assert max(shared.values()) < 0.95


@pytest.mark.parametrize("noise", ["auto", 0.003])
def test_a_sum_of_one_tells_a_dark_material_from_a_little_of_a_bright_one(library, noise):
    rng = np.random.default_rng(3)
    dark = 0.5 * library.values[3] + 1e-4 * np.sin(np.arange(60))
    double = Spectra([*library.values, dark], library.wavelength, [*library.names, "dark d"])
    Y = 0.6 * dark + 0.4 * library.values[7] + 0.003 * rng.standard_normal((5, 60))
    free, summed = unmix(double, Y, noise=noise), unmix(double, Y, noise=noise, sum_to_one=True)
    for i in range(5):
        assert names_of(summed, i) == {"dark d", "mineral h"}
        assert sum(material.abundance for material in summed.materials(i)) == pytest.approx(1.0, abs=0.03)
        (doubtful,) = [material for material in free.materials(i) if material.name != "mineral h"]
        assert {name for name, _ in doubtful.alternatives} == {"dark d", "mineral d"}
    with pytest.raises(ValueError, match=r"sum_to_one=True needs gain=0, got gain=1"):
        unmix(double, Y, gain=1, sum_to_one=True)


def test_something_that_is_not_in_the_library(library, mixed):
    bands = library.wavelength
    peak = mixed[1][0] + 0.3 * np.exp(-(((bands - 1300) / 40) ** 2))
    assert unmix(library, peak).verdict() in ("incomplete", "none of the library")
    comb = 1.0 + 0.5 * np.sign(np.sin(np.arange(60)))
    assert unmix(library, comb).verdict() == "none of the library"


def test_the_library_is_resampled_and_bad_bands_are_left_out(library, mixed):
    finer = np.linspace(400.0, 2400.0, 600)
    fine = Spectra([np.interp(finer, library.wavelength, row) for row in library.values], finer, library.names)
    Y = mixed[1][1].copy()
    Y[20:24] = 50.0  # a saturated detector
    Y[40] = np.nan
    found = unmix(fine, Spectra(Y, library.wavelength), bad_bands=[20, 21, 22, 23])
    assert names_of(found) == true_names(library, mixed[0][1])
    assert found.used.sum() == 55
    mask = np.isin(np.arange(60), [20, 21, 22, 23])
    np.testing.assert_array_equal(unmix(fine, Spectra(Y, library.wavelength), bad_bands=mask).used, found.used)


@pytest.mark.parametrize("nuisance", ["baseline", "gain", "shift"])
def test_nuisances_are_told_from_materials(library, mixed, nuisance):
    X, Y = mixed
    bands, t = library.wavelength, np.linspace(-1, 1, 60)
    clean = X[1] @ library.values
    noise = Y[1] - clean
    spoiled, options = {
        "baseline": (Y[1] + 0.1 + 0.05 * t, {"baseline": 1}),
        "gain": (clean * (1 + 0.05 * t) + noise, {"gain": 1}),
        "shift": (np.interp(bands + 4.0, bands, clean) + noise, {"shift": True}),
    }[nuisance]
    found = unmix(library, spoiled, noise=0.003, **options)
    assert names_of(found) == true_names(library, X[1])
    assert np.abs(found.abundance[0] - X[1]).max() < 0.05
    assert np.abs(found.residual[0]).max() < 0.02


def test_noise_per_band(library, mixed):
    rng = np.random.default_rng(0)
    sigma = np.where(np.arange(60) < 30, 0.1, 0.002)
    Y = mixed[0][1] @ library.values + sigma * rng.standard_normal(60)
    found = unmix(library, Y, noise=sigma)
    assert names_of(found) == true_names(library, mixed[0][1])
    many = rng.dirichlet(np.full(10, 0.5), 400) @ library.values + sigma * rng.standard_normal((400, 60))
    learned = band_noise(many, library.values)
    assert np.median(np.abs(np.log(learned / sigma))) < 0.2
    with pytest.raises(ValueError, match="at least 50 spectra, got 4"):
        unmix(library, mixed[1], noise="bands")


def test_complement_is_orthogonal_to_the_columns():
    columns = np.column_stack([np.ones(9), np.arange(9.0), 2 * np.ones(9)])  # rank 2
    Q = complement(columns)
    assert Q.shape == (7, 9)
    np.testing.assert_allclose(Q @ columns, 0, atol=1e-12)
    np.testing.assert_allclose(Q @ Q.T, np.eye(7), atol=1e-12)


def test_sunsal_is_the_non_negative_lasso(library, mixed):
    """Against scikit-learn, which minimises the same objective divided by the number of bands."""
    penalty, Y = 0.01, mixed[1]
    lasso = Lasso(alpha=penalty / 60, positive=True, fit_intercept=False, max_iter=200_000, tol=1e-12)
    expected = [lasso.fit(library.values.T, y).coef_ for y in Y]
    np.testing.assert_allclose(sunsal(library.values, Y, penalty, max_iter=50_000), expected, atol=2e-4)


def test_a_cube_is_unmixed_in_parts(library, mixed, tmp_path):
    X, Y = mixed
    cube = np.stack([Y[[0, 1]], Y[[3, 0]]]).astype(np.float32)  # (2, 2, 60)
    cube[1, 1] = np.nan
    np.save(tmp_path / "cube.npy", cube)
    maps = unmix_cube(library, tmp_path / "cube.npy", tmp_path / "maps", wavelength=library.wavelength, block=2)
    assert maps.abundance.shape == (2, 2, 10)
    for pixel, truth in (((0, 0), X[0]), ((0, 1), X[1]), ((1, 0), X[3])):
        np.testing.assert_array_equal(maps.abundance[pixel] > 0, truth > 0)
    assert np.isnan(maps.abundance[1, 1]).all()
    assert np.isnan(maps.confidence[1, 1])
    assert np.load(tmp_path / "maps" / "abundance.npy").shape == (2, 2, 10)
    assert (tmp_path / "maps" / "maps.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "maps" / "names.txt").read_text().split("\n") == list(library.names)
    page = (tmp_path / "maps" / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 1
    assert "http" not in page
    assert "2 × 2 pixels, 1 of them without data" in page
    used = np.flatnonzero(X[[0, 1, 3]].any(axis=0))
    assert all(f"<td>{library.names[j]}</td>" in page for j in used)
    assert page.count("<tr>") == 1 + len(used)


def test_a_cube_of_dask_on_the_workers_of_a_scheduler(library, mixed, tmp_path):
    da = pytest.importorskip("dask.array")
    distributed = pytest.importorskip("distributed")
    cube = np.stack([mixed[1], mixed[1][::-1], np.zeros((4, 60))])  # (3, 4, 60)
    options = {"wavelength": library.wavelength, "block": 4}
    here = unmix_cube(library, cube, tmp_path / "here", **options)
    local = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**local) as cluster, distributed.Client(cluster) as client:
        there = unmix_cube(library, da.from_array(cube, chunks=2), tmp_path / "there", scheduler=client, **options)
    np.testing.assert_array_equal(there.abundance, here.abundance)
    np.testing.assert_array_equal(there.confidence, here.confidence)


@pytest.fixture(scope="module")
def report(found, tmp_path_factory):
    return found.report(tmp_path_factory.mktemp("report") / "new")


def test_the_report_needs_nothing_else(found, report):
    page = report.read_text(encoding="utf-8")
    assert "&lt;four&gt;" in page
    assert "<four>" not in page
    assert page.count("data:image/svg+xml;base64,") == 4
    assert "http" not in page
    rows = (report.parent / "materials.csv").read_text().splitlines()
    assert len(rows) == 1 + sum(len(found.materials(i)) for i in range(4))


def test_a_long_list_of_alternatives_is_folded(library, mixed, tmp_path):
    """One mineral eight times: the sets hold all of them, the page shows the first six."""
    twins = [library.values[3] + 1e-4 * np.sin((1 + t) * np.arange(60)) for t in range(7)]
    many = Spectra([*library.values, *twins], library.wavelength, [*library.names, *(f"twin {t}" for t in range(7))])
    found = unmix(many, mixed[1][0], noise=0.003)
    (own,) = [m for m in found.materials() if len(m.alternatives) > 1]
    assert len(own.alternatives) >= 7
    assert {name for name, _ in own.alternatives} <= {"mineral d", *many.names[10:]}
    page = found.report(tmp_path).read_text(encoding="utf-8")
    assert f"one of these {len(own.alternatives)}: " in page
    assert f"<details><summary>and {len(own.alternatives) - 6} more</summary>" in page
    assert found.mean[0].sum() == pytest.approx(found.abundance[0].sum(), abs=0.05)
    assert np.count_nonzero(found.mean[0] > 0.01) > np.count_nonzero(found.abundance[0])


def test_a_notebook_shows_a_small_table(found):
    page = found._repr_html_()
    assert page.count("<tr>") == 5
    assert "&lt;four&gt;" in page
    assert "<td>fits</td>" in page


def test_the_reports_in_a_browser(library, mixed, report, tmp_path):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("Chromium and chromedriver are not installed, so the page was not tried in a browser")
    unmix_cube(library, mixed[1][None, :2], tmp_path, wavelength=library.wavelength)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        for page, images in ((report, 4), (tmp_path / "report.html", 1)):
            session.get(page.as_uri())
            drawn = session.execute_script("return [...document.images].map(i => i.complete && i.naturalWidth > 0)")
            assert drawn == [True] * images
            assert "mineral" in session.find_element("tag name", "body").text
            assert not [entry for entry in session.get_log("browser") if entry["level"] == "SEVERE"]
    finally:
        session.quit()


def test_picture(found):
    above, below = found.plot(1)
    labels = [text.get_text() for text in above.get_legend().get_texts()]
    assert labels[0] == "measured"
    assert labels[-1] == "fit"
    assert {label.split(":")[0] for label in labels[1:-1]} == names_of(found, 1)
    np.testing.assert_allclose(below.get_lines()[1].get_ydata(), found.residual[1])
    with pytest.raises(IndexError, match="spectrum 4 is out of range: there are 4"):
        found.plot(4)


WORDS = [
    (lambda lib, Y: unmix(lib, Y[:, :50]), "library has 60 bands, spectra 50: give wavelengths so that it can be"),
    (lambda lib, Y: unmix(lib.values, Y[:, :10]), "the library fits transposed; spectra are rows, so pass library.T"),
    (lambda lib, Y: unmix(lib, Spectra(Y, lib.wavelength / 1000)), "none in common; are they in the same unit"),
    (lambda lib, Y: unmix(lib, Y * np.nan), "no band is left"),
    (lambda lib, Y: unmix(lib, 0 * Y), "spectrum '1' is zero in all bands"),
    (lambda lib, Y: unmix(lib, Y, bad_bands=[60]), "numbers of bands from 0 to 59"),
    (lambda lib, Y: unmix(lib, Y, bad_bands=[True]), "60 flags, one per band"),
    (lambda lib, Y: unmix(lib, Y, noise="loud"), "'auto', 'bands', a number or one per band"),
    (lambda lib, Y: unmix(lib, Y, noise=[0.1, 0.2]), "one number for each of 60 bands"),
    (lambda lib, Y: unmix(lib, Y, noise=np.zeros(60)), "positive number"),
    (lambda lib, Y: unmix(lib, Y, names=["a"]), "1 names for 10 spectra"),
    (lambda lib, Y: unmix(lib, Y[:, :3], bad_bands=[0]), "library has 60 bands, spectra 3"),
    (lambda lib, Y: unmix(lib, Y, bad_bands=np.arange(58)), "only 2 bands are left"),
    (lambda lib, Y: Spectra(Y, [1, 2, 3]), "3 wavelengths for 60 bands"),
    (lambda lib, Y: Spectra(Y.T, lib.wavelength), "spectra are rows, so pass their transpose"),
    (lambda lib, Y: Spectra(Y, np.ones(60)), "rise .or fall. from band to band"),
    (lambda lib, Y: unmix_cube(lib, Y, "nowhere"), "a cube has rows, columns and bands"),
]


@pytest.mark.parametrize(("call", "words"), WORDS, ids=[words[:30] for _, words in WORDS])
def test_bad_input_in_the_words_of_the_field(library, mixed, call, words):
    with pytest.raises(ValueError, match=words):
        call(library, mixed[1])
