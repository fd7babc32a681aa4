"""Reading hostile files, writing whole ones."""

import os
import struct

import numpy as np
import pytest
import scipy.io

from maxsparse._core.atomic import atomic_write
from maxsparse.files import read_array


class Hostile:
    def __reduce__(self):
        return (os.mkdir, ("pwned",))


def claim(path, shape):
    """Write a .npy file whose header claims `shape` but which holds one number."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(8))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Phi.txt", r"cannot read .*Phi.txt': unknown suffix '.txt'; use one of .npy, .npz, .mat, .csv"),
        ("Phi", "unknown suffix ''"),
        ("missing.npy", "missing.npy' is not a file"),
    ],
)
def test_wrong_names(tmp_path, name, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_array(tmp_path / name)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat", ".csv"])
@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"\x93NUMPY", b"PK\x03\x04", b"a,b\n1,2\n"])
def test_damaged_files(tmp_path, suffix, content):
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(content)
    if suffix == ".csv" and content == b"":
        pytest.skip("an empty table is a legal file; the dictionary check refuses it")
    with pytest.raises(ValueError, match="cannot read"):
        read_array(path)


@pytest.mark.parametrize("shape", [(10**12,), (10**9, 10**9), (2**62, 2**62)])
def test_headers_that_claim_too_much(tmp_path, shape):
    claim(tmp_path / "huge.npy", shape)
    with pytest.raises(ValueError, match="header claims shape"):
        read_array(tmp_path / "huge.npy")


def test_pickles_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("evil.npy", np.array([Hostile()], dtype=object), allow_pickle=True)
    np.savez("evil.npz", a=np.array([Hostile()], dtype=object))
    for name in ("evil.npy", "evil.npz"):
        with pytest.raises(ValueError, match="Python objects, which are never loaded"):
            read_array(name)
    assert not (tmp_path / "pwned").exists()


def test_keys(tmp_path):
    np.savez(tmp_path / "two.npz", a=np.ones(2), b=np.zeros(3))
    scipy.io.savemat(tmp_path / "two.mat", {"a": np.ones(2), "b": np.zeros(3)})
    np.save(tmp_path / "one.npy", np.ones(2))
    assert read_array(tmp_path / "two.npz", key="b").shape == (3,)
    assert read_array(tmp_path / "two.mat", key="b").shape == (1, 3)
    for name in ("two.npz", "two.mat"):
        with pytest.raises(ValueError, match=r"several arrays \(a, b\); select one with key="):
            read_array(tmp_path / name)
        with pytest.raises(ValueError, match="no array 'c', only a, b"):
            read_array(tmp_path / name, key="c")
    with pytest.raises(ValueError, match="cannot be used"):
        read_array(tmp_path / "one.npy", key="a")


def test_text_is_not_numbers(tmp_path):
    np.save(tmp_path / "text.npy", np.array(["a"]))
    with pytest.raises(ValueError, match="holds dtype <U1, not numbers"):
        read_array(tmp_path / "text.npy")


def test_atomic_write_replaces_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_write(path) as stream:
        stream.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_atomic_write_keeps_the_old_file(tmp_path, error):
    path = tmp_path / "file"
    path.write_text("old")

    def fail_in_the_middle():
        with atomic_write(path) as stream:
            stream.write(b"half")
            raise error

    with pytest.raises(error):
        fail_in_the_middle()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_atomic_write_needs_its_folder(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match="does not exist; create it first"),
        atomic_write(tmp_path / "no" / "f"),
    ):
        pass
