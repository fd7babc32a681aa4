"""Result blocks of the page on noise, from benchmarks/results; see fill.py."""

from __future__ import annotations

from typing import Any

from measured import table

TARGETS = {"found": "found", "search failures": "search failures", "confidence": "mean confidence"}


def noise_cells(results: dict[str, Any]) -> str:
    """Return what is found at which noise level, one line per cell."""
    rows = []
    for row in results["cells"]["rows"]:
        kind, n, m, d, snr = row["cell"]
        figures = [f"{row[name]:.3f}" for name in TARGETS]
        error = f"{row['nmse of mean and coef'][0]:.1f} / {row['nmse of mean and coef'][1]:.1f}"
        rows.append([f"{kind} {n}×{m}", str(d), f"{snr}", *figures, error, f"{row['milliseconds']:.1f}"])
    header = ["Φ", "nonzeros", "SNR dB", *TARGETS.values(), "NMSE of `mean` / `coef`, dB", "processor ms"]
    about = (
        f"{results['cells']['rows'][0]['signals']:,} signals per line on fresh dictionaries, amplitudes ±U[0.1, 0.5], "
        "σ given, default budget. A search failure is a wrong answer that is less probable than the true support. "
        "`python benchmarks/noise.py cells`."
    )
    return f"{table(header, rows)}\n\n{about}"


def noise_alista(results: dict[str, Any]) -> str:
    """Return the public table of NA-ALISTA with our rows."""
    published = results["alista"]["published"]
    ours = {(row["snr"], row["size"]): row for row in results["alista"]["rows"]}
    columns = list(ours)
    rows = [[name, *("" if v is None else f"{v:.1f}" for v in values)] for name, values in published.items()]
    for name, label in (
        ("nmse of vamp", "`solvers.vamp`"),
        ("nmse of coef", "`SparseRecoverer`, `coef`"),
        ("nmse of mean", "**`SparseRecoverer`, `mean`**"),
    ):
        rows.append([label, *(f"{ours[c][name]:.1f}" for c in columns)])
    rows.append(["processor ms per signal", *(f"{ours[c]['milliseconds']:.0f}" for c in columns)])
    header = ["NMSE in dB", *(f"{snr} dB, N = {size}" for snr, size in columns)]
    about = (
        f"{results['alista']['rows'][0]['signals']:,} signals per cell: 250 measurements, Bernoulli(50/N) supports, "
        "N(0, 1) amplitudes, noise relative to every signal. σ is given, the prior is not. Published rows: from the "
        "NA-ALISTA paper, networks trained for this very Φ. Times on a busy machine. "
        f"`python benchmarks/noise.py alista --signals {results['alista']['rows'][0]['signals']}`."
    )
    return f"{table(header, rows)}\n\n{about}"


def noise_grid(results: dict[str, Any]) -> str:
    """Return how the grid next to SBL, ℓ1 and VAMP went, with the cells that fail."""
    rows = results["rows"]
    by_kind = {}
    for row in rows:
        by_kind.setdefault(row["cell"][0], []).append(row)
    lines = [
        [
            kind,
            str(len(own)),
            f"{min(row['worse by dB'] for row in own):.1f} to {max(row['worse by dB'] for row in own):+.2f}",
            str(sum(row["worse by dB"] > 0.2 for row in own)),
            f"{sum(row['exact'] for row in own) / len(own):.2f}",
            *(f"{sum(row['exact of others'][name] for row in own) / len(own):.2f}" for name in ("sbl", "l1", "vamp")),
        ]
        for kind, own in by_kind.items()
    ]
    header = ["Φ", "cells", "error of `mean` above the best, dB", "above by > 0.2 dB", "exact", "SBL", "ℓ1", "VAMP"]
    beyond = [row for row in rows if row["worse by dB"] > 0.2]
    fewer = [row for row in rows if row["fewer"] > 2 * row["standard error of fewer"] and row["fewer"] > 0]
    named = "; ".join(
        "{} {}×{}, {} nonzeros ({}), {} dB: {:+.2f} ± {:.2f} dB".format(
            *row["cell"], row["worse by dB"], row["standard error of worse"]
        )
        for row in beyond
    )
    about = (
        f"{len(rows)} cells: n from 20 to 250, SNR from 10 to 80 dB, five amplitude laws; up to {results['signals']} "
        "signals each, a third of it for n > 100; every method is given σ. Error: NMSE against the best of SBL, ℓ1 and "
        "VAMP; exact: share of exact supports. "
        + (f"Above by more than 0.2 dB: {named}. " if beyond else "")
        + f"Cells with fewer exact supports than the best of the others, beyond two standard errors: {len(fewer)}. "
        f"`python benchmarks/noise.py grid --signals {results['signals']}`."
    )
    return f"{table(header, lines)}\n\n{about}"


def noise_refute(results: dict[str, Any]) -> str:
    """Return how often a given noise level is refuted, right ones included."""
    entry = results["refute"]
    factors = list(entry["rows"][0]["factors"])
    lines = []
    for row in entry["rows"]:
        kind, n, m, d, snr = row["cell"]
        figures = [
            f"{f['refuted']:.2f} ({f['right']:.2f} / {f['confidence']:.2f})" for f in map(row["factors"].get, factors)
        ]
        lines.append([f"{kind} {n}×{m}, {d} nonzeros", str(snr), *figures])
    names = {"1.0": "right σ", "0.1": "σ/10", "0.5": "σ/2", "2.0": "2σ", "10.0": "10σ"}
    header = ["Φ", "SNR dB", *(names[factor] for factor in factors)]
    about = (
        "Share of signals whose given level is refuted (share of right supports / mean confidence). "
        f"{entry['rows'][0]['signals']} signals per line, every signal by itself. `python benchmarks/noise.py refute "
        f"--signals {entry['signals']}`."
    )
    return f"{table(header, lines)}\n\n{about}"


def calibration(results: dict[str, Any]) -> str:
    """Return mean confidence next to the share of right supports, by cell and by tenths."""
    lines = []
    for row in results["rows"]:
        kind, n, m, d, snr, law, told = row["cell"]
        lines.append(
            [
                f"{kind} {n}×{m}",
                str(d),
                law,
                f"{snr}",
                "given" if told else "learned",
                f"{row['right']:.3f} / {row['confidence']:.3f}",
                f"{row['right without fit']:.3f} / {row['confidence without fit']:.3f}",
                f"{row['of them with a true atom']:.3f}",
            ]
        )
    header = ["Φ", "nonzeros", "amplitudes", "SNR dB", "σ", "after `fit`: right / confidence", "without", "credible sets"]
    tenths = "; ".join(f"{share:.3f} / {mean:.3f}" for _, mean, share in results["tenths"])
    total = sum(row["signals"] for row in results["rows"])
    worst = max(abs(row["right"] - row["confidence"]) for row in results["rows"])
    about = (
        f"{total:,} signals. After `fit` the largest difference between mean confidence and the share of right supports "
        f"in a cell is {worst:.3f}. By tenths of confidence, right / mean confidence: {tenths}. Credible sets: share of "
        f"95 % sets that hold a true atom. `{results['command']}`."
    )
    return f"{table(header, lines)}\n\n{about}"


NOISE_BLOCKS = {
    "noise-cells": ("noise.json", noise_cells),
    "noise-alista": ("noise.json", noise_alista),
    "noise-grid": ("noise_grid.json", noise_grid),
    "noise-refute": ("noise.json", noise_refute),
    "calibration": ("calibration.json", calibration),
}
