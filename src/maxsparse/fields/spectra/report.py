"""Pictures of unmixed spectra, and a page that holds everything about them in one file."""

from __future__ import annotations

import base64
import csv
from html import escape
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np

from maxsparse._core.atomic import atomic_write
from maxsparse.fields.spectra.units import axis_label
from maxsparse.fields.spectra.verdict import COLOURS, VERDICTS

__all__ = ["draw", "draw_maps", "write_cube_report", "write_report"]

MOST_SHOWN = 100  # spectra with a picture on the page
MOST_NAMED = 6  # alternatives that are shown at once
MOST_LISTED = 20  # materials of an image in its table
STYLE = """
:root { color-scheme: light dark; --line: #8886; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; }
h2 { font-size: 1.15rem; margin-top: 2rem; border-top: 1px solid var(--line); padding-top: 1rem; }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
img { width: 100%; height: auto; background: #fff; } .wide { overflow-x: auto; }
.verdict { color: #fff; border-radius: .3rem; padding: .1rem .5rem; font-size: .9rem; }
"""


def draw(found: Any, i: int, axes: Any) -> Any:
    """Draw spectrum i of an :class:`~maxsparse.fields.spectra.Unmixing` into a pair of axes, new ones if None."""
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots(2, 1, figsize=(9, 5), sharex=True, height_ratios=(4, 1), layout="constrained")[1]
    above, below = axes
    axis = found.spectra.wavelength
    x = np.arange(found.used.size) if axis is None else axis
    hidden = np.where(found.used, 1.0, np.nan)  # bands that were left out make gaps
    above.plot(x, found.spectra.values[i], color="0.55", linewidth=2.5, label="measured")
    numbers = np.argsort(-found.abundance[i], kind="stable")  # in the order of the materials; names may not be unique
    for place, (j, material) in enumerate(zip(numbers, found.materials(i), strict=False)):
        own = found.library.values[j] * material.abundance
        label = f"{material.name}: {material.abundance:.3g} ± {material.error:.2g}"
        above.plot(x, own * hidden, color=f"C{place % 10}", linewidth=1.2, label=label)
    above.plot(x, found.fit[i], color="black", linewidth=1.0, linestyle="--", label="fit")
    above.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    above.set_ylabel("spectrum and its parts")
    word = found.verdict(i)
    sure = "best attempt" if word == VERDICTS[2] else f"confidence {found.confidence[i]:.2f}"
    above.set_title(f"{found.spectra.names[i]}: {word}, {sure}", fontsize=10)
    below.axhline(0.0, color="0.6", linewidth=0.8)
    below.plot(x, found.residual[i], color="C3", linewidth=1.0)
    below.set(xlabel="band" if axis is None else axis_label(found.spectra.unit), ylabel="residual")
    for panel in (above, below):
        panel.grid(alpha=0.25)
    return axes


def draw_maps(maps: Any, count: int) -> Any:
    """Draw the maps of the most abundant materials, of confidence and of verdicts into a new figure."""
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    panels: list[tuple[str, Any, dict[str, Any]]] = [
        (maps.names[j], maps.abundance[:, :, j], {"vmin": 0.0, "cmap": "magma"}) for j in maps.strongest(count)
    ]
    panels.append(("confidence", maps.confidence, {"vmin": 0, "vmax": 1, "cmap": "viridis"}))
    verdicts = ListedColormap(list(COLOURS.values()))
    panels.append(("verdict", maps.verdict, {"vmin": -0.5, "vmax": 2.5, "cmap": verdicts}))
    columns = min(3, len(panels))
    figure = Figure(figsize=(3.6 * columns, 3.2 * -(-len(panels) // columns)), layout="constrained")
    grid = figure.subplots(-(-len(panels) // columns), columns, squeeze=False).ravel()
    for axes, (title, values, options) in zip(grid, panels, strict=False):
        image = axes.imshow(values, interpolation="nearest", **options)
        axes.set_title(title, fontsize=9)
        bar = figure.colorbar(image, ax=axes, shrink=0.8)
        if title == "verdict":
            bar.set_ticks(range(len(VERDICTS)), labels=["fits", "incomplete", "none"], fontsize=7)
    for axes in grid:
        axes.set_axis_off()
    return figure


def write_report(found: Any, folder: Path) -> Path:
    """Write report.html and materials.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / "materials.csv") as stream:
        stream.write(_csv(found).encode())
    title = f"Materials in {len(found)} spectr{'um' if len(found) == 1 else 'a'}"
    body = [f"<p>{escape(_about(found))}</p>", *(f"<p>Hint: {escape(hint)}</p>" for hint in found.hints())]
    body += [_section(found, i) for i in range(min(len(found), MOST_SHOWN))]
    if len(found) > MOST_SHOWN:
        body.append(f"<p>The first {MOST_SHOWN} of {len(found)} spectra; materials.csv holds all of them.</p>")
    return _write_page(folder, title, body)


def write_cube_report(maps: Any, folder: Path) -> Path:
    """Write maps.png, and report.html with the maps and a table of the materials of an image."""
    content = BytesIO()
    maps.plot().savefig(content, format="png", dpi=110)
    with atomic_write(folder / "maps.png") as stream:
        stream.write(content.getvalue())
    picture = base64.b64encode(content.getvalue()).decode()
    height, width, count = maps.abundance.shape
    total, present, pixels = np.zeros(count), np.zeros(count), 0
    for row in maps.abundance:  # one row of the image in memory
        good = row[np.isfinite(row).all(axis=1)]
        total, present, pixels = total + good.sum(axis=0), present + (good > 0).sum(axis=0), pixels + len(good)
    sure = float(np.nanmean(maps.confidence)) if pixels else 0.0
    counts = [int(np.sum(np.asarray(maps.verdict) == number)) for number in range(len(VERDICTS))]
    verdicts = ", ".join(f"{count} {word}" for count, word in zip(counts, VERDICTS, strict=True) if count)
    about = (
        f"{height} × {width} pixels, {height * width - pixels} of them without data. Library of {count} materials. "
        f"Verdicts: {verdicts or 'none'}. Mean probability that exactly the right materials were found in a pixel: "
        f"{sure:.2f}."
    )
    rows = [
        f'<tr><td>{escape(maps.names[j])}</td><td class="number">{total[j] / pixels:.4g}</td>'
        f'<td class="number">{100 * present[j] / pixels:.1f} %</td></tr>'
        for j in maps.strongest(MOST_LISTED)
    ]
    head = "<tr><th>material</th><th>mean abundance</th><th>found in</th></tr>"
    image = f'<div class="wide"><img alt="maps of materials" src="data:image/png;base64,{picture}"></div>'
    table = f'<div class="wide"><table>{head}{"".join(rows)}</table></div>' if rows else "<p>No material found.</p>"
    return _write_page(folder, "Materials in an image", [f"<p>{escape(about)}</p>", image, table])


def _write_page(folder: Path, title: str, body: list[str]) -> Path:
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )
    with atomic_write(folder / "report.html") as stream:
        stream.write(page.encode())
    return folder / "report.html"


def _about(found: Any) -> str:
    counts = [found.verdict(i) for i in range(len(found))]
    verdicts = ", ".join(f"{counts.count(word)} {word}" for word in COLOURS if word in counts)
    return f"Library of {len(found.library)} materials, {found.used.sum()} of {found.used.size} bands. {verdicts}."


def _section(found: Any, i: int) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    draw(found, i, figure.subplots(2, 1, sharex=True, height_ratios=(4, 1)))
    content = BytesIO()
    figure.savefig(content, format="svg", metadata={"Date": None})
    picture = base64.b64encode(content.getvalue()).decode()
    name, word = escape(found.spectra.names[i]), found.verdict(i)
    head = f'<h2>{name} <span class="verdict" style="background:{COLOURS[word]}">{word}</span></h2>'
    none = word == VERDICTS[2]
    sure = f"Probability that these are exactly the materials: {found.confidence[i]:.2f}."
    sure = f"<p>{'The library does not explain this spectrum; the best attempt is shown.' if none else sure}</p>"
    image = (
        f'<div class="wide"><img alt="spectrum {name} and its parts" src="data:image/svg+xml;base64,{picture}"></div>'
    )
    return head + sure + image + _table(found.materials(i), none)


def _table(materials: list[Any], attempt: bool) -> str:
    """Return the materials as a table; of a mere attempt without probabilities."""
    if not materials:
        return "<p>No material of the library.</p>"
    rows = []
    for material in materials:
        others = [f"{escape(name)} ({p:.2f})" for name, p in material.alternatives]
        may_be = "" if len(others) < 2 else f"one of these {len(others)}: {', '.join(others[:MOST_NAMED])}"
        if len(others) > MOST_NAMED:
            more = ", ".join(others[MOST_NAMED:])
            may_be += f"<details><summary>and {len(others) - MOST_NAMED} more</summary>{more}</details>"
        share = f'<td class="number">{material.abundance:.4g} ± {material.error:.2g}</td>'
        sure = "" if attempt else f'<td class="number">{material.probability:.2f}</td><td>{may_be}</td>'
        rows.append(f"<tr><td>{escape(material.name)}</td>{share}{sure}</tr>")
    titles = (
        ("best attempt", "abundance") if attempt else ("material", "abundance", "probability", "cannot be told apart")
    )
    head = f"<tr>{''.join(f'<th>{title}</th>' for title in titles)}</tr>"
    return f'<div class="wide"><table>{head}{"".join(rows)}</table></div>'


def _csv(found: Any) -> str:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["spectrum", "verdict", "confidence", "material", "abundance", "error", "probability", "alternatives"]
    )
    for i, name in enumerate(found.spectra.names):
        word = found.verdict(i)
        none = word == VERDICTS[2]  # a mere attempt, which has no probabilities
        common = [name, word, "" if none else f"{found.confidence[i]:.4f}"]
        for material in found.materials(i):
            others = "; ".join(f"{other} {p:.3f}" for other, p in material.alternatives)
            share = [f"{v:.6g}" for v in (material.abundance, material.error)]
            sure = ["", ""] if none else [f"{material.probability:.6g}", others]
            writer.writerow([*common, material.name, *share, *sure])
        if not found.abundance[i].any():
            writer.writerow([*common, "", "", "", "", ""])
    return text.getvalue()
