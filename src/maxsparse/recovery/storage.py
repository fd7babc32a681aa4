"""A recoverer in one safetensors file: arrays and checked JSON, nothing that is executed on loading."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxsparse import __version__
from maxsparse._core.validation import FloatArray, check_dictionary, check_matrix
from maxsparse.files import atomic_write, digest, parse_json
from maxsparse.recovery._float32 import Weights
from maxsparse.recovery.scores import NAMES, LearnedScores, check_weights
from maxsparse.recovery.trained import TrainedScores, rebuild

if TYPE_CHECKING:
    from maxsparse.recovery.recoverer import SparseRecoverer

__all__ = ["load", "write"]

FORMAT = "maxsparse.recoverer"
VERSION = 2
READ = (1, 2)  # 1: before there were later passes
SETTINGS: dict[str, tuple[type, ...]] = {
    "noise": (int, float),
    "budget": (int, str),
    "rtol": (int, float, type(None)),
    "random_state": (int,),
    "n_threads": (int, type(None)),
}


def write(
    path: str | os.PathLike[str],
    Phi: FloatArray,
    W: FloatArray,
    D: FloatArray,
    scorer: LearnedScores | TrainedScores,
    settings: dict[str, Any],
) -> None:
    """Write a recoverer's arrays and settings, whole or not at all."""
    from safetensors.numpy import save

    arrays = {"Phi": Phi, "W": W, "D": D} | {f"weights.{name}": array for name, array in scorer.arrays().items()}
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = {"format": FORMAT, "version": VERSION, "maxsparse": __version__, "settings": settings}
    header |= {"network": scorer.header(), "sha256": digest(arrays)}
    data = save(arrays, {"maxsparse": json.dumps(header)})
    with atomic_write(path) as stream:
        stream.write(data)


def load(path: str | os.PathLike[str]) -> SparseRecoverer:
    """Load what :meth:`SparseRecoverer.save` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    model : SparseRecoverer
        Ready to recover: the same answers as before, to the last bit.

    Examples
    --------
    >>> import os, tempfile
    >>> import maxsparse as ms
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> ms.SparseRecoverer(ms.dictionaries.gaussian(10, 30, rng=0), budget="fast").save(path)
    >>> ms.load(path).budget
    'fast'
    """
    from maxsparse.recovery.recoverer import SparseRecoverer

    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"{str(source)!r} is not a file")
    header, arrays = _read(source)
    settings = _check_settings(header, str(source))
    for name in ("Phi", "W", "D"):
        if name not in arrays:
            raise ValueError(f"{str(source)!r} lacks the array {name}")
    Phi = check_dictionary(arrays["Phi"], f"Phi in {str(source)!r}")
    W, D = check_matrix(arrays["W"], f"W in {str(source)!r}"), arrays["D"]
    n, m = Phi.shape
    if W.shape[1] != n or W.shape[0] > min(n, m) or D.shape != (m,) or not np.isfinite(D).all() or not (D > 0).all():
        raise ValueError(f"{str(source)!r}: the preconditioner does not fit Phi of shape {(n, m)}")
    weights = {name.removeprefix("weights."): array for name, array in arrays.items() if name.startswith("weights.")}
    network = header.get("network")
    if network is None:
        model = SparseRecoverer(Phi, **settings)
        model.weights_, *later = _passes(weights, str(source))
        model.later_weights_ = tuple(later)
    else:
        trained = rebuild(network, weights, (n, m), str(source))
        model = SparseRecoverer(Phi, network=trained.network.name, **settings)
        model.trained_ = trained
    model.preconditioner_ = (W.astype(np.float64), D.astype(np.float64))
    return model


def _passes(arrays: dict[str, NDArray[Any]], source: str) -> list[Weights]:
    """Return the weights of all passes; a file from before there were later ones has the first alone."""
    named: dict[int, dict[str, NDArray[Any]]] = {0: {}}
    for name, array in arrays.items():
        later = re.fullmatch(r"later\.(\d)\.(.+)", name)
        number, own = (0, name) if later is None else (int(later[1]) + 1, later[2])
        if own not in NAMES:
            raise ValueError(f"{source!r} holds weights that nothing here uses: {name}")
        named.setdefault(number, {})[own] = array
    if sorted(named) != list(range(len(named))):
        raise ValueError(f"{source!r} lacks a pass: it has those with the numbers {sorted(named)}")
    passes = [check_weights(named[number], f"{source}, pass {number + 1}") for number in range(len(named))]
    if passes[0].first.shape[1] != passes[0].context.shape[1] - 1:
        raise ValueError(f"{source!r}: the network of the first pass must have no heads")
    return passes


def _read(source: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    from safetensors import safe_open

    try:
        with safe_open(source, "numpy") as file:
            metadata = file.metadata() or {}
            header = parse_json(metadata.get("maxsparse", "null"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except Exception as error:  # whatever a damaged file makes a parser raise
        raise ValueError(f"cannot read {str(source)!r}: {error}") from error
    if isinstance(header, dict) and header.get("sha256", digest(arrays)) != digest(arrays):
        raise ValueError(f"{str(source)!r} is damaged: its arrays are not those that were written (SHA-256)")
    return header, arrays


def _check_settings(header: Any, source: str) -> dict[str, Any]:
    """Return the settings if the header is one of ours and every value has the type it must have."""
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{source!r} is no recoverer: it was not written by SparseRecoverer.save")
    if header.get("version") not in READ:
        raise ValueError(f"{source!r} has format version {header.get('version')!r}; this maxsparse reads {READ}")
    settings = header.get("settings")
    if not isinstance(settings, dict) or set(settings) != set(SETTINGS):
        raise ValueError(f"{source!r}: settings must be exactly {', '.join(SETTINGS)}")
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, SETTINGS[name]):
            raise ValueError(f"{source!r}: {name} cannot be {value!r}")
    return settings
