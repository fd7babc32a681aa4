"""Measure some methods of a committed experiment again, and keep the rest of its report.

``python benchmarks/remeasure.py basic --methods recoverer`` measures the tasks of SparseRecoverer with this version,
draws the figures and judges the claims again. ``python benchmarks/remeasure.py clustered --new`` measures the tasks
that the preset has got since. Other rows stay; results.json says which were measured again or added, and
``python docs/fill.py`` puts it into the page. Only networks of stereo are trained: other methods with a network keep
their rows.
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
from maxsparse.experiments.journal import fingerprint
from maxsparse.experiments.recipes import Store, using_store
from maxsparse.experiments.report import write_report

RESULTS = Path(__file__).parents[1] / "results"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=list(EXPERIMENTS))
    parser.add_argument("--methods", nargs="*", default=[])
    parser.add_argument("--new", action="store_true", help="measure tasks of the preset that the report does not have")
    parser.add_argument("--preset", default="laptop")
    options = parser.parse_args()
    folder = RESULTS / options.preset / options.name
    before = json.loads((folder / "results.json").read_text())
    experiment, settings = EXPERIMENTS[options.name](), before["settings"]
    if options.new:
        settings = _current(experiment.presets[options.preset], settings)
    later = dict(before.get("added", {}))
    with using_store(Store(RESULTS / ".networks")):
        done = [again(experiment, settings, entry, options.methods) for entry in before["tasks"]]
        known = [task for task, *_ in done]
        for task in experiment.tasks(settings, experiment.methods) if options.new else ():
            if task not in known and not experiment.recipes(settings, task):
                key = fingerprint(experiment.name, settings, experiment.depends(task))
                done.append((task, key, *measured(experiment, settings, task)))
                later[task.get("kind", task.get("scene", task.get("method", "")))] = ms.__version__
    write_report(experiment, options.preset, settings, done, folder, before["command"], before.get("pretrained", ()))
    text = (folder / "results.json").read_text()
    results = json.loads(text)
    repeated = before.get("measured_again", {}) | dict.fromkeys(options.methods, ms.__version__)
    for name in ("versions", "finished"):  # of the rows that stay; in place, so that one line per task remains
        text = text.replace(line(name, results[name]), line(name, before[name]), 1)
    for name, value in (("measured_again", repeated), ("added", later)):
        if value:
            text = text.replace('\n "machine":', "\n" + line(name, value) + '\n "machine":', 1)
    (folder / "results.json").write_text(text)


def _current(settings, before):
    """Return the settings of the preset, which may have got entries but must not differ in those it had."""
    for name in set(before) - {"seeds", "training", "corollary"}:  # corollary: its tasks name their sizes
        if settings.get(name) != before[name]:
            raise SystemExit(f"the setting {name!r} has changed: run the experiment again")
    return {**settings, "seeds": before["seeds"]}


def again(experiment, settings, entry, methods):
    """Return a task of the report as it stands, or measured again."""
    task = entry["task"]
    if task.get("method") in methods:
        return task, entry["key"], *measured(experiment, settings, task)
    records = [
        Record(r["where"], {k: math.nan if v is None else v for k, v in r["values"].items()}) for r in entry["records"]
    ]
    return task, entry["key"], records, entry["seconds"]


def measured(experiment, settings, task):
    """Measure a task; return its records and processor seconds."""
    begun = time.process_time()
    records = experiment.measure(settings, task)
    print(task, [record.values for record in records if record.values], flush=True)
    return records, round(time.process_time() - begun, 3)


def line(name, value):
    """Return an entry of the outline of results.json."""
    return json.dumps({name: value}, indent=1, ensure_ascii=False)[2:-2] + ","


if __name__ == "__main__":
    main()
