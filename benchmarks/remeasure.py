"""Measure some methods of a committed experiment again, and keep the rest of its report.

``python benchmarks/remeasure.py basic --methods recoverer`` measures the tasks of SparseRecoverer with this version,
draws the figures and judges the claims again. Other rows stay; results.json says which were measured again, and
``python docs/fill.py`` puts it into the page. Nothing is trained: a method with a network keeps its rows.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import maxsparse as ms
from maxsparse._core.registry import EXPERIMENTS
from maxsparse.experiments.data import Record
from maxsparse.experiments.report import write_report

RESULTS = Path(__file__).parents[1] / "results"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=list(EXPERIMENTS))
    parser.add_argument("--methods", nargs="+", default=["recoverer"])
    parser.add_argument("--preset", default="laptop")
    options = parser.parse_args()
    folder = RESULTS / options.preset / options.name
    before = json.loads((folder / "results.json").read_text())
    experiment, settings = EXPERIMENTS[options.name](), before["settings"]
    done = []
    for entry in before["tasks"]:
        task, seconds = entry["task"], entry["seconds"]
        if task.get("method") in options.methods:
            begun = time.process_time()
            records = experiment.measure(settings, task)
            seconds = round(time.process_time() - begun, 3)
            print(task, records[0].values, flush=True)
        else:
            records = [
                Record(r["where"], {k: math.nan if v is None else v for k, v in r["values"].items()})
                for r in entry["records"]
            ]
        done.append((task, entry["key"], records, seconds))
    write_report(experiment, options.preset, settings, done, folder, before["command"], before.get("pretrained", ()))
    results = json.loads((folder / "results.json").read_text())
    again = before.get("measured_again", {}) | dict.fromkeys(options.methods, ms.__version__)
    text = (folder / "results.json").read_text()
    kept = {"versions": before["versions"], "finished": before["finished"], "measured_again": again}
    for name in ("versions", "finished"):  # of the rows that stay; in place, so that one line per task remains
        text = text.replace(line(name, results[name]), line(name, kept[name]), 1)
    text = text.replace('\n "machine":', "\n" + line("measured_again", again) + '\n "machine":', 1)
    (folder / "results.json").write_text(text)


def line(name, value):
    """Return an entry of the outline of results.json."""
    return json.dumps({name: value}, indent=1, ensure_ascii=False)[2:-2] + ","


if __name__ == "__main__":
    main()
