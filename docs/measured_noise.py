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


NOISE_BLOCKS = {
    "noise-cells": ("noise.json", noise_cells),
    "noise-alista": ("noise.json", noise_alista),
    "noise-refute": ("noise.json", noise_refute),
}
