"""Unmixing with the USGS library: materials and abundances, next to NNLS, SUnSAL and non-negative OMP.

    python benchmarks/spectra.py                    # both libraries, 2 to 8 materials, 30 to 60 dB, and distortions
    python benchmarks/spectra.py pruned --mixtures 5

Needs usgs_1995.npz in the folder that MAXSPARSE_DATA names. Abundances are at least 0.05 and sum to 1. NNLS and SUnSAL
return many small abundances: those below 0.01 are not counted as found. SUnSAL gets the best of three penalties for the
cell, for materials and for abundances apart; OMP is told the noise level, ours is not.
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
from maxsparse.fields import spectra

PACKAGES = ("maxsparse", "numpy", "numba", "scipy")
RESULTS = Path(__file__).parent / "results" / "spectra.json"
DATA = Path(os.environ.get("MAXSPARSE_DATA", "")) / "usgs_1995.npz"
SEED = 20_261_117
COUNTS, LEAST, SEEN = (2, 4, 6, 8), 0.05, 0.01
MIXTURES = {30: 64, 40: 32, 50: 16, 60: 16}  # by SNR: easy cells need fewer
DISTORTED = {"none": {}, "shift": {"shift": True}, "gain": {"gain": 1}, "both": {"shift": True, "gain": 1}}


def mixtures(library, k, snr, N, distortion="none"):
    """Return abundances (N, m), spectra (N, n) and σ; shifts of 0.2 bands and gains of ±2 % over the bands."""
    rng = np.random.default_rng([SEED, k, snr, len(library)])
    X = np.zeros((N, len(library)))
    for x in X:
        x[rng.choice(len(library), k, replace=False)] = LEAST + (1 - k * LEAST) * rng.dirichlet(np.full(k, 3.0))
    clean = X @ library.values
    bands = np.arange(clean.shape[1], dtype=float)
    if distortion in ("shift", "both"):
        clean = np.array([np.interp(bands + 0.2, bands, row) for row in clean])
    if distortion in ("gain", "both"):
        clean = clean * (1 + 0.02 * np.linspace(-1, 1, bands.size))
    sigma = np.sqrt(np.mean(clean**2)) * 10 ** (-snr / 20)
    return X, clean + sigma * rng.standard_normal(clean.shape), sigma


def figures(X, found):
    """Return F1 of the materials and the mean error of the abundances."""
    used, true = found >= SEEN, X > 0
    f1 = 2 * (used & true).sum(axis=1) / np.maximum(used.sum(axis=1) + true.sum(axis=1), 1)
    return {"f1": float(f1.mean()), "error": float(np.linalg.norm(found - X, axis=1).mean())}


def cell(library, k, snr, N, distortion="none"):
    X, Y, sigma = mixtures(library, k, snr, N, distortion)
    begun = time.process_time()
    found = spectra.unmix(library, spectra.Spectra(Y, library.wavelength), **DISTORTED[distortion])
    seconds = time.process_time() - begun
    covered, right, sizes = [], [], []
    for i in range(N):
        true, sets = set(np.flatnonzero(X[i]).tolist()), [set(one.atoms.tolist()) for one in found.sets[i]]
        covered.append(len(true & set().union(*sets)) / k)
        right += [bool(true & one) for one in sets]
        sizes += [len(one) for one in sets]
    exact = float(np.mean(((found.abundance > 0) == (X > 0)).all(axis=1)))
    ours = {"f1": figures(X, found.abundance)["f1"], "error": figures(X, found.mean)["error"], "exact": exact}
    ours |= {"confidence": float(found.confidence.mean()), "covered": float(np.mean(covered))}
    ours |= {"sets right": float(np.mean(right)), "sets": len(sizes) / N, "set size": float(np.mean(sizes))}
    ours |= {"median set size": float(np.median(sizes)), "ms": 1e3 * seconds / N}
    ours["error of the answer"] = figures(X, found.abundance)["error"]
    Phi = np.ascontiguousarray(library.values.T)
    penalized = [figures(X, spectra.sunsal(library.values, Y, p, max_iter=2000)) for p in (1e-4, 1e-3, 1e-2)]
    peers = {
        "NNLS": figures(X, ms.solvers.nnls(Phi, Y).coef),
        "SUnSAL": {"f1": max(row["f1"] for row in penalized), "error": min(row["error"] for row in penalized)},
        "OMP, non-negative": figures(X, ms.solvers.omp(Phi, Y, positive=True, noise=sigma).coef),
    }
    place = {"library": len(library), "k": k, "snr": snr, "distortion": distortion, "mixtures": N}
    return place | {"methods": {"unmix": ours, **peers}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["pruned", "all", "distorted"])
    parser.add_argument("--mixtures", type=int, default=None, help="a cell; 16 to 64 unless given")
    arguments = parser.parse_args()
    if not DATA.is_file():
        raise SystemExit("usgs_1995.npz is not here; set MAXSPARSE_DATA to the folder that holds it")
    warnings.simplefilter("ignore")
    whole = spectra.read_spectra(DATA)
    kept = np.load(DATA)["pruned"]
    pruned = spectra.Spectra(whole.values[kept], whole.wavelength, [whole.names[j] for j in kept])
    results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    N = {snr: arguments.mixtures or count for snr, count in MIXTURES.items()}
    few = arguments.mixtures or 16
    plans = {
        "pruned": [(pruned, k, snr, N[snr], "none") for k in COUNTS for snr in MIXTURES],
        "all": [(whole, k, snr, N[snr], "none") for k in COUNTS for snr in MIXTURES],
        "distorted": [
            *((pruned, 4, 50, few, distortion) for distortion in ("none", "shift", "gain")),
            *((pruned, k, snr, few, "both") for k in COUNTS for snr in (40, 50, 60)),
            (whole, 4, 50, few, "both"),
        ],
    }
    for part in arguments.parts:
        rows, before = [], results.get(part, [])
        for plan in plans[part]:
            rows.append(cell(*plan))
            shares = {name: round(row["f1"], 2) for name, row in rows[-1]["methods"].items()}
            own = rows[-1]["methods"]["unmix"]
            keys = ("exact", "confidence", "covered", "sets right", "sets", "set size", "median set size", "ms")
            extra = {key: round(own[key], 2) for key in keys}
            extra["errors"] = [round(row["error"], 3) for row in rows[-1]["methods"].values()]
            print(part, len(plan[0]), *plan[1:], shares, extra, flush=True)
            results[part] = rows + before[len(rows) :]  # what was measured before stays until it is measured again
            results["run"] = describe(PACKAGES)  # the last one
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
