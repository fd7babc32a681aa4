"""Kill -9 at random moments of training, recover, unmix and reproduce: each ends, with byte-identical results.

    python benchmarks/faults.py --kills 50

Every job runs in a separate process, which is killed after a random share of its usual time; the same job then resumes.
After at most five kills it may finish, and every file is compared with those of an undisturbed run, except for dates
and durations in results.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import maxsparse as ms
from maxsparse import experiments, streaming, training
from maxsparse._core.atomic import atomic_write

RESULTS = Path(__file__).parent / "results" / "faults.json"
KILLS_IN_A_ROW = 5
PATIENCE_SECONDS = 600


def fit(folder):
    """Train a network: begin, or go on from the checkpoint."""
    output = folder / "model.safetensors"
    if training.checkpoint_path(output).is_file():
        training.resume(output, n_threads=1)
        return
    if output.is_file():  # it had ended before the signal came
        return
    settings = training.PRESETS["modern"].but(rounds=12)
    Phi = ms.dictionaries.decaying(12, 30, rng=0)
    sizes = {"width": 60, "depth": 4}
    training.fit(Phi, sparsity=(1, 3), samples=50_000, settings=settings, hyperparameters=sizes, output=output, rng=0,
                 n_threads=1)  # fmt: skip


def recover(folder):
    """Recover signals from a file to a file."""
    Phi = ms.dictionaries.decaying(16, 60, rng=0)
    Y = ms.signals.sample(Phi, 6000, sparsity=(1, 5), rng=1)[1]
    streaming.recover(ms.SparseRecoverer(Phi, budget=30, n_threads=1), Y, folder / "X.npz", chunk=200)


def reproduce(folder):
    """Run an experiment of the paper, trained networks included."""
    experiments.run("data-size", preset="smoke", output=folder)


def recover_noisy(folder):
    """Recover noisy signals from a file to a file, at a level that is given."""
    Phi = ms.dictionaries.decaying(16, 60, rng=0)
    Y = ms.signals.sample(Phi, 400, sparsity=(1, 4), noise=0.002, rng=1)[1]
    model = ms.SparseRecoverer(Phi, noise=0.002, budget="fast", n_threads=1)
    streaming.recover(model, Y, folder / "X.npz", chunk=40)


def unmix(folder):
    """Unmix the pixels of an image, to maps and a report; it begins again after a kill."""
    from maxsparse.fields.spectra import Spectra, unmix_cube

    rng, axis = np.random.default_rng(0), np.linspace(0.4, 2.4, 40)
    centers = rng.uniform(0.5, 2.3, (12, 3))
    library = Spectra(np.exp(-(((axis - centers[:, :, None]) / 0.15) ** 2)).sum(axis=1) + 0.2, axis)
    shares = rng.dirichlet(np.ones(2), (8, 6)) @ library.values[[1, 7]]
    cube = shares + 0.002 * rng.standard_normal(shares.shape)
    unmix_cube(library, cube, folder, noise=0.002, block=6, budget="fast")


def reproduce_day(folder):
    """Run part of an experiment as the preset `day` sets it."""
    experiments.run("noise", preset="day", methods=["omp", "sbl"], seeds=[0], output=folder)


JOBS = {
    "fit": fit,
    "recover": recover,
    "recover, noise": recover_noisy,
    "unmix": unmix,
    "reproduce": reproduce,
    "reproduce, day": reproduce_day,
}
WHOLE = ("recover", "recover, noise", "unmix")  # jobs whose files are whole or not there, whenever they are killed


def attempt(job, folder, seconds=None):
    """Run a job in a process of its own, killed after so many seconds; return whether it ended by itself."""
    child = os.fork()
    if child == 0:
        with (folder.parent / "log").open("ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        code = 1
        try:
            JOBS[job](folder)
            code = 0
        except BaseException as error:
            print(f"{job}: {type(error).__name__}: {error}", flush=True)
        finally:
            os._exit(code)
    deadline = time.monotonic() + (PATIENCE_SECONDS if seconds is None else seconds)
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if status:
                raise RuntimeError(f"{job} failed: {(folder.parent / 'log').read_text()[-1000:]}")
            return True
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if seconds is None:
        raise RuntimeError(f"{job} did not end in {PATIENCE_SECONDS} seconds")
    return False


def files(folder):
    """Return every file that a job has left, by its name; clocks are taken out."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        if path.name == "results.json":
            results = json.loads(content)
            del results["finished"], results["seconds"]
            results["tasks"] = [{**task, "seconds": 0} for task in results["tasks"]]
            content = json.dumps(results).encode()
        if path.name != "index.html":  # made from results.json, clocks included
            found[str(path.relative_to(folder))] = content
    return found


def torture(job, kills, rng, base):
    """Kill a job so many times; return its figures, and fail where its files differ from those it should leave."""
    whole = base / job / "whole"
    whole.mkdir(parents=True)
    attempt(job, whole)  # compiles and loads what is not in the caches yet
    shutil.rmtree(whole)
    whole.mkdir()
    begun = time.monotonic()
    attempt(job, whole)
    usual = time.monotonic() - begun
    expected = files(whole)
    killed, ended, resumed = 0, 0, 0
    while killed < kills:
        folder = base / job / "killed"
        folder.mkdir()
        in_a_row = 0
        while in_a_row < KILLS_IN_A_ROW and killed < kills:
            resumed += any(folder.rglob("*"))
            if attempt(job, folder, seconds=usual * rng.uniform(0.02, 0.98)):
                break
            in_a_row += 1
            killed += 1
            left = {name: content for name, content in files(folder).items() if name in expected}
            broken = [name for name, content in left.items() if job in WHOLE and content != expected[name]]
            if broken:
                raise AssertionError(f"{job}: {broken} are broken after a kill")
        attempt(job, folder)
        ended += 1
        found = files(folder)
        if found != expected:
            names = [name for name in sorted({*found, *expected}) if found.get(name) != expected.get(name)]
            raise AssertionError(f"{job}: {names} differ from those of a run that was not killed")
        shutil.rmtree(folder)
        print(f"{job}: {killed} kills, {ended} runs ended with the same bytes", file=sys.stderr, flush=True)
    return {"kills": killed, "began with files of a killed run": resumed, "runs compared": ended,
            "files compared": len(expected), "different": 0, "seconds undisturbed": round(usual, 1)}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--seed", type=int, default=40)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    known = json.loads(options.results.read_text())["jobs"] if options.results.exists() else {}
    figures = {job: known[job] for job in JOBS if job in known and job not in options.jobs}
    with tempfile.TemporaryDirectory() as base:
        for job in options.jobs:
            rng = np.random.default_rng([options.seed, list(JOBS).index(job)])
            figures[job] = torture(job, options.kills, rng, Path(base))
    summary = {
        "command": f"python benchmarks/faults.py --kills {options.kills}",
        "versions": {"python": platform.python_version(), "maxsparse": ms.__version__, "numpy": np.__version__},
        "seed": options.seed,
        "jobs": figures,
    }
    with atomic_write(options.results) as stream:
        stream.write((json.dumps(summary, indent=1) + "\n").encode())
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
