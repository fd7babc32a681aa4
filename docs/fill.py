"""Fill the blocks ``<!-- results: NAME -->`` of the pages here from results/laptop/NAME/results.json.

The block ``choose`` is filled from benchmarks/results/choose.json.

Run it after an experiment: ``python docs/fill.py``. A test checks that the pages are up to date.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results" / "laptop"
BENCHMARKS = DOCS.parent / "benchmarks" / "results"
BLOCK = re.compile(r"(<!-- results: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def plain(text: str) -> str:
    """Escape the star of x*, which would begin an emphasis."""
    return text.replace("*", "\\*")


def block(name: str) -> str:
    """Return claims, tables and provenance of one experiment."""
    results = json.loads((RESULTS / name / "results.json").read_text(encoding="utf-8"))
    claims = [
        [f"{plain(c['claim'])} *({c['where']})*", plain(c["measured"]), f"**{c['verdict']}**"]
        for c in results["claims"]
    ]
    parts = [table(["the paper claims", "measured", "verdict"], claims)]
    for item in results["tables"]:
        parts.append(f"*{item['caption']}*\n\n{table(item['header'], item['rows'])}")
    seeds = len(results["seeds"])
    parts.append(f"`{results['command']}`; {seeds} seeds, maxsparse {results['versions']['maxsparse']}.")
    return "\n\n".join(parts)


def choose() -> str:
    """Return the decision table: share of supports right for every method and problem, the best in bold."""
    results = json.loads((BENCHMARKS / "choose.json").read_text(encoding="utf-8"))
    methods = list(results["rows"][0]["figures"])
    rows, speeds = [], {method: [] for method in methods}
    for row in results["rows"]:
        shares = {method: row["figures"][method][0] for method in methods}
        best = max(shares.values())
        cells = [f"**{share:.2f}**" if share > best - 0.01 else f"{share:.2f}" for share in shares.values()]
        rows.append([row["problem"], *cells])
        for method in methods:
            speeds[method].append(row["figures"][method][1])
    rows.append(["processor µs per signal", *(f"{min(s):,.0f}–{max(s):,.0f}" for s in speeds.values())])
    about = (
        f"Share of signals whose support is exactly right, {results['signals']} signals each; within 0.01 of the best "
        "in bold. All but SparseRecoverer are told the number d of nonzeros. With noise, all that can be are told its "
        f"level, and the d best scores count. `{results['command']}`."
    )
    return f"{table(['problem', *methods], rows)}\n\n{about}"


def filled(text: str) -> str:
    """Return a page with its blocks filled."""
    return BLOCK.sub(
        lambda match: f"{match[1]}\n{choose() if match[2] == 'choose' else block(match[2])}\n\n{match[3]}", text
    )


def main() -> None:
    """Fill every page."""
    for page in sorted(DOCS.glob("*.md")):
        before = page.read_text(encoding="utf-8")
        after = filled(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{page.name}\n")


if __name__ == "__main__":
    main()
