"""What may be given: tables, paths, units and scales; and what is said where nothing fits."""

import contextlib
import warnings

import numpy as np
import pytest

from maxsparse.fields.spectra import Spectra, read_spectra, unmix, unmix_cube
from maxsparse.fields.spectra.answer import _alternatives
from maxsparse.fields.spectra.units import axis_label, unit_in, unit_of
from maxsparse.recovery import CredibleSet


def test_units_of_files_and_titles():
    assert [unit_of(text) for text in ("Nanometers", "um", "1/CM", "Unknown", "keV", None)] == [
        "nm",
        "µm",
        "cm⁻¹",
        None,
        "keV",
        None,
    ]
    assert [unit_in(text) for text in ("wavelength (nm)", "wavelength_um", "wavelength", "Wavenumber [cm-1]")] == [
        "nm",
        "µm",
        None,
        "cm⁻¹",
    ]
    assert axis_label("cm⁻¹") == "wavenumber (cm⁻¹)"


def test_units_are_converted_where_both_are_known(library, mixed):
    nanometres = Spectra(library.values, library.wavelength, library.names, unit="nm")
    micrometres = Spectra(mixed[1], library.wavelength / 1000, unit="Micrometers")
    found = unmix(nanometres, micrometres, noise=0.003)
    np.testing.assert_array_equal(found.abundance, unmix(library, mixed[1], noise=0.003).abundance)
    assert found.plot()[1].get_xlabel() == "wavelength (µm)"
    assert repr(micrometres).endswith("from 0.4 to 2.4 µm)")
    with pytest.raises(ValueError, match="library has wavelengths in nm, spectra in cm⁻¹: convert one"):
        unmix(nanometres, Spectra(mixed[1], library.wavelength, unit="1/cm"))


def test_tables_keep_names_and_wavelengths(library, mixed, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, Y = mixed
    columns = pandas.DataFrame(library.values.T, index=library.wavelength, columns=library.names)
    rows = pandas.DataFrame(library.values, index=library.names, columns=library.wavelength)
    named = columns.rename_axis("wavelength (nm)").reset_index()
    named.to_csv(tmp_path / "library.csv", index=False)
    for table in (columns, rows, named, tmp_path / "library.csv", str(tmp_path / "library.csv")):
        found = unmix(table, pandas.DataFrame(Y, index=list("pqrs"), columns=library.wavelength), noise=0.003)
        assert found.library.names == library.names
        assert found.spectra.names == ("p", "q", "r", "s")
        np.testing.assert_allclose(found.library.wavelength, library.wavelength)
        np.testing.assert_array_equal(found.abundance > 0, X > 0)
    assert read_spectra(tmp_path / "library.csv").unit == "nm"
    one = unmix(columns, pandas.Series(Y[0], index=library.wavelength, name="field"), noise=0.003)
    assert one.spectra.names == ("field",)
    plain = unmix(pandas.DataFrame(library.values), pandas.DataFrame(Y), noise=0.003)
    assert plain.library.names == tuple(str(i + 1) for i in range(10))
    np.testing.assert_array_equal(plain.abundance > 0, X > 0)


def test_a_result_as_a_table(library, mixed):
    found = unmix(library, Spectra(mixed[1], library.wavelength, list("pqrs")), noise=0.003)
    rows = found.table(1)
    assert [row["material"] for row in rows] == [material.name for material in found.materials(1)]
    assert rows[0].keys() == {
        *("spectrum", "verdict", "material", "abundance", "error", "probability", "alternatives"),
    }
    assert rows[0]["spectrum"] == "q"
    assert rows[0]["alternatives"][rows[0]["material"]] == pytest.approx(rows[0]["probability"], abs=0.01)


@pytest.mark.parametrize(
    ("probability", "kept"),
    [
        ([1.0, 0.008, 0.008, 0.008], [0]),
        ([0.5, 0.45, 0.04], [0, 1]),
        ([0.4, 0.3, 0.25, 0.02], [0, 1, 2]),
        ([0.9, 0.03, 0.03, 0.03, 0.03], [0]),
    ],
)
def test_only_alternatives_that_matter_are_named(probability, kept):
    own = CredibleSet(np.arange(len(probability)), np.array(probability))
    assert [a for a, _ in _alternatives(own, 0)] == kept
    assert [a for a, _ in _alternatives(own, len(probability) - 1)] == sorted({*kept, len(probability) - 1})


def test_where_nothing_fits_only_an_attempt_is_shown(library, tmp_path):
    comb = 1.0 + 0.5 * np.sign(np.sin(np.arange(60)))
    found = unmix(library, Spectra(comb, library.wavelength, ["comb"]))
    assert found.verdict() == "none of the library"
    assert found.materials()
    page = found.report(tmp_path).read_text(encoding="utf-8")
    assert "best attempt is shown" in page
    assert "robability" not in page
    header, *rows = [line.split(",") for line in (tmp_path / "materials.csv").read_text().splitlines()]
    assert all(row[header.index(word)] == "" for row in rows for word in ("confidence", "probability", "alternatives"))
    assert "best attempt: " in found._repr_html_()
    assert found.plot()[0].get_title() == "comb: none of the library, best attempt"


def test_hints(library, mixed):
    Y = mixed[1]
    assert unmix(library, Y, noise=0.003).hints() == []
    t = np.linspace(-1, 1, 60)
    bent = Y * (1 + 0.3 * t**2) + 0.2 * t
    (hint,) = unmix(library, bent, budget="fast").hints()
    assert "smooth" in hint
    assert "baseline=1 or gain=1 or shift=True" in hint
    again = unmix(library, bent, budget="fast", baseline=1)
    assert all("baseline" not in hint for hint in again.hints())
    rng = np.random.default_rng(0)
    swapped = unmix(rng.random((3, 60)), 1 + 0.5 * np.sign(rng.standard_normal((5, 60))), budget="fast")
    assert "more spectra (5) than materials (3)" in swapped.hints()[-1]


@pytest.mark.parametrize(
    ("factor", "words"), [(100, "spectra are about 100"), (1e-4, "library values are about 10,000")]
)
def test_percent_next_to_fractions(library, mixed, factor, words):
    with pytest.warns(UserWarning, match=f"{words} times as large"):
        unmix(library, factor * mixed[1], noise=0.003 * factor)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unmix(library, 7 * mixed[1], noise=0.02)


def test_deleted_channels_are_missing(library, mixed):
    values = library.values.copy()
    values[2, 7] = -1.23e34
    found = unmix(Spectra(values, library.wavelength, library.names), mixed[1], noise=0.003)
    np.testing.assert_array_equal(np.flatnonzero(~found.used), [7])
    np.testing.assert_array_equal(found.abundance > 0, mixed[0] > 0)


def test_a_gap_stays_a_gap_when_resampled():
    fine = np.linspace(0.0, 10.0, 1001)
    values = np.stack([3 * fine, 3 * fine])
    values[1, 480:520] = np.nan
    coarse = Spectra(values, fine).resampled(np.array([1.0, 3.0, 5.0, 7.0, 9.0]))
    np.testing.assert_array_equal(np.isnan(coarse.values), [[False] * 5, [False, False, True, False, False]])


WORDS = [
    (
        lambda lib, Y: unmix(lib, Y.T),
        r"library has 60 bands, spectra 4: the spectra fit transposed; .* pass spectra\.T",
    ),
    (lambda lib, Y: unmix(np.vstack([lib.values, np.full(60, np.nan)]), Y), "library spectrum '11' is missing"),
    (lambda lib, Y: unmix(lib, np.vstack([Y, np.full(60, np.nan)])), "spectrum '5' is missing .NaN. in all bands"),
    (lambda lib, Y: unmix(lib, Y + 1j), "must be real, got complex"),
    (lambda lib, Y: unmix_cube(lib, np.zeros((0, 3, 60)), "nowhere"), r"none of them zero, got shape \(0, 3, 60\)"),
    (lambda lib, Y: unmix_cube(lib.values, Y[None], "nowhere", names=["a"]), "1 names for 10 spectra"),
    (lambda lib, Y: unmix_cube(lib, Y[None], "nowhere", bad_bands=[60]), "numbers of bands from 0 to 59"),
]


@pytest.mark.parametrize(("call", "words"), WORDS, ids=[words[:30] for _, words in WORDS])
def test_bad_input_in_the_words_of_the_field(library, mixed, call, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=words):
        call(library, mixed[1])
    with pytest.raises(FileNotFoundError, match=r"'lib\.csv' is not a file"):
        unmix("lib.csv", mixed[1])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("0.4,1,4\n0.5,2,5\n", "first row holds numbers only; a header is expected"),
        ("wavelength;a\n0,4;1\n0,5;2\n", "'0,4', not a number; numbers need decimal points, not commas"),
        ("wavelength,a\n0,4,1,5\n", "4 cells, the header 2; numbers need decimal points"),
        ("name;0,4;0,5\nquartz;1;2\n", "header has the wavelength '0,4'; numbers need decimal points"),
        ("", "the file is empty"),
    ],
)
def test_tables_that_are_not_understood(tmp_path, content, words):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(ValueError, match=words):
        read_spectra(tmp_path / "a.csv")


def test_files_without_arrays(tmp_path):
    scipy_io = pytest.importorskip("scipy.io")
    np.savez(tmp_path / "a.npz")
    scipy_io.savemat(tmp_path / "a.mat", {})
    for name in ("a.npz", "a.mat"):
        with pytest.raises(ValueError, match="holds no array; 'spectra' is expected"):
            read_spectra(tmp_path / name)
    with contextlib.suppress(ImportError):
        (tmp_path / "b.jdx").write_text("##TITLE= q\n##XUNITS= 1/CM\n##XYPOINTS= (XY..XY)\n1, 2; 2, 3\n##END=\n")
        assert read_spectra(tmp_path / "b.jdx").unit == "cm⁻¹"
