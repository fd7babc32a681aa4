"""Memory and time of many signals, from file to file, and what one signal costs at every sparsity.

python benchmarks/big_data.py stream FOLDER --signals 10000000   10 million signals through `maxsparse recover`
python benchmarks/big_data.py cost                               processor time per signal, by sparsity
Each part fills its own section of results/big_data.json. Times are processor times of all threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse
from machine import describe

import maxsparse as ms

RESULTS = Path(__file__).parent / "results" / "big_data.json"
ROWS = 100_000  # signals made at a time
SPARSITY = (1, 3)


def blocks(Phi, signals):
    """Yield the rows, X and Y of every block; the same ones every time."""
    for start in range(0, signals, ROWS):
        rows = slice(start, min(signals, start + ROWS))
        yield rows, *ms.signals.sample(Phi, rows.stop - rows.start, sparsity=SPARSITY, rng=1 + start)


def make(folder, signals):
    """Write Phi.npy and Y.npy (signals, 20), block by block, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    Phi = ms.dictionaries.decaying(20, 100, rng=0)
    np.save(folder / "Phi.npy", Phi)
    path = folder / f"Y{signals}.npy"
    if not path.exists():
        part = folder / "Y.part.npy"
        Y = np.lib.format.open_memmap(part, mode="w+", dtype=np.float64, shape=(signals, 20))
        for rows, _, block in blocks(Phi, signals):
            Y[rows] = block
        del Y
        part.rename(path)
    return Phi, path


def watch_memory(pid):
    """Return the peak of the memory of a process when it has ended; ru_maxrss would count its parent's as well."""
    peak = 0
    while True:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        if "VmHWM" not in fields:  # it has ended
            return peak
        peak = 1024 * int(fields["VmHWM"].split()[0])
        time.sleep(0.1)


def stream(folder, signals):
    """Run the command, measure its memory, and compare its answers with the truth."""
    Phi, Y = make(folder, signals)
    output = folder / "X.npz"
    command = ["recover", str(folder / "Phi.npy"), str(Y), "-o", str(output), "--json"]
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen([sys.executable, "-m", "maxsparse", *command], stdout=said)
        peak = watch_memory(child.pid)
        _, status, usage = os.wait4(child.pid, 0)
        assert status == 0
        said.seek(0)
        figures = json.load(said)
    seconds = time.monotonic() - begun
    answers = scipy.sparse.load_npz(output)
    certified = np.load(output)["certified"]
    wrong = false = 0
    for rows, X, _ in blocks(Phi, signals):
        right = ((answers[rows].toarray() != 0) == (X != 0)).all(axis=1)
        wrong += int((~right).sum())
        false += int((certified[rows] & ~right).sum())
    return {
        "command": f"maxsparse recover Phi.npy Y.npy -o X.npz, 20x100 decaying, {signals} signals, d in {SPARSITY}",
        "signals": signals,
        "resumed": figures["resumed"],
        "input bytes": Y.stat().st_size,
        "output bytes": output.stat().st_size,
        "peak resident bytes": peak,
        "wall seconds": round(seconds, 1),
        "cpu seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "certified": figures["certified"],
        "wrong": wrong,
        "certified but wrong": false,
        "load average": os.getloadavg()[1],
    }


def cost(signals):
    """Measure processor time per signal at every sparsity, on one thread."""
    Phi = ms.dictionaries.decaying(20, 100, rng=0)
    rows = []
    for d in range(1, 11):
        N = signals if d < 9 else max(20, signals // 20)
        X, Y = ms.signals.sample(Phi, N, sparsity=d, rng=d)
        row = {"d": d, "signals": N}
        for label, easy in (("easy first", True), ("network for all", False)):
            work = ms.streaming.Recover(ms.SparseRecoverer(Phi, noise=0.0, n_threads=1), easy)
            work(Y[:3])  # compile
            begun = time.process_time()
            result = work(Y)
            row[f"{label}: cpu us per signal"] = round(1e6 * (time.process_time() - begun) / N, 1)
            row[f"{label}: certified"] = round(float(result.certified.mean()), 4)
            right = (result.support == (X != 0)).all(axis=1)
            row[f"{label}: certified but wrong"] = int((result.certified & ~right).sum())
        rows.append(row)
        print(row, flush=True)
    return {"command": f"benchmarks/big_data.py cost --signals {signals}", "rows": rows, "load": os.getloadavg()[1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["stream", "cost"])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--signals", type=int, default=2000)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    figures = json.loads(options.results.read_text()) if options.results.exists() else {}
    if options.part == "stream":
        if options.folder is None:
            parser.error("stream needs a folder for its files")
        figures["stream"] = stream(options.folder, options.signals)
    else:
        figures["cost"] = cost(options.signals)
    figures[options.part]["run"] = describe(("maxsparse", "numpy", "numba", "zarr"))
    options.results.write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures[options.part], indent=1))


if __name__ == "__main__":
    main()
