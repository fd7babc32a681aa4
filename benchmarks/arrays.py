"""Directions of two sources: resolved scenes and errors, next to MUSIC, Capon, ESPRIT and the Cramér–Rao bound.

    python benchmarks/arrays.py                  # all sweeps, 50 scenes per cell
    python benchmarks/arrays.py snr --scenes 20

16 sensors half a wavelength apart, two gaussian sources of equal power around a centre within ±50°. A scene is resolved
if both directions are found within half their separation. The classical methods are told the number of sources. The
bound is that of the amplitudes of each scene, and errors are divided by it scene by scene: a few scenes whose sources
happen to be nearly in phase have a bound many times as large as the others, and would be all that a ratio of root mean
squares shows. From 10 dB on, that ratio is taken over more scenes, with the number of sources given.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from machine import describe

from maxsparse.fields import arrays

PACKAGES = ("maxsparse", "numpy", "numba")
RESULTS = Path(__file__).parent / "results" / "arrays.json"
ARRAY, SEED = arrays.linear(16), 20_261_117
MORE = 5  # times as many scenes for the error next to the bound
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
    rng = np.random.default_rng([SEED, number])
    truth = rng.uniform(-50, 50) + cell["separation"] * np.array([-0.5, 0.5])
    seed, sigma = int(rng.integers(2**31)), 10 ** (-cell["snr"] / 20)
    options = {"snapshots": cell["snapshots"], "correlation": cell["correlation"], "rng": seed}
    Y = arrays.simulate(ARRAY, truth, snr_db=cell["snr"], **options)
    clean = arrays.simulate(ARRAY, truth, snr_db=600, **options)  # the same sources: noise is drawn last
    amplitudes = clean @ np.linalg.pinv(ARRAY.steering(truth)).T
    P = amplitudes.T @ amplitudes.conj() / len(amplitudes)
    bound = arrays.cramer_rao(ARRAY, truth, snapshots=cell["snapshots"], noise=sigma, covariance=P)
    return truth, Y, bound


def resolved(found, truth, cell):
    """Return the errors (2,) of a scene, or None if it is not resolved."""
    if len(found) == 0:
        return None
    apart = np.abs(found[:, None] - truth)
    whole = len(set(apart.argmin(axis=0).tolist())) == 2 and apart.min(axis=0).max() < cell["separation"] / 2
    return apart.min(axis=0) if whole else None


def next_to_bound(errors, bounds):
    """Return the root mean square of errors over bounds, both (scenes, 2), and its standard error."""
    squares = np.mean((np.array(errors) / bounds) ** 2, axis=1)
    ratio = float(np.sqrt(squares.mean()))
    return ratio, float(squares.std() / np.sqrt(len(squares)) / (2 * ratio))


def measured(cell, scenes):
    rows = {name: {"errors": [], "bounds": [], "seconds": 0.0} for name in METHODS}
    number_right = 0
    for number in range(scenes * (MORE if cell["snr"] >= 10 else 1)):
        truth, Y, bound = scene(cell, number)
        for name, method in METHODS.items():
            if number >= scenes and name != "number given":
                continue
            begun = time.process_time()
            found = method(Y)
            row = rows[name]
            if number < scenes:
                row["seconds"] += time.process_time() - begun
            if name == "number unknown":
                number_right += len(found) == 2
            row["errors"].append(resolved(found, truth, cell))
            row["bounds"].append(bound)
    out = {"cell": cell, "scenes": scenes, "number right": number_right / scenes, "methods": {}}
    for name, row in rows.items():
        good = [i for i, errors in enumerate(row["errors"]) if errors is not None]
        own = {"resolved": sum(i < scenes for i in good) / scenes, "ms": 1e3 * row["seconds"] / scenes}
        if good:
            errors, bounds = np.array([row["errors"][i] for i in good]), np.array([row["bounds"][i] for i in good])
            ratio, error = next_to_bound(errors, bounds)
            own |= {"rmse": float(np.sqrt(np.mean(errors**2))), "bound": float(np.sqrt(np.mean(bounds**2)))}
            own |= {"ratio": ratio, "ratio error": error, "scenes of the ratio": len(good)}
        out["methods"][name] = own
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", nargs="*", default=list(SWEEPS))
    parser.add_argument("--scenes", type=int, default=50)
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for sweep in arguments.sweeps:
        results[sweep] = [measured(cell, arguments.scenes) for cell in SWEEPS[sweep]]
        for row in results[sweep]:
            shares = {name: round(m["resolved"], 2) for name, m in row["methods"].items()}
            own = row["methods"]["number given"]
            print(row["cell"], shares, round(own["ratio"], 3), "±", round(own["ratio error"], 3), flush=True)
        results["run"] = describe(PACKAGES)  # the last one
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
