"""No certificate may be false: count those that are, over many kinds of dictionary, sparsities and amplitudes.

python benchmarks/certificates.py --signals 100000
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import maxsparse as ms

RESULTS = Path(__file__).parent / "results" / "certificates.json"


def near_duplicates(rng, n, m):
    """A gaussian dictionary with pairs of atoms at distances from 1e-2 down to 1e-14."""
    Phi = ms.dictionaries.gaussian(n, m, rng=rng)
    for j in range(0, m - 1, 2):
        Phi[:, j + 1] = Phi[:, j] + 10.0 ** rng.uniform(-14, -2) * rng.standard_normal(n)
    return Phi


def cosines(rng, n, m):
    """Some rows of the cosine transform of length m."""
    rows = rng.choice(m, n, replace=False)
    return np.cos(np.pi / m * rows[:, None] * (np.arange(m) + 0.5))


def lights(rng, n, m):
    return ms.dictionaries.lighting(rng.standard_normal((n + 3, 3)) * [0.5, 0.5, 0.2] + [0.0, 0.0, 1.0])


KINDS = {
    "decaying": lambda rng, n, m: ms.dictionaries.decaying(n, m, rng=rng),
    "gaussian": lambda rng, n, m: ms.dictionaries.gaussian(n, m, rng=rng),
    "low_rank_plus": lambda rng, n, m: ms.dictionaries.low_rank_plus(n, m, rank=2, epsilon=0.05, rng=rng),
    "clustered": lambda rng, n, m: ms.dictionaries.clustered(n, m, clusters=m // 4, epsilon=0.05, rng=rng).matrix,
    "lighting": lights,
    "cosines": cosines,
    "near_duplicates": near_duplicates,
}


def tiny(rng, size):
    """Amplitudes from 1e-3 to 1, every decade alike."""
    return 10.0 ** rng.uniform(-3, 0, size) * rng.choice([-1.0, 1.0], size)


def count(kind, number, N, budget):
    """Recover N signals of one fresh dictionary; count certificates and false ones."""
    rng = np.random.default_rng([number, sorted(KINDS).index(kind)])
    n, m = int(rng.integers(12, 25)), int(rng.integers(30, 101))
    Phi = KINDS[kind](rng, n, m)
    m = Phi.shape[1]
    law = [tiny, "uniform", "gaussian"][number % 3]
    X, Y = ms.signals.sample(Phi, N, sparsity=(1, min(14, m - 1)), amplitudes=law, rng=rng)
    result = ms.SparseRecoverer(Phi, budget=budget).recover(Y)
    right = (result.support == (X != 0)).all(axis=1)
    false = result.certified & ~right
    return {
        "signals": N,
        "certified": int(result.certified.sum()),
        "spark": int((result.argument == "spark").sum()),
        "false": int(false.sum()),
        "right but not certified": int((right & ~result.certified).sum()),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=100_000)
    parser.add_argument("--per-dictionary", type=int, default=500)
    parser.add_argument("--budget", type=int, default=300, help="information sets per open signal")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    totals = {kind: {} for kind in KINDS}
    begun, done, number = time.monotonic(), 0, 0
    while done < options.signals:
        for kind in KINDS:
            for name, value in count(kind, number, options.per_dictionary, options.budget).items():
                totals[kind][name] = totals[kind].get(name, 0) + value
            done += options.per_dictionary
        number += 1
        summary = {
            "command": f"python benchmarks/certificates.py --signals {options.signals} --budget {options.budget}",
            "signals": done,
            "dictionaries": number * len(KINDS),
            "false": sum(total["false"] for total in totals.values()),
            "seconds": round(time.monotonic() - begun, 1),
            "kinds": totals,
        }
        options.results.write_text(json.dumps(summary, indent=1) + "\n")
        print(f"{done} signals, {summary['false']} false certificates, {summary['seconds']} s", flush=True)
    raise SystemExit(summary["false"] > 0)


if __name__ == "__main__":
    main()
