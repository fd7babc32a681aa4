"""Compiled code on disk: a damaged, foreign or outdated file is compiled anew, never called."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
import numpy as np
from maxsparse._core.compiled import kernel

FACTOR = 2.0

@kernel()
def scaled(x):
    return x * FACTOR

print(scaled(np.dtype(sys.argv[1]).type(1.5)), sum(scaled.stats.cache_hits.values()))
"""


@pytest.fixture
def run(tmp_path):
    script, cache = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(SCRIPT)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(sys.path)}

    def call(dtype):
        command = [sys.executable, str(script), dtype]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout.split(), sorted(path for path in cache.rglob("*") if path.is_file())

    return call


def test_one_file_per_kernel_and_types(run):
    assert run("float64")[0] == ["3.0", "0"]
    answer, files = run("float32")
    assert answer == ["3.0", "0"]
    assert [path.suffix for path in files] == [".nbc", ".nbc"]
    assert run("float64")[0] == ["3.0", "1"]
    assert run("float32")[0] == ["3.0", "1"]


def test_bad_files_are_compiled_anew(run):
    _, (wide,) = run("float64")
    _, both = run("float32")
    (narrow,) = set(both) - {wide}
    good = wide.read_bytes()
    stamp, code = good.split(b"\n", 1)
    outdated = stamp[::-1] + b"\n" + code
    moved = stamp + b"\ncmaxsparse.nowhere\nProblem\n."  # a class that is gone
    for bad in (good[: len(good) // 2], b"", b"nonsense", narrow.read_bytes(), outdated, moved):
        wide.write_bytes(bad)
        assert run("float64")[0] == ["3.0", "0"]
        assert run("float64")[0] == ["3.0", "1"]


def test_no_folder_to_write_to_is_no_error():
    """Code that has no file of its own cannot be stored; it is compiled in every process."""
    code = "from maxsparse._core.compiled import kernel\n@kernel()\ndef f(x):\n    return x + 1\nprint(f(1))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout == "2\n", done.stderr
