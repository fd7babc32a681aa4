"""Killed processes, full disks, read-only folders, little memory: nothing is lost, and what was there stays whole.

A dask worker that is lost is in tests/distributed.
"""

import contextlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import maxsparse as ms
from maxsparse import experiments
from maxsparse._core.atomic import atomic_write

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "faults.py"
PHI = ms.dictionaries.gaussian(12, 24, rng=0)
forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="jobs run in forked processes")


@forking
@pytest.mark.parametrize("kills", [1, pytest.param(50, marks=pytest.mark.long)])
def test_a_job_that_is_killed_goes_on_and_ends_with_the_same_bytes(tmp_path, kills):
    # A process of its own: it forks, and this one may have used OpenMP, which does not survive that.
    command = [sys.executable, str(SCRIPT), "--kills", str(kills), "--results", str(tmp_path / "faults.json")]
    if kills == 1:
        command += ["--jobs", "fit", "recover", "reproduce"]  # the others take a minute to compile
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def disk(tmp_path):
    """A file system of a megabyte, and a function that mounts it again with other options."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(*options):
        return subprocess.run(["mount", *options, str(folder)], capture_output=True).returncode

    if sys.platform != "linux" or os.geteuid() != 0 or mount("-t", "tmpfs", "-o", "size=1m", "tmpfs"):
        pytest.skip("only root can mount a file system")
    yield folder, lambda option: mount("-o", f"remount,{option}")
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # networks that are in use stay mapped


def save_recoverer(path):
    ms.SparseRecoverer(PHI).save(path)


def save_network(path):
    ms.networks.save(ms.networks.build("residual", PHI, width=20, depth=2, rng=0), path)


def train(path):
    settings = ms.training.PRESETS["modern"].but(batch_size=32, rounds=2)
    sizes = {"width": 20, "depth": 2}
    ms.training.fit(
        PHI, settings=settings, samples=640, hyperparameters=sizes, output=path, overwrite=True, rng=0, n_threads=1
    )


def stream(path):
    _, Y = ms.signals.sample(PHI, 500, sparsity=2, rng=1)
    ms.streaming.solve(PHI, Y, path.with_suffix(".npz"), "omp", method_options={"sparsity": 2}, fresh=True)


def reproduce(path):
    experiments.run("data-size", preset="smoke", output=path.with_suffix(""), fresh=True)


WRITERS = [save_recoverer, save_network, train, stream, reproduce]


def fill(path):
    """Write a file until the disk is full."""
    with path.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "filler"}


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_a_full_disk_or_a_read_only_folder_is_an_error_and_the_previous_file_stays_whole(disk, write, fault):
    folder, remount = disk
    output = folder / "output.safetensors"
    write(output)
    before = snapshot(folder)
    assert before
    if fault == "read-only":
        assert remount("ro") == 0
    else:
        fill(folder / "filler")
    message = {"full": "No space left on device", "read-only": "Read-only file system"}[fault]
    with pytest.raises(OSError, match=message):
        write(output)
    after = snapshot(folder)
    assert {path: after.get(path) for path in before} == before
    assert not [path for path in after if path.name.endswith(".part")]


def run(program, folder):
    """Run a program in a process of its own, in that folder."""
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_a_file_larger_than_may_be_is_an_error_and_the_previous_file_stays_whole(tmp_path):
    """For those who cannot mount: a limit on the size of files."""
    pytest.importorskip("resource")
    program = """
        import resource
        import maxsparse as ms
        Phi = ms.dictionaries.gaussian(12, 24, rng=0)
        ms.SparseRecoverer(Phi).save("model.safetensors")
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            ms.SparseRecoverer(Phi, budget="fast").save("model.safetensors")
        except OSError as error:
            print(error)
        assert ms.load("model.safetensors").budget == "normal"
    """
    done = run(program, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "File too large" in done.stdout
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_what_a_killed_writer_left_is_removed_and_what_another_writes_is_not(tmp_path):
    (tmp_path / ".a.npy.0123abcd.part").write_bytes(b"half a file")
    (tmp_path / ".b.npy.0123abcd.part").write_bytes(b"of another file")
    with atomic_write(tmp_path / "a.npy") as first:
        with atomic_write(tmp_path / "a.npy") as second:
            second.write(b"second")
        first.write(b"first")
    assert sorted(os.listdir(tmp_path)) == [".b.npy.0123abcd.part", "a.npy"]
    assert (tmp_path / "a.npy").read_bytes() == b"first"


def test_more_signals_than_memory_are_recovered_in_chunks(tmp_path):
    """Under a limit of address space that the coefficients alone would not fit."""
    pytest.importorskip("resource")
    np.save(tmp_path / "Phi.npy", ms.dictionaries.gaussian(16, 100, rng=0))
    _, Y = ms.signals.sample(np.load(tmp_path / "Phi.npy"), 1000, sparsity=2, rng=1)
    np.save(tmp_path / "Y.npy", np.tile(Y, (300, 1)))
    program = """
        import resource
        from pathlib import Path
        import numpy as np
        import maxsparse as ms
        Phi, options = np.load("Phi.npy"), {"sparsity": 2, "n_threads": 1}
        ms.streaming.solve(Phi, np.load("Y.npy", mmap_mode="r")[:100], "few.npz", "omp", method_options=options)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 120 * 2**20,) * 2)
        try:
            np.zeros((300_000, 100))
        except MemoryError:
            print("too much at once")
        summary = ms.streaming.solve(Phi, "Y.npy", "X.npz", "omp", method_options=options, chunk=5000)
        print(summary.signals)
    """
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc")
    done = run(program, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["too much at once", "300000"]
    found = scipy.sparse.load_npz(tmp_path / "X.npz")
    expected = ms.solve(np.load(tmp_path / "Phi.npy"), Y, "omp", sparsity=2).coef
    for start in (0, 150_000, 299_000):
        np.testing.assert_array_equal(found[start : start + 1000].toarray(), expected)
