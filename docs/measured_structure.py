"""Blocks of the page on structure that show what ``SparseRecoverer`` does, from benchmarks/results/structure.json."""

from __future__ import annotations

from typing import Any

from measured import table


def joint(results: dict[str, Any]) -> str:
    """Return how many atoms are found by the number of snapshots."""
    part = results["joint"]
    rows = []
    for snr in (None, 20):
        for L in (1, 4, 16):
            cells = [row for row in part["rows"] if row["snr"] == snr and row["L"] == L]
            good = [row["d"] for row in cells if row["found"] >= 0.99]
            most = max((d for d in good if all(other in good for other in range(1, d))), default=0)
            after = [f"{row['found']:.2f}" for row in cells if row["d"] in (most + 1, most + 2)]
            noise = "no noise" if snr is None else f"{snr} dB"
            rows.append([f"{noise}, {L} snapshot{'s' if L > 1 else ''}", f"{most}", " / ".join(after) or "–"])
    about = (
        f"Gaussian 20×100, N(0, 1) amplitudes, {part['signals']} signals per number of nonzeros: the largest d up to "
        "which at least 99 % of the supports are exactly right, and the shares for the next two. The noise level is "
        f"given. `{part['command']}`."
    )
    return f"{table(['', 'd with 99 % found', 'd + 1 / d + 2'], rows)}\n\n{about}"


def signs(results: dict[str, Any]) -> str:
    """Return the share of non-negative signals found with and without the sign constraint."""
    part = results["signs"]
    rows = [
        [
            f"{row['dictionary']} 20×100, d = {row['d']}",
            f"{row['found']['free']:.2f}",
            f"{row['found']['positive']:.2f}",
        ]
        for row in part["rows"]
    ]
    about = (
        f"Share of {part['signals']} non-negative signals whose support `SparseRecoverer` finds, without noise. "
        f"`{part['command']}`."
    )
    return f"{table(['', 'free signs', '`positive=True`'], rows)}\n\n{about}"


def spectra(results: dict[str, Any]) -> str:
    """Return the share of mixtures of spectra whose support is right."""
    part = results["spectra"]
    names = list(part["rows"][0]["found"])
    rows = [
        [
            f"{row['k']} minerals, {row['snr']} dB",
            *(f"{row['found'][name]:.3f}" for name in names),
            *(f"{row['confidence'][name]:.2f}" for name in list(row["confidence"])[1:3]),
        ]
        for row in part["rows"]
    ]
    about = (
        f"Share of {part['signals']} mixtures whose minerals are exactly right: 240 spectra of the USGS library, 224 "
        "bands, Dirichlet abundances of at least .05; σ relative to the root mean square of a mixture. NNLS is told "
        f"how many minerals there are. `{part['command']}`."
    )
    return f"{table(['', *names, 'mean confidence, positive', 'after fit'], rows)}\n\n{about}"


def meg(results: dict[str, Any]) -> str:
    """Return F1 of sources in lead fields."""
    part = results["meg"]
    sources = sorted({row["sources"] for row in part["rows"]})
    rows = []
    for head in "ab":
        for snr in (40, 20):
            cells = {row["sources"]: row for row in part["rows"] if row["head"] == head and row["snr"] == snr}
            seconds = max(row["seconds"] for row in cells.values())
            rows.append([f"head {head}, {snr} dB", *(f"{cells[k]['F1']:.2f}" for k in sources), f"{seconds:.1f}"])
    about = (
        f"F1 of the sources found, {part['signals']} problems per cell: MEG lead fields of 204 gradiometers and about "
        "4,690 sources of fixed orientation, ten snapshots, random sources, known noise level of every sensor. Last "
        f"column: processor seconds per problem, the largest of the row. `{part['command']}`."
    )
    return f"{table(['', *(f'{k} source' + 's' * (k > 1) for k in sources), 'seconds'], rows)}\n\n{about}"


def false_certificates(results: dict[str, Any]) -> str:
    """Return how many certified answers are wrong."""
    part = results["certificates"]
    rows = []
    for kind in ("complex", "joint", "positive"):
        cells = [row for row in part["rows"] if row["kind"] == kind]
        totals = [sum(row[name] for row in cells) for name in ("signals", "certified", "false")]
        rows.append([kind, *(f"{total:,}" for total in totals)])
    about = (
        "Exact signals of 1 to 7 atoms from 10×30 dictionaries: gaussian, decaying, and with sums and near duplicates "
        f"of atoms; half of the amplitudes are whole numbers. `{part['command']}`."
    )
    return f"{table(['', 'signals', 'certified', 'wrong among these'], rows)}\n\n{about}"


STRUCTURE_BLOCKS = {
    "joint": ("structure.json", joint),
    "signs": ("structure.json", signs),
    "spectra-supports": ("structure.json", spectra),
    "meg": ("structure.json", meg),
    "structure-certificates": ("structure.json", false_certificates),
}
