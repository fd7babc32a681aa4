"""Fill the blocks ``<!-- results: NAME -->`` of the pages here from results/laptop/NAME/results.json.

Run it after an experiment: ``python docs/fill.py``. A test checks that the pages are up to date.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results" / "laptop"
BLOCK = re.compile(r"(<!-- results: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def block(name: str) -> str:
    """Return claims, tables and provenance of one experiment."""
    results = json.loads((RESULTS / name / "results.json").read_text(encoding="utf-8"))
    claims = [[f"{c['claim']} *({c['where']})*", c["measured"], f"**{c['verdict']}**"] for c in results["claims"]]
    parts = [table(["the paper claims", "measured", "verdict"], claims)]
    for item in results["tables"]:
        parts.append(f"*{item['caption']}*\n\n{table(item['header'], item['rows'])}")
    seeds = len(results["seeds"])
    parts.append(f"`{results['command']}`; {seeds} seeds, maxsparse {results['versions']['maxsparse']}.")
    return "\n\n".join(parts)


def filled(text: str) -> str:
    """Return a page with its blocks filled."""
    return BLOCK.sub(lambda match: f"{match[1]}\n{block(match[2])}\n\n{match[3]}", text)


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
