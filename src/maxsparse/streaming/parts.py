"""The journal of an output: one file per finished chunk, so that a killed run loses at most the current chunk.

``OUT.parts/journal.json`` records what the answers depend on; ``OUT.parts/000017.npz`` is chunk 17. Every file is
renamed into place when it is complete, so an existing chunk is finished and is not computed again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from maxsparse._core.atomic import atomic_write
from maxsparse.streaming.chunk import Chunk

__all__ = ["Parts", "parts_folder"]

OURS = re.compile(r"journal\.json|lock|whole(\..*)?|\d{6,}\.npz|\..*\.part")


def parts_folder(output: Path) -> Path:
    """Return the folder of the parts of an output."""
    return output.with_name(f"{output.name}.parts")


class Parts:
    """The finished chunks of one run.

    Parameters
    ----------
    folder : path
        Their folder; created if it does not exist.
    depends : dict
        Everything the answers depend on, as plain JSON. Parts of a run with other values are not used.
    count : int
        Total number of chunks.
    fresh : bool
        Discard existing parts.
    resumable : bool
        Keep the folder when the run fails; False if the input cannot be read again, so that parts would be of no use.

    Attributes
    ----------
    done : set of int
        Numbers of the finished chunks.
    resumed : int
        How many of them come from an earlier run.
    """

    def __init__(
        self, folder: Path, depends: dict[str, Any], count: int, *, fresh: bool = False, resumable: bool = True
    ) -> None:
        self.folder, self.count, self.resumable = folder, count, resumable
        if not folder.parent.is_dir():
            raise FileNotFoundError(f"folder {str(folder.parent)!r} does not exist; create it first")
        folder.mkdir(exist_ok=True)
        self._lock = _lock(folder)
        journal = folder / "journal.json"
        # Without a finished chunk there is nothing to resume, and nothing to lose.
        if fresh or not journal.is_file() or not self._finished():
            self._clear()
            with atomic_write(journal) as stream:
                stream.write(json.dumps(depends, indent=1).encode())
        else:
            _compare(folder, _read(journal), json.loads(json.dumps(depends)))
        self.done = self._finished()
        self.resumed = len(self.done)

    def __enter__(self) -> Parts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not (self.done and self.resumable):  # bad signals or options: nothing to resume
            self.remove()
        self._lock.close()

    @property
    def todo(self) -> list[int]:
        """Numbers of the unfinished chunks."""
        return [index for index in range(self.count) if index not in self.done]

    def add(self, index: int, chunk: Chunk) -> None:
        """Store a finished chunk; it is on disk when this returns."""
        chunk.write(self._path(index))
        self.done.add(index)

    def __iter__(self) -> Iterator[Chunk]:
        """Read all chunks in order."""
        for index in range(self.count):
            yield Chunk.read(self._path(index))

    @property
    def first(self) -> Chunk:
        """The first chunk: the others have the same columns and dtypes."""
        return Chunk.read(self._path(0))

    def place(self, name: str) -> Path:
        """Return the temporary path of the output; leftovers of a killed run are removed."""
        path = self.folder / name
        _delete(path)
        return path

    def remove(self) -> None:
        """Remove the folder, the journal first: leftovers of a kill in between are then ignored."""
        (self.folder / "journal.json").unlink(missing_ok=True)
        self._clear()
        (self.folder / "lock").unlink(missing_ok=True)
        self.folder.rmdir()

    def _finished(self) -> set[int]:
        return {int(path.stem) for path in self.folder.glob("*.npz") if path.stem.isdigit()}

    def _path(self, index: int) -> Path:
        return self.folder / f"{index:06}.npz"

    def _clear(self) -> None:
        strange = [path.name for path in self.folder.iterdir() if not OURS.fullmatch(path.name)]
        if strange:
            raise ValueError(
                f"folder {str(self.folder)!r} holds {strange[0]!r}, which maxsparse did not write; move it elsewhere"
            )
        for path in self.folder.iterdir():
            if path.name != "lock":
                _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _lock(folder: Path) -> IO[bytes]:
    """Lock the folder against a second run; the system releases the lock of a killed process."""
    stream = (folder / "lock").open("wb")
    try:
        import fcntl
    except ImportError:  # no such locks on Windows
        return stream
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        stream.close()
        raise ValueError(f"another run is writing to {str(folder)!r}; wait for it or end it") from error
    return stream


def _read(journal: Path) -> dict[str, Any]:
    try:
        content = json.loads(journal.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{str(journal)!r} is damaged ({error}); start over with --fresh (fresh=True)") from error
    if not isinstance(content, dict):
        raise ValueError(f"{str(journal)!r} is damaged; start over with --fresh (fresh=True)")
    return content


def _compare(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    if changed:
        raise ValueError(
            f"{str(folder)!r} belongs to an unfinished run that differs in: {', '.join(changed)}. "
            "Use the same input and options to resume it, or --fresh (fresh=True) to start over"
        )


def sync_replace(source: Path, target: Path) -> None:
    """Move a finished file or folder into place, once it is on the disk; only then remove an old zarr folder there."""
    for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
        if path.is_file():
            _sync(path)
    if target.is_dir():
        old = source.with_name("whole.old")
        _delete(old)  # of a run that was killed in the last line
        os.rename(target, old)
        os.rename(source, target)
        shutil.rmtree(old)
    else:
        os.replace(source, target)


def _sync(path: Path) -> None:
    """Wait until a file is on the disk: network file systems report only then that they are full."""
    with path.open("r+b") as stream:
        os.fsync(stream.fileno())
