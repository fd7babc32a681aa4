"""Disturb a run on a cluster: kill and pause its workers, fill its disk. Used by cluster.py."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time

from maxsparse._core.atomic import atomic_write

# Share of the chunks after which it happens.
DISTURBANCES = [
    (0.10, "a worker is killed"),
    (0.25, "a worker is paused and continues"),
    (0.40, "a worker is paused and killed"),
    (0.55, "a worker is paused until dask replaces it"),
    (0.70, "the disk is full"),
]
PATIENCE_SECONDS = 600
POLL_SECONDS = 0.1


class Journal:
    """What has happened so far, in a file: the same command goes on from there.

    Parameters
    ----------
    path : Path
    settings : dict
        Of the run; a file of other settings is refused.

    Attributes
    ----------
    events : dict
        What is known of every fault, by its name.
    steps : dict
        Seconds of every finished step, by its name.
    """

    def __init__(self, path, settings):
        self._path = path
        content = json.loads(path.read_text()) if path.is_file() else {"settings": settings, "events": {}, "steps": {}}
        if content["settings"] != settings:
            raise SystemExit(f"{path} belongs to a run with other settings; choose another folder")
        self._content = content
        self.events, self.steps = content["events"], content["steps"]

    def has(self, step):
        """Whether a step is finished."""
        return "ended" in self.steps.get(step, {})

    def note(self):
        """Write the file."""
        with atomic_write(self._path) as stream:
            stream.write(json.dumps(self._content, indent=1).encode())

    @contextlib.contextmanager
    def step(self, name):
        """Add up wall and processor seconds of a step over all attempts; processes that ended count."""
        begun, before = time.monotonic(), _processor_seconds()
        figures = self.steps.setdefault(name, {"attempts": 0, "wall seconds": 0.0, "cpu seconds": 0.0})
        figures["attempts"] += 1
        try:
            yield figures
            figures["ended"] = True
        finally:
            figures["wall seconds"] = round(figures["wall seconds"] + time.monotonic() - begun, 1)
            figures["cpu seconds"] = round(figures["cpu seconds"] + _processor_seconds() - before, 1)
            self.note()


class Disk:
    """A folder that can be full: a file system in a file, or where mounting is not permitted a limit on file sizes.

    Parameters
    ----------
    folder : Path
        Where its folder `disk` is made.
    size : int
        Bytes.
    """

    def __init__(self, folder, size):
        self.folder, self._image = folder / "disk", folder / "disk.img"
        self._size, self.kind = size, "limit on the size of files"

    def __enter__(self):
        self.folder.mkdir(exist_ok=True)
        if not self._image.exists() and not any(self.folder.iterdir()):
            with self._image.open("wb") as stream:
                stream.truncate(self._size)  # sparse: takes what is used
            if _run("mkfs.ext4", "-q", "-F", "-m", "0", self._image):
                self._image.unlink()
        if self._image.exists():
            if not os.path.ismount(self.folder) and _run("mount", "-o", "loop", self._image, self.folder):
                self._image.unlink()
            else:
                self.kind = "ext4 in a file"
        (self.folder / "filler").unlink(missing_ok=True)  # of a run that was stopped while the disk was full
        return self

    def __exit__(self, *error):
        if os.path.ismount(self.folder):
            _run("umount", "--lazy", self.folder)

    def fill(self, process):
        """Leave no space for the files of a process."""
        if not os.path.ismount(self.folder):
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
            return
        with (self.folder / "filler").open("wb") as stream:
            end, step = 0, self._size
            while step >= 512:
                try:
                    os.posix_fallocate(stream.fileno(), end, step)
                    end += step
                except OSError:
                    step //= 2

    def free(self):
        """Make space."""
        (self.folder / "filler").unlink(missing_ok=True)


def disturbed_run(command, chunks, client, disk, journal, paused):
    """Run the command on the workers of a client, with all faults that the journal does not have yet."""
    full = True
    while full:
        process = _start([*command, "--scheduler", client.scheduler.address], disk.folder.parent)
        try:
            full = _disturb(process, _Counter(disk.folder / "X.zarr.parts"), chunks, client, disk, journal, paused)
        finally:
            if process.poll() is None:
                process.terminate()
    return _said(process)


def plain_run(command, folder):
    """Run the command in one process."""
    process = _start(command, folder)
    process.wait()
    return _said(process)


class _Counter:
    """Counts finished chunks."""

    def __init__(self, parts):
        self._parts = parts

    def __call__(self):
        return sum(path.stem.isdigit() for path in self._parts.glob("*.npz")) if self._parts.is_dir() else 0


def _disturb(process, finished, chunks, client, disk, journal, paused):
    """Apply one fault after the other until the command ends; return whether it ended because the disk was full."""
    later = []  # what is to be done when: (time, process id, signal)
    while process.poll() is None:
        time.sleep(POLL_SECONDS)
        for item in [item for item in later if item[0] <= time.monotonic()]:
            later.remove(item)
            _signal(*item[1:])
        waiting = [(share, name) for share, name in DISTURBANCES if name not in journal.events]
        done = finished()
        if later or not waiting or done < waiting[0][0] * chunks:
            continue
        name = waiting[0][1]
        event = journal.events[name] = {"finished chunks": done}
        print(f"{done} of {chunks} chunks: {name}", file=sys.stderr, flush=True)
        if name == "the disk is full":
            _fill(process, finished, disk, event)
            journal.note()
            return True
        later += _strike(name, _busiest(client), event, paused)
        journal.note()
    for _, pid, number in later:  # the command has ended while a worker was paused
        _signal(pid, number)
    return False


def _strike(name, pid, event, paused):
    """Kill or pause a worker; return what is to be done later."""
    event["chunks of this worker"] = pid[1]
    if name == "a worker is killed":
        _signal(pid[0], signal.SIGKILL)
        return []
    _signal(pid[0], signal.SIGSTOP)
    if name.endswith("replaces it"):
        return []
    event["seconds paused"] = paused
    number = signal.SIGKILL if name.endswith("killed") else signal.SIGCONT
    return [(time.monotonic() + paused, pid[0], number)]


def _fill(process, finished, disk, event):
    """Fill the disk, wait until the command fails, and make space."""
    disk.fill(process)
    try:
        process.wait(PATIENCE_SECONDS)
    finally:
        event["finished chunks kept"] = finished()
        disk.free()
    event["exit code"], event["message"] = process.returncode, process.stderr_file.read_text().strip()[-300:]
    if process.returncode != 1 or event["finished chunks kept"] < event["finished chunks"]:
        raise AssertionError(f"a full disk is not handled: {event}")


def _busiest(client):
    """Return the process id of the worker with the most chunks under way, and how many."""
    while True:
        processing = client.processing()
        address = max(processing, key=lambda worker: len(processing[worker]))
        try:
            return client.run(os.getpid, workers=[address])[address], len(processing[address])
        except OSError:  # one that was killed, which the scheduler has not noticed yet
            time.sleep(POLL_SECONDS)


def _start(command, folder):
    """Start maxsparse with its messages in files of that folder."""
    out, err = folder / "stdout", folder / "stderr"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "maxsparse", *command, "--json"], cwd=folder, stdout=stdout, stderr=stderr
        )
    process.stdout_file, process.stderr_file = out, err
    return process


def _said(process):
    """Return the summary that the command printed."""
    if process.returncode:
        raise RuntimeError(f"the command failed: {process.stderr_file.read_text()[-1000:]}")
    summary = json.loads(process.stdout_file.read_text())
    return {name: summary[name] for name in ("signals", "resumed", "unsure", "mean_confidence")}


def _signal(pid, number):
    with contextlib.suppress(ProcessLookupError):  # dask may have replaced it
        os.kill(pid, number)


def _processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _run(*command):
    """Return whether a command failed."""
    try:
        return subprocess.run([str(part) for part in command], capture_output=True).returncode != 0
    except FileNotFoundError:
        return True
