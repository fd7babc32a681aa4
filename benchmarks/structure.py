"""Structure: directions of arrival next to MUSIC, M-SBL and complex SBL next to plain SBL, NNLS next to SciPy.

    python benchmarks/structure.py doa --trials 400
    python benchmarks/structure.py speed
    python benchmarks/structure.py nnls
    python benchmarks/structure.py positive

Every part is written to its own entry of benchmarks/results/structure.json. Times are processor time of one core,
medians of interleaved rounds; for NNLS also wall time with all threads.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

import maxsparse as ms

RESULTS = Path(__file__).parent / "results" / "structure.json"
SENSORS, GRID = 16, np.arange(-90.0, 90.0)


def steering(degrees):
    """Responses (n, m) of sensors half a wavelength apart to plane waves."""
    return np.exp(1j * np.pi * np.outer(np.arange(SENSORS), np.sin(np.radians(degrees))))


def scene(rng, snapshots, snr, coherent, on_grid):
    """Two sources 4° apart: signals (L, n) whose clean part has unit mean square, directions, the noise's deviation."""
    first = float(rng.integers(-60, 57)) if on_grid else rng.uniform(-60.0, 56.0)
    truth = np.array([first, first + 4.0])
    amplitudes = rng.standard_normal((snapshots, 2)) + 1j * rng.standard_normal((snapshots, 2))
    if coherent:  # one waveform at both, up to a phase
        amplitudes = amplitudes[:, :1] * np.exp(2j * np.pi * rng.uniform(size=2))
    if snapshots == 1:  # equally strong
        amplitudes = np.exp(2j * np.pi * rng.uniform(size=(1, 2)))
    clean = amplitudes @ steering(truth).T
    clean /= np.sqrt(np.mean(np.abs(clean) ** 2))
    sigma = 10 ** (-snr / 20)
    noise = rng.standard_normal(clean.shape) + 1j * rng.standard_normal(clean.shape)
    return clean + sigma * noise / np.sqrt(2), truth, sigma


def peaks(spectrum):
    """Directions of the two highest local maxima on the grid."""
    padded = np.concatenate([[-np.inf], spectrum, [-np.inf]])
    tops = np.flatnonzero((spectrum > 0) & (spectrum >= padded[:-2]) & (spectrum > padded[2:]))
    return np.sort(GRID[tops[np.argsort(-spectrum[tops])[:2]]])


def found(spectrum, truth):
    """Whether both sources are within one degree."""
    directions = peaks(spectrum)
    return len(directions) == 2 and bool((np.abs(directions - truth) <= 1.0).all())


def music(Y, smoothing=0):
    """MUSIC's spectrum for two sources; with smoothing, forward and backward over subarrays of that many sensors."""
    size = smoothing or SENSORS
    parts = [Y[:, i : i + size] for i in range(SENSORS - size + 1)]
    R = sum(part.T @ part.conj() for part in parts)
    if smoothing:
        R = R + R[::-1, ::-1].conj()
    noise_space = np.linalg.eigh(R)[1][:, :-2]
    return 1.0 / (np.abs(noise_space.conj().T @ steering(GRID)[:size]) ** 2).sum(axis=0)


def doa(trials):
    """Share of scenes in which both sources are found, for every method."""
    Phi, rows = steering(GRID), []
    cases = [(10, 10, False), (10, 20, False), (10, 20, True), (1, 30, False)]
    for on_grid, (snapshots, snr, coherent) in itertools.product((True, False), cases):
        rng = np.random.default_rng(snapshots * 1000 + snr + coherent)
        scenes = [scene(rng, snapshots, snr, coherent, on_grid) for _ in range(trials)]
        Y, sigma = np.array([item[0] for item in scenes]), scenes[0][2]
        results, seconds = {}, {}
        for name, options in (
            ("sbl", {"method": "sbl", "noise": sigma}),
            ("sbl, mackay", {"method": "sbl", "noise": sigma, "update": "mackay"}),
            ("omp", {"method": "omp", "sparsity": 2}),
        ):
            begin = time.process_time()
            results[name] = ms.solve(Phi, Y, **options).scores
            seconds[name] = (time.process_time() - begin) / trials
        results["MUSIC"] = [music(y) for y in Y]
        results["MUSIC, smoothed"] = [music(y, 12) for y in Y]
        shares = {
            name: float(np.mean([found(s, item[1]) for s, item in zip(spectra, scenes, strict=True)]))
            for name, spectra in results.items()
        }
        case = {"snapshots": snapshots, "snr": snr, "coherent": coherent, "on grid": on_grid}
        rows.append({**case, "found": shares, "seconds": seconds})
        print(rows[-1], flush=True)
    return {"sensors": SENSORS, "trials": trials, "rows": rows}


def interleaved(calls, rounds=7):
    """Median processor seconds of every call, which take turns."""
    for call in calls.values():
        call()
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.process_time()
            call()
            times[name].append(time.process_time() - begin)
    return {name: float(np.median(values)) for name, values in times.items()}


def speed():
    """SBL with ten snapshots, and complex, against one real snapshot, per signal and per iteration."""
    rows = []
    for n, m, N in ((20, 100, 100), (64, 256, 10)):
        rng = np.random.default_rng(0)
        Phi = ms.dictionaries.gaussian(n, m, rng=0)
        complex_Phi = (Phi + 1j * ms.dictionaries.gaussian(n, m, rng=1)) / np.sqrt(2)
        X = np.zeros((N, 10, m), dtype=complex)
        for row in X:
            support = rng.choice(m, n // 5, replace=False)
            row[:, support] = rng.standard_normal((10, n // 5)) + 1j * rng.standard_normal((10, n // 5))
        problems = {
            "plain": (Phi, X.real[:, 0] @ Phi.T),
            "10 snapshots": (Phi, X.real @ Phi.T),
            "complex": (complex_Phi, X[:, 0] @ complex_Phi.T),
            "complex, 10 snapshots": (complex_Phi, X @ complex_Phi.T),
        }
        seconds = interleaved({k: lambda p=p: ms.solve(*p, n_threads=1) for k, p in problems.items()}, rounds=5)
        iterations = {k: float(ms.solve(*p).iterations.mean()) for k, p in problems.items()}
        rows.append({"n": n, "m": m, "signals": N, "seconds": seconds, "iterations": iterations})
        print(rows[-1], flush=True)
    return {"rows": rows}


def bumps(n, m, width):
    """Smooth non-negative atoms, nearly dependent."""
    return np.exp(-0.5 * ((np.linspace(0, 1, n)[:, None] - np.linspace(0, 1, m)) / width) ** 2)


def nnls_speed():
    """Batched NNLS against a loop over SciPy's."""
    rows, rng = [], np.random.default_rng(0)
    for name, Phi, N in (
        ("gaussian 20×100", ms.dictionaries.gaussian(20, 100, rng=0), 4000),
        ("bumps 120×300", bumps(120, 300, 0.02), 600),
        ("smooth 200×240", np.abs(rng.standard_normal((200, 240))).cumsum(axis=0), 600),
    ):
        Phi = Phi / np.linalg.norm(Phi, axis=0)
        X = np.zeros((N, Phi.shape[1]))
        for row in X:
            row[rng.choice(len(row), 4, replace=False)] = rng.uniform(0.1, 0.5, 4)
        Y = X @ Phi.T + 1e-3 * rng.standard_normal((N, len(Phi)))
        few = Y[: N // 10]
        loop = np.array([nnls(Phi, y)[1] for y in few])
        calls = {
            "ours": lambda Phi=Phi, Y=Y: ms.solve(Phi, Y, method="nnls", n_threads=1),
            "scipy": lambda Phi=Phi, few=few: [nnls(Phi, y) for y in few],
        }
        seconds = interleaved(calls, rounds=5)
        wall = []
        for _ in range(5):
            begin = time.perf_counter()
            result = ms.solve(Phi, Y, method="nnls")
            middle = time.perf_counter()
            calls["scipy"]()
            wall.append(10 * (time.perf_counter() - middle) / (middle - begin))
        rows.append(
            {
                "problem": name,
                "us": 1e6 * seconds["ours"] / N,
                "scipy us": 1e6 * seconds["scipy"] / len(few),
                "times faster, one core": 10 * seconds["scipy"] / seconds["ours"],
                "times faster, all threads": float(np.median(wall)),
                "largest difference of residuals": float(np.abs(result.residual[: len(few)] - loop).max()),
            }
        )
        print(rows[-1], flush=True)
    return {"rows": rows}


def positive(trials):
    """Share of non-negative signals found without noise, with and without ``positive=True``."""
    rows = []
    for name in ("gaussian", "decaying"):
        Phi = getattr(ms.dictionaries, name)(20, 100, rng=0)
        for d in (3, 5, 7, 9, 12):
            X = np.abs(ms.signals.sample(Phi, trials, sparsity=d, rng=d)[0])
            shares = {}
            for method in ("omp", "sbl", "l1"):
                options = {"sparsity": d} if method == "omp" else {}
                for sign in (False, True):
                    result = ms.solve(Phi, X @ Phi.T, method, precondition=True, positive=sign, **options)
                    shares[f"{method}{', positive' if sign else ''}"] = ms.metrics.strict_accuracy(X, result.scores)
            rows.append({"dictionary": name, "d": d, "found": shares})
            print(rows[-1], flush=True)
    return {"signals": trials, "rows": rows}


def main():
    """Run one part and store its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["doa", "speed", "nnls", "positive"])
    parser.add_argument("--trials", type=int, default=400)
    arguments = parser.parse_args()
    parts = {
        "doa": lambda: doa(arguments.trials),
        "speed": speed,
        "nnls": nnls_speed,
        "positive": lambda: positive(arguments.trials),
    }
    figures = parts[arguments.part]()
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    stored[arguments.part] = {"command": f"python benchmarks/structure.py {arguments.part}", **figures}
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
