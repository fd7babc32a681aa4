"""The journal of a long run, one line of JSON per finished piece: the same command resumes."""

from __future__ import annotations

import json


def read_journal(path, key, value, number):
    """Return the entries whose `key` is `value`, by their `number`; others were noted under other conditions."""
    done = {}
    if path is not None and path.is_file():
        for line in path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:  # the line that was being written when the run was stopped
                continue
            if entry[key] == value:
                done[entry[number]] = entry
    return done
