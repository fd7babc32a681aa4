"""Fill the blocks of the pages here from results/laptop/NAME/results.json, so that no number is typed by hand.

Run it after an experiment: ``python docs/fill.py``. A test checks that the pages are up to date. A page may hold

``<!-- results: NAME -->``     claims, tables and provenance of one experiment
``<!-- results: choose -->``   the decision table, from benchmarks/results/choose.json
``<!-- results: stereo-accuracy -->``  photometric stereo, from benchmarks/results/stereo.json
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
    """Return claims, tables and provenance of one experiment, or the decision table."""
    if name == "choose":
        return choose()
    if name == "stereo-accuracy":
        return stereo_accuracy()
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


def stereo_accuracy() -> str:
    """Return the mean angular errors of every method on every object, then speed and memory."""
    results = json.loads((BENCHMARKS / "stereo.json").read_text(encoding="utf-8"))
    bunny, real, speed = results["bunny"], results["real"], results["speed"]
    methods = list(bunny)
    rows = [
        [f"rendered Bunny, {q.removeprefix('q=')} lights", *(f"{bunny[m][q]['mean degrees']:.2f}" for m in methods)]
        for q in bunny["auto"]
    ]
    for name, figures in real.items():
        for key, lights in (("96 lights", "96 lights"), ("10 lights, mean of draws", "10 lights")):
            rows.append([f"DiLiGenT {name}, {lights}", *(f"{figures[m][key]:.2f}" for m in methods)])
    draws = len(bunny["auto"]["q=10"]["each draw"])
    about = (
        f"Mean angular error in degrees; the Bunny and the objects under 10 lights: mean over {draws} draws.\n\n"
        "End to end is the command `maxsparse stereo FOLDER -o out/`: start, load, estimate, integrate, write all. "
        f"On 256×256 pixels with {speed['lights']} lights it takes {speed['auto / rnd4, whole command']:.1f} times as "
        "long with `auto` as with `rnd4`. Loading and estimating alone takes `auto` "
        f"{speed['auto / rnd4, load and estimate']:.0f} times as long: a fit to four readings costs next to nothing, a "
        f"network over all {speed['lights']} does not. Batched `sbl` is {speed['python loop / batched sbl']:.0f} times "
        "as fast as a loop over pixels in Python. A scene of 612×512 pixels without a mask and 96 lights peaks at "
        f"{results['memory']['peak GB']:.2f} GB."
    )
    return f"{table(['', *methods], rows)}\n\n{about}"


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
