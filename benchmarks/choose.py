"""Which method for which problem: every method on eight kinds of problem, for the decision table of the documentation.

``python benchmarks/choose.py`` writes benchmarks/results/choose.json; ``python docs/fill.py`` puts it into the page.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np

import maxsparse as ms
from maxsparse._core.atomic import atomic_write

SIGNALS, SEED = 100, 0
OUT = Path(__file__).parent / "results" / "choose.json"
METHODS = ("omp", "subspace_pursuit", "iht", "l1", "reweighted_l1", "sbl", "vamp")
OURS = "SparseRecoverer"


def problems():
    """Yield (what it is, Phi, d, signal-to-noise ratio in dB or None)."""
    incoherent = ms.dictionaries.gaussian(32, 64, rng=SEED)
    coherent = ms.dictionaries.decaying(20, 100, rng=SEED)
    clustered = ms.dictionaries.clustered(32, 64, clusters=24, epsilon=0.1, rng=SEED).matrix
    yield "incoherent, very sparse (gaussian 32×64, d = 4)", incoherent, 4, None
    yield "incoherent, less sparse (gaussian 32×64, d = 12)", incoherent, 12, None
    yield "coherent, very sparse (decaying 20×100, d = 3)", coherent, 3, None
    yield "coherent, less sparse (decaying 20×100, d = 7)", coherent, 7, None
    yield "clusters of similar atoms (32×64, d = 6)", clustered, 6, None
    yield "noise, 30 dB (gaussian 32×64, d = 6)", incoherent, 6, 30.0
    yield "noise, 15 dB (gaussian 64×256, d = 8)", ms.dictionaries.gaussian(64, 256, rng=SEED), 8, 15.0
    yield "noise, 40 dB, coherent (decaying 20×100, d = 3)", coherent, 3, 40.0


def measure(Phi, d, snr_db):
    """Return {method: (share of supports right, processor microseconds per signal)}."""
    X, Y = ms.signals.sample(Phi, SIGNALS, sparsity=d, rng=SEED + 1)
    noise = 0.0 if snr_db is None else float(np.sqrt(np.mean(Y**2)) * 10 ** (-snr_db / 20))
    if noise:  # one level for all signals
        Y = Y + noise * np.random.default_rng(SEED + 2).standard_normal(Y.shape)
    takes_noise = ms.solvers.METHODS.able("noise")

    def classical(method):
        options = {"noise": noise} if noise and method in takes_noise else {}
        # Whitening would amplify noise that the method is not told of.
        whitened = noise == 0 or method in takes_noise
        return lambda Y: ms.solve(Phi, Y, method=method, sparsity=d, precondition=whitened, **options).scores

    recoverers = {method: classical(method) for method in METHODS}
    recoverers[OURS] = lambda Y: ms.SparseRecoverer(Phi, noise=noise).recover(Y)
    figures = {}
    for name, recover in recoverers.items():
        recover(Y[:4])  # compiles
        begun = time.process_time()
        answer = recover(Y)
        spent = time.process_time() - begun
        if name == OURS:  # it is not given d
            right = float((answer.support == (X != 0)).all(axis=1).mean())
        else:
            right = ms.metrics.strict_accuracy(X, answer)
        figures[name] = [round(right, 4), round(1e6 * spent / SIGNALS, 1)]
    return figures


def main():
    """Measure and write."""
    rows = []
    for what, Phi, d, snr_db in problems():
        rows.append({"problem": what, "figures": measure(Phi, d, snr_db)})
        print(what, rows[-1]["figures"], flush=True)
    about = {"command": "python benchmarks/choose.py", "signals": SIGNALS, "seed": SEED, "maxsparse": ms.__version__}
    with atomic_write(OUT) as stream:
        stream.write((json.dumps({**about, "rows": rows}, indent=1, ensure_ascii=False) + "\n").encode())


if __name__ == "__main__":
    main()
