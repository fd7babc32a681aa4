"""Write the results of a run: results.json, figures, Markdown tables, and a page with all of it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from typing import Any

from maxsparse import __version__
from maxsparse._core.atomic import atomic_write
from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.experiment import UNTESTED, Experiment, Picture, Table, Verdict
from maxsparse.experiments.journal import plain
from maxsparse.experiments.page import write_pages

__all__ = ["claim_json", "write_report"]

PACKAGES = ("numpy", "scipy", "numba", "torch", "matplotlib")
Done = tuple[dict[str, Any], str, list[Record], float]  # task, its fingerprint, records, seconds


def write_report(
    experiment: Experiment,
    preset: str,
    settings: dict[str, Any],
    done: list[Done],
    folder: Path,
    command: str,
    pretrained: Sequence[str] = (),
) -> list[Verdict]:
    """Write results.json, NAME.svg and NAME.png per picture, tables.md, index.html; return the verdicts."""
    data = Data(record for *_, records, _ in done for record in records)
    verdicts = experiment.judge(settings, data)
    if preset == "smoke":  # too small for conclusions
        verdicts = [replace(verdict, verdict=UNTESTED) for verdict in verdicts]
    pictures = experiment.pictures(settings, data)
    tables = experiment.tables(settings, data)
    for picture in pictures:
        _draw(picture, folder)
    results = {
        "experiment": experiment.name,
        "title": experiment.title,
        "paper": experiment.paper,
        "about": experiment.about,
        "preset": preset,
        "settings": settings,
        "command": command,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(sum(seconds for *_, seconds in done), 1),
        "pretrained": list(pretrained),
        "seeds": sorted({task["seed"] for task, *_ in done}),
        "versions": _versions(),
        "machine": _machine(),
        "claims": [claim_json(verdict) for verdict in verdicts],
        "figures": [{"name": p.name, "caption": p.caption} for p in pictures],
        "tables": [{"name": t.name, "caption": t.caption, "header": t.header, "rows": t.rows} for t in tables],
        "summary": data.summary(),
        "tasks": [
            {"task": t, "key": k, "seconds": s, "records": [{"where": r.where, "values": r.values} for r in records]}
            for t, k, records, s in done
        ],
    }
    with atomic_write(folder / "results.json") as stream:
        stream.write(_json(plain(results)).encode())
    with atomic_write(folder / "tables.md") as stream:
        stream.write(_markdown(experiment, command, verdicts, tables).encode())
    write_pages(folder)
    return verdicts


def claim_json(verdict: Verdict) -> dict[str, Any]:
    """Return a claim with its verdict as plain JSON."""
    claim, table = verdict.claim, verdict.table
    found: dict[str, Any] = {"claim": claim.text, "where": claim.where, "measured": verdict.measured}
    found["verdict"] = verdict.verdict
    if verdict.because:
        found["because"] = verdict.because
    if table is not None:
        found["table"] = {"caption": table.caption, "header": table.header, "rows": table.rows}
    return found


def _draw(picture: Picture, folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # A fixed salt and no date: equal numbers give identical files.
    with matplotlib.rc_context({"svg.hashsalt": "maxsparse", "svg.fonttype": "none"}):
        figure = plt.figure(figsize=picture.size, layout="constrained")
        picture.draw(figure)
        for suffix, options in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 110})):
            buffer = BytesIO()
            figure.savefig(buffer, format=suffix, **options)
            with atomic_write(folder / f"{picture.name}.{suffix}") as stream:
                stream.write(buffer.getvalue())
        plt.close(figure)


def _json(results: dict[str, Any]) -> str:
    """Indent the outline, but keep every task and every summary row on one line: thousands of them stay readable."""
    long = ("summary", "tasks")
    outline = json.dumps({**results, **{name: f"@{name}@" for name in long}}, indent=1, ensure_ascii=False)
    for name in long:
        rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False, allow_nan=False) for row in results[name])
        outline = outline.replace(f'"@{name}@"', f"[\n{rows}\n ]")
    return outline + "\n"


def _markdown(experiment: Experiment, command: str, verdicts: list[Verdict], tables: list[Table]) -> str:
    lines = [f"# {experiment.title}", "", f"{experiment.paper}. `{command}`", "", experiment.about, ""]
    rows = [(v.claim.text, v.claim.where, f"{v.measured} {v.because}".strip(), v.verdict) for v in verdicts]
    lines += _markdown_table(("what the paper claims", "where", "what was measured", "verdict"), rows)
    for verdict in verdicts:
        if verdict.table is not None:
            lines += ["", f"**{verdict.claim.text}** {verdict.table.caption}", ""]
            lines += _markdown_table(tuple(verdict.table.header), verdict.table.rows)
    for table in tables:
        lines += ["", f"**{table.caption}**", "", *_markdown_table(tuple(table.header), table.rows)]
    return "\n".join(lines) + "\n"


def _markdown_table(header: tuple[str, ...], rows: Any) -> list[str]:
    def line(cells: Any) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|").replace("*", "\\*") for cell in cells) + " |"

    return [line(header), "|" + "---|" * len(header), *(line(row) for row in rows)]


def _versions() -> dict[str, str]:
    found = {"maxsparse": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _machine() -> dict[str, Any]:
    return {"system": platform.system(), "architecture": platform.machine(), "cores": os.cpu_count()}
