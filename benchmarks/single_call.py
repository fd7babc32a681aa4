"""Time of `recover` for one signal at a time, after the first call.

    python benchmarks/single_call.py [--signals 50]

Processor time, so that other programs disturb it less: the median, and the tenth percentile, which a busy machine
lengthens least. The load is in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from machine import describe

import maxsparse as ms

RESULTS = Path(__file__).parent / "results" / "single_call.json"
PROBLEMS = [(20, 100, 3), (20, 100, 7), (128, 512, 10), (128, 512, 30)]  # n, m, d


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=50)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    rows = []
    for n, m, d in PROBLEMS:
        for kind in ("decaying", "gaussian"):
            Phi = getattr(ms.dictionaries, kind)(n, m, rng=0)
            _, Y = ms.signals.sample(Phi, given.signals, sparsity=d, rng=1)
            for noise in ("default", 0.0):
                model = ms.SparseRecoverer(Phi) if noise == "default" else ms.SparseRecoverer(Phi, noise=noise)
                low, middle = np.percentile(times(model, Y), [10, 50])
                row = {"dictionary": kind, "n": n, "m": m, "d": d, "noise": noise}
                rows.append(row | {"cpu ms, median": round(middle, 2), "cpu ms, tenth percentile": round(low, 2)})
                print(rows[-1], flush=True)
    command = f"python benchmarks/single_call.py --signals {given.signals}"
    facts = {"command": command, "load": round(os.getloadavg()[0], 1), **describe(("maxsparse", "numpy", "numba"))}
    given.out.write_text(json.dumps(facts | {"rows": rows}, indent=1) + "\n")


def times(model: ms.SparseRecoverer, Y: np.ndarray) -> list[float]:
    """Return milliseconds of the processor for every signal alone."""
    model.recover(Y[:2])
    model.recover(Y[:1])
    found = []
    for y in Y:
        begun = time.process_time()
        model.recover(y[np.newaxis])
        found.append(1e3 * (time.process_time() - begun))
    return found


if __name__ == "__main__":
    main()
