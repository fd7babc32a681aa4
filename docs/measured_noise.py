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
        "NA-ALISTA paper, networks trained for this very Φ. "
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


def noise_calibration(results: dict[str, Any]) -> str:
    """Return mean confidence next to the share of right supports, by cell and by tenths of confidence."""
    rows = []
    for row in results["rows"]:
        kind, n, m, d, snr, law, told = row["cell"]
        rows.append(
            [
                f"{kind} {n}×{m}, {d} nonzeros",
                f"{snr}",
                law,
                "given" if told else "learned",
                f"{row['right']:.3f}",
                f"{row['confidence']:.3f}",
                f"{row['of them with a true atom']:.3f}",
                f"{row['right without fit']:.2f} / {row['confidence without fit']:.2f}",
            ]
        )
    header = ["Φ", "SNR dB", "amplitudes", "σ", "right", "confidence", "credible sets that hold", "without `fit`"]
    shares = [[f"{mean:.3f}", f"{share:.3f}", f"{count:,}"] for count, mean, share in results["tenths"]]
    worst = max(abs(row["confidence"] - row["right"]) for row in results["rows"])
    total = sum(row["signals"] for row in results["rows"])
    about = (
        f"{total:,} signals; largest difference of a line {worst:.3f}. After `fit` to 100 other signals of the cell; "
        "last column: share of right supports / mean confidence where every signal is judged by itself. Credible sets "
        "of 95 %. normal is N(0, 1), decaying 0.8^k with k uniform on 0..11, gaussian N(±0.3, 0.1). "
        f"`{results['command']}`."
    )
    pooled = table(["mean confidence", "share of right supports", "signals"], shares)
    return f"{table(header, rows)}\n\n{about}\n\nAll signals, by tenths of confidence:\n\n{pooled}"


def noise_grid(results: dict[str, Any]) -> str:
    """Return how far the posterior mean is from the best of three methods, the worst cells one by one."""
    rows = sorted(results["rows"], key=lambda row: -row["worse by dB"])
    above = [row for row in rows if row["worse by dB"] > 0.2]
    fewer = [row for row in rows if row["fewer"] > 2 * row["standard error of fewer"]]
    lines = []
    for row in rows[: max(8, len(above))]:
        kind, n, m, d, law, snr = row["cell"]
        others = " / ".join(f"{row['nmse'][name]:.1f}" for name in ("sbl", "l1", "vamp"))
        exact = " / ".join(f"{row['exact of others'][name]:.2f}" for name in ("sbl", "l1", "vamp"))
        lines.append(
            [
                f"{kind} {n}×{m}, {d} nonzeros, {law}",
                f"{snr}",
                f"{row['nmse of mean']:.1f}",
                others,
                f"{row['worse by dB']:+.2f} ± {row['standard error of worse']:.2f}",
                f"{row['exact']:.2f}",
                exact,
            ]
        )
    header = ["the worst cells", "SNR dB", "NMSE of `mean`", "SBL / ℓ1 / VAMP", "to the best of them", "exact supports"]
    median = rows[len(rows) // 2]["worse by dB"]
    about = (
        f"{len(rows)} cells: five kinds of Φ, five amplitude laws, n from 20 to 250, SNR from 10 to 80 dB; all methods "
        f"are given σ. The mean is more than 0.2 dB behind the best of the three in {len(above)} cells (median "
        f"{median:+.2f} dB); exact supports are fewer by more than two standard errors in {len(fewer)}. "
        f"{results['signals']} signals per cell, a third of that for large n. `python benchmarks/noise.py grid "
        f"--signals {results['signals']}`."
    )
    return f"{table([*header, 'of SBL / ℓ1 / VAMP'], lines)}\n\n{about}"


NOISE_BLOCKS = {
    "noise-cells": ("noise.json", noise_cells),
    "noise-alista": ("noise.json", noise_alista),
    "noise-refute": ("noise.json", noise_refute),
    "noise-calibration": ("calibration.json", noise_calibration),
    "noise-grid": ("noise_grid.json", noise_grid),
}
