"""Proven bounds: no claim may be false, what a budget proves, and time next to El0ps and L0BnB.

    python benchmarks/bounds.py false --problems 100000
    python benchmarks/bounds.py budgets
    python benchmarks/bounds.py peers

Every part is written to its own entry of benchmarks/results/bounds.json. Times are processor time of one core.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import time
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np

import maxsparse as ms
from maxsparse.recovery import noise_radius, prove
from maxsparse.recovery._proof import Limits, nothing_proven, prove_rows
from maxsparse.recovery.bounds import similar_neighbours
from maxsparse.recovery.refit import CANCELLATION

RESULTS = Path(__file__).parent / "results" / "bounds.json"
SIGNALS = 50  # of one dictionary, in `false`


def near_duplicates(rng, n, m):
    """Pairs of atoms at distances from 1e-2 down to 1e-14."""
    Phi = rng.standard_normal((n, m))
    for j in range(0, m - 1, 2):
        Phi[:, j + 1] = Phi[:, j] + 10.0 ** rng.uniform(-14, -2) * rng.standard_normal(n)
    return Phi


def near_dependent(rng, n, m):
    """Triples of atoms that are dependent up to distances from 1e-2 down to 1e-14."""
    Phi = rng.standard_normal((n, m))
    for j in range(0, m - 2, 3):
        mixed = Phi[:, j : j + 2] @ rng.standard_normal(2)
        Phi[:, j + 2] = mixed + 10.0 ** rng.uniform(-14, -2) * rng.standard_normal(n)
    return Phi


def duplicates(rng, n, m):
    Phi = rng.standard_normal((n, m))
    Phi[:, m // 2 :] = Phi[:, rng.integers(0, m // 2, m - m // 2)] * rng.choice([1.0, -1.0, 2.0, 0.3], m - m // 2)
    return Phi


def rank_deficient(rng, n, m):
    rank = int(rng.integers(max(1, n // 2), n))
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, m))


KINDS = {
    "gaussian": lambda rng, n, m: rng.standard_normal((n, m)),
    "decaying": lambda rng, n, m: ms.dictionaries.decaying(n, m, rng=rng),
    "low_rank_plus": lambda rng, n, m: ms.dictionaries.low_rank_plus(n, m, rank=1, epsilon=0.05, rng=rng),
    "signs": lambda rng, n, m: rng.choice([-1.0, 1.0], (n, m)),
    "scaled": lambda rng, n, m: rng.standard_normal((n, m)) * 10.0 ** rng.uniform(-6, 6, m),
    "near_duplicates": near_duplicates,
    "near_dependent": near_dependent,
    "duplicates": duplicates,
    "rank_deficient": rank_deficient,
}


def make_signals(rng, Phi):
    """Return signals, their supports as a guess, and every signal's ε: often that of some support, to a few digits."""
    n, m = Phi.shape
    X, epsilon = np.zeros((SIGNALS, m)), np.empty(SIGNALS)
    size = np.linalg.norm(Phi, axis=0)
    for x in X:
        d = rng.integers(1, min(n, 4))
        x[rng.choice(m, d, replace=False)] = rng.standard_normal(d) * 10.0 ** rng.uniform(-rng.choice([0, 1, 6]), 0, d)
    X /= size
    sigma = 10.0 ** rng.uniform(-8, -0.5, SIGNALS)
    Y = X @ Phi.T + sigma[:, None] * rng.standard_normal((SIGNALS, n))
    for i, y in enumerate(Y):
        epsilon[i] = noise_radius(n, sigma[i])
        if rng.random() < 0.5:  # a near-tie: ε is the distance of a support, up to a relative error
            T = rng.choice(m, rng.integers(1, min(n, m, 4)), replace=False)
            T = T if rng.random() < 0.5 else np.flatnonzero(X[i])
            distance = np.linalg.norm(y - Phi[:, T] @ np.linalg.lstsq(Phi[:, T], y, rcond=None)[0])
            epsilon[i] = distance * (1.0 + rng.choice([0.0, 1.0, -1.0]) * 10.0 ** rng.uniform(-16, -2))
    return X, Y, epsilon


def exact_fit(Phi, y, support):
    """Return the squared distance of y from a span and Σ|x_j|‖φ_j‖ of least squares, both in rational numbers.

    None where the atoms are dependent: then fewer of them span as much.
    """
    A = [[Fraction(float(value)) for value in Phi[:, j]] for j in support]
    b = [Fraction(float(value)) for value in y]
    k = len(A)
    rows = [[sum(p * q for p, q in zip(A[i], A[j], strict=True)) for j in range(k)] for i in range(k)]
    for i in range(k):
        rows[i].append(sum(p * q for p, q in zip(A[i], b, strict=True)))
    for i in range(k):
        pivot = next((l for l in range(i, k) if rows[l][i] != 0), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for l in range(k):
            if l != i and rows[l][i] != 0:
                factor = rows[l][i] / rows[i][i]
                rows[l] = [p - factor * q for p, q in zip(rows[l], rows[i], strict=True)]
    x = [rows[i][k] / rows[i][i] for i in range(k)]
    r = [b[i] - sum(x[a] * A[a][i] for a in range(k)) for i in range(len(b))]
    terms = sum(abs(float(x[a])) * float(np.linalg.norm(Phi[:, support[a]])) for a in range(k))
    return sum(value * value for value in r), terms


def count_false(Phi, Y, epsilon, lower, upper, unique, best, counts):
    """Hold every claim against all supports of at most `upper` atoms; those that look close are judged exactly."""
    m = Phi.shape[1]
    unit = Phi / np.linalg.norm(Phi, axis=0)
    bound2 = [Fraction(float(value)) ** 2 for value in epsilon]
    sizes = np.linalg.norm(Y, axis=1)
    counts["lower"] += int((lower > 0).sum())
    counts["optimal"] += int(unique.sum())
    for i in np.flatnonzero(upper <= m):
        T = np.flatnonzero(best[i])
        parts = [T, *itertools.combinations(T, len(T) - 1)] if len(T) else [T]  # T itself may be dependent
        fits = [fit for part in parts if (fit := exact_fit(Phi, Y[i], part)) is not None]
        if len(T) != upper[i] or all(fit[0] > bound2[i] for fit in fits):
            counts["false upper"] += 1
    for k in range(min(int(np.max(np.where(unique, lower, lower - 1))), m) + 1):
        supports = np.array(list(itertools.combinations(range(m), k)), dtype=np.int64)
        U, s, _ = np.linalg.svd(unit.T[supports].transpose(0, 2, 1), full_matrices=False)
        U = U * (s > 1e-15)[:, None, :]
        inside = np.einsum("tnk,in->tik", U, Y)
        # Directions that rounding errors made up only bring more supports to the exact judge.
        distance2 = sizes**2 - np.sum(inside**2, axis=2)
        close = distance2 <= epsilon**2 * (1 + 1e-6) + 1e-13 * sizes**2
        for t, i in zip(*np.nonzero(close), strict=True):
            of_best = unique[i] and set(supports[t]) == set(np.flatnonzero(best[i]))
            if k > lower[i] or (k == lower[i] and (not unique[i] or of_best)):
                continue
            fit = exact_fit(Phi, Y[i], supports[t])
            if fit is None or fit[0] > bound2[i]:
                continue
            if fit[1] > CANCELLATION * sizes[i]:
                counts["rivals beyond the limit on terms"] += 1
                continue
            counts["false lower" if k < lower[i] else "false optimal"] += 1


def false(arguments):
    """Count false claims over problems that could make one."""
    counts = dict.fromkeys(("problems", "lower", "optimal", "false lower", "false optimal", "false upper"), 0) | {
        "rivals beyond the limit on terms": 0
    }
    kinds = dict.fromkeys(KINDS, 0)
    begun = time.process_time()
    for case in range(-(-arguments.problems // SIGNALS)):
        rng = np.random.default_rng([20, case])
        kind = list(KINDS)[case % len(KINDS)]
        n = int(rng.integers(3, 10))
        m = int(rng.integers(4, 13))
        Phi = KINDS[kind](rng, n, m)
        X, Y, epsilon = make_signals(rng, Phi)
        best = [X != 0, np.zeros_like(X, dtype=bool), np.roll(X, 1, axis=1) != 0][case % 3]
        atoms = np.ascontiguousarray((Phi / np.linalg.norm(Phi, axis=0)).T)
        # Groups of several atoms in two of three cases, though problems of this size do not need them.
        cheap, work = (1e9 if case % 3 == 1 else 0.0), 10.0 ** rng.uniform(3, 8)
        proven = nothing_proven(best)
        prove_rows(0, 1, atoms, similar_neighbours(atoms), Y, epsilon, Limits(CANCELLATION, work, cheap), proven)
        best, lower, upper, unique, _ = proven
        before = counts["optimal"]
        count_false(Phi, Y, epsilon, lower, upper, unique, best, counts)
        kinds[kind] += counts["optimal"] - before
        counts["problems"] += SIGNALS
        if case % 200 == 199:
            print(f"{time.process_time() - begun:.0f} s", counts, flush=True)
    return counts | {"optimal by kind": kinds, "seconds": round(time.process_time() - begun, 1)}


BUDGET_CELLS = [  # Φ, n, m, d, SNR in dB
    ("gaussian", 20, 100, 3, 20),
    ("gaussian", 20, 100, 5, 20),
    ("gaussian", 20, 100, 5, 40),
    ("gaussian", 20, 100, 6, 40),
    ("gaussian", 20, 100, 8, 40),
    ("decaying", 20, 100, 3, 40),
    ("decaying", 20, 100, 5, 60),
    ("gaussian", 64, 256, 5, 30),
    ("gaussian", 64, 256, 20, 30),
    ("decaying", 64, 256, 12, 60),
]


def draw(kind, n, m, d, snr, count, seed, amplitudes="uniform"):
    """Return Φ, X, noisy Y and σ."""
    rng = np.random.default_rng(seed)
    Phi = getattr(ms.dictionaries, kind)(n, m, rng=rng)
    X, Y = ms.signals.sample(Phi, count, sparsity=d, amplitudes=amplitudes, rng=rng)
    sigma = np.sqrt(np.mean(Y**2)) * 10.0 ** (-snr / 20)
    return Phi, X, Y + sigma * rng.standard_normal(Y.shape), sigma


def budgets(arguments):
    """Say what budgets prove of signals whose true support is given."""
    rows = []
    prove(np.eye(3), np.ones((1, 3)), epsilon=0.1)
    for cell in BUDGET_CELLS:
        Phi, X, Y, sigma = draw(*cell, count=20, seed=1)
        for milliseconds in (10.0, 100.0, 1000.0):
            start = time.process_time()
            bounds = prove(Phi, Y, X, epsilon=noise_radius(len(Phi), sigma), milliseconds=milliseconds, n_threads=1)
            spent = (time.process_time() - start) / len(Y)
            row = dict(zip(("Phi", "n", "m", "d", "snr"), cell, strict=True), budget=milliseconds)
            row |= {"ms": round(1000 * spent, 2), "lower": float(bounds.lower.mean())}
            row |= {"upper": float(bounds.upper.mean()), "optimal": float(bounds.optimal.mean())}
            row["lower equals upper"] = float((bounds.lower == bounds.upper).mean())
            rows.append(row)
            print(row, flush=True)
    return rows


PEER_CELLS = [
    ("gaussian", 20, 40, 3, 20),
    ("gaussian", 20, 60, 4, 30),
    ("gaussian", 20, 100, 3, 30),
    ("gaussian", 20, 100, 5, 40),
    ("gaussian", 50, 100, 5, 20),
    ("gaussian", 100, 200, 5, 10),
    ("decaying", 20, 40, 3, 60),
]


def el0ps_solver(Phi, y, weight, largest, seconds):
    import pybnb

    pybnb.Solver = functools.partial(pybnb.Solver, comm=None)  # one process, without MPI
    from el0ps.datafit import Leastsquares
    from el0ps.penalty import Bigm
    from el0ps.solver import BnbSolver

    result = BnbSolver(time_limit=seconds).solve(Leastsquares(y), Bigm(largest), np.ascontiguousarray(Phi), weight)
    return result.x, "optimal" in str(result.status).lower()


def l0bnb_solver(Phi, y, weight, largest, seconds):
    setattr(np, "Inf", np.inf)  # noqa: B010  # it was written for numpy 1
    from l0bnb import BNBTree

    result = BNBTree(Phi, y).solve(weight, 0.0, largest, gap_tol=1e-6, time_limit=seconds)
    return np.where(np.abs(result.beta) > 1e-8, result.beta, 0.0), result.gap <= 1e-4  # λ of one atom is far more


def timed(function, *arguments):
    start = time.process_time()
    value = function(*arguments)
    return value, time.process_time() - start


def peers(arguments):
    """Compare with solvers of min ½‖y − Φx‖² + λ‖x‖₀, |x_j| ≤ M.

    Where a peer proves its optimum, of k nonzeros and residual ε, no x in its box with fewer than k has a residual of ε
    or less: the same optimum of our problem, unless an x outside the box needs fewer.
    """
    rows = []
    solvers = {"el0ps": el0ps_solver, "l0bnb": l0bnb_solver}
    easy = draw("gaussian", 10, 12, 1, 20, 1, 0, "unit")
    for solver in solvers.values():  # compiles
        solver(easy[0], easy[2][0], 0.2, 1.5, 20.0)
    prove(np.eye(3), np.ones((1, 3)), epsilon=0.1)
    for cell, amplitudes in itertools.product(PEER_CELLS, ("unit", "uniform")):
        Phi, X, Y, sigma = draw(*cell, count=arguments.signals, seed=2, amplitudes=amplitudes)
        for x_true, y in zip(X, Y, strict=True):
            used = np.abs(x_true[x_true != 0])
            weight, largest = 0.2 * used.min() ** 2, 1.5 * used.max()
            for name, solver in solvers.items():
                (x, proven), seconds = timed(solver, Phi, y, weight, largest, arguments.limit)
                row = dict(zip(("Phi", "n", "m", "d", "snr"), cell, strict=True), amplitudes=amplitudes, peer=name)
                row |= {"peer_proven": bool(proven), "peer_seconds": round(seconds, 4)}
                k = int(np.count_nonzero(x))
                epsilon = np.linalg.norm(y - Phi @ x) * (1 + 1e-6) if proven else noise_radius(len(y), sigma)
                guess = (x if proven else x_true)[None]
                ask = functools.partial(prove, epsilon=epsilon, milliseconds=1000 * arguments.limit, n_threads=1)
                ours, seconds = timed(ask, Phi, y[None], guess)
                lower, upper = int(ours.lower[0]), int(ours.upper[0])
                row |= {"seconds": round(seconds, 4), "lower": lower, "upper": upper, "proven": lower == upper}
                if proven:
                    row |= {"k": k, "same": lower == upper == k}
                    if upper < k:
                        S = ours.support[0]
                        fit = np.linalg.lstsq(Phi[:, S], y, rcond=None)[0]
                        row["outside the box"] = bool(np.abs(fit).max() > largest)
                rows.append(row)
        print(rows[-1], flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("false", "budgets", "peers"))
    parser.add_argument("--problems", type=int, default=100_000)
    parser.add_argument("--signals", type=int, default=3, help="per cell and amplitude law, for peers")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds per problem, for peers")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # duplicate atoms, on purpose
    result = {"false": false, "budgets": budgets, "peers": peers}[arguments.part](arguments)
    whole = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    whole[arguments.part] = result
    RESULTS.write_text(json.dumps(whole, indent=1) + "\n")
    print(json.dumps(result if arguments.part == "false" else len(result), indent=1))


if __name__ == "__main__":
    main()
