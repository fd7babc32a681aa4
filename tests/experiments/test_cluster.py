"""The same experiment on a local dask cluster of two workers."""

import json

import pytest

from maxsparse import experiments

distributed = pytest.importorskip("distributed", reason="pip install 'maxsparse[cluster]'")


@pytest.fixture(scope="module")
def address():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster.scheduler_address


def read(outcome):
    return json.loads((outcome.folder / "results.json").read_text())


def test_two_workers_measure_what_one_process_measures(address, tmp_path):
    methods = ["residual", "omp"]
    here = read(experiments.run("basic", preset="smoke", methods=methods, output=tmp_path / "here", device="cpu"))
    options = {"preset": "smoke", "methods": methods, "output": tmp_path / "there", "device": "cpu"}
    there = read(experiments.run("basic", **options, scheduler=address))
    assert there["summary"] == here["summary"]
    # The network that a worker trained is here now, and the next run needs neither training nor the cluster.
    ((trained,), (again,)) = ([*(tmp_path / p / ".networks").glob("*.safetensors")] for p in ("here", "there"))
    assert trained.name == again.name
    assert experiments.run("basic", **options).resumed == 4


def test_no_scheduler_there(tmp_path, monkeypatch):
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.5s"}),
        pytest.raises(OSError, match=r"127\.0\.0\.1:9"),
    ):
        experiments.run("rank-one", preset="smoke", output=tmp_path, scheduler="tcp://127.0.0.1:9")
