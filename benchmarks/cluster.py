"""A dask cluster on one machine: nothing is lost when workers are killed or paused and when the disk is full.

    python benchmarks/cluster.py faults FOLDER --signals 10000000   `maxsparse recover --scheduler`, zarr to zarr
    python benchmarks/cluster.py cost                               processor time per million signals, by size

`faults` runs the command on four workers, disturbs it, runs it once more in one process, and compares the two outputs
bit by bit; with `--every 10`, one process does every tenth chunk only. It resumes when it was stopped: FOLDER holds
what is finished. Each part fills its own section of results/cluster.json. The machinery of the faults is in
cluster_faults.py.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from pathlib import Path

import dask
import distributed
import numpy as np
import zarr
from cluster_faults import DISTURBANCES, Disk, Journal, disturbed_run, plain_run
from machine import describe

import maxsparse as ms
from maxsparse._core.atomic import atomic_write

RESULTS = Path(__file__).parent / "results" / "cluster.json"
PACKAGES = ("maxsparse", "numpy", "numba", "dask", "distributed", "zarr")
SEED = 24
ROWS = 100_000  # signals made at a time
SNR_DB = 40
WORKERS = 4
FEW = 20  # signals of a run that measures what a run costs once
# n, m, nonzeros, noisy, signals of `cost`: seconds each
CELLS = [
    (20, 100, (2, 3), False, 200_000),
    (20, 100, (2, 3), True, 20_000),
    (200, 1000, (5, 10), False, 10_000),
    (200, 1000, (5, 10), True, 1_000),
]


def problem(n, m, sparsity):
    """Return a gaussian Φ (n, m) and the noise level that is SNR_DB below the mean power of its signals."""
    Phi = ms.dictionaries.gaussian(n, m, rng=SEED)
    power = np.mean(sparsity) * (0.5**3 - 0.1**3) / (3 * 0.4) * np.mean((Phi**2).sum(axis=0)) / n
    return Phi, float(f"{math.sqrt(power) * 10 ** (-SNR_DB / 20):.3g}")


def blocks(Phi, signals, sparsity, sigma):
    """Yield the rows, X and Y of every block; the same ones every time."""
    for start in range(0, signals, ROWS):
        rows = slice(start, min(signals, start + ROWS))
        rng = np.random.default_rng([SEED, start])
        yield rows, *ms.signals.sample(Phi, rows.stop - start, sparsity=sparsity, noise=sigma, rng=rng)


def make(path, Phi, signals, sparsity, sigma, chunk):
    """Write signals (signals, n) as a zarr array, block by block, unless they are there."""
    if path.exists():
        return
    part = path.with_name(f"part.{path.name}")
    Y = zarr.create_array(part, shape=(signals, Phi.shape[0]), chunks=(chunk, Phi.shape[0]), dtype="f8",
                          compressors=None, overwrite=True)  # fmt: skip
    for rows, _, block in blocks(Phi, signals, sparsity, sigma):
        Y[rows] = block
    part.rename(path)


def thinned(folder, chunk, every):
    """Write every so many chunks of Y.zarr as an array of their own; return its name."""
    if every == 1:
        return "Y.zarr"
    Y, path = zarr.open_array(folder / "Y.zarr", mode="r"), folder / f"Y{every}.zarr"
    if not path.exists():
        part = path.with_name(f"part.{path.name}")
        starts = range(0, Y.shape[0], every * chunk)
        chosen = zarr.create_array(part, shape=(len(starts) * chunk, Y.shape[1]), chunks=Y.chunks, dtype="f8",
                                   compressors=None, overwrite=True)  # fmt: skip
        for k, start in enumerate(starts):
            chosen[k * chunk : (k + 1) * chunk] = Y[start : start + chunk]
        part.rename(path)
    return path.name


def differences(whole, part, chunk, every):
    """Return how many signals `part` holds, and how many of them have another answer in any array of `whole`."""
    one, other = zarr.open_group(whole, mode="r"), zarr.open_group(part, mode="r")
    names = sorted(other.array_keys())
    if names != sorted(one.array_keys()):
        raise AssertionError(f"other arrays: {names} and {sorted(one.array_keys())}")
    N = other[names[0]].shape[0]
    different = np.zeros(N, dtype=bool)
    for k in range(N // chunk):
        there, here = (slice(start, start + chunk) for start in (k * every * chunk, k * chunk))
        for name in names:
            pair = [np.ascontiguousarray(group[name][rows]) for group, rows in ((one, there), (other, here))]
            bits = [array.reshape(chunk, -1).view(np.uint8) for array in pair]
            different[here] |= (bits[0] != bits[1]).any(axis=1)
    return N, int(different.sum())


def scored(path, Phi, signals, sparsity, sigma):
    """Return the share of right supports and the mean confidence of the answers in a zarr group."""
    answers = zarr.open_group(path, mode="r")
    right = confidence = 0.0
    for rows, X, _ in blocks(Phi, signals, sparsity, sigma):
        right += float(((answers["coef"][rows] != 0) == (X != 0)).all(axis=1).sum())
        confidence += float(np.sum(answers["confidence"][rows]))
    return {"right": round(right / signals, 6), "mean confidence": round(confidence / signals, 6)}


def local_cluster(workers, folder):
    """Start a scheduler and so many workers of one thread each, every worker a process with a nanny."""
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None,
        silence_logs=50, local_directory=str(folder),
    )  # fmt: skip


def faults(folder, options):
    """Disturb a run on four workers, run it again in one process, and compare."""
    folder.mkdir(parents=True, exist_ok=True)
    N, sparsity = options.signals, (2, 3)
    chunk = max(50, min(10_000, N // 100))
    if N % (options.every * chunk):
        raise SystemExit(f"--signals must be a multiple of --every times the chunk of {chunk}, got {N}")
    Phi, sigma = problem(20, 100, sparsity)
    settings = {"signals": N, "chunk": chunk, "budget": options.budget, "sigma": sigma, "seed": SEED}
    journal = Journal(folder / "journal.json", settings)
    np.save(folder / "Phi.npy", Phi)
    make(folder / "Y.zarr", Phi, N, sparsity, sigma, chunk)
    how = ["--noise", str(sigma), "--budget", options.budget, "--chunk", str(chunk), "-o"]
    with Disk(folder, 2**26 + 500 * N) as disk:
        if not journal.has("cluster"):
            with (
                journal.step("cluster") as step,
                dask.config.set({"distributed.scheduler.worker-ttl": f"{options.ttl} s"}),
                local_cluster(WORKERS, disk.folder) as cluster,
                distributed.Client(cluster) as client,
            ):
                chunks = -(-N // chunk)
                step |= disturbed_run(
                    ["recover", "Phi.npy", "Y.zarr", *how, "disk/X.zarr"], chunks, client, disk, journal, options.paused
                )
        if not journal.has("one process"):
            with journal.step("one process") as step:
                source = thinned(folder, chunk, options.every)
                step |= plain_run(["recover", "Phi.npy", source, *how, "one.zarr"], folder)
        compared, different = differences(disk.folder / "X.zarr", folder / "one.zarr", chunk, options.every)
        figures = scored(disk.folder / "X.zarr", Phi, N, sparsity, sigma)
    missing = [name for _, name in DISTURBANCES if name not in journal.events]
    if different or missing:
        raise AssertionError(f"signals with other answers: {different}; faults that did not happen: {missing}")
    return {
        "command": f"python benchmarks/cluster.py faults FOLDER --signals {N} --budget {options.budget} "
        f"--paused {options.paused:g} --ttl {options.ttl:g} --every {options.every}",
        **settings, "snr dB": SNR_DB, "Phi": "gaussian 20x100", "nonzeros": sparsity, "workers": WORKERS,
        "seconds after which dask replaces a worker": options.ttl, "disk": disk.kind, "faults": journal.events,
        "cluster": journal.steps["cluster"], "one process": journal.steps["one process"],
        "signals compared": compared, "different": different, **figures,
    }  # fmt: skip


def idle_share(seconds=5.0):
    """Return the share of a core that this process and the scheduler take while nothing happens."""
    begun = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - begun) / seconds


def timed(model, source, target, client, idle, **options):
    """Return processor seconds of the workers, and of this process with the scheduler, for one run.

    Heartbeats go by the clock and not by the signals: their share `idle` of a core is subtracted.
    """
    with ms.distributed.Cluster(client) as cluster:
        workers, here = sum(client.run(time.process_time).values()), time.process_time()
        begun = time.monotonic()
        ms.streaming.recover(model, source, target, runner=cluster, **options)
        here = max(0.0, time.process_time() - here - idle * (time.monotonic() - begun))
        return np.array([sum(client.run(time.process_time).values()) - workers, here])


def cost_of(n, m, sparsity, noisy, signals, client, folder, idle):
    """Measure processor time in µs per signal, in chunks of the usual size, without what a run costs once."""
    Phi, sigma = problem(n, m, sparsity)
    sigma = sigma if noisy else 0.0
    model = ms.SparseRecoverer(Phi, noise=sigma, n_threads=1)
    source, target = folder / f"Y{n}-{noisy}.zarr", folder / f"X{n}-{noisy}.zarr"
    make(source, Phi, signals, sparsity, sigma, min(20_000, signals))
    few = ms.signals.sample(Phi, FEW, sparsity=sparsity, noise=sigma, rng=0)[1]
    timed(model, few, folder / "few.zarr", client, idle, chunk=1)  # loads compiled code, on every worker
    once = timed(model, few, folder / "few.zarr", client, idle)
    begun = time.monotonic()
    spent = timed(model, source, target, client, idle)
    seconds = time.monotonic() - begun
    workers, here = 1e6 * (spent - once) / (signals - FEW)
    sizes = [sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) for tree in (source, target)]
    return {
        "n": n, "m": m, "nonzeros": sparsity, "sigma": sigma, "signals": signals,
        "workers: cpu us per signal": round(workers, 1),
        "command and scheduler: cpu us per signal": round(here, 1),
        "once per run: cpu seconds": round(float(once.sum()), 2),
        "wall seconds": round(seconds, 1), "input bytes per signal": round(sizes[0] / signals, 1),
        "output bytes per signal": round(sizes[1] / signals, 1), **scored(target, Phi, signals, sparsity, sigma),
    }  # fmt: skip


def cost(options):
    """Measure the cost per signal at every size, on as many workers as cores."""
    cores = len(os.sched_getaffinity(0))
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        local_cluster(cores, folder) as cluster,
        distributed.Client(cluster) as client,
    ):
        idle = idle_share()
        for *cell, signals in CELLS:
            rows.append(cost_of(*cell, max(100, int(options.scale * signals)), client, Path(folder), idle))
            print(json.dumps(rows[-1]), flush=True)
    return {
        "command": f"python benchmarks/cluster.py cost --scale {options.scale:g}",
        "idle share of a core": round(idle, 4), "seed": SEED, "snr dB": SNR_DB, "budget": "normal",
        "workers": cores, "rows": rows, "load": os.getloadavg()[1],
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["faults", "cost"])
    parser.add_argument("folder", type=Path, nargs="?", help="of `faults`: its files, to resume from")
    parser.add_argument("--signals", type=int, default=10_000_000, help="of `faults`")
    parser.add_argument("--budget", default="none", help="of `faults`: search effort, as of maxsparse recover")
    parser.add_argument("--paused", type=float, default=30.0, help="of `faults`: seconds a worker is paused")
    parser.add_argument("--ttl", type=float, default=120.0, help="of `faults`: seconds until dask replaces a worker")
    parser.add_argument("--every", type=int, default=1, help="of `faults`: one process does every so many chunks")
    parser.add_argument("--scale", type=float, default=1.0, help="of `cost`: times as many signals")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.part == "faults" and options.folder is None:
        parser.error("faults needs a folder for its files")
    found = faults(options.folder.resolve(), options) if options.part == "faults" else cost(options)
    figures = json.loads(options.results.read_text()) if options.results.exists() else {}
    figures[options.part] = found | {"run": describe(PACKAGES)}
    with atomic_write(options.results) as stream:
        stream.write((json.dumps(figures, indent=1) + "\n").encode())
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
