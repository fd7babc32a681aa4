"""Calibration of confidence: answers given with confidence .8 should be right in 80 of 100 cases.

    python benchmarks/calibration.py                      # 30 cells, 3,400 signals each; writes results and picture
    python benchmarks/calibration.py --signals 100 --only 0 5
    python benchmarks/calibration.py --store parts        # resumes a run that was interrupted

Every cell has fresh dictionaries and 100 signals of its own for `fit(Y)`, which learns from them, without any truth,
the noise level where it is not told and what amplitudes look like. Confidence is measured after it, and for comparison
without it, where every signal is judged by itself.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

import maxsparse as ms

RESULTS = Path(__file__).parent / "results" / "calibration.json"
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "calibration.png"
LEVEL, FOR_FIT, PIECE, SEED = 0.95, 100, 850, 40_000
# kind, n, m, d, SNR in dB, amplitudes, whether σ is told
CELLS = [
    ("gaussian", 20, 100, 3, 20, "uniform", True),
    ("gaussian", 20, 100, 5, 20, "uniform", True),
    ("gaussian", 20, 100, 5, 20, "uniform", False),
    ("gaussian", 20, 100, 5, 15, "gaussian", True),
    ("gaussian", 20, 100, 5, 20, "unit", True),
    ("gaussian", 20, 100, 4, 30, "normal", True),
    ("gaussian", 20, 100, 4, 30, "normal", False),
    ("gaussian", 20, 100, 7, 30, "uniform", True),
    ("gaussian", 20, 100, 7, 30, "uniform", False),
    ("gaussian", 20, 100, 8, 40, "uniform", True),
    ("decaying", 20, 100, 3, 40, "uniform", True),
    ("decaying", 20, 100, 3, 40, "uniform", False),
    ("decaying", 20, 100, 3, 50, "normal", True),
    ("decaying", 20, 100, 5, 60, "uniform", True),
    ("decaying", 20, 100, 5, 60, "uniform", False),
    ("decaying", 20, 100, 5, 50, "gaussian", True),
    ("decaying", 20, 100, 7, 80, "uniform", True),
    ("gaussian", 40, 80, 8, 20, "uniform", True),
    ("gaussian", 40, 80, 8, 30, "normal", True),
    ("gaussian", 40, 80, 8, 30, "decaying", True),
    ("gaussian", 40, 80, 12, 20, "gaussian", False),
    ("gaussian", 64, 256, 20, 30, "uniform", True),
    ("gaussian", 64, 256, 20, 30, "uniform", False),
    ("gaussian", 64, 256, 12, 30, "normal", True),
    ("gaussian", 64, 256, 12, 15, "gaussian", True),
    ("gaussian", 64, 256, 15, 40, "unit", False),
    ("decaying", 64, 256, 6, 50, "uniform", True),
    ("decaying", 64, 256, 12, 60, "uniform", True),
    ("low_rank_plus", 20, 100, 3, 40, "uniform", True),
    ("low_rank_plus", 40, 120, 6, 50, "gaussian", False),
]


def normal(rng, size):
    return rng.standard_normal(size)


def decaying(rng, size):
    return 0.8 ** rng.integers(0, 12, size) * rng.choice([-1.0, 1.0], size)


AMPLITUDES = {"normal": normal, "decaying": decaying}


def draw(Phi, cell, signals, seed, sigma=None):
    """Return true coefficients, noisy signals and σ, which is that of the mean power over all signals."""
    _, _, _, d, snr, amplitudes, _ = cell
    X, _ = ms.signals.sample(Phi, signals, sparsity=d, amplitudes=AMPLITUDES.get(amplitudes, amplitudes), rng=seed)
    Y = X @ Phi.T
    sigma = float(np.sqrt(np.mean(Y**2)) * 10 ** (-snr / 20)) if sigma is None else sigma
    return X, Y + sigma * np.random.default_rng([seed, 3]).standard_normal(Y.shape), sigma


def covered(result, X):
    """Return how many credible sets there are, and how many of them hold an atom of the true support."""
    sets = [s for i in range(len(X)) for s in (result.credible_sets(i, level=LEVEL),)]
    hits = [bool(X[i, list(s.atoms)].any()) for i, own in enumerate(sets) for s in own]
    return len(hits), int(sum(hits))


def judge(model, X, Y):
    begun = time.process_time()
    result = model.recover(Y)
    seconds = time.process_time() - begun
    right = (result.support == (X != 0)).all(axis=1)
    return result.confidence, right, covered(result, X), seconds


def measure_piece(number, piece, count):
    """Return what one dictionary of a cell gives, as arrays by name."""
    cell = CELLS[number]
    kind, n, m, *_, told = cell
    seed = SEED + 100 * number + piece
    Phi = getattr(ms.dictionaries, kind)(n, m, rng=seed)
    _, for_fit, sigma = draw(Phi, cell, FOR_FIT, seed + 50)
    X, Y, _ = draw(Phi, cell, count, seed, sigma)
    options = {"noise": sigma} if told else {}
    few = slice(None, -(-count // 4))
    alone, right_alone, _, _ = judge(ms.SparseRecoverer(Phi, **options), X[few], Y[few])
    model = ms.SparseRecoverer(Phi, **options).fit(for_fit)
    confidence, right, sets, seconds = judge(model, X, Y)
    numbers = {"sets": sets, "seconds": seconds, "level": model.noise_ / sigma}
    arrays = {"confidence": confidence, "right": right, "alone": alone, "right alone": right_alone}
    return {name: np.atleast_1d(value) for name, value in (arrays | numbers).items()}


def measure(number, signals, store):
    """Return a row for one cell, and confidences and outcomes after `fit`."""
    parts = []
    for piece in range(-(-signals // PIECE)):
        count = min(PIECE, signals - piece * PIECE)
        path = None if store is None else store / f"{number}-{piece}-{count}.npz"
        if path is not None and path.exists():
            with np.load(path, allow_pickle=False) as stored:
                parts.append(dict(stored))
            continue
        parts.append(measure_piece(number, piece, count))
        if path is not None:
            np.savez(path, **parts[-1])
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    sets = whole["sets"].reshape(-1, 2).sum(axis=0)
    row = {
        "cell": list(CELLS[number]),
        "signals": signals,
        "right": float(whole["right"].mean()),
        "confidence": float(whole["confidence"].mean()),
        "right without fit": float(whole["right alone"].mean()),
        "confidence without fit": float(whole["alone"].mean()),
        "credible sets": int(sets[0]),
        "of them with a true atom": float(sets[1] / max(1, sets[0])),
        "noise level over the true one": float(whole["level"].mean()),
        "milliseconds": float(1e3 * whole["seconds"].sum() / signals),
    }
    return row, whole["confidence"], whole["right"]


def tenths(confidence, right):
    """Return number of signals, mean confidence and share of right supports for every tenth of confidence."""
    place = np.minimum((10 * confidence).astype(int), 9)
    return [
        [int(inside.sum()), float(confidence[inside].mean()), float(right[inside].mean())]
        for inside in (place == t for t in range(10))
        if inside.any()
    ]


def picture(rows, pooled):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    for ax, points, title in (
        (axes[0], [(row["confidence"], row["right"]) for row in rows], "30 cells"),
        (axes[1], [(mean, share) for _, mean, share in pooled], "all signals, by tenths of confidence"),
    ):
        ax.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        ax.plot(*zip(*points, strict=True), "o", color="C0", label="after fit(Y)")
        ax.set(xlabel="mean confidence", ylabel="share of right supports", title=title, xlim=(0, 1), ylim=(0, 1.02))
        ax.set_aspect("equal")
    alone = [(row["confidence without fit"], row["right without fit"]) for row in rows]
    axes[0].plot(*zip(*alone, strict=True), "x", color="C1", label="every signal by itself")
    axes[0].legend(loc="upper left", frameon=False)
    figure.savefig(PICTURE, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--signals", type=int, default=3400)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of cells; nothing is written then")
    parser.add_argument("--store", type=Path, help="folder for finished pieces of cells, from which a run resumes")
    arguments = parser.parse_args()
    if arguments.store is not None:
        arguments.store.mkdir(parents=True, exist_ok=True)
    rows, confidences, outcomes = [], [], []
    for number in arguments.only or range(len(CELLS)):
        row, confidence, right = measure(number, arguments.signals, arguments.store)
        print(json.dumps(row), flush=True)
        rows.append(row)
        confidences.append(confidence)
        outcomes.append(right)
    pooled = tenths(np.concatenate(confidences), np.concatenate(outcomes))
    print(json.dumps(pooled))
    if not arguments.only:
        command = f"python benchmarks/calibration.py --signals {arguments.signals}"
        entry = {
            "maxsparse": ms.__version__,
            "numpy": np.__version__,
            "command": command,
            "rows": rows,
            "tenths": pooled,
        }
        RESULTS.write_text(json.dumps(entry, indent=1) + "\n")
        picture(rows, pooled)


if __name__ == "__main__":
    main()
