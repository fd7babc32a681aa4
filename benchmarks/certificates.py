"""Count false certificates, over problems chosen to provoke them; there must be none.

    python benchmarks/certificates.py --signals 1000000

Every dictionary is one case, generated from its number: kind, size, conditioning, scales, dtype, amplitudes and
signals. Finished cases are recorded, so that the same command resumes; cases of another version of the certificate do
not count.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
from journal import read_journal

import maxsparse as ms
from maxsparse.recovery import certificate, refit

RESULTS = Path(__file__).parent / "results" / "certificates.json"
# What decides whether an answer is certified; weights, decoding and search only decide which answers there are.
RULE = hashlib.sha256(b"".join(Path(module.__file__).read_bytes() for module in (certificate, refit))).hexdigest()[:16]


def near_duplicates(rng, n, m):
    """Pairs of atoms at distances from 1e-2 down to 1e-14."""
    Phi = ms.dictionaries.gaussian(n, m, rng=rng)
    for j in range(0, m - 1, 2):
        Phi[:, j + 1] = Phi[:, j] + 10.0 ** rng.uniform(-14, -2) * rng.standard_normal(n)
    return Phi


def near_dependent(rng, n, m):
    """Triples of atoms that are dependent up to distances from 1e-2 down to 1e-14."""
    Phi = ms.dictionaries.gaussian(n, m, rng=rng)
    for j in range(0, m - 2, 3):
        Phi[:, j + 2] = Phi[:, j : j + 2] @ rng.standard_normal(2) + 10.0 ** rng.uniform(-14, -2) * rng.standard_normal(
            n
        )
    return Phi


def cosines(rng, n, m):
    """Some rows of the cosine transform of length m."""
    rows = rng.choice(m, n, replace=False)
    return np.cos(np.pi / m * rows[:, None] * (np.arange(m) + 0.5))


def signs(rng, n, m):
    """Entries ±1: many exact dependences."""
    return rng.choice([-1.0, 1.0], (n, m))


def lights(rng, n, m):
    return ms.dictionaries.lighting(rng.standard_normal((n + 3, 3)) * [0.5, 0.5, 0.2] + [0.0, 0.0, 1.0])


def rank_deficient(rng, n, m):
    rank = int(rng.integers(max(2, n // 2), n))
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, m))


KINDS = {
    "decaying": lambda rng, n, m: ms.dictionaries.decaying(n, m, rng=rng),
    "gaussian": lambda rng, n, m: ms.dictionaries.gaussian(n, m, rng=rng),
    "low_rank_plus": lambda rng, n, m: ms.dictionaries.low_rank_plus(n, m, rank=2, epsilon=0.05, rng=rng),
    "clustered": lambda rng, n, m: ms.dictionaries.clustered(n, m, clusters=m // 4, epsilon=0.05, rng=rng).matrix,
    "lighting": lights,
    "cosines": cosines,
    "signs": signs,
    "near_duplicates": near_duplicates,
    "near_dependent": near_dependent,
    "rank_deficient": rank_deficient,
}


def tiny(rng, size):
    """Amplitudes from 1e-3 to 1, every decade alike."""
    return 10.0 ** rng.uniform(-3, 0, size) * rng.choice([-1.0, 1.0], size)


LAWS = {"tiny": tiny, "uniform": "uniform", "gaussian": "gaussian", "unit": "unit"}
SIGNALS = ("sparse", "sparse", "sparse", "not sparse", "sparse plus noise")
CHANGES = ("none", "conditioned", "scaled", "scaled atoms", "conditioned and scaled")


def make_case(number):
    """Return what case `number` is, its dictionary, its true coefficients (or None) and its signals."""
    rng = np.random.default_rng([10, number])
    kind = sorted(KINDS)[number % len(KINDS)]
    n, m = int(rng.integers(8, 33)), int(rng.integers(30, 129))
    Phi = np.array(KINDS[kind](rng, n, m))
    n, m = Phi.shape
    about = {
        "kind": kind,
        "change": CHANGES[int(rng.integers(len(CHANGES)))],
        "law": sorted(LAWS)[int(rng.integers(len(LAWS)))],
        "signals": SIGNALS[int(rng.integers(len(SIGNALS)))],
        "dtype": "float32" if rng.random() < 0.15 else "float64",
    }
    size = 1.0
    if "conditioned" in about["change"]:
        U, s, V = np.linalg.svd(Phi, full_matrices=False)
        strength = rng.uniform(2, 8)
        Phi = U * (s * 10.0 ** -np.linspace(0, strength, len(s))) @ V
        about["condition"] = int(strength)
    if about["change"] == "scaled atoms":
        Phi *= 10.0 ** rng.uniform(-6, 6, m)
    elif "scaled" in about["change"]:
        most = 12 if about["dtype"] == "float64" else 6  # squares of products must fit the dtype
        Phi *= 10.0 ** rng.uniform(-most, most)
        size = 10.0 ** rng.uniform(-most, most)
    Phi = Phi.astype(about["dtype"])
    return about, Phi, *make_signals(rng, Phi, about, size)


def make_signals(rng, Phi, about, size, N=500):
    n, m = Phi.shape
    law = LAWS[about["law"]]
    if about["signals"] == "not sparse":
        if rng.random() < 0.5:
            return None, (size * rng.standard_normal((N, n))).astype(Phi.dtype)
        sparsity = (min(n, m), m)
    else:
        sparsity = (1, min(14, n - 1, m - 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, _ = ms.signals.sample(Phi, N, sparsity=sparsity, amplitudes=law, rng=rng)
    X = (X.astype(np.float64) * size).astype(Phi.dtype)
    Y = X @ Phi.T
    if about["signals"] == "sparse plus noise":
        level = 10.0 ** rng.uniform(-10, -1) * np.linalg.norm(Y, axis=1, keepdims=True) / np.sqrt(n)
        Y = (Y + level * rng.standard_normal(Y.shape)).astype(Phi.dtype)
    return (None if about["signals"] == "not sparse" else X), Y


def count(number, budget):
    """Recover the signals of one case; count certificates and false ones."""
    about, Phi, X, Y = make_case(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ms.SparseRecoverer(Phi, noise=0, budget=budget, n_threads=1).recover(Y)
    truth = np.zeros(result.coef.shape, dtype=bool) if X is None else X != 0
    right = (result.support == truth).all(axis=1) & (X is not None)
    other = result.certified & ~right
    # Fewer nonzeros than what was drawn, and y explained up to rounding errors: the x drawn was not the sparsest one.
    sparser = other & (np.count_nonzero(result.coef, axis=1) < (truth.sum(axis=1) if X is not None else Phi.shape[0]))
    return {
        "rule": RULE,
        "number": number,
        **about,
        "n": sum(Phi.shape[:1]),
        "m": Phi.shape[1],
        "budget": budget,
        "signals_count": len(Y),
        "certified": int(result.certified.sum()),
        "spark": int((result.argument == "spark").sum()),
        "false": int((other & ~sparser).sum()),
        "sparser than what was drawn": int(sparser.sum()),
        "right, not certified": int((right & ~result.certified).sum()),
    }


def budget_of(number, small):
    """Most cases search little; one in ten searches ten times as long, one in a hundred a hundred times."""
    return small * (100 if number % 100 == 99 else 10 if number % 10 == 9 else 1)


def summarise(cases, options, seconds):
    def total(some, name):
        return sum(case[name] for case in some)

    def split(axis):
        values = sorted({case[axis] for case in cases if axis in case}, key=str)
        return {
            str(value): {
                name: total([case for case in cases if case.get(axis) == value], key)
                for name, key in (("signals", "signals_count"), ("certified", "certified"), ("false", "false"))
            }
            for value in values
        }

    return {
        "command": f"python benchmarks/certificates.py --signals {options.signals} --budget {options.budget}",
        "rule": RULE,
        "maxsparse": ms.__version__,
        "signals": total(cases, "signals_count"),
        "dictionaries": len(cases),
        "certified": total(cases, "certified"),
        "by spark": total(cases, "spark"),
        "false": total(cases, "false"),
        "sparser than what was drawn": total(cases, "sparser than what was drawn"),
        "right, not certified": total(cases, "right, not certified"),
        "processor seconds": round(seconds, 1),
        **{f"by {axis}": split(axis) for axis in ("kind", "change", "condition", "signals", "law", "dtype", "budget")},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=1_000_000)
    parser.add_argument("--budget", type=int, default=30, help="information sets per open signal, in most cases")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("I", "K"), help="cases i, i + k, …")
    options = parser.parse_args()
    journal = options.results.with_name(f".{options.results.stem}.journal.jsonl")
    done = read_journal(journal, "rule", RULE, "number")
    first, step = options.part
    goal = options.signals / step  # of this part
    done = {number: case for number, case in done.items() if number % step == first} if step > 1 else done
    signals = sum(case["signals_count"] for case in done.values())
    number = first
    with journal.open("a") as stream:
        while signals < goal:
            if number not in done:
                begun = time.process_time()
                case = count(number, budget_of(number, options.budget))
                case["seconds"] = round(time.process_time() - begun, 3)
                done[number] = case
                signals += case["signals_count"]
                stream.write(json.dumps(case) + "\n")
                stream.flush()
                if case["false"]:
                    print(f"FALSE: {case}", flush=True)
                if number % 50 == first:
                    false = sum(case["false"] for case in done.values())
                    print(f"{signals} signals, {false} false, case {number}, {case['seconds']} s", flush=True)
            number += step
    cases = list(read_journal(journal, "rule", RULE, "number").values())
    summary = summarise(cases, options, sum(case["seconds"] for case in cases))
    temporary = options.results.with_suffix(".part")
    temporary.write_text(json.dumps(summary, indent=1) + "\n")
    os.replace(temporary, options.results)
    print(f"{summary['signals']} signals, {summary['certified']} certified, {summary['false']} false")
    raise SystemExit(summary["false"] > 0)


if __name__ == "__main__":
    main()
