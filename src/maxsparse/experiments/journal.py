"""Finished tasks on disk, one line each, so that an interrupted run loses at most the current task."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maxsparse import __version__
from maxsparse.experiments.data import Record

__all__ = ["Journal", "fingerprint", "plain"]

NAME = ".journal.jsonl"


def fingerprint(experiment: str, settings: dict[str, Any], depends: Sequence[str] = ()) -> str:
    """Return a hash of what the record of a task depends on; records with another hash are not reused.

    Parameters
    ----------
    experiment : str
        Its name.
    settings : dict
        Those of the preset, without seeds, because a task has its own, and without the training plan, because `depends`
        lists the networks of a task. So more seeds or another plan do not invalidate the rest.
    depends : sequence of str
        Hashes of networks and weights.
    """
    own = {name: value for name, value in settings.items() if name not in ("seeds", "training")}
    text = json.dumps([experiment, __version__, own, *depends], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def plain(value: Any) -> Any:
    """Convert records to JSON types: NaN and infinities become null, numpy numbers Python numbers."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class Journal:
    """The finished tasks of one run, in memory and in ``folder/.journal.jsonl``.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    tasks : sequence of (dict, str)
        Every task of the experiment with its fingerprint; other tasks on disk are ignored.
    again : sequence of dict
        Tasks to repeat even if finished.
    """

    def __init__(
        self, folder: Path, tasks: Sequence[tuple[dict[str, Any], str]], again: Sequence[dict[str, Any]] = ()
    ) -> None:
        self.path = folder / NAME
        self._keys = {_name(task): key for task, key in tasks}
        self._again = {_name(task) for task in again}
        self.done: dict[str, tuple[list[Record], float]] = {}
        self._read_results(folder / "results.json")
        self._read_journal()
        self._again = set()
        # Opened here and kept open: an unwritable folder raises an error before any work is done.
        self._stream = self.path.open("a", encoding="utf-8")

    def add(self, task: dict[str, Any], records: list[Record], seconds: float) -> None:
        """Record a finished task; it is on disk when this returns."""
        # Through JSON and back, so that a resumed run cannot differ from an uninterrupted one.
        line = json.dumps(_entry(self.key(task), task, records, seconds), allow_nan=False)
        self._stream.write(line + "\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._take(json.loads(line))

    def key(self, task: dict[str, Any]) -> str:
        """Return the fingerprint of a task."""
        return self._keys[_name(task)]

    def has(self, task: dict[str, Any]) -> bool:
        """Return whether a task is finished."""
        return _name(task) in self.done

    def of(self, task: dict[str, Any]) -> tuple[list[Record], float]:
        """Return records and seconds of a finished task."""
        return self.done[_name(task)]

    def close(self, finished: bool) -> None:
        """Close the file; remove it if its content is in results.json."""
        self._stream.close()
        if finished:
            self.path.unlink(missing_ok=True)

    def _read_journal(self) -> None:
        if not self.path.is_file():
            return
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:  # the line that was being written when the run was killed
                continue
            self._take(entry)

    def _read_results(self, path: Path) -> None:
        try:
            results = json.loads(path.read_text(encoding="utf-8"))
            for entry in results["tasks"]:
                self._take(entry)
        except (OSError, ValueError, KeyError, TypeError):  # no results, or not ours: they will be rewritten
            return

    def _take(self, entry: dict[str, Any]) -> None:
        name = _name(entry["task"])
        if name in self._again or entry["key"] != self._keys.get(name):
            return
        records = [
            Record(r["where"], {k: math.nan if v is None else float(v) for k, v in r["values"].items()})
            for r in entry["records"]
        ]
        self.done[name] = records, float(entry["seconds"])


def _entry(key: str, task: dict[str, Any], records: list[Record], seconds: float) -> dict[str, Any]:
    found = [{"where": plain(record.where), "values": plain(record.values)} for record in records]
    return {"key": key, "task": task, "seconds": round(seconds, 3), "records": found}


def _name(task: dict[str, Any]) -> str:
    return json.dumps(task, sort_keys=True)
