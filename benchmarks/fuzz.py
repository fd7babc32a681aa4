"""Damaged and hostile files: only clear errors, and never more memory than allowed.

    python benchmarks/fuzz.py --inputs 200000

Every input is a file mutated from a small valid one (bits, bytes, lengths, numbers in headers, splices), generated from
its number. Inputs run in child processes limited to ``--megabytes`` above their initial memory and to a minute per
input, so that crashes of decoders and oversized allocations are detected. A file read without an error counts as
accepted. Finished pieces of a thousand inputs are recorded: the same command resumes, if code and libraries have not
changed.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import os
import platform
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fuzz_files import make, seeds
from journal import read_journal

import maxsparse as ms
from maxsparse._core.atomic import atomic_write

RESULTS = Path(__file__).parent / "results" / "fuzz.json"
CLEAR = (ValueError, FileNotFoundError)
READERS = ("opencv-python-headless", "pillow", "OpenEXR", "spectral", "rawpy")
LIBRARIES = ("numpy", "scipy", "torch", "safetensors", "pyarrow", "zarr", *READERS)
SEED = 20
PATIENCE_SECONDS = 60


def run_piece(numbers, made, folder, megabytes, report):
    """Read some inputs in this process, under the limit; write one line per input that did something unclear."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + megabytes * 2**20,) * 2)
    os.chdir(folder)
    begun_with = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counts = Counter()
    with report.open("a") as stream:
        for number in numbers:
            name, content = make(number, made, SEED)
            for other, good in {**made[name].beside, name: content}.items():
                (folder / other).parent.mkdir(parents=True, exist_ok=True)
                (folder / other).write_bytes(good)
            stream.write(f"at {number} {name}\n")  # so that a crash shows where it was
            stream.flush()
            signal.alarm(PATIENCE_SECONDS)
            try:
                made[name].read(folder / name)
                counts[f"{name} accepted"] += 1
            except CLEAR as error:
                counts[f"{name} refused"] += 1
                if isinstance(error.__cause__, MemoryError):
                    counts[f"{name} refused at the limit of memory"] += 1
                if len(str(error).strip().splitlines()) != 1:
                    stream.write(f"unclear {number} {name}: not one line: {str(error)[:200]!r}\n")
            except BaseException as error:
                stream.write(f"unclear {number} {name}: {type(error).__name__}: {str(error)[:200]!r}\n")
            signal.alarm(0)
        own, readers = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        done = {"counts": counts, "megabytes": (max(own, readers) - begun_with) / 1024}
        stream.write("done " + json.dumps(done) + "\n")


def in_child(numbers, made, base, megabytes):
    """Run one piece in a process of its own; return its counts, the memory it took, and what was unclear."""
    report, folder = Path(base, "report"), Path(tempfile.mkdtemp(dir=base))
    report.write_text("")
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        faulthandler.disable()
        try:
            run_piece(numbers, made, folder, megabytes, report)
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    lines = report.read_text().splitlines()
    unclear = [line for line in lines if line.startswith("unclear")]
    done = [json.loads(line[5:]) for line in lines if line.startswith("done")]
    if status or not done:
        unclear.append(f"crash ({status}) {lines[-1] if lines else 'before the first input'}")
        done = [{"counts": {}, "megabytes": 0.0}]
    expected = {other for name in made for other in (name, *made[name].beside)}
    stray = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - expected
    if stray:
        unclear.append(f"files appeared: {sorted(stray)}")
    return {**done[0], "unclear": unclear}


def fuzz(inputs, megabytes=1024, piece=1000, journal=None, kinds=None):
    """Run `inputs` inputs of all files, or of these; return counts, what was unclear, and the most megabytes taken."""
    counts, unclear, most = Counter(), [], 0.0
    with tempfile.TemporaryDirectory() as base:
        good = Path(base, "good")
        good.mkdir()
        made = {name: file for name, file in seeds(good).items() if kinds is None or name in kinds}
        key = identity(made, megabytes)
        known = read_journal(journal, "key", key, "piece")
        for start in range(0, inputs, piece):
            numbers = range(start, min(start + piece, inputs))
            done = known.get(f"{start}-{numbers[-1]}")
            if done is None:
                begun = time.monotonic()
                done = in_child(numbers, made, base, megabytes)
                done |= {"key": key, "piece": f"{start}-{numbers[-1]}", "seconds": round(time.monotonic() - begun, 1)}
                if journal is not None:
                    with journal.open("a") as stream:
                        stream.write(json.dumps(done) + "\n")
                print(f"{numbers[-1] + 1} inputs, {done['unclear'] or 'all clear'}", file=sys.stderr, flush=True)
            counts.update(done["counts"])
            unclear += done["unclear"]
            most = max(most, done["megabytes"])
    return counts, unclear, most


def identity(made, megabytes):
    """Return a hash of all that the answers depend on: the package, this program, the good files, the libraries."""
    total = hashlib.sha256(f"{SEED} {megabytes} {versions()}".encode())
    sources = [*sorted(Path(ms.__file__).parent.rglob("*.py")), *sorted(Path(__file__).parent.glob("fuzz*.py"))]
    for path in sources:
        total.update(path.read_bytes())
    for name in sorted(made):
        total.update(made[name].content)
    return total.hexdigest()[:16]


def versions():
    """Return the versions of what reads the files."""
    found = {}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return {"python": platform.python_version(), "maxsparse": ms.__version__, **found}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--megabytes", type=int, default=1024, help="memory over what the process starts with")
    parser.add_argument("--files", nargs="+", help="names of good files; all by default")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    journal = options.results.with_name(f".{options.results.stem}.journal.jsonl")
    counts, unclear, most = fuzz(options.inputs, options.megabytes, journal=journal, kinds=options.files)
    kinds = sorted({key.split()[0] for key in counts})
    whats = ("refused", "accepted", "refused at the limit of memory")
    by_file = {kind: {what: counts[f"{kind} {what}"] for what in whats} for kind in kinds}
    totals = {what: sum(figures[what] for figures in by_file.values()) for what in whats}
    summary = {
        "command": f"python benchmarks/fuzz.py --inputs {options.inputs} --megabytes {options.megabytes}",
        "versions": versions(),
        "seed": SEED,
        "inputs": totals["refused"] + totals["accepted"],
        **totals,
        "unclear": unclear,
        "megabytes allowed": options.megabytes,
        "megabytes taken at most": round(most, 1),
        "by file": by_file,
    }
    with atomic_write(options.results) as stream:
        stream.write((json.dumps(summary, indent=1, ensure_ascii=False) + "\n").encode())
    print(f"{summary['inputs']} inputs: {summary['refused']} refused, {summary['accepted']} accepted, "
          f"{len(unclear)} unclear; {summary['megabytes taken at most']} MB")  # fmt: skip
    raise SystemExit(bool(unclear))


if __name__ == "__main__":
    main()
