"""``maxsparse unmix``: from two tables to a report."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from maxsparse.cli import app


@pytest.fixture(autouse=True)
def tables(tmp_path, monkeypatch):
    """Write library.csv and spectra.csv, a mixture of 0.6 alunite and 0.4 calcite."""
    monkeypatch.chdir(tmp_path)
    rng, bands = np.random.default_rng(1), np.linspace(0, 1, 50)
    pure = np.exp(-(((bands - rng.random((6, 3, 1))) / 0.1) ** 2)).sum(axis=1)
    names = ["alunite", "calcite", "kaolinite", "quartz", "gypsum", "talc"]
    mixture = 0.6 * pure[0] + 0.4 * pure[1] + 0.004 * rng.standard_normal(50)
    for name, header, columns in (("library", names, pure), ("spectra", ["field"], [mixture])):
        table = np.column_stack([bands, *columns])
        np.savetxt(f"{name}.csv", table, delimiter=",", header=",".join(["wavelength", *header]), comments="")


def unmix(*arguments):
    return CliRunner().invoke(app, ["unmix", *arguments])


def test_report(tmp_path):
    done = unmix("library.csv", "spectra.csv", "-o", "report")
    assert done.exit_code == 0, done.output
    assert "field: fits" in done.output
    assert "alunite: 0.59" in done.output
    assert "alunite" in (tmp_path / "report" / "report.html").read_text()
    figures = json.loads(unmix("library.csv", "spectra.csv", "-o", "report", "--json", "--bad", "0-2,49").stdout)
    (spectrum,) = figures["spectra"]
    assert [material["name"] for material in spectrum["materials"]] == ["alunite", "calcite"]


def test_cube(tmp_path):
    mixture = np.loadtxt("spectra.csv", delimiter=",", skiprows=1)[:, 1]
    np.save("cube.npy", np.tile(mixture, (2, 2, 1)))
    done = unmix("library.csv", "cube.npy", "--cube", "-o", "maps", "--json")
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    assert figures["strongest"] == ["alunite", "calcite"]
    assert figures["verdicts"] == {"fits": 4, "incomplete": 0, "none of the library": 0}
    assert (tmp_path / "maps" / "maps.png").is_file()


def test_where_nothing_fits_no_probability_is_printed():
    comb = np.column_stack([np.linspace(0, 1, 50), 1.0 + 0.5 * np.sign(np.sin(np.arange(50)))])
    np.savetxt("comb.csv", comb, delimiter=",", header="wavelength,comb", comments="")
    done = unmix("library.csv", "comb.csv", "-o", "report", "--budget", "fast")
    assert "comb: none of the library; best attempt:" in done.output
    assert "probability" not in done.output
    (spectrum,) = json.loads(unmix("library.csv", "comb.csv", "-o", "report", "--json", "--budget", "fast").stdout)[
        "spectra"
    ]
    assert spectrum["materials"] == []
    assert spectrum["best_attempt"]
    assert "confidence" not in spectrum


def test_a_distortion_leads_to_the_options_that_allow_for_it():
    table = np.loadtxt("spectra.csv", delimiter=",", skiprows=1)
    table[:, 1] += 0.3 + 0.3 * table[:, 0]
    np.savetxt("tilted.csv", table, delimiter=",", header="wavelength,tilted", comments="")
    done = unmix("library.csv", "tilted.csv", "-o", "report", "--budget", "fast")
    assert "--baseline 1 or --gain 1 or --shift" in done.output
    done = unmix("library.csv", "tilted.csv", "-o", "report", "--budget", "fast", "--baseline", "1")
    assert "tilted: fits" in done.output
    assert "Hint" not in done.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["library.csv", "missing.csv"], "is not a file"),
        (["library.csv", "spectra.csv", "--noise", "loud"], "neither auto, bands nor a number"),
        (["library.csv", "spectra.csv", "--bad", "1-x"], "'1-x' is neither a band nor a range"),
        (["library.csv", "spectra.csv", "--bad", "77"], "numbers of bands from 0 to 49"),
        (["library.csv", "library.doc"], "is not a file"),
    ],
)
def test_wrong_calls_say_what_to_do(arguments, words):
    done = unmix(*arguments)
    assert done.exit_code != 0
    assert words in " ".join((done.output + str(done.exception)).replace("│", " ").split())
