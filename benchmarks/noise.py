"""Recovery with noise: supports found, failures of the search, confidence and time, and the NA-ALISTA table.

    python benchmarks/noise.py cells      # fresh dictionaries, σ known, default budget
    python benchmarks/noise.py alista     # needs MAXSPARSE_DATA, a folder with na_alista_250x*.npz
    python benchmarks/noise.py grid       # next to SBL, ℓ1 and VAMP, all given σ; 75 cells
    python benchmarks/noise.py refute     # a given σ that is right, or wrong: how often it is noticed

Times are processor seconds of all threads, divided by the number of signals. A failure of the search is a signal whose
true support is more probable, under the search's own model, than the answer.

The grid has five kinds of Φ, five amplitude laws, n from 20 to 250 and SNR from 10 to 80 dB. NMSE is that of `mean` and
of the other methods' coefficients. Supports of the other methods are their nonzeros, what of them is larger than three
standard deviations of the noise, or what their scores say, whichever is right most often. The difference to the best
of them comes with its standard error, by jackknife over signals.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
from machine import describe

import maxsparse as ms

PACKAGES = ("maxsparse", "numpy", "numba")
RESULTS = Path(__file__).parent / "results" / "noise.json"
GRID_RESULTS = Path(__file__).parent / "results" / "noise_grid.json"
# kind, n, m, d, SNR in dB
CELLS = [
    ("gaussian", 20, 100, 5, 20),
    ("gaussian", 20, 100, 7, 30),
    ("gaussian", 20, 100, 8, 40),
    ("decaying", 20, 100, 3, 40),
    ("decaying", 20, 100, 5, 60),
    ("decaying", 20, 100, 7, 80),
    ("gaussian", 64, 256, 20, 30),
    ("decaying", 64, 256, 12, 60),
]
DENSITY, ALISTA_SIZES, ALISTA_SNR = 50, (500, 1000, 2000), (40, 20)
# NMSE in dB at 40 dB for N = 500, 1000, 2000, then at 20 dB: figures of the NA-ALISTA paper (16 layers or iterations)
PUBLISHED = {
    "FISTA, 16 iterations": [-7.6, -6.7, -4.5, -7.6, None, -4.4],
    "ALISTA": [-39.1, -33.6, -25.2, -21.1, None, -17.8],
    "AGLISTA": [-41.3, -35.5, -25.6, -21.4, None, -17.7],
    "NA-ALISTA": [-42.2, -39.1, -32.5, -21.6, None, -20.2],
}
KINDS = ("gaussian", "decaying", "low_rank_plus", "clustered", "bumps")
LAWS = ("uniform", "gaussian", "unit", "normal", "decaying")
# n, m, d for incoherent and for coherent dictionaries
SIZES = ((20, 100, 4, 3), (40, 80, 7, 4), (64, 256, 12, 6), (128, 256, 20, 8), (250, 500, 40, 12))
SNRS = (10, 20, 30, 40, 60, 80)
# Every kind with every law three times, sizes and noise levels in turn; the largest size once for each kind.
GRID = [
    (kind, *SIZES[size], law, SNRS[(2 * k + a + 2 * turn) % 6])
    for k, kind in enumerate(KINDS)
    for a, law in enumerate(LAWS)
    for turn in range(3)
    for size in (4 if turn == 2 and k == a else (k + a + turn) % 4,)
]
GRID_SEED = 9100
# kind, n, m, d, SNR in dB; the given σ is the right one times each factor
REFUTE = [
    *(("gaussian", 20, 100, 4, snr) for snr in (0, 10, 20, 30, 40, 60, 80)),
    *(("decaying", 20, 100, 3, snr) for snr in (0, 20, 40, 60)),
]
REFUTE_FACTORS = (1.0, 0.1, 0.5, 2.0, 10.0)
LARGE = 100  # measurements, beyond which a third of the signals must do


def normal(rng, size):
    return rng.standard_normal(size)


def decaying(rng, size):
    return 0.8 ** rng.integers(0, 12, size) * rng.choice([-1.0, 1.0], size)


AMPLITUDES = {"normal": normal, "decaying": decaying}


def dictionary(kind, n, m, seed):
    """Return a fresh Φ of the kind; "bumps" are gaussian bumps at m places, as in a library of smooth spectra."""
    if kind == "clustered":
        return ms.dictionaries.clustered(n, m, clusters=m // 4, epsilon=0.3, rng=seed).matrix
    if kind == "bumps":
        centres, width = np.linspace(0, n - 1, m), 1.2
        Phi = np.exp(-0.5 * ((np.arange(n)[:, None] - centres) / width) ** 2)
        return Phi / np.linalg.norm(Phi, axis=0)
    return getattr(ms.dictionaries, kind)(n, m, rng=seed)


def noisy(Phi, X, snr, rng):
    """Return Y with white noise of one level: SNR is that of the mean power over all signals."""
    Y = X @ Phi.T
    sigma = float(np.sqrt(np.mean(Y**2)) * 10 ** (-snr / 20))
    return Y + sigma * rng.standard_normal(Y.shape), sigma


def nmse(X, estimate):
    return float(10 * np.log10(np.sum((estimate - X) ** 2) / np.sum(X**2)))


def cell(kind, n, m, d, snr, dictionaries, signals):
    """Measure one cell on fresh dictionaries."""
    found, failed, confidence, seconds, errors = [], [], [], 0.0, []
    for seed in range(dictionaries):
        Phi = getattr(ms.dictionaries, kind)(n, m, rng=1000 + seed)
        X, _ = ms.signals.sample(Phi, signals, sparsity=d, rng=2000 + seed)
        Y, sigma = noisy(Phi, X, snr, np.random.default_rng([seed, 3]))
        model = ms.SparseRecoverer(Phi, noise=sigma)
        model.recover(Y[:2])
        begun = time.process_time()
        result = model.recover(Y)
        seconds += time.process_time() - begun
        right = (result.support == (X != 0)).all(axis=1)
        found += right.tolist()
        confidence += result.confidence.tolist()
        failed += (~right & (probability_of_truth(result, X) > result.confidence)).tolist()
        errors.append((nmse(X, result.mean), nmse(X, result.coef)))
    return {
        "cell": [kind, n, m, d, snr],
        "signals": dictionaries * signals,
        "found": float(np.mean(found)),
        "search failures": float(np.mean(failed)),
        "confidence": float(np.mean(confidence)),
        "milliseconds": 1e3 * seconds / (dictionaries * signals),
        "nmse of mean and coef": np.mean(errors, axis=0).tolist(),
    }


def probability_of_truth(result, X):
    """Return what the posterior gives the true support: infinity where the search has not met it."""
    values = []
    for i, x in enumerate(X):
        truth = tuple(np.flatnonzero(x))
        listed = {tuple(support): p for support, p in result.alternatives(i)}
        values.append(listed.get(truth, np.inf))
    return np.array(values)


def alista(size, snr, signals):
    """One cell of the table of NA-ALISTA: Bernoulli-gaussian x, noise relative to each signal."""
    folder = Path(os.environ["MAXSPARSE_DATA"])
    Phi = np.load(folder / f"na_alista_250x{size}.npz", allow_pickle=False)["Phi"].astype(np.float64)
    rng = np.random.default_rng([size, snr])
    X = (rng.random((signals, size)) < DENSITY / size) * rng.standard_normal((signals, size))
    Y = X @ Phi.T
    sigma = np.std(Y, axis=1) * 10 ** (-snr / 20)
    Y = Y + sigma[:, None] * rng.standard_normal(Y.shape)
    model = ms.SparseRecoverer(Phi, noise=1.0)
    scaled = Y / sigma[:, None]  # every signal has its own noise level
    model.recover(scaled[:2])  # compiles
    begun = time.process_time()
    result = model.recover(scaled)
    seconds = time.process_time() - begun
    means, coefs = result.mean * sigma[:, None], result.coef * sigma[:, None]
    vamp = ms.solvers.vamp(Phi, scaled, noise=1.0).coef * sigma[:, None]
    return {
        "size": size,
        "snr": snr,
        "signals": signals,
        "nmse of mean": nmse(X, means),
        "nmse of coef": nmse(X, coefs),
        "nmse of vamp": nmse(X, vamp),
        "milliseconds": 1e3 * seconds / signals,
    }


def difference(X, ours, theirs):
    """Return by how many dB the error of `ours` is larger, and the standard error of that."""
    a, b = np.sum((ours - X) ** 2, axis=1), np.sum((theirs - X) ** 2, axis=1)
    each = 10 * np.log10((a.sum() - a) / (b.sum() - b))
    spread = np.sqrt((len(X) - 1) * np.mean((each - each.mean()) ** 2))
    return float(10 * np.log10(a.sum() / b.sum())), float(spread)


def exact(X, *supports):
    """Return which signals have the right support, for the best of several rules."""
    right = [(support == (X != 0)).all(axis=1) for support in supports]
    return max(right, key=np.mean)


def grid_cell(number, signals):
    kind, n, m, few, fewer, law, snr = GRID[number]
    d = few if kind == "gaussian" else fewer
    count = signals if n < LARGE else -(-signals // 3)
    Phi = dictionary(kind, n, m, GRID_SEED + number)
    X, _ = ms.signals.sample(Phi, count, sparsity=d, amplitudes=AMPLITUDES.get(law, law), rng=GRID_SEED + 1000 + number)
    Y = X @ Phi.T
    sigma = float(np.sqrt(np.mean(Y**2)) * 10 ** (-snr / 20))
    Y += sigma * np.random.default_rng(GRID_SEED + 2000 + number).standard_normal(Y.shape)
    begun = time.process_time()
    result = ms.SparseRecoverer(Phi, noise=sigma).recover(Y)
    seconds = time.process_time() - begun
    coefs = {name: getattr(ms.solvers, name)(Phi, Y, noise=sigma) for name in ("sbl", "l1", "vamp")}
    level = 3 * sigma / np.linalg.norm(Phi, axis=0)
    right = exact(X, result.support)
    others = {name: exact(X, r.coef != 0, np.abs(r.coef) > level, r.scores > 0) for name, r in coefs.items()}
    errors = {name: nmse(X, r.coef) for name, r in coefs.items()}
    best, most = min(errors, key=errors.get), max(others, key=lambda name: others[name].mean())
    worse, spread = difference(X, result.mean, coefs[best].coef)
    lost = others[most].astype(float) - right
    return {
        "cell": [kind, n, m, d, law, snr],
        "signals": count,
        "nmse of mean": nmse(X, result.mean),
        "nmse of coef": nmse(X, result.coef),
        "nmse": errors,
        "worse by dB": worse,
        "standard error of worse": spread,
        "exact": float(right.mean()),
        "exact of others": {name: float(values.mean()) for name, values in others.items()},
        "fewer": float(lost.mean()),
        "standard error of fewer": float(lost.std() / np.sqrt(count)),
        "confidence": float(result.confidence.mean()),
        "milliseconds": 1e3 * seconds / count,
    }


def refute(kind, n, m, d, snr, signals):
    """Return how often a given σ is refuted, and whether confidence is honest then, by its factor."""
    Phi = dictionary(kind, n, m, 6000)
    X, _ = ms.signals.sample(Phi, signals, sparsity=d, rng=6001)
    Y, sigma = noisy(Phi, X, snr, np.random.default_rng(6002))
    rows = {}
    for factor in REFUTE_FACTORS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = ms.SparseRecoverer(Phi, noise=factor * sigma).recover(Y)
        rows[str(factor)] = {
            "refuted": float(np.mean(result.noise != factor * sigma)),
            "median level over the true one": float(np.median(result.noise) / sigma),
            "right": float(exact(X, result.support).mean()),
            "confidence": float(result.confidence.mean()),
        }
    return {"cell": [kind, n, m, d, snr], "signals": signals, "factors": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["cells", "alista", "grid", "refute"])
    parser.add_argument("--dictionaries", type=int, default=4)
    parser.add_argument("--signals", type=int, default=250)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of cells")
    arguments = parser.parse_args()
    cells = {
        "cells": CELLS,
        "grid": GRID,
        "refute": REFUTE,
        "alista": [(size, snr) for snr in ALISTA_SNR for size in ALISTA_SIZES],
    }
    rows = []
    for number in arguments.only or range(len(cells[arguments.part])):
        if arguments.part == "cells":
            rows.append(cell(*CELLS[number], arguments.dictionaries, arguments.signals))
        elif arguments.part == "alista":
            rows.append(alista(*cells["alista"][number], arguments.signals))
        elif arguments.part == "refute":
            rows.append(refute(*REFUTE[number], arguments.signals))
        else:
            rows.append(grid_cell(number, arguments.signals))
        print(json.dumps(rows[-1]), flush=True)
    if arguments.only:
        return
    entry = {"maxsparse": ms.__version__, "numpy": np.__version__, "signals": arguments.signals, "rows": rows}
    entry["run"] = describe(PACKAGES)
    if arguments.part == "grid":
        GRID_RESULTS.write_text(json.dumps(entry, indent=1) + "\n")
        return
    if arguments.part == "alista":
        entry["published"] = PUBLISHED
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(stored | {arguments.part: entry}, indent=1) + "\n")


if __name__ == "__main__":
    main()
