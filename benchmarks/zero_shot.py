"""The bundled networks, all passes, on unseen dictionaries, against whitened SBL; with noise, SBL and l1.

python benchmarks/zero_shot.py --signals 200
python benchmarks/zero_shot.py --tuned 6        also fine-tuned to one dictionary for this many minutes
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np

import maxsparse as ms
from maxsparse.learned_sbl import bundled_weights

ROOT = Path(__file__).parent
RESULTS = ROOT / "results" / "zero_shot.json"
DATA = Path(os.environ.get("MAXSPARSE_DATA", "data")) / "authors_20x100.npz"
SIZES = ((16, 48), (20, 100), (40, 120), (128, 512))


def kinds(n, m, seed):
    yield "decaying", ms.dictionaries.decaying(n, m, rng=seed)
    yield "gaussian", ms.dictionaries.gaussian(n, m, rng=seed)
    yield "low_rank_plus", ms.dictionaries.low_rank_plus(n, m, rank=3, epsilon=0.1, rng=seed)
    yield "clustered", ms.dictionaries.clustered(n, m, clusters=m // 3, epsilon=0.5, rng=seed).matrix
    rows = np.random.default_rng(seed).choice(m, n, replace=False)
    cosines = np.cos(np.pi / m * rows[:, None] * (np.arange(m) + 0.5))
    yield "cosines", cosines / np.linalg.norm(cosines, axis=0)


def compare(N):
    """Strict accuracy at three sparsities on twenty dictionaries: learned, SBL by EM, SBL by the convex rule."""
    lines = []
    for n, m in SIZES:
        for kind, Phi in kinds(n, m, 77):
            model = ms.SparseRecoverer(Phi, noise=0, budget="none")
            for share in (0.2, 0.3, 0.4):
                d = max(2, round(share * n))
                count = N if n < 100 else max(20, N // 10)
                X, Y = ms.signals.sample(Phi, count, sparsity=d, rng=d)
                line = {"kind": kind, "n": n, "m": m, "d": d, "signals": count}
                line["learned"] = round(ms.metrics.strict_accuracy(X, model.recover(Y).scores), 4)
                for update in ("em", "convex"):
                    result = ms.solvers.sbl(Phi, Y, update=update, precondition=True)
                    line[f"sbl {update}"] = round(ms.metrics.strict_accuracy(X, result.scores), 4)
                lines.append(line)
                print(line, flush=True)
    return lines


def with_noise(N):
    """Recall and normalised error at 30 and 20 dB, each method told the noise."""
    lines = []
    for kind, Phi in (
        ("decaying", ms.dictionaries.decaying(20, 100, rng=78)),
        ("gaussian", ms.dictionaries.gaussian(20, 100, rng=78)),
    ):
        for snr in (30, 20):
            for d in range(2, 9):
                X, clean = ms.signals.sample(Phi, N, sparsity=d, rng=d)
                noise = float(np.sqrt(np.mean(clean**2)) * 10 ** (-snr / 20))
                Y = clean + noise * np.random.default_rng(d).standard_normal(clean.shape)
                line = {"kind": kind, "snr": snr, "d": d}
                results = {"ours": ms.SparseRecoverer(Phi, noise=noise).recover(Y)}
                results["sbl"] = ms.solvers.sbl(Phi, Y, noise=noise)
                results["l1"] = ms.solvers.l1(Phi, Y, noise=noise)
                for name, result in results.items():
                    line[f"{name} recall"] = round(ms.metrics.recall(X, result.scores), 4)
                    line[f"{name} error"] = round(float(ms.metrics.normalised_error(X, result.coef).mean()), 4)
                lines.append(line)
                print(line, flush=True)
    return lines


def tuned(minutes, N):
    """Strict accuracy on the authors' dictionary with the bundled weights and with the first pass tuned to it."""
    Phi = ms.dictionaries.load(DATA, "Phi").astype(np.float64)
    zero_shot, fitted = (ms.SparseRecoverer(Phi, noise=0, budget="none", n_threads=1) for _ in range(2))
    fitted.fit(minutes=minutes)
    lines = []
    for d in range(6, 11):
        X, Y = ms.signals.sample(Phi, N, sparsity=d, rng=50 + d)
        line = {"d": d, "minutes": minutes, "signals": N}
        for name, model in (("zero-shot", zero_shot), ("tuned", fitted)):
            first = ms.SparseRecoverer(Phi, noise=0, budget="none", n_threads=1)
            first.weights_, first.later_weights_ = getattr(model, "weights_", bundled_weights()), ()
            line[f"{name}, first pass"] = round(ms.metrics.strict_accuracy(X, first.recover(Y).scores), 4)
            line[name] = round(ms.metrics.strict_accuracy(X, model.recover(Y).scores), 4)
        lines.append(line)
        print(line, flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=200)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--tuned", type=float, metavar="MINUTES", help="only compare with tuning to the authors' Φ")
    options = parser.parse_args()
    if options.tuned is not None:
        summary = json.loads(options.results.read_text())
        summary["tuned"] = tuned(options.tuned, 10 * options.signals)
        options.results.write_text(json.dumps(summary, indent=1) + "\n")
        return
    summary = {"command": f"python benchmarks/zero_shot.py --signals {options.signals}"}
    summary["noiseless"] = compare(options.signals)
    options.results.write_text(json.dumps(summary, indent=1) + "\n")
    summary["noise"] = with_noise(options.signals)
    options.results.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
