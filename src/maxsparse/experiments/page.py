"""index.html: everything about a run, or about all runs of a preset, in one self-contained file."""

from __future__ import annotations

import base64
import json
from html import escape
from pathlib import Path
from typing import Any

from maxsparse._core.atomic import atomic_write
from maxsparse.experiments.registry import names

__all__ = ["write_pages"]

STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; }
h2 { font-size: 1.3rem; margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; }
h3 { font-size: 1.05rem; margin-top: 1.5rem; }
figure { margin: 1rem 0; } img { width: 100%; min-width: 36rem; height: auto; background: #fff; }
figcaption { font-size: .9rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; }
th, td { border: 1px solid var(--line); padding: .3rem .5rem; text-align: left; vertical-align: top; }
code, pre { background: var(--soft); padding: .1rem .3rem; overflow-x: auto; } pre { padding: .6rem; }
.holds { color: #18794e; font-weight: 600; } .does-not-hold { color: #cd2b31; font-weight: 600; }
.untested { color: #8a6d00; font-weight: 600; }
@media (prefers-color-scheme: dark) { .holds { color: #4cc38a; } .does-not-hold { color: #ff8589; }
  .untested { color: #e5c07b; } }
"""


def write_pages(folder: Path) -> None:
    """Write the page of one run, and the page of all runs of the same preset."""
    results = _read(folder)
    _write(folder / "index.html", f"{results['title']} ({results['preset']})", [(results, folder)])
    known = {name: position for position, name in enumerate(names())}
    found = sorted(
        folder.parent.glob("*/results.json"), key=lambda path: (known.get(path.parent.name, len(known)), path)
    )
    everything = [(_read(path.parent), path.parent) for path in found]
    _write(folder.parent / "index.html", f"maxsparse: all results ({results['preset']})", everything)


def _read(folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return results


def _write(path: Path, title: str, runs: list[tuple[dict[str, Any], Path]]) -> None:
    body = [f"<h1>{escape(title)}</h1>"]
    if len(runs) > 1:
        links = "".join(f'<li><a href="#{r["experiment"]}">{escape(r["title"])}</a></li>' for r, _ in runs)
        body.append(f"<ul>{links}</ul>")
    for results, folder in runs:
        body += _section(results, folder)
    content = "\n".join(body)
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n{content}\n</body></html>\n"
    )
    with atomic_write(path) as stream:
        stream.write(page.encode())


def _section(results: dict[str, Any], folder: Path) -> list[str]:
    parts = [
        f'<h2 id="{escape(results["experiment"])}">{escape(results["title"])}</h2>',
        f"<p>{escape(results['paper'])}. {escape(results['about'])}</p>",
        f"<pre>{escape(results['command'])}</pre>",
        "<h3>Claims of the paper and measurements</h3>",
        _claims(results["claims"]),
    ]
    for figure in results["figures"]:
        parts.append(_figure(folder / f"{figure['name']}.svg", figure["caption"]))
    for table in results["tables"]:
        parts += [f"<h3>{escape(table['caption'])}</h3>", _table(table["header"], table["rows"])]
    parts += ["<h3>How it was run</h3>", _provenance(results)]
    return parts


def _claims(claims: list[dict[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td>{escape(c['claim'])}<br><small>{escape(c['where'])}</small></td><td>{_measured(c)}</td>"
        f'<td class="{c["verdict"].replace(" ", "-")}">{escape(c["verdict"])}</td></tr>'
        for c in claims
    )
    return (
        '<div class="wide"><table><tr><th>the paper claims</th><th>measured</th><th>verdict</th></tr>'
        f"{rows}</table></div>"
    )


def _measured(claim: dict[str, Any]) -> str:
    """Return the line of a verdict, with the comparison behind it folded away."""
    line = escape(f"{claim['measured']} {claim.get('because', '')}".strip())
    if "table" not in claim:
        return line
    caption, table = escape(claim["table"]["caption"]), _table(claim["table"]["header"], claim["table"]["rows"])
    return f"{line}<details><summary>{caption}</summary>{table}</details>"


def _figure(path: Path, caption: str) -> str:
    if not path.is_file():
        return f"<p><em>{escape(path.name)} is missing; run the command again to draw it.</em></p>"
    data = base64.b64encode(path.read_bytes()).decode()
    return (
        f'<figure><div class="wide"><img alt="{escape(caption)}" src="data:image/svg+xml;base64,{data}"></div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _table(header: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _provenance(results: dict[str, Any]) -> str:
    rows = [
        ["preset", results["preset"]],
        ["settings", json.dumps(results["settings"], ensure_ascii=False)],
        ["seeds", ", ".join(map(str, results["seeds"]))],
        ["finished", f"{results['finished']}, after {results['seconds']} s of work"],
        ["versions", ", ".join(f"{name} {number}" for name, number in results["versions"].items())],
        ["machine", ", ".join(f"{name} {value}" for name, value in results["machine"].items())],
    ]
    return _table(["", ""], rows)
