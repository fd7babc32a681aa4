"""The command line as a user meets it."""

import subprocess
import sys

import maxsparse


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "maxsparse", *arguments], capture_output=True, text=True)


def test_demo_writes_a_table_and_a_picture(tmp_path):
    done = run("demo", "-o", str(tmp_path / "out"), "--signals", "20")
    assert done.returncode == 0, done.stderr
    assert "Coherence 0.99" in done.stdout
    assert "omp, whitened" in done.stdout
    assert "but wrong: 0 of 200" in done.stdout
    picture = (tmp_path / "out" / "demo.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


def test_version_and_help():
    assert run("--version").stdout == f"maxsparse {maxsparse.__version__}\n"
    shown = run("demo", "--help")
    assert shown.returncode == 0
    assert "Example:" in shown.stdout


def test_bad_use_is_exit_code_2(command):
    for arguments in (["nonsense"], ["demo", "--signals", "x"], ["demo", "--nonsense"]):
        done = command(*arguments)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_failure_is_exit_code_1_without_a_traceback(tmp_path, command):
    (tmp_path / "file").write_text("")
    done = command("demo", "-o", str(tmp_path / "file" / "sub"))
    assert done.returncode == 1
    assert done.stderr.startswith("maxsparse: ")
    assert "Traceback" not in done.stderr
