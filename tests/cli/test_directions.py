"""``maxsparse directions``: files and recordings in, directions out; hostile files end in clear errors."""

import json

import numpy as np
import pytest
from scipy.io import wavfile
from typer.testing import CliRunner

from maxsparse.cli import app
from maxsparse.fields import arrays

RATE, SPACING = 16_000, 0.04


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def directions(*arguments):
    return CliRunner().invoke(app, ["directions", *map(str, arguments)])


def record(azimuths, sensors=6, seconds=0.6):
    """Write noise from these azimuths, delayed exactly in the frequency domain, as a recording of 16 bits."""
    rng, T = np.random.default_rng(0), int(seconds * RATE)
    frequency = np.fft.rfftfreq(T, 1 / RATE)
    spectrum = np.zeros((T // 2 + 1, sensors), dtype=complex)
    for azimuth in azimuths:
        advance = SPACING * np.arange(sensors) * np.sin(np.radians(azimuth)) / 343.0  # seconds, towards the source
        own = np.fft.rfft(rng.standard_normal(T))[:, None]
        spectrum += own * np.exp(2j * np.pi * frequency[:, None] * advance)
    samples = np.fft.irfft(spectrum, T, axis=0) + 0.05 * rng.standard_normal((T, sensors))
    wavfile.write("sound.wav", RATE, (3000 * samples).astype(np.int16))


def test_snapshots_to_json_and_picture():
    Y = arrays.simulate(arrays.linear(8), [-20.0, 15.0], snapshots=20, rng=0)
    np.save("Y.npy", Y)
    done = directions("Y.npy", "--linear", 0.5, "-o", "picture.png", "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert sorted(round(row["azimuth"]) for row in answer["sources"]) == [-20, 15]
    with open("picture.png", "rb") as stream:
        assert stream.read(4) == b"\x89PNG"
    np.savetxt("positions.csv", 0.5 * np.arange(8), delimiter=",")
    words = directions("Y.npy", "--positions", "positions.csv")
    assert "2 sources, confidence" in words.stdout.lower()


def test_a_recording():
    record([-25.0, 20.0])
    done = directions("sound.wav", "--linear", SPACING, "--speed", 343, "--band", "1500:3800", "--json")
    assert done.exit_code == 0, done.output
    found = sorted(row["azimuth"] for row in json.loads(done.stdout)["sources"])
    np.testing.assert_allclose(found, [-25.0, 20.0], atol=1.5)


def test_wrong_calls_say_what_to_do():
    np.save("Y.npy", arrays.simulate(arrays.linear(4), [5.0], snapshots=3, rng=0))
    record([0.0])
    calls = {
        ("Y.npy",): "give one of --linear SPACING, --circular RADIUS and --positions FILE",
        ("Y.npy", "--linear", 0.5, "--azimuth", "5"): "'5' is not LOW:HIGH",
        ("Y.npy", "--linear", 0.5, "-o", "out.txt"): "is not .png, .svg or .pdf",
        ("Y.npy", "--linear", 0.5, "--band", "1:2"): "band= is for recordings",
        ("sound.wav", "--linear", 0.04): "give --speed 343 for sound in air",
        ("sound.wav", "--linear", 0.04, "--speed", 343, "--frequency", 900): "choose them with --band LOW:HIGH",
        ("Y.npy", "--linear=-1"): "must be positive, got -1",
        ("sound.wav", "--linear", 0.04, "--speed", 343, "--band", "9000:9500"): "is in the band 9000 to 9500 Hz",
        ("missing.wav", "--linear", 0.04): "is not a file",
    }
    for arguments, words in calls.items():
        done = directions(*arguments)
        assert done.exit_code != 0
        said = " ".join((done.output + str(done.exception)).replace("│", " ").split())
        assert words in said, said


@pytest.mark.parametrize("damage", range(6))
def test_damaged_recordings_are_refused(damage):
    record([0.0], seconds=0.1)
    with open("sound.wav", "rb") as stream:
        content = bytearray(stream.read())
    content = {
        0: b"",
        1: content[:30],
        2: b"RIFF" + b"\xff" * 200,
        3: bytes(content[:20]) + b"\x00" * 16 + bytes(content[36:]),  # no format
        4: bytes(content[:22]) + b"\xff\x7f" + bytes(content[24:]),  # 32,767 channels
        5: b"\x93NUMPY" + bytes(content),
    }[damage]
    with open("damaged.wav", "wb") as stream:
        stream.write(content)
    with pytest.raises(ValueError, match=r"cannot read|one channel|pieces of"):
        arrays.read_snapshots("damaged.wav")
