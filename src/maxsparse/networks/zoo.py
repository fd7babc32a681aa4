"""Trained networks that come with the repository: the paper's, for its dictionary of 20 measurements and 100 atoms.

They are model files in the folder ``zoo`` of the repository, in half precision; the wheel does not hold them. The
environment variable ``MAXSPARSE_ZOO`` names another folder.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from maxsparse._core.validation import check_choice
from maxsparse.networks.storage import Model, load, read, save

__all__ = ["add_pretrained", "pretrained", "pretrained_headers", "pretrained_names", "zoo_folder"]

VARIABLE = "MAXSPARSE_ZOO"
SUFFIX = ".safetensors"
SMALL = 100_000  # weights of a network that is kept in single precision: it costs nothing, and thresholds are sensitive


def zoo_folder() -> Path | None:
    """Return the folder of trained networks: ``MAXSPARSE_ZOO``, else ``zoo`` of the repository; None without either."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    beside = Path(__file__).resolve().parents[3] / "zoo"
    return beside if beside.is_dir() else None


def pretrained_names() -> list[str]:
    """Return the names of the trained networks, sorted; none where there is no folder of them."""
    folder = zoo_folder()
    return [] if folder is None else sorted(path.stem for path in folder.glob(f"*{SUFFIX}"))


def pretrained(name: str) -> Model:
    """Return a trained network by name.

    Parameters
    ----------
    name : str
        One of :func:`pretrained_names`, such as ``"residual-20x100"``.

    Returns
    -------
    model : Model
        ``model.network`` scores signals of the dictionary ``model.arrays["Phi"]``; ``model.about`` says how it was
        trained.

    See Also
    --------
    load : A network from a file of yours.
    """
    return load(zoo_path(name))


def zoo_path(name: str) -> Path:
    """Return the file of a trained network."""
    folder = zoo_folder()
    if folder is None:
        raise FileNotFoundError(
            f"there is no folder of trained networks: it is 'zoo' in the repository, and {VARIABLE} names its path"
        )
    known = pretrained_names()
    if not known:
        raise FileNotFoundError(f"there are no trained networks in {str(folder)!r}")
    return folder / f"{check_choice(name, 'name', tuple(known))}{SUFFIX}"


def pretrained_headers() -> dict[str, dict[str, Any]]:
    """Return the header of every trained network, by name: network, hyperparameters, how it was trained, SHA-256."""
    folder = zoo_folder()
    found = {} if folder is None else {name: folder / f"{name}{SUFFIX}" for name in pretrained_names()}
    return {name: _header(path, path.stat().st_mtime_ns) for name, path in found.items()}


@lru_cache(maxsize=64)
def _header(path: Path, changed: int) -> dict[str, Any]:
    return read(path, "network")[1]


def add_pretrained(name: str, source: str | os.PathLike[str]) -> Path:
    """Copy a model file into the folder of trained networks, its large matrices in half precision.

    Parameters
    ----------
    name : str
        Name to find it by.
    source : path
        Model file of a finished training.

    Returns
    -------
    path : Path
        The file in the folder.
    """
    folder = zoo_folder()
    if folder is None:
        raise FileNotFoundError(f"make the folder 'zoo' in the repository, or set {VARIABLE}")
    model = load(source)
    if not model.about.get("report", {}).get("finished"):
        raise ValueError(f"{os.fspath(source)!r} is a training that is not finished")
    target = folder / f"{name}{SUFFIX}"
    half = sum(p.numel() for p in model.network.parameters()) > SMALL
    save(model.network, target, arrays=model.arrays, about=model.about, half=half)
    return target
