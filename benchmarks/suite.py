"""The whole test suite again and again: random order, nothing compiled yet, two workers.

    python benchmarks/suite.py --runs 10

Every run has a seed of its own for the order of files and of the tests in them, and an empty folder for compiled code.
Runs are added to those recorded: the same command resumes. What pytest printed in a run that failed is kept beside the
results, as .suite.SEED.log. Exit code 1 if a test failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from journal import read_journal

from maxsparse._core.atomic import atomic_write

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "suite.json"
COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")


def run(seed: int, workers: int) -> dict[str, object]:
    """Run the suite in the order of `seed`; return what pytest counted, and the tests that failed."""
    with tempfile.TemporaryDirectory() as cache:
        began = time.perf_counter()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-n", str(workers), "-m", "not long", "--shuffle", str(seed)),
                *(
                    "-o",
                    "faulthandler_timeout=600",
                    "-o",
                    "faulthandler_exit_on_timeout=true",
                    "-p",
                    "no:cacheprovider",
                ),
            ],
            cwd=ROOT,
            env=os.environ | {"NUMBA_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
    lines = done.stdout.splitlines()
    counts = {kind.removesuffix("s"): int(number) for number, kind in COUNTS.findall(lines[-1] if lines else "")}
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    if done.returncode:
        failures = failures or (lines + done.stderr.splitlines())[-20:]
        RESULTS.with_name(f".suite.{seed}.log").write_text(done.stdout + done.stderr)
    return {
        "seed": seed,
        **{kind: counts.get(kind, 0) for kind in ("passed", "failed", "error", "skipped")},
        "failures": failures,
        "minutes": round((time.perf_counter() - began) / 60, 1),
    }


def commit() -> str:
    """Return the commit that is tested; the tree must hold nothing else."""
    git = ["git", "-C", str(ROOT)]
    changed = subprocess.run(
        [*git, "status", "--porcelain", "src", "tests"], capture_output=True, text=True, check=True
    )
    if changed.stdout:
        sys.exit(f"src and tests must be as committed; these are not:\n{changed.stdout}")
    return subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """Run what is missing, and record each run as it ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    head = commit()
    journal = RESULTS.with_name(".suite.journal.jsonl")
    done = read_journal(journal, "commit", head, "seed")
    for seed in range(1, options.runs + 1):
        if seed not in done:
            done[seed] = {"commit": head, **run(seed, options.workers)}
            with journal.open("a") as file:
                file.write(json.dumps(done[seed]) + "\n")
            print(f"order {seed}: {done[seed]}", flush=True)
    with atomic_write(RESULTS) as file:
        file.write((json.dumps({"workers": options.workers, "runs": list(done.values())}, indent=1) + "\n").encode())
    return int(any(entry["failures"] for entry in done.values()))


if __name__ == "__main__":
    sys.exit(main())
