"""Structure: directions of arrival next to MUSIC, joint supports, signs, spectra, lead fields, NNLS next to SciPy.

    python benchmarks/structure.py doa --trials 400
    python benchmarks/structure.py speed
    python benchmarks/structure.py nnls
    python benchmarks/structure.py positive
    python benchmarks/structure.py signs --trials 50      # SparseRecoverer from here on
    python benchmarks/structure.py joint --trials 100
    python benchmarks/structure.py spectra --trials 100
    python benchmarks/structure.py meg --trials 5
    python benchmarks/structure.py certificates --trials 20000

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
from machine import describe
from scipy.optimize import nnls

import maxsparse as ms

PACKAGES = ("maxsparse", "numpy", "numba", "scipy")
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
        begin = time.process_time()
        recovered = ms.SparseRecoverer(Phi, noise=sigma).recover(Y)
        results["SparseRecoverer"] = recovered.inclusion
        seconds["SparseRecoverer"] = (time.process_time() - begin) / trials
        exact = [set(GRID[s]) == set(item[1]) for s, item in zip(recovered.support, scenes, strict=True)]
        results["MUSIC"] = [music(y) for y in Y]
        results["MUSIC, smoothed"] = [music(y, 12) for y in Y]
        shares = {
            name: float(np.mean([found(s, item[1]) for s, item in zip(spectra, scenes, strict=True)]))
            for name, spectra in results.items()
        }
        case = {"snapshots": snapshots, "snr": snr, "coherent": coherent, "on grid": on_grid}
        trust = {"exact": float(np.mean(exact)), "confidence": float(recovered.confidence.mean())}
        rows.append({**case, "found": shares, "seconds": seconds, **(trust if on_grid else {})})
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


def share_found(X, result):
    """Share of signals whose support is exactly right."""
    used = (X != 0).any(axis=1) if X.ndim == 3 else X != 0
    return float((used == result.support).all(axis=1).mean())


def signs(trials):
    """Share of non-negative signals that the recoverer finds without noise, with and without ``positive=True``."""
    rows = []
    for name in ("gaussian", "decaying"):
        Phi = getattr(ms.dictionaries, name)(20, 100, rng=0)
        for d in (3, 5, 7, 9, 10, 11, 12):
            X = np.abs(ms.signals.sample(Phi, trials, sparsity=d, rng=d)[0])
            shares, false, seconds = {}, 0, {}
            for sign in (False, True):
                begin = time.process_time()
                result = ms.SparseRecoverer(Phi, noise=0, positive=sign).recover(X @ Phi.T)
                seconds[str(sign)] = (time.process_time() - begin) / trials
                shares["positive" if sign else "free"] = share_found(X, result)
                false += int((result.certified & (result.support != (X != 0)).any(axis=1)).sum())
            rows.append({"dictionary": name, "d": d, "found": shares, "false": false, "seconds": seconds})
            print(rows[-1], flush=True)
    return {"signals": trials, "rows": rows}


def joint(trials):
    """Share of joint supports found, gaussian 20×100, by the number of snapshots and of atoms."""
    rows, Phi = [], ms.dictionaries.gaussian(20, 100, rng=0)
    for snr, L in itertools.product((None, 20), (1, 4, 16)):
        low = True
        for d in range(1, 20):
            rng = np.random.default_rng(1000 * L + d)
            X = np.zeros((trials, L, 100))
            for x in X:
                x[:, rng.choice(100, d, replace=False)] = rng.standard_normal((L, d))
            Y, noise = X @ Phi.T, 0.0
            if snr is not None:
                noise = float(np.sqrt(np.mean(Y**2)) * 10 ** (-snr / 20))
                Y = Y + noise * rng.standard_normal(Y.shape)
            begin = time.process_time()
            result = ms.SparseRecoverer(Phi, noise=noise).recover(Y)
            seconds = (time.process_time() - begin) / trials
            right = ((X != 0).any(axis=1) == result.support).all(axis=1)
            rows.append({"snr": snr, "L": L, "d": d, "found": float(right.mean()), "seconds": seconds})
            rows[-1] |= {"confidence": float(result.confidence.mean()), "false": int((result.certified & ~right).sum())}
            print(rows[-1], flush=True)
            if right.mean() < 0.7 and not low:
                break
            low = right.mean() >= 0.7
    return {"signals": trials, "rows": rows}


def mixtures(rng, count, k, Phi, snr):
    """Return mixtures of k materials with Dirichlet abundances of at least .05, each scaled to a power of 1, and σ."""
    X = np.zeros((count, Phi.shape[1]))
    for x in X:
        shares = rng.dirichlet(np.ones(k))
        while shares.min() < 0.05:
            shares = rng.dirichlet(np.ones(k))
        x[rng.choice(len(x), k, replace=False)] = shares
    clean = X @ Phi.T
    scale = 1.0 / np.sqrt(np.mean(clean**2, axis=1, keepdims=True))
    sigma = 10 ** (-snr / 20)
    return X, scale * clean + sigma * rng.standard_normal(clean.shape), scale, sigma


def spectra(trials):
    """Mixtures of laboratory spectra: share of exact supports."""
    path = Path(__file__).parents[2] / "shared" / "data" / "usgs_1995.npz"
    if not path.exists():
        raise SystemExit(f"{path} is missing: USGS spectra, see ../shared/data/README.md")
    data = np.load(path)
    Phi, rows = data["spectra"][:, data["pruned"]].astype(np.float64), []
    for k, snr in ((3, 40), (5, 40), (5, 60)):
        rng = np.random.default_rng([2026, k, snr])
        _, others, _, _ = mixtures(rng, 60, k, Phi, snr)
        X, Y, scale, sigma = mixtures(rng, trials, k, Phi, snr)
        weight = 100.0 * sigma  # one more measurement, nearly exact: abundances sum to one
        sum_Phi, sum_Y = np.vstack([Phi, np.full(Phi.shape[1], weight)]), np.hstack([Y, weight * scale])
        models = {
            "free": ms.SparseRecoverer(Phi, noise=sigma),
            "positive": ms.SparseRecoverer(Phi, noise=sigma, positive=True),
            "positive, after fit to 60 others": ms.SparseRecoverer(Phi, noise=sigma, positive=True).fit(others),
            "positive, sum of one": ms.SparseRecoverer(sum_Phi, noise=sigma, positive=True),
        }
        row = {"k": k, "snr": snr, "found": {}, "seconds": {}, "confidence": {}, "credible sets that hold a part": {}}
        for name, model in models.items():
            begin = time.process_time()
            result = model.recover(sum_Y if "sum" in name else Y)
            row["seconds"][name] = (time.process_time() - begin) / trials
            row["found"][name] = share_found(X, result)
            row["confidence"][name] = float(result.confidence.mean())
            sets = [X[i, list(c.atoms)].any() for i in range(trials) for c in result.credible_sets(i)]
            row["credible sets that hold a part"][name] = float(np.mean(sets))
        nnls_answer = ms.solve(Phi, Y, method="nnls", noise=sigma)
        row["found"]["nnls, k largest"] = ms.metrics.strict_accuracy(X, nnls_answer.scores)
        rows.append(row)
        print(row, flush=True)
    return {"signals": trials, "rows": rows}


def meg(trials):
    """MEG lead fields, ten snapshots, known diagonal noise: F1 of the sources found."""
    folder, rows = Path(__file__).parents[2] / "shared" / "data", []
    for head, snr, k in itertools.product("ab", (40, 20), (1, 2, 3, 5)):
        path = folder / f"meg_leadfield_{head}.npz"
        if not path.exists():
            raise SystemExit(f"{path} is missing: MEG lead fields, see ../shared/data/README.md")
        lead = np.load(path)["lead_field"].astype(np.float64)
        lead /= np.linalg.norm(lead, axis=0).mean()
        rng = np.random.default_rng(10 * snr + k)
        X = np.zeros((trials, 10, lead.shape[1]))
        for x in X:
            x[:, rng.choice(lead.shape[1], k, replace=False)] = rng.standard_normal((10, k))
        clean = X @ lead.T
        shape = rng.uniform(0.5, 1.5, len(lead))
        noise = shape * np.sqrt(np.mean(clean**2) / np.mean(shape**2)) * 10 ** (-snr / 20)
        Y = clean + noise * rng.standard_normal(clean.shape)
        begin = time.process_time()
        result = ms.SparseRecoverer(lead, noise=noise).recover(Y)
        seconds = (time.process_time() - begin) / trials
        used = (X != 0).any(axis=1)
        hits = (used & result.support).sum(axis=1)
        F1 = float(np.mean(2 * hits / (used.sum(axis=1) + result.support.sum(axis=1))))
        rows.append({"head": head, "snr": snr, "sources": k, "F1": F1, "seconds": seconds})
        rows[-1]["confidence"] = float(result.confidence.mean())
        print(rows[-1], flush=True)
    return {"signals": trials, "rows": rows}


CERTIFIED_KINDS = tuple(itertools.product(("complex", "joint", "positive"), ("gaussian", "decaying", "collinear")))
PER_BATCH = 1000


def certificate_batch(kind, name, batch):
    """Return how many of 1,000 signals without noise are certified, and how many of these answers are wrong."""
    rng = np.random.default_rng([batch, len(kind), len(name)])
    Phi = ms.dictionaries.gaussian(10, 30, rng=rng)
    if name == "decaying":
        Phi = ms.dictionaries.decaying(10, 30, rng=rng)
    if kind == "complex":
        Phi = Phi * np.exp(2j * np.pi * rng.uniform(size=Phi.shape))
    if name == "collinear":  # sums of two atoms, and near duplicates
        Phi[:, 20:25] = Phi[:, :5] + Phi[:, 5:10]
        Phi[:, 25:] = Phi[:, 10:15] + 10.0 ** rng.uniform(-12, -3) * Phi[:, 25:]
    L = 3 if kind == "joint" else 1
    X = np.zeros((PER_BATCH, L, 30), dtype=Phi.dtype)
    for x in X:
        d = rng.integers(1, 8)
        chosen = rng.choice(30, d, replace=False)
        values = rng.integers(1, 4, (L, d)) if rng.random() < 0.5 else rng.uniform(0.1, 1.0, (L, d))
        turn = np.exp(2j * np.pi * rng.uniform(size=d)) if kind == "complex" else rng.choice([-1, 1], d)
        x[:, chosen] = values * (1 if kind == "positive" else turn)
    result = ms.SparseRecoverer(Phi, noise=0, positive=kind == "positive", budget="none").recover(X @ Phi.T)
    used = (X != 0).any(axis=1)
    sizes = np.count_nonzero(result.support, axis=1), np.count_nonzero(used, axis=1)
    wrong = result.certified & ((result.support != used).any(axis=1)) & (sizes[0] >= sizes[1])
    return int(result.certified.sum()), int(wrong.sum())


def certificates(trials):
    """Wrong answers among those that are certified: complex, joint and non-negative signals without noise."""
    rows, batches = [], -(-trials // (len(CERTIFIED_KINDS) * PER_BATCH))
    for kind, name in CERTIFIED_KINDS:
        certified, wrong = np.sum([certificate_batch(kind, name, batch) for batch in range(batches)], axis=0).tolist()
        row = {"kind": kind, "dictionary": name, "signals": batches * PER_BATCH, "certified": certified, "false": wrong}
        rows.append(row)
        print(row, flush=True)
    return {"rows": rows}


PARTS = {part.__name__: part for part in (doa, positive, signs, joint, spectra, meg, certificates)}


def main():
    """Run one part and store its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PARTS, "speed", "nnls"])
    parser.add_argument("--trials", type=int, default=400)
    arguments = parser.parse_args()
    parts = {
        **{name: lambda part=part: part(arguments.trials) for name, part in PARTS.items()},
        "speed": speed,
        "nnls": nnls_speed,
    }
    figures = parts[arguments.part]()
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    command = f"python benchmarks/structure.py {arguments.part}"
    stored[arguments.part] = {"command": command, **figures, "run": describe(PACKAGES)}
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
