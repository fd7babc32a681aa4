"""``maxsparse sources``: MNE-Python's files in, places out; other files end in clear errors."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

mne = pytest.importorskip("mne", reason="MNE-Python is not installed: pip install 'maxsparse[brain]'")

from maxsparse.cli import app  # noqa: E402
from maxsparse.fields import brain  # noqa: E402

FILES = ("a-ave.fif", "a-fwd.fif", "a-cov.fif")


@pytest.fixture(autouse=True)
def folder(tmp_path_factory, monkeypatch):
    """Write an average with two places once, and work next to it."""
    path = tmp_path_factory.getbasetemp() / "brain"
    if not path.is_dir():
        path.mkdir()
        forward, noise_cov, info = brain.sphere_head(200)
        evoked = brain.simulate(forward, noise_cov, info, [30, 150], snr_db=20, rng=0)
        with mne.utils.use_log_level("ERROR"):
            mne.write_evokeds(path / FILES[0], evoked)
            mne.write_forward_solution(path / FILES[1], forward)
            noise_cov.save(path / FILES[2])
    monkeypatch.chdir(path)


def sources(*arguments):
    return CliRunner().invoke(app, ["sources", *map(str, arguments)])


def test_places_picture_and_source_estimates():
    done = sources(*FILES, "-o", "places.png", "--stc", "found", "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert [row["place"] for row in answer["sources"]] == [30, 150]
    assert answer["confidence"] > 0.9
    assert Path("places.png").read_bytes()[:4] == b"\x89PNG"
    stc = mne.read_source_estimate("found-courses")
    assert stc.data.shape == (2, 100)
    assert mne.read_source_estimate("found-probability").data.max() > 0.9


def test_a_window_and_words():
    done = sources(*FILES, "--window", "0.1:0.4", "--loose", "1", "--depth", "0")
    assert done.exit_code == 0, done.output
    assert "2 active places, confidence" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none-ave.fif", *FILES[1:]), "'none-ave.fif' is not a file"),
        ((FILES[1], *FILES[1:]), "cannot read 'a-fwd.fif' as an average (-ave.fif)"),
        (("data.csv", *FILES[1:]), "'data.csv' is not a file of MNE-Python: an average (-ave.fif) is needed"),
        ((*FILES, "--condition", "4"), "'4' is not in the file; choose one of 0 ("),
        ((*FILES, "--depth=-1"), "must be 0 or more, got -1"),
        ((*FILES, "--window", "0.1"), "'0.1' is not FROM:TO"),
        ((*FILES, "--window", "0.1:9"), "not inside the average"),
        ((*FILES, "--loose", "free"), "neither auto nor a number"),
        ((*FILES, "-o", "places.txt"), "is not .png, .svg or .pdf"),
    ],
)
def test_wrong_use(arguments, words):
    Path("data.csv").write_text("1,2,3\n")
    done = sources(*arguments)
    assert done.exit_code != 0
    said = " ".join((done.output + str(done.exception)).replace("│", " ").split())
    assert words in said


def test_an_average_among_several_is_chosen():
    evoked = mne.read_evokeds(FILES[0], 0, verbose="ERROR")
    other = evoked.copy()
    evoked.comment, other.comment = "left", "right"
    other.data = 1e-6 * np.random.default_rng(0).standard_normal(other.data.shape)
    mne.write_evokeds("b-ave.fif", [evoked, other], overwrite=True, verbose="ERROR")
    asked = sources("b-ave.fif", *FILES[1:])
    assert asked.exit_code == 2
    assert "choose one of 0 (left), 1 (right)" in " ".join(asked.output.replace("│", " ").split())
    for condition in ("left", "0"):
        assert "2 active places" in sources("b-ave.fif", *FILES[1:], "--condition", condition).stdout
