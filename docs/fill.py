"""Fill the blocks of the pages here from results/laptop/NAME/results.json, so that no number is typed by hand.

Run it after an experiment: ``python docs/fill.py``. A test checks that the pages are up to date. A page may hold

``<!-- results: NAME -->``     claims, tables and provenance of one experiment
``<!-- results: choose -->``   the decision table, from benchmarks/results/choose.json
``<!-- results: big-data -->`` what many signals cost, from benchmarks/results/big_data.json
``<!-- results: int-eight -->`` what 8-bit layers cost, from benchmarks/results/export.json
``<!-- experiment: NAME -->``  the same with protocol and pictures; or how to run it, where it was not run
``<!-- verdicts -->``          every claim of every experiment on the page, with its verdict
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results" / "laptop"
BENCHMARKS = DOCS.parent / "benchmarks" / "results"
BLOCK = re.compile(r"(<!-- (results|experiment): ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
VERDICTS = re.compile(r"(<!-- verdicts -->\n).*?(<!-- end -->)", re.DOTALL)


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def plain(text: str) -> str:
    """Escape the star of x*, which would begin an emphasis."""
    return text.replace("*", "\\*")


def read(name: str) -> dict[str, Any] | None:
    """Return the results of one experiment, None where it was not run."""
    path = RESULTS / name / "results.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def claims_of(results: dict[str, Any]) -> str:
    """Return what is claimed next to what was measured."""
    rows = [
        [f"{plain(c['claim'])} *({c['where']})*", plain(c["measured"]), f"**{c['verdict']}**"]
        for c in results["claims"]
    ]
    return table(["the paper claims", "measured", "verdict"], rows)


def tables_of(results: dict[str, Any]) -> list[str]:
    """Return all tables with their captions."""
    return [f"*{plain(item['caption'])}*\n\n{table(item['header'], item['rows'])}" for item in results["tables"]]


def provenance(results: dict[str, Any]) -> str:
    """Say how it was run, and which seeds of the preset are missing."""
    seeds = results["seeds"]
    missing = [seed for seed in results["settings"]["seeds"] if seed not in seeds]
    count = f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
    if missing:
        again = f"maxsparse reproduce {results['experiment']} --preset {results['preset']}"
        count += f" of {len(seeds) + len(missing)}, **the others were not run**; `{again}` takes them up"
    return f"`{results['command']}`; {count}; maxsparse {results['versions']['maxsparse']}."


def block(name: str) -> str:
    """Return claims, tables and provenance of one experiment, or what a benchmark measured."""
    if name in MEASURED:
        return MEASURED[name]()
    results = read(name)
    if results is None:
        raise FileNotFoundError(f"there are no results of {name} in {RESULTS}")
    return "\n\n".join([claims_of(results), *tables_of(results), provenance(results)])


def section(name: str) -> str:
    """Return all there is to say about one experiment."""
    results = read(name)
    if results is None:
        return f"**Not run.** `maxsparse reproduce {name} --preset laptop` runs it; then `python docs/fill.py`."
    pictures = [
        f"![{plain(figure['caption'])}](../results/laptop/{name}/{figure['name']}.png)\n\n*{plain(figure['caption'])}*"
        for figure in results["figures"]
    ]
    head = f"{results['paper']}. {plain(results['about'])}"
    details = "\n\n".join(tables_of(results))
    folded = f"<details><summary>Tables</summary>\n\n{details}\n\n</details>" if details else ""
    return "\n\n".join(part for part in [head, claims_of(results), *pictures, folded, provenance(results)] if part)


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


def big_data() -> str:
    """Return what the runs over many signals took, and what more of them would by proportion."""
    results = json.loads((BENCHMARKS / "big_data.json").read_text(encoding="utf-8"))
    stream, killed, omp = results["stream"], results["killed"], results["stream, omp"]
    N = stream["signals"]
    easy = 1e6 * stream["cpu seconds"] / N
    cost = {row["d"]: row for row in results["cost"]["rows"]}
    memory = (
        f"{N / 1e6:g} million signals of the decaying 20×100 dictionary, 1 to 3 nonzeros each, float64: "
        f"{stream['certified'] / N:.0%} certified, {stream['wrong']} wrong. Peak memory "
        f"{stream['peak resident bytes'] / 1e9:.2f} GB (`maxsparse solve --method omp`: "
        f"{omp['peak resident bytes'] / 1e9:.2f} GB), processor time {stream['cpu seconds']:.0f} seconds, "
        f"{easy:.1f} µs "
        f"per signal, on a machine shared with other work. The input has {stream['input bytes'] / N:.0f} bytes per "
        f"signal, the output {stream['output bytes'] / N:.0f}. A run over {killed['signals']:,} of them, ended by "
        f"`kill -9` and given again, took {killed['resumed']:,} from the first attempt and gave the same answers."
    )
    names = ["easy first", "network for all"]
    per_signal = [
        [
            str(d),
            *(f"{row[f'{name}: cpu us per signal']:,.0f}" for name in names),
            f"{row['easy first: certified']:.0%}",
        ]
        for d, row in cost.items()
    ]
    hours = {"1 to 3, a chunk at a time": easy} | {
        str(d): cost[d]["easy first: cpu us per signal"] for d in (4, 6, 8) if d in cost
    }
    more = [
        [f"d = {label}", *(f"{us * n / 3.6e9:,.0f} core-hours" for n in (1e9, 1e12))] for label, us in hours.items()
    ]
    for label, size in (("input, float64", "input bytes"), ("output, `.npz`, d from 1 to 3", "output bytes")):
        more.append([label, *(f"{stream[size] / N * n / 1e9:,.0f} GB" for n in (1e9, 1e12))])
    return "\n\n".join(
        [
            memory,
            "Processor time per signal on one thread, in batches of "
            f"{cost[1]['signals']} (d of 9 and 10: {cost[9]['signals']}); `{results['cost']['command']}`:",
            table(["d", *(f"{name}, µs" for name in names), "certified"], per_signal),
            "By proportion, without the time of disks and networks:",
            table(["", "10⁹ signals", "10¹² signals"], more),
        ]
    )


def int_eight() -> str:
    """Return accuracy and size of a network before and after it was rounded to 8 bits."""
    results = json.loads((BENCHMARKS / "export.json").read_text(encoding="utf-8"))
    accuracy = {d: row for d, row in results["strict accuracy by d"].items() if max(row.values()) >= 0.005}
    rows = [[kind, *(f"{row[kind]:.3f}" for row in accuracy.values())] for kind in ("model", "int8")]
    size, shape = results["bytes"], results["hyperparameters"]
    about = (
        f"Share of 500 signals per d whose d best scores are the support; a `{results['network']}` network of depth "
        f"{shape['depth']} and width {shape['width']} for a decaying {shape['n']}×{shape['m']} dictionary, trained on "
        f"{results['training samples']:,} signals. The file has {size['int8'] / 1e6:.1f} MB instead of "
        f"{size['float32'] / 1e6:.1f} MB. `{results['command']}`."
    )
    return f"{table(['', *(f'd = {d}' for d in accuracy)], rows)}\n\n{about}"


MEASURED = {"choose": choose, "big-data": big_data, "int-eight": int_eight}


def filled(text: str) -> str:
    """Return a page with its blocks filled."""
    make = {"results": block, "experiment": section}
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
