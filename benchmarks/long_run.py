"""Mixed calls for two hours: memory stays constant, and no thread or file handle leaks.

    python benchmarks/long_run.py

One process, with pauses between the calls. Dictionaries, sizes, types of numbers, methods, noise, structure, threads
and model files change from call to call, two of the front ends included; every few seconds the resident memory, the
threads and the open files are recorded.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import maxsparse as ms
from maxsparse._core.atomic import atomic_write
from maxsparse._core.threads import available_threads
from maxsparse.solvers import METHODS

RESULTS = Path(__file__).parent / "results" / "long_run.json"
KINDS = ("decaying", "gaussian")


def call(number, folder):
    """Make call `number`: draw a problem, and recover it in one of many ways."""
    rng = np.random.default_rng([30, number])
    n, m = int(rng.integers(8, 25)), int(rng.integers(30, 90))
    Phi = getattr(ms.dictionaries, KINDS[number % 2])(n, m, rng=rng)
    Y = ms.signals.sample(Phi, int(rng.integers(1, 400)), sparsity=int(rng.integers(1, 6)), rng=rng)[1]
    if rng.random() < 0.3:
        Phi, Y = Phi.astype(np.float32), Y.astype(np.float32)
    WAYS[number % len(WAYS)](Phi, Y, rng, folder, min(int(rng.integers(1, 3)), available_threads()))


def by_name(Phi, Y, rng, folder, threads):
    names = sorted(set(METHODS) - {"aiht", "exact"})
    ms.solve(Phi, Y, names[int(rng.integers(len(names)))], sparsity=3, n_threads=threads)


def stored(Phi, Y, rng, folder, threads):
    model = ms.SparseRecoverer(Phi, budget="fast", n_threads=threads)
    model.save(folder / "model.safetensors")
    ms.load(folder / "model.safetensors").recover(Y)


def noisy(Phi, Y, rng, folder, threads):
    ms.SparseRecoverer(Phi, noise=0.01, n_threads=threads).recover(Y)


def streamed(Phi, Y, rng, folder, threads):
    model = ms.SparseRecoverer(Phi, budget="fast", n_threads=threads)
    ms.streaming.recover(model, Y, folder / "X.npz", chunk=100)


def mapped(Phi, Y, rng, folder, threads):
    np.save(folder / "Y.npy", Y)
    ms.SparseRecoverer(Phi, budget=50).recover(np.load(folder / "Y.npy", mmap_mode="r"))


def refused(Phi, Y, rng, folder, threads):
    try:
        ms.SparseRecoverer(Phi).recover(np.full_like(Y, np.nan))
    except ValueError:
        return
    raise AssertionError("NaN was recovered")


def unknown_noise(Phi, Y, rng, folder, threads):
    Y = Y[:20] + 0.01 * rng.standard_normal(Y[:20].shape).astype(Y.dtype)
    found = ms.SparseRecoverer(Phi, n_threads=threads).fit(Y).recover(Y)
    found.alternatives(0), found.credible_sets(0)


def non_negative(Phi, Y, rng, folder, threads):
    ms.SparseRecoverer(Phi, noise=0.01, positive=True, n_threads=threads).recover(Y[:20])


def complex_snapshots(Phi, Y, rng, folder, threads):
    Y = Y[: len(Y) // 3 * 3][:30].reshape(-1, 3, Phi.shape[0])
    ms.SparseRecoverer(Phi * (1 + 0j), noise=0.01, n_threads=threads).recover(Y * np.exp(1j * rng.random()))


def grouped(Phi, Y, rng, folder, threads):
    groups = np.arange(Phi.shape[1]) // 3
    ms.SparseRecoverer(Phi, noise=0.01, groups=groups, n_threads=threads).recover(Y[:20])


def unmixed(Phi, Y, rng, folder, threads):
    bands = np.linspace(1.0, 2.0, 60)
    library = np.exp(-0.5 * ((bands - rng.uniform(1.0, 2.0, (30, 1))) / 0.1) ** 2)
    spectra = library[:3].mean(axis=0) + 0.001 * rng.standard_normal((2, 60))
    ms.fields.spectra.unmix(library, spectra)


def waves(Phi, Y, rng, folder, threads):
    array = ms.fields.arrays.linear(8)
    parts = rng.standard_normal((2, 20, 8))
    ms.fields.arrays.estimate_directions(parts[0] + 1j * parts[1], array)


WAYS = (
    *(by_name, stored, noisy, streamed, mapped, refused),
    *(unknown_noise, non_negative, complex_snapshots, grouped, unmixed, waves),
)


WARM_UP = 6 * len(WAYS)


def look():
    """Return what the process holds: megabytes of memory, threads, open files."""
    status = Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return {
        "megabytes": round(int(fields["VmRSS"].split()[0]) / 1024, 1),
        "threads": int(fields["Threads"]),
        "handles": len(list(Path("/proc/self/fd").iterdir())),
    }


def run(seconds, every=5.0, pause=0.2, warm_up=WARM_UP, repeat=False):
    """Make calls for so long; return what was noted, the first time after `warm_up` calls, which compile and cache.

    With `repeat` the calls of the warm-up are made again and again, so that nothing compiles while memory is watched.
    """
    notes = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(warm_up):
            call(number, Path(folder))
        begun = last = time.monotonic()
        number = warm_up
        while not notes or time.monotonic() - begun < seconds:
            if not notes or time.monotonic() - last >= every:
                last = time.monotonic()
                gc.collect()
                notes.append({"seconds": round(last - begun, 1), "calls": number, **look()})
            call(number % warm_up if repeat else number, Path(folder))
            number += 1
            time.sleep(pause)
        gc.collect()
        notes.append({"seconds": round(time.monotonic() - begun, 1), "calls": number, **look()})
    return notes


def summarise(notes):
    """Return the figures that tell of a leak: the second half of the run against the first."""
    half = len(notes) // 2
    memory = [note["megabytes"] for note in notes]
    hours = np.array([note["seconds"] for note in notes]) / 3600
    return {
        "calls": notes[-1]["calls"],
        "minutes": round(notes[-1]["seconds"] / 60, 1),
        "megabytes, most in the first half": max(memory[:half]),
        "megabytes, most in the second half": max(memory[half:]),
        "megabytes per hour, second half": round(float(np.polyfit(hours[half:], memory[half:], 1)[0]), 1),
        "threads": sorted({note["threads"] for note in notes}),
        "handles": sorted({note["handles"] for note in notes}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    notes = run(60.0 * options.minutes)
    summary = {
        "command": f"python benchmarks/long_run.py --minutes {options.minutes:g}",
        "versions": {"python": platform.python_version(), "maxsparse": ms.__version__, "numpy": np.__version__},
        **summarise(notes),
        "notes": notes,
    }
    with atomic_write(options.results) as stream:
        stream.write((json.dumps(summary, indent=1) + "\n").encode())
    print(json.dumps(summarise(notes)))


if __name__ == "__main__":
    main()
