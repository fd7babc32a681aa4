"""Directions of two sources: resolved scenes and errors, next to MUSIC, Capon, ESPRIT and the Cramér–Rao bound.

    python benchmarks/arrays.py                  # all sweeps, 100 scenes per cell
    python benchmarks/arrays.py snr --scenes 20

16 sensors half a wavelength apart, two gaussian sources of equal power around a centre within ±50°. A scene is resolved
if both directions are found within half their separation. The classical methods are told the number of sources. The
bound is that of the amplitudes of each scene.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from maxsparse.fields import arrays

RESULTS = Path(__file__).parent / "results" / "arrays.json"
ARRAY = arrays.linear(16)
COMMON = {"snr": 10, "separation": 4, "snapshots": 10, "correlation": 0.0}
SWEEPS = {
    "snr": [COMMON | {"snr": snr} for snr in (-5, 0, 5, 10, 15, 20, 25, 30)],
    "separation": [COMMON | {"separation": s} for s in (2, 3, 4, 6, 8, 10)],
    "snapshots": [COMMON | {"snapshots": L, "snr": 20} for L in (1, 2, 5, 10, 30, 100)],
    "correlation": [COMMON | {"correlation": rho, "snr": 20} for rho in (0.0, 0.5, 0.9, 0.99, 1.0)],
}
METHODS = {
    "number unknown": lambda Y: arrays.estimate_directions(Y, ARRAY).azimuth,
    "number given": lambda Y: arrays.estimate_directions(Y, ARRAY, sources=2).azimuth,
    "MUSIC": lambda Y: arrays.music(Y, ARRAY, 2),
    "MUSIC, smoothed": lambda Y: arrays.music(Y, ARRAY, 2, smoothing=11),
    "Capon": lambda Y: arrays.capon(Y, ARRAY, 2),
    "ESPRIT": lambda Y: arrays.esprit(Y, ARRAY, 2),
    "ESPRIT, smoothed": lambda Y: arrays.esprit(Y, ARRAY, 2, smoothing=11),
}


def scene(cell, number):
    rng = np.random.default_rng([20_260_117, number])
    truth = rng.uniform(-50, 50) + cell["separation"] * np.array([-0.5, 0.5])
    seed, sigma = int(rng.integers(2**31)), 10 ** (-cell["snr"] / 20)
    options = {"snapshots": cell["snapshots"], "correlation": cell["correlation"], "rng": seed}
    Y = arrays.simulate(ARRAY, truth, snr_db=cell["snr"], **options)
    clean = arrays.simulate(ARRAY, truth, snr_db=600, **options)  # the same sources: noise is drawn last
    amplitudes = clean @ np.linalg.pinv(ARRAY.steering(truth)).T
    P = amplitudes.T @ amplitudes.conj() / len(amplitudes)
    bound = arrays.cramer_rao(ARRAY, truth, snapshots=cell["snapshots"], noise=sigma, covariance=P)
    return truth, Y, bound


def measured(cell, scenes):
    rows = {name: {"resolved": 0, "errors": [], "bounds": [], "seconds": 0.0} for name in METHODS}
    number_right = 0
    for number in range(scenes):
        truth, Y, bound = scene(cell, number)
        for name, method in METHODS.items():
            begun = time.process_time()
            found = np.sort(method(Y))
            row = rows[name]
            row["seconds"] += time.process_time() - begun
            if name == "number unknown":
                number_right += len(found) == 2
            pairs = [np.abs(found - t).min(initial=np.inf) for t in truth]
            nearest = {int(np.abs(found - t).argmin()) for t in truth} if len(found) else set()
            if max(pairs) < cell["separation"] / 2 and len(nearest) == 2:
                row["resolved"] += 1
                row["errors"] += pairs
                row["bounds"] += bound.tolist()
    out = {"cell": cell, "scenes": scenes, "number right": number_right / scenes, "methods": {}}
    for name, row in rows.items():
        rms = float(np.sqrt(np.mean(np.square(row["errors"])))) if row["errors"] else None
        bound = float(np.sqrt(np.mean(np.square(row["bounds"])))) if row["bounds"] else None
        ratio = float(np.sqrt(np.mean((np.array(row["errors"]) / row["bounds"]) ** 2))) if row["errors"] else None
        own = {"rmse": rms, "bound": bound, "ratio": ratio, "ms": 1e3 * row["seconds"] / scenes}
        out["methods"][name] = {"resolved": row["resolved"] / scenes, **own}
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", nargs="*", default=list(SWEEPS))
    parser.add_argument("--scenes", type=int, default=100)
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for sweep in arguments.sweeps:
        results[sweep] = [measured(cell, arguments.scenes) for cell in SWEEPS[sweep]]
        for row in results[sweep]:
            shares = {name: round(m["resolved"], 2) for name, m in row["methods"].items()}
            print(row["cell"], shares, flush=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
