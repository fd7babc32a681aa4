"""Damaged and hostile files give clear errors, within the memory that is allowed."""

import io
import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from maxsparse._core.modelfile import parse_json
from maxsparse.files import read_array
from maxsparse.files._guard import in_child

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="inputs run in forked processes")


@pytest.fixture
def fuzzer(monkeypatch):
    for package in ("cv2", "OpenEXR", "pyarrow", "zarr"):
        pytest.importorskip(package)
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    import fuzz

    return fuzz


@forking
@pytest.mark.parametrize("inputs", [1000, pytest.param(200_000, marks=pytest.mark.long)])
def test_nothing_but_clear_errors(fuzzer, inputs):
    # In a process of its own: threads that other tests have started in a library do not survive a fork, and it waits.
    program = f"import json, fuzz; print(json.dumps(fuzz.fuzz({inputs})))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=BENCHMARKS, check=False
    )
    assert done.returncode == 0, done.stderr
    counts, unclear, megabytes = json.loads(done.stdout)
    assert not unclear
    assert sum(n for what, n in counts.items() if what.endswith(("refused", "accepted"))) == inputs
    assert 0 <= megabytes < 1024


@forking
def test_the_fuzzer_sees_what_is_wrong_and_goes_on_where_it_was(fuzzer, monkeypatch, tmp_path):
    from fuzz_files import Good

    def read(path):
        content = path.read_bytes()
        if content == b"crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if content == b"stray":
            Path("stray").write_text("code was executed")
        if content == b"bomb":
            np.ones(2**28)
        return {b"key": {}}[content]

    contents = [b"key", b"other", b"crash", b"stray", b"bomb"]
    monkeypatch.setattr(fuzzer, "seeds", lambda folder: {"a.txt": Good(b"", read, {})})
    monkeypatch.setattr(fuzzer, "make", lambda number, made, seed: ("a.txt", contents[number]))
    journal = tmp_path / "journal"
    counts, unclear, _ = fuzzer.fuzz(5, megabytes=64, piece=1, journal=journal)
    assert counts == {"a.txt accepted": 1}
    assert [line.split(":")[0] for line in unclear] == [
        "unclear 1 a.txt", "crash (11) at 2 a.txt", "unclear 3 a.txt", "files appeared", "unclear 4 a.txt",
    ]  # fmt: skip
    assert "MemoryError" in unclear[-1]
    monkeypatch.setattr(fuzzer, "in_child", None)  # nothing is run again
    assert fuzzer.fuzz(5, megabytes=64, piece=1, journal=journal)[1] == unclear


@forking
def test_a_parser_that_crashes_is_an_error_of_the_file():
    def crash():
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(ValueError, match="its parser crashed: the file is damaged"):
        in_child(crash)


def test_a_mat_file_with_an_unknown_type_of_number_is_refused(tmp_path):
    content = io.BytesIO()
    scipy.io.savemat(content, {"Phi": np.ones((4, 8))})
    damaged = bytearray(content.getvalue())
    # The type of the numbers, 9 for doubles: SciPy looks beyond the end of its table and may crash, or raise anything.
    damaged[damaged.index(b"Phi\0") + 5] = 0x7F
    (tmp_path / "a.mat").write_bytes(damaged)
    with pytest.raises(ValueError, match=r"cannot read '.*a\.mat'"):
        read_array(tmp_path / "a.mat")


@pytest.mark.parametrize("suffix", [".png", ".exr"])
def test_a_damaged_photograph_is_a_clear_error_alone(tmp_path, capfd, suffix):
    cv2 = pytest.importorskip("cv2")
    from maxsparse.stereo.images import read_image

    path = tmp_path / f"a{suffix}"
    if suffix == ".png":
        content = bytearray(cv2.imencode(".png", np.full((9, 7, 3), 77, np.uint8))[1].tobytes())
        content[content.index(b"IDAT") + 9] ^= 0xFF
    else:
        OpenEXR = pytest.importorskip("OpenEXR")
        header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
        with OpenEXR.File(header, {"RGB": np.ones((9, 7, 3), np.float32)}) as stored:
            stored.write(str(path))
        content = bytearray(path.read_bytes())
        content[-12] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"image '.*a\{suffix}' is damaged or truncated: \S+"):
        read_image(path)
    assert capfd.readouterr() == ("", "")


def test_a_compressed_bomb_is_refused_before_it_is_unpacked(tmp_path):
    bomb = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("Phi.npy", "w", force_zip64=True) as stream,
    ):
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (2**25,)})
        for _ in range(256):
            stream.write(bytes(2**20))
    assert (tmp_path / "bomb.npz").stat().st_size < 2**19
    with pytest.raises(ValueError, match=r"would unpack from .* to 268,\d+,\d+ bytes; if you trust the file"):
        read_array(tmp_path / "bomb.npz")
    scipy.io.savemat(tmp_path / "bomb.mat", {"Phi": np.zeros((4096, 4096))}, do_compression=True)
    with pytest.raises(ValueError, match="would unpack"):
        read_array(tmp_path / "bomb.mat")


@pytest.mark.parametrize("text", ["NaN", "-Infinity", '{"a": NaN}', "[" * 100_000, "{", None, 3, b"\xff"])
def test_what_is_no_plain_json_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)
