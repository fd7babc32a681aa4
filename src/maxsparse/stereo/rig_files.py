"""Cached files of networks trained for one rig of lights, so that each is trained only once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from maxsparse._core.validation import FloatArray

__all__ = ["made_once", "rig_file"]


def rig_file(lights: FloatArray, kind: str, settings: str) -> Path:
    """Return the cache path of a network for these lights.

    Parameters
    ----------
    lights : ndarray of shape (q, 3)
        Lights that agree to six decimals are the same rig.
    kind : str
        First part of the file name.
    settings : str
        Other settings of the network, such as the training time.

    Returns
    -------
    path : Path
        In the folder given by the environment variable MAXSPARSE_CACHE, else in ``~/.cache/maxsparse``.
    """
    folder = Path(os.environ.get("MAXSPARSE_CACHE", Path.home() / ".cache" / "maxsparse"))
    rig = np.ascontiguousarray(lights, dtype=np.float64).round(6).tobytes()
    key = hashlib.sha256(rig + settings.encode()).hexdigest()[:16]
    return folder / f"{kind}-{len(lights)}-lights-{key}.safetensors"


def made_once(path: Path, make: Callable[[Path], None]) -> Path:
    """Return the path of a file; ``make(path)`` writes it if it does not exist."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)
    return path
