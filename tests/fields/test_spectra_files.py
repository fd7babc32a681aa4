"""Readers of spectra: every format against what was written, and hostile files that end in clear errors."""

import contextlib
import sys

import numpy as np
import pytest
import scipy.io

from maxsparse.fields.spectra import Spectra, open_cube, read_spectra
from maxsparse.files._guard import in_child

Y = [1.0, 2.0, 3.0, 3.0, 2.0, 1.0, 0.0, -1.0, -2.0, -3.0]
# The example of the standard, in all of its forms; every line begins with x.
PACKED = {
    "AFFN": "0 1 2 3 3 2 1 0 -1 -2 -3",
    "PAC": "0+1+2+3+3+2+1+0-1-2-3",
    "SQZ": "0ABCCBA@abc",
    "DIF": "0AJJ%jjjjjj",
    "DIFDUP": "0AJJ%jX",
    "two lines": "0AJJ%j\n4Bjjjjj",  # the second begins with the last value of the first
}


def jcamp(table, form="(X++(Y..Y))", label="XYDATA", **labels):
    known = {"TITLE": "quartz", "FIRSTX": 100, "LASTX": 1000, "NPOINTS": 10, "XFACTOR": 1, "YFACTOR": 0.5} | labels
    head = "".join(f"##{name}= {value}\n" for name, value in known.items() if value is not None)
    return f"{head}##{label}= {form}\n{table}\n##END=\n"


@pytest.mark.parametrize("name", PACKED)
def test_jcamp(tmp_path, name):
    (tmp_path / "a.jdx").write_text(jcamp(PACKED[name]) + jcamp(PACKED[name], TITLE="second"))
    found = read_spectra(tmp_path / "a.jdx")
    assert found.names == ("quartz", "second")
    np.testing.assert_allclose(found.values, 0.5 * np.array([Y, Y]))
    np.testing.assert_allclose(found.wavelength, np.linspace(100, 1000, 10))


def test_jcamp_pairs_and_falling_wavenumbers(tmp_path):
    (tmp_path / "a.dx").write_text(jcamp("30, 1; 20, 2; 10, 4", "(XY..XY)", "XYPOINTS", YFACTOR=1))
    found = read_spectra(tmp_path / "a.dx")
    np.testing.assert_array_equal(found.wavelength, [10, 20, 30])
    np.testing.assert_array_equal(found.values, [[4, 2, 1]])


BROKEN = {
    "no labels": ("hello", "no ##LABEL= lines"),
    "no table": ("##TITLE= x\n##END=", "holds no spectrum"),
    "count": (jcamp(PACKED["SQZ"], NPOINTS=11), "says 11 values, the table has 10"),
    "first": (jcamp(PACKED["SQZ"], FIRSTX=None), "##FIRSTX= is missing"),
    "number": (jcamp(PACKED["SQZ"], LASTX="far"), "'far' is not a number"),
    "huge": (jcamp(PACKED["SQZ"], LASTX="1e999"), "not a finite number"),
    "form": (jcamp("1 2", "(XYZ)"), r"form '\(XYZ\)'"),
    "words": (jcamp("0 1 2 !!! 3"), "cannot read the line"),
    "difference": (jcamp("0JJ"), "begins with a difference"),
    "bomb": (jcamp("0AS99999999999"), "cannot read the repetition"),
    "check": (jcamp("0AJJ%j\n4Gjjjjj"), "check value 7 .* does not match 2"),
    "empty": (jcamp(""), "table is empty"),
    "odd": (jcamp("1, 2; 3", "(XY..XY)", "XYPOINTS"), "pairs has 3 numbers"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_jcamp(tmp_path, name):
    content, words = BROKEN[name]
    (tmp_path / "a.jdx").write_text(content)
    with pytest.raises(ValueError, match=words) as caught:
        read_spectra(tmp_path / "a.jdx")
    assert "a.jdx" in str(caught.value)


@pytest.mark.parametrize("suffix", [".jdx", ".csv", ".npz", ".mat", ".npy"])
def test_damaged_files_raise_nothing_but_value_errors(tmp_path, suffix):
    path, rng = tmp_path / f"a{suffix}", np.random.default_rng(0)
    values = rng.random((2, 10))
    writers = {
        ".jdx": lambda: path.write_text(jcamp(PACKED["DIFDUP"])),
        ".csv": lambda: path.write_text("x,a\n1,2\n3,4\n"),
        ".npz": lambda: np.savez(path, spectra=values, wavelength=np.arange(10.0), names=np.array(["a", "b"])),
        ".mat": lambda: scipy.io.savemat(path, {"spectra": values}),
        ".npy": lambda: np.save(path, values),
    }
    writers[suffix]()
    whole = path.read_bytes()
    for _ in range(15 if suffix == ".mat" else 60):
        damaged = bytearray(whole[: rng.integers(1, len(whole) + 1)])
        for place in rng.integers(0, len(damaged), 3):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        with contextlib.suppress(ValueError):
            assert isinstance(read_spectra(path), Spectra)


def test_csv_of_both_layouts(tmp_path):
    columns = "wavelength,alunite,calcite\n0.4,1,4\n0.5,2,5\n0.6,3,\n"
    (tmp_path / "a.csv").write_text(columns)
    (tmp_path / "b.tsv").write_text("name\t0.4\t0.5\t0.6\nalunite\t1\t2\t3\ncalcite\t4\t5\t\n")
    (tmp_path / "c.txt").write_text("# made by hand\nwavelength alunite calcite\n0.4 1 4\n0.5 2 5\n0.6 3 nan\n")
    for name in ("a.csv", "b.tsv", "c.txt"):
        found = read_spectra(tmp_path / name)
        assert found.names == ("alunite", "calcite")
        np.testing.assert_array_equal(found.wavelength, [0.4, 0.5, 0.6])
        np.testing.assert_array_equal(found.values, [[1, 2, 3], [4, 5, np.nan]])
    for content, words in {
        "a,b\n1,2\n3": "row 3 has 1 cells, the header 2",
        "a,b\n1,x": "row 2, cell 2 is 'x', not a number",
        "a,b": "a header and at least one row",
        "a\n1\n2": "rows have one cell",
        "x,a\n1,2\n1,3": "rise .or fall. from band to band",
    }.items():
        (tmp_path / "bad.csv").write_text(content)
        with pytest.raises(ValueError, match=words):
            read_spectra(tmp_path / "bad.csv")
    (tmp_path / "a.doc").write_text("")
    with pytest.raises(ValueError, match=r"unknown suffix '.doc'"):
        read_spectra(tmp_path / "a.doc")
    with pytest.raises(FileNotFoundError):
        read_spectra(tmp_path / "missing.csv")


def test_arrays_with_bands_as_rows(tmp_path, library):
    stored = {"spectra": library.values.T, "wavelength": library.wavelength}
    np.savez(tmp_path / "a.npz", names=np.array(library.names), **stored)
    scipy.io.savemat(tmp_path / "a.mat", stored)
    for name in ("a.npz", "a.mat"):
        found = read_spectra(tmp_path / name)
        np.testing.assert_array_equal(found.values, library.values)
        np.testing.assert_allclose(found.wavelength, library.wavelength)
    assert read_spectra(tmp_path / "a.npz").names == library.names
    for names in (np.array(library.names, dtype=object), np.array(library.names)):  # a cell array, rows of text
        scipy.io.savemat(tmp_path / "b.mat", {**stored, "names": names})
        assert read_spectra(tmp_path / "b.mat").names == library.names
    for names in (np.arange(10), np.array([["a"], [3]] * 5, dtype=object)):
        scipy.io.savemat(tmp_path / "b.mat", {**stored, "names": names})
        with pytest.raises(ValueError, match=r"b\.mat.*its array 'names' .*text"):
            read_spectra(tmp_path / "b.mat")


@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is limited on Linux only")
def test_a_parser_of_names_has_little_memory():
    with pytest.raises(ValueError, match=r"allocate|emory|crashed"):
        in_child(lambda: np.ones(2**28), most=2**28)
    assert in_child(lambda: np.ones(3), most=2**28).tolist() == [1, 1, 1]


def test_envi(tmp_path, library):
    envi = pytest.importorskip("spectral.io.envi")
    header = {"wavelength": library.wavelength.tolist(), "spectra names": list(library.names)}
    envi.SpectralLibrary(library.values, header, None).save(str(tmp_path / "library"))
    found = read_spectra(tmp_path / "library.hdr")
    assert found.names == library.names
    np.testing.assert_allclose(found.values, library.values, rtol=1e-6)
    np.testing.assert_allclose(found.wavelength, library.wavelength)
    cube = np.random.default_rng(0).random((3, 4, 60)).astype(np.float32)
    envi.save_image(str(tmp_path / "cube.hdr"), cube, metadata={"wavelength": library.wavelength.tolist()})
    image, wavelength = open_cube(tmp_path / "cube.hdr")
    np.testing.assert_array_equal(image[1], cube[1])
    np.testing.assert_allclose(wavelength, library.wavelength)
    with pytest.raises(ValueError, match="unmix it as a cube"):
        read_spectra(tmp_path / "cube.hdr")
    with pytest.raises(ValueError, match="not an image"):
        open_cube(tmp_path / "library.hdr")
    (tmp_path / "bad.hdr").write_text("ENVI\nsamples = many\n")
    with pytest.raises(ValueError, match="as an ENVI file"):
        open_cube(tmp_path / "bad.hdr")


def test_resampling():
    fine = np.linspace(0.0, 10.0, 1001)
    spectra = Spectra([3 * fine - 1, np.exp(-(((fine - 5) / 0.01) ** 2))], fine)
    coarse = spectra.resampled(np.array([-1.0, 1.0, 3.0, 5.0, 7.0]))
    np.testing.assert_allclose(coarse.values[0, 2:], [8, 14, 20], atol=0.01)  # a line stays a line
    assert np.isnan(coarse.values[:, 0]).all()  # outside
    area = 0.01 * np.sqrt(np.pi)
    assert coarse.values[1, 3] == pytest.approx(area * 2.3548 / (2 * np.sqrt(2 * np.pi)), rel=0.02)  # a line's mean
    closer = Spectra([[0.0, 2.0]], [0.0, 1.0]).resampled(np.array([0.25, 0.5]))
    np.testing.assert_allclose(closer.values, [[0.5, 1.0]])
    with pytest.raises(ValueError, match="without wavelengths cannot be resampled"):
        Spectra([[1.0, 2.0]]).resampled(np.array([1.0, 2.0]))
