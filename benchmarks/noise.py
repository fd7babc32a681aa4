"""Recovery with noise: supports found, failures of the search, confidence and time, and the NA-ALISTA table.

    python benchmarks/noise.py cells      # fresh dictionaries, σ known, default budget
    python benchmarks/noise.py alista     # needs MAXSPARSE_DATA, a folder with na_alista_250x*.npz

Times are processor seconds of all threads, divided by the number of signals. A failure of the search is a signal whose
true support is more probable, under the search's own model, than the answer.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

import maxsparse as ms

RESULTS = Path(__file__).parent / "results" / "noise.json"
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
    means, coefs, seconds = np.zeros_like(X), np.zeros_like(X), 0.0
    for i in range(signals):  # every signal has its own noise level
        model = ms.SparseRecoverer(Phi, noise=float(sigma[i]))
        begun = time.process_time()
        result = model.recover(Y[i : i + 1])
        seconds += time.process_time() - begun
        means[i], coefs[i] = result.mean[0], result.coef[0]
    vamp = np.concatenate([ms.solvers.vamp(Phi, Y[i : i + 1], noise=float(sigma[i])).coef for i in range(signals)])
    return {
        "size": size,
        "snr": snr,
        "signals": signals,
        "nmse of mean": nmse(X, means),
        "nmse of coef": nmse(X, coefs),
        "nmse of vamp": nmse(X, vamp),
        "milliseconds": 1e3 * seconds / signals,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["cells", "alista"])
    parser.add_argument("--dictionaries", type=int, default=4)
    parser.add_argument("--signals", type=int, default=250)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of cells")
    arguments = parser.parse_args()
    rows = []
    if arguments.part == "cells":
        for number in arguments.only or range(len(CELLS)):
            rows.append(cell(*CELLS[number], arguments.dictionaries, arguments.signals))
            print(json.dumps(rows[-1]), flush=True)
    else:
        for snr in ALISTA_SNR:
            for size in ALISTA_SIZES:
                rows.append(alista(size, snr, arguments.signals))
                print(json.dumps(rows[-1]), flush=True)
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not arguments.only:
        entry = {"maxsparse": ms.__version__, "numpy": np.__version__, "rows": rows}
        if arguments.part == "alista":
            entry["published"] = PUBLISHED
        RESULTS.write_text(json.dumps(stored | {arguments.part: entry}, indent=1) + "\n")


if __name__ == "__main__":
    main()
