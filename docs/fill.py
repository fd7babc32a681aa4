"""Generate the result blocks of the documentation pages from results/PRESET/NAME/results.json, day before laptop.

Run it after an experiment: ``python docs/fill.py``. A test checks that the pages are up to date. A page may contain

``<!-- results: NAME -->``     claims, tables and provenance of one experiment
                               or the results of a benchmark, for the names in measured.py
``<!-- experiment: NAME -->``  the same with protocol and figures; or how to run it, if it was not run
``<!-- registry: NAME -->``    from the registry: ``solvers``, all of them; ``choose``, when to use which
``<!-- verdicts -->``          every claim of every experiment on the page, with its verdict
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from measured import BENCHMARK_BLOCKS as OF_METHODS
from measured import table
from measured_cluster import CLUSTER_BLOCKS
from measured_fields import FIELD_BLOCKS
from measured_noise import NOISE_BLOCKS
from measured_structure import STRUCTURE_BLOCKS

from maxsparse import experiments
from maxsparse._core.registry import ABILITIES, NEEDS, SOLVERS, Entry

BENCHMARK_BLOCKS = OF_METHODS | CLUSTER_BLOCKS | FIELD_BLOCKS | NOISE_BLOCKS | STRUCTURE_BLOCKS
DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
SHOWN = ("day", "laptop")  # the preset that a page shows: the first that was run
BENCHMARKS = DOCS.parent / "benchmarks" / "results"
BLOCK = re.compile(r"(<!-- (results|experiment|registry): ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
VERDICTS = re.compile(r"(<!-- verdicts -->\n).*?(<!-- end -->)", re.DOTALL)


def plain(text: str) -> str:
    """Escape the star of x*, which would start emphasis in Markdown."""
    return text.replace("*", "\\*")


def read(name: str) -> dict[str, Any] | None:
    """Return the results of one experiment, None if it was not run."""
    for preset in SHOWN:
        path = RESULTS / preset / name / "results.json"
        if path.is_file():
            return json.loads(path.read_text(encoding="utf-8"))
    return None


def claims_of(results: dict[str, Any]) -> str:
    """Return the claims next to the measured results, and the comparisons behind them folded away."""
    rows = [
        [
            f"{plain(c['claim'])} *({c['where']})*",
            plain(f"{c['measured']} {c.get('because', '')}".strip()),
            f"**{c['verdict']}**",
        ]
        for c in results["claims"]
    ]
    parts = [table(["the paper claims", "measured", "verdict"], rows)]
    compared = [c for c in results["claims"] if "table" in c]
    if compared:
        inner = [
            "\n\n".join(
                [
                    f"*{plain(c['claim'])}*",
                    table(c["table"]["header"], c["table"]["rows"]),
                    plain(c["table"]["caption"]),
                ]
            )
            for c in compared
        ]
        parts.append("<details><summary>Comparisons</summary>\n\n" + "\n\n".join(inner) + "\n\n</details>")
    return "\n\n".join(parts)


def tables_of(results: dict[str, Any]) -> list[str]:
    """Return all tables with their captions."""
    return [f"*{plain(item['caption'])}*\n\n{table(item['header'], item['rows'])}" for item in results["tables"]]


def provenance(results: dict[str, Any]) -> str:
    """Return how the experiment was run, and which seeds of the preset are missing."""
    seeds = results["seeds"]
    missing = [seed for seed in results["settings"]["seeds"] if seed not in seeds]
    count = f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
    if missing:
        again = f"maxsparse reproduce {results['experiment']} --preset {results['preset']}"
        count += f" of {len(seeds) + len(missing)}, **the others were not run**; `{again}` runs them"
    later = [
        f"; rows of {experiments.methods()[name].label}: {version}"
        for name, version in results.get("measured_again", {}).items()
    ]
    later += [f"; {name}: {version}" for name, version in results.get("added", {}).items()]
    return f"`{results['command']}`; {count}; maxsparse {results['versions']['maxsparse']}{''.join(later)}."


def block(name: str) -> str:
    """Return claims, tables and provenance of one experiment, or the block of a benchmark."""
    if name in BENCHMARK_BLOCKS:
        file, make = BENCHMARK_BLOCKS[name]
        return make(json.loads((BENCHMARKS / file).read_text(encoding="utf-8")))
    results = read(name)
    if results is None:
        raise FileNotFoundError(f"there are no results of {name} in {RESULTS}")
    return "\n\n".join([claims_of(results), *tables_of(results), provenance(results)])


def section(name: str) -> str:
    """Return the full section of one experiment."""
    results = read(name)
    if results is None:
        return f"**Not run.** `maxsparse reproduce {name} --preset day` runs it; then `python docs/fill.py`."
    pictures = [
        f"![{plain(figure['caption'])}](../results/{results['preset']}/{name}/{figure['name']}.png)\n\n*{plain(figure['caption'])}*"
        for figure in results["figures"]
    ]
    head = f"{results['paper']}. {plain(results['about'])}"
    details = "\n\n".join(tables_of(results))
    folded = f"<details><summary>Tables</summary>\n\n{details}\n\n</details>" if details else ""
    return "\n\n".join(part for part in [head, claims_of(results), *pictures, folded, provenance(results)] if part)


def registered(kind: str) -> str:
    """Return a table of this package's solvers, or of when to use which."""
    entries = [entry for entry in SOLVERS.entries() if not entry.outside]
    if kind == "choose":
        rows = [[entry.good_for, f'`ms.solve(Phi, Y, method="{entry.name}"{given(entry)})`'] for entry in entries]
        return table(["you have, or want", "use"], rows)
    rows = []
    for entry in entries:
        needs = ", ".join(text for need, text in NEEDS.items() if need in entry.needs) or "–"
        can = ", ".join(f"`{ability}`" for ability in ABILITIES if ability in (entry.can or ())) or "–"
        rows.append([f"`{entry.name}`", entry.summary, needs, can, entry.good_for])
    return table(["name", "solves", "needs", "can use", "good for"], rows)


def given(entry: Entry) -> str:
    """Return the arguments that a solver must be given."""
    return ", sparsity=d" if "sparsity" in entry.needs else ""


def verdicts(names: list[str]) -> str:
    """Return one line per claim."""
    rows = []
    for name in names:
        results = read(name)
        if results is None:
            rows.append([f"`{name}`", "", "not run"])
            continue
        rows += [[f"`{name}`", f"{plain(c['claim'])} *({c['where']})*", c["verdict"]] for c in results["claims"]]
    return table(["experiment", "claim", "verdict"], rows)


def filled(text: str) -> str:
    """Return a page with its blocks filled."""
    make = {"results": block, "experiment": section, "registry": registered}
    text = BLOCK.sub(lambda match: f"{match[1]}\n{make[match[2]](match[3])}\n\n{match[4]}", text)
    names = re.findall(r"<!-- experiment: ([a-z-]+) -->", text)
    return VERDICTS.sub(lambda match: f"{match[1]}\n{verdicts(names)}\n\n{match[2]}", text)


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
