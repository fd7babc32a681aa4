"""A real cluster of two processes, one of them killed in the middle: the same answers, nothing lost."""

import os

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


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as connected,
    ):
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
