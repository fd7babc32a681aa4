"""Blocks of the pages on spectra, arrays and brains, from the results of their benchmarks."""

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
    header = ["", "**unknown number**", "number right", "number given", *methods, "error", "error / bound", "ms"]
    parts = []
    for sweep, (label, key) in SWEEPS.items():
        rows = []
        for row in results.get(sweep, []):
            own = row["methods"]["number unknown"]
            told = row["methods"]["number given"]
            errors = [f"{told['rmse']:.3f}°", f"{told['ratio']:.2f} ± {told['ratio error']:.2f}"]
            shares = [f"{row['methods'][name]['resolved']:.2f}" for name in ("number given", *methods)]
            cells = [f"**{own['resolved']:.2f}**", f"{row['number right']:.2f}", *shares, *errors, f"{own['ms']:.0f}"]
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
        "told the number of sources, and with it; the classical methods are told. Errors with the number given, of "
        f"resolved scenes: root mean square, and that of the errors over the Cramér–Rao bound for the amplitudes of "
        f"their scene, with its standard error; from 10 dB on over {5 * first['scenes']} scenes. Below 1 where "
        "unresolved scenes, which are left out, would have had the largest errors. Processor time. "
        f"`python benchmarks/arrays.py --scenes {first['scenes']}`."
    )
    return "\n\n".join([*parts, about])


def spectra(results: dict[str, Any]) -> str:
    """Return how well materials are found by every method, for both libraries and for distorted spectra."""
    titles = {"pruned": "240 spectra", "all": "All 498 spectra, some of them almost the same", "distorted": "Distorted"}
    parts = []
    for part, title in titles.items():
        rows = results.get(part, [])
        if not rows:
            continue
        distorted = part == "distorted"
        methods = list(rows[0]["methods"])
        header = [*(["library", "distortion"] if distorted else []), "materials", "SNR dB", "mixtures", *methods]
        header += ["errors", "exact", "confidence", "in sets", "sets right", "set size", "ms"]
        lines = []
        for row in rows:
            own = row["methods"]["unmix"]
            where = [*([str(row["library"]), row["distortion"]] if distorted else []), str(row["k"]), str(row["snr"])]
            scores = [f"**{own['f1']:.2f}**", *(f"{row['methods'][name]['f1']:.2f}" for name in methods[1:])]
            errors = " / ".join(f"{row['methods'][name]['error']:.3f}" for name in methods)
            shares = [f"{own[key]:.2f}" for key in ("exact", "confidence", "covered", "sets right")]
            more = [f"{own['median set size']:.0f} ({own['set size']:.1f})", f"{own['ms']:.0f}"]
            lines.append([*where, str(row["mixtures"]), *scores, errors, *shares, *more])
        parts.append(f"{title}:\n\n{table(header, lines)}")
    about = (
        "F1 of the materials; abundances are at least 0.05. Of NNLS and SUnSAL, abundances from 0.01 on count; SUnSAL "
        "has the best of three penalties, for F1 and for errors apart, OMP is told the noise level, `unmix` is not. "
        "Errors: mean of ‖x̂ − x‖, in the order of the methods, for `unmix` of `mean`. In sets: share of the true "
        "materials that are in credible sets. Sets right: those with a true material. Set size: median (mean). "
        "Distorted: shifted by 0.2 bands, a gain of ±2 % over the bands, with `shift=` and `gain=`. Processor time. "
        "`python benchmarks/spectra.py`."
    )
    return "\n\n".join([*parts, about])


def brain(results: dict[str, Any]) -> str:
    """Return errors, F1 and times of every method, for every kind of head."""
    titles = {
        "free": "64 electrodes on a sphere, 1,000 places, free orientations",
        "fixed": "The same with fixed orientations",
        "between": "As the first, with sources between the places",
        "meg": "MEG lead fields of two heads, 204 gradiometers, about 4,690 places, fixed orientations",
        "size fixed": "64 electrodes, 20,000 places, fixed orientations",
        "size free": "64 electrodes, 20,000 places, free orientations",
    }
    parts = []
    for part, title in titles.items():
        rows = results.get(part, [])
        if not rows:
            continue
        methods = list(rows[0]["methods"])
        header = ["sources", "SNR dB", "correlation", *(f"`{name}`" for name in ("sparse_inverse", *methods[1:]))]
        lines = []
        for row in rows:
            own = [row["methods"][name] for name in methods]
            cells = [f"{m['error']:.1f} / {m['f1']:.2f} / {m['number']:.1f} / {m['seconds']:.2f} s" for m in own]
            lines.append([str(row["sources"]), str(row["snr"]), str(row["correlation"]), f"**{cells[0]}**", *cells[1:]])
        count = rows[0]["problems"]
        parts.append(f"{title}; {count} problem{'s' if count > 1 else ''} per line:\n\n{table(header, lines)}")
    about = (
        "Error in mm / F1 / places found / processor seconds, means over few problems: rough. Error: from every "
        "true place to the nearest one found and vice versa, averaged; F1: places within 10 mm. Sources are at "
        "least 15 mm apart, and places of the grid where nothing else is said; 100 samples, SNR over all sensors and "
        "samples. `sparse_inverse` is told nothing; `gamma_map` the variance of the noise, `mixed_norm` (10 "
        "reweightings) the best of three penalties for every problem, `rap_music` the number of sources. Of "
        "`gamma_map` and `mixed_norm`, places of at least a tenth of the largest amplitude count. Three constants of "
        "`sparse_inverse` were chosen on other problems of this kind; for MEG and 20,000 places, on these. All "
        "methods ran in turn, with one thread; times of `sparse_inverse` are those of later calls with a head. "
        "`python benchmarks/brain.py`."
    )
    return "\n\n".join([*parts, about])


FIELD_BLOCKS = {
    "arrays": ("arrays.json", arrays),
    "spectra": ("spectra.json", spectra),
    "brain": ("brain.json", brain),
}
