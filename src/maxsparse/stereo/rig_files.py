"""Networks trained for one rig of lights: where their files are kept, so that each is trained once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from maxsparse._core.validation import FloatArray

__all__ = ["made_once", "rig_file"]


def rig_file(lights: FloatArray, kind: str, settings: str) -> Path:
    """Return where a network for these lights is kept.

    Parameters
    ----------
    lights : ndarray of shape (q, 3)
        Lights that agree to six decimals are the same rig.
    kind : str
        First word of the file's name.
    settings : str
        Whatever else makes it another network, such as how long it was trained.

    Returns
    -------
    path : Path
        In the folder that the environment variable MAXSPARSE_CACHE names, else in ``~/.cache/maxsparse``.
    """
    folder = Path(os.environ.get("MAXSPARSE_CACHE", Path.home() / ".cache" / "maxsparse"))
    rig = np.ascontiguousarray(lights, dtype=np.float64).round(6).tobytes()
    key = hashlib.sha256(rig + settings.encode()).hexdigest()[:16]
    return folder / f"{kind}-{len(lights)}-lights-{key}.safetensors"


def made_once(path: Path, make: Callable[[Path], None]) -> Path:
    """Return the path of a file, which ``make(path)`` writes where it is not there yet."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)
    return path
