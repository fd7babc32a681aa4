"""Damaged and hostile files give clear errors, within the memory that is allowed."""

import importlib.util
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from maxsparse.files import parse_json, read_array

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fuzz.py"


def load_script():
    spec = importlib.util.spec_from_file_location("fuzz", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not hasattr(os, "fork"), reason="inputs run in forked processes")
@pytest.mark.parametrize("inputs", [1500, pytest.param(200_000, marks=pytest.mark.long)])
def test_nothing_but_clear_errors(inputs):
    pytest.importorskip("cv2")
    counts, unclear, _ = load_script().fuzz(inputs)
    assert not unclear
    assert sum(counts.values()) == inputs


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
    with pytest.raises(ValueError, match=r"would unpack from .* to 268,\d+,\d+ bytes; if you trust it, unpack it"):
        read_array(tmp_path / "bomb.npz")
    scipy.io.savemat(tmp_path / "bomb.mat", {"Phi": np.zeros((4096, 4096))}, do_compression=True)
    with pytest.raises(ValueError, match="would unpack"):
        read_array(tmp_path / "bomb.mat")


@pytest.mark.parametrize("text", ["NaN", "-Infinity", '{"a": NaN}', "[" * 100_000, "{", None, 3, b"\xff"])
def test_what_is_no_plain_json_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)
