"""A real cluster of two processes, killed and paused in the middle: the same answers, nothing lost."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import maxsparse as ms

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")


@pytest.fixture(scope="module")
def problem():
    Phi = ms.dictionaries.decaying(12, 30, rng=0)
    _, Y = ms.signals.sample(Phi, 300, sparsity=(1, 4), rng=1)
    return ms.SparseRecoverer(Phi, budget=0), Y


@contextmanager
def two_workers():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as connected,
    ):
        yield connected


@pytest.fixture(scope="module")
def client():
    with two_workers() as connected:
        yield connected


@pytest.fixture
def own_client():
    """A cluster of its own, for tests after which dask may not bring all workers back."""
    with two_workers() as connected:
        yield connected


def test_a_killed_worker_loses_nothing(problem, client, tmp_path):
    model, Y = problem
    here, there = tmp_path / "here.npz", tmp_path / "there.npz"
    ms.streaming.recover(model, Y, here, chunk=15)
    pids = client.run(os.getpid)
    seen = []

    def runner(*arguments):
        for index, chunk in ms.distributed.Cluster(client)(*arguments):
            seen.append(index)
            if len(seen) == 2:
                os.kill(next(iter(pids.values())), 9)
            yield index, chunk

    summary = ms.streaming.recover(model, Y, there, chunk=15, runner=runner)
    assert sorted(seen) == list(range(20))
    assert summary.signals == 300
    assert there.read_bytes() == here.read_bytes()


@pytest.mark.long
def test_the_model_is_made_again_when_every_worker_that_has_it_is_killed(problem, own_client, tmp_path):
    model, Y = problem
    client = own_client
    here, there = tmp_path / "here.npz", tmp_path / "there.npz"
    ms.streaming.recover(model, Y, here, chunk=15)

    def runner(*arguments):
        for number, found in enumerate(ms.distributed.Cluster(client)(*arguments)):
            if number == 2:
                for pid in client.run(os.getpid).values():
                    os.kill(pid, signal.SIGKILL)
            yield found

    ms.streaming.recover(model, Y, there, chunk=15, runner=runner)
    assert there.read_bytes() == here.read_bytes()


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be paused")
def test_noisy_signals_from_zarr_to_zarr_while_a_worker_is_paused_and_another_killed(own_client, tmp_path):
    zarr = pytest.importorskip("zarr")
    Phi = ms.dictionaries.gaussian(12, 30, rng=0)
    _, Y = ms.signals.sample(Phi, 600, sparsity=2, noise=0.002, rng=1)
    zarr.create_array(tmp_path / "Y.zarr", shape=Y.shape, chunks=(100, 12), dtype=Y.dtype)[:] = Y
    model = ms.SparseRecoverer(Phi, noise=0.002, budget="none")
    ms.streaming.recover(model, tmp_path / "Y.zarr", tmp_path / "here.zarr", chunk=20)
    timers = []

    def runner(*arguments):
        for number, found in enumerate(ms.distributed.Cluster(own_client)(*arguments)):
            if number == 2:
                paused, killed = own_client.run(os.getpid).values()
                os.kill(paused, signal.SIGSTOP)
                timers.append(threading.Timer(2.0, os.kill, (paused, signal.SIGCONT)))
                timers[0].start()
                os.kill(killed, signal.SIGKILL)
            yield found

    ms.streaming.recover(model, tmp_path / "Y.zarr", tmp_path / "there.zarr", chunk=20, runner=runner)
    timers[0].join()
    assert contents(tmp_path / "there.zarr") == contents(tmp_path / "here.zarr")


def test_a_run_without_workers_ends_with_an_error_and_is_resumed(problem, tmp_path, monkeypatch):
    model, Y = problem
    monkeypatch.setattr(ms.distributed, "RETURN_SECONDS", 1)
    monkeypatch.setattr(ms.distributed, "LOOK_SECONDS", 0.3)
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as connected:

        def runner(*arguments):
            for number, found in enumerate(ms.distributed.Cluster(connected)(*arguments)):
                if number == 2:
                    cluster.scale(0)
                yield found

        with pytest.raises(OSError, match="no workers for 1 s; start workers and run the same command again"):
            ms.streaming.recover(model, Y, tmp_path / "X.npz", chunk=15, runner=runner)
    assert ms.streaming.recover(model, Y, tmp_path / "X.npz", chunk=15).resumed >= 30


class Gone:
    """A chunk that is finished, but whose worker is gone before its answer was fetched; later another one has it."""

    status = "finished"

    def __init__(self, looks, answer):
        self.looks, self.answer = looks, answer

    def done(self):
        return True

    def result(self, timeout=None):
        assert timeout is not None  # without one, dask waits for a worker for ever
        self.looks -= 1
        if self.looks:
            time.sleep(timeout)
            raise TimeoutError
        return self.answer


@pytest.mark.parametrize(("workers", "looks"), [({}, 1000), ({"tcp://here": 1}, 4)])
def test_a_finished_chunk_whose_worker_is_gone(problem, monkeypatch, workers, looks):
    monkeypatch.setattr(ms.distributed, "RETURN_SECONDS", 0.2)
    monkeypatch.setattr(ms.distributed, "LOOK_SECONDS", 0.1)
    future = Gone(looks, "the answer")
    client = SimpleNamespace(submit=lambda *_, **__: future, nthreads=lambda: workers)
    send = ms.distributed._Sender(client, problem[0], "Y", False)
    if workers:
        assert send.result(future, 1) == "the answer"
    else:
        with pytest.raises(OSError, match=r"no workers for 0.2 s; start workers and run the same command again"):
            send.result(future, 1)


@pytest.mark.long
def test_the_benchmark_of_faults(tmp_path):
    script = Path(__file__).parents[2] / "benchmarks" / "cluster.py"
    command = [sys.executable, str(script), "faults", str(tmp_path / "files"), "--signals", "20000", "--paused", "5"]
    done = subprocess.run([*command, "--results", str(tmp_path / "cluster.json")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_command_line_shares_its_work(problem, client, tmp_path):
    from typer.testing import CliRunner

    from maxsparse.cli import app

    model, Y = problem
    np.save(tmp_path / "Phi.npy", model.Phi)
    np.save(tmp_path / "Y.npy", Y)
    command = ["recover", str(tmp_path / "Phi.npy"), str(tmp_path / "Y.npy"), "--chunk", "50", "--budget", "0"]
    address = client.scheduler.address
    shared = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "a.npz"), "--scheduler", address])
    assert shared.exit_code == 0, shared.output
    assert CliRunner().invoke(app, [*command, "-o", str(tmp_path / "b.npz")]).exit_code == 0
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_dask_arrays(problem, client):
    import dask

    model, Y = problem
    result = ms.distributed.recover(model, da.from_array(Y, chunks=(70, 5)))
    coef, certified = dask.compute(result.coef, result.certified)
    expected = ms.streaming.Recover(model)(Y)
    np.testing.assert_array_equal(coef, expected.coef)
    np.testing.assert_array_equal(certified, expected.certified)
    with pytest.raises(ValueError, match="must be a dask array"):
        ms.distributed.recover(model, Y)
    with pytest.raises(ValueError, match=r"fits transposed; pass Y\.T"):
        ms.distributed.recover(model, da.from_array(Y[:40].T))


def test_an_error_on_a_worker_is_told_as_here(problem, client, tmp_path):
    model, Y = problem
    bad = Y.copy()
    bad[123, 4] = np.nan
    with pytest.raises(ValueError, match="holds NaN at row 123, column 4"):
        ms.streaming.recover(model, bad, tmp_path / "X.npz", chunk=50, runner=ms.distributed.Cluster(client))
