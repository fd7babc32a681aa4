"""Blocks of the pages on spectra and arrays, from the results of their benchmarks."""

from __future__ import annotations

from typing import Any

from measured import table

SWEEPS = {
    "snr": ("SNR {} dB", "snr"),
    "separation": ("{}° apart", "separation"),
    "snapshots": ("{} snapshots", "snapshots"),
    "correlation": ("correlation {}", "correlation"),
}


def arrays(results: dict[str, Any]) -> str:
    """Return what every method resolves, and its error next to the bound."""
    first = next(iter(results.values()))[0]
    methods = [name for name in first["methods"] if name not in ("number unknown", "number given")]
    header = ["", "**unknown number**", "number right", "number given", *methods, "error / bound", "ms"]
    parts = []
    for sweep, (label, key) in SWEEPS.items():
        rows = []
        for row in results.get(sweep, []):
            own = row["methods"]["number unknown"]
            ratio = "–" if not own["rmse"] else f"{own['rmse']:.3f}° / {own['bound']:.3f}°"
            shares = [f"{row['methods'][name]['resolved']:.2f}" for name in ("number given", *methods)]
            cells = [f"**{own['resolved']:.2f}**", f"{row['number right']:.2f}", *shares, ratio, f"{own['ms']:.0f}"]
            rows.append([label.format(row["cell"][key]), *cells])
        fixed = {key: value for key, value in results[sweep][0]["cell"].items() if key != SWEEPS[sweep][1]}
        names = {
            "snr": "SNR {} dB",
            "separation": "{}° apart",
            "snapshots": "{} snapshots",
            "correlation": "correlation {}",
        }
        parts.append(f"{', '.join(names[k].format(v) for k, v in fixed.items())}:\n\n{table(header, rows)}")
    about = (
        f"Share of {first['scenes']} scenes in which both of two sources of equal power are found within half their "
        "separation; 16 sensors half a wavelength apart. The first columns are `estimate_directions`, which is not "
        "told the number of sources, and with it; the classical methods are told. Root mean square error over the "
        "resolved scenes next to the Cramér–Rao bound of their amplitudes; processor time. "
        "`python benchmarks/arrays.py`."
    )
    return "\n\n".join([*parts, about])


FIELD_BLOCKS = {"arrays": ("arrays.json", arrays)}
