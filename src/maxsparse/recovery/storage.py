"""A recoverer in a model file: Φ, its preconditioner, the weights and the settings, each of them checked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core import modelfile
from maxsparse._core.prepared import Prepared
from maxsparse._core.structure import check_groups
from maxsparse._core.validation import FloatArray, check_dictionary, check_matrix
from maxsparse.learned_sbl import LearnedScores, Weights
from maxsparse.learned_sbl.spec import NAMES, check_weights
from maxsparse.recovery.law import Law
from maxsparse.recovery.noise import check_noise
from maxsparse.recovery.trained import TrainedScores, rebuild

__all__ = ["Saved", "read", "write"]

SETTINGS: dict[str, tuple[type, ...]] = {
    "noise": (int, float, str),
    "budget": (int, str),
    "rtol": (int, float, type(None)),
    "random_state": (int,),
    "n_threads": (int, type(None)),
    "positive": (bool,),
    "groups": (list, type(None)),
}
LATER: dict[str, Any] = {"positive": False, "groups": None}  # settings that files of earlier versions lack


def write(
    path: str | os.PathLike[str],
    prepared: Prepared,
    scorer: LearnedScores | TrainedScores,
    settings: dict[str, Any],
    law: Law | None = None,
    names: Mapping[str, tuple[str, ...] | None] | None = None,
) -> None:
    """Write a recoverer's arrays and settings atomically."""
    form = prepared.form()
    weights = {f"weights.{name}": array for name, array in scorer.arrays().items()}
    arrays: dict[str, Any] = {"Phi": prepared.given, "W": form.W, "D": form.D, **weights}
    if np.ndim(settings["noise"]) > 0:  # of every measurement, or a covariance
        arrays["noise"] = np.asarray(settings["noise"], dtype=np.float64)
        settings = settings | {"noise": 1.0}
    if law is not None:
        arrays |= {"law.slab": np.array([law.slab]), "law.shapes": law.shapes, "law.sizes": law.sizes}
        arrays |= {} if law.typical is None else {"law.typical": np.array(law.typical)}
    header = {"kind": "recoverer", "settings": settings, "network": scorer.header()}
    known = {axis: list(found) for axis, found in (names or {}).items() if found is not None}
    modelfile.write(path, arrays, header | ({"names": known} if known else {}))


class Saved(NamedTuple):
    """Contents of a recoverer file."""

    Phi: FloatArray
    preconditioner: tuple[NDArray[np.float64], NDArray[np.float64]]
    settings: dict[str, Any]
    passes: tuple[Weights, ...]  # of learned SBL; none for another trained network
    trained: TrainedScores | None
    law: Law | None
    names: dict[str, list[str] | None]  # of "atoms" and "measurements"


def read(path: str | os.PathLike[str]) -> Saved:
    """Read and check a file of :func:`write`."""
    file = modelfile.read(path, "recoverer")
    arrays, source = file.arrays, file.source
    settings = _check_settings(file.header, source)
    for name in ("Phi", "W", "D"):
        if name not in arrays:
            raise ValueError(f"{source!r} lacks the array {name}")
    Phi = check_dictionary(arrays["Phi"], f"Phi in {source!r}")
    W, D = check_matrix(arrays["W"], f"W in {source!r}"), arrays["D"]
    n, m = Phi.shape
    if W.shape[1] != n or W.shape[0] > min(n, m) or D.shape != (m,) or not np.isfinite(D).all() or not (D > 0).all():
        raise ValueError(f"{source!r}: the preconditioner does not fit Phi of shape {(n, m)}")
    if "noise" in arrays:
        settings["noise"] = arrays["noise"]
    check_noise(settings["noise"], n)
    check_groups(settings["groups"], m)
    weights = {name.removeprefix("weights."): array for name, array in arrays.items() if name.startswith("weights.")}
    network = file.header.get("network")
    trained = None if network is None else rebuild(network, weights, (n, m), source)
    passes = _passes(weights, source) if trained is None else ()
    law = _law(arrays, (n, m), source) if "law.slab" in arrays else None
    return Saved(
        Phi,
        (W.astype(np.float64), D.astype(np.float64)),
        settings,
        passes,
        trained,
        law,
        _names(file.header, (n, m), source),
    )


def _names(header: dict[str, Any], shape: tuple[int, int], source: str) -> dict[str, list[str] | None]:
    """Return the names of atoms and measurements, None where there are none."""
    given = header.get("names", {})
    names: dict[str, list[str] | None] = {"measurements": None, "atoms": None}
    if not isinstance(given, dict) or not set(given) <= set(names):
        raise ValueError(f"{source!r}: names must be those of atoms and measurements")
    for (axis, _), count in zip(names.items(), shape, strict=True):
        found = given.get(axis)
        if found is not None:
            if not isinstance(found, list) or len(found) != count or not all(isinstance(name, str) for name in found):
                raise ValueError(f"{source!r}: {axis} must have {count} names")
            names[axis] = found
    return names


def _law(arrays: dict[str, NDArray[Any]], shape: tuple[int, int], source: str) -> Law:
    """Return what was learned of the coefficients, if it fits Φ."""
    slab, shapes, sizes = (arrays.get(f"law.{name}", np.empty(0)) for name in ("slab", "shapes", "sizes"))
    n, m = shape
    fits = (
        slab.shape == (1,) and shapes.ndim == 2 and shapes.shape[1] == 3 and sizes.shape == (max(1, min(n - 1, m)) + 1,)
    )
    if not fits or not len(shapes) or not all(np.isfinite(array).all() for array in (slab, shapes, sizes)):
        raise ValueError(f"{source!r}: the law of the coefficients does not fit Phi of shape {shape}")
    if slab[0] < 0 or shapes[:, 1].min() < 0 or np.abs(shapes).max() > 700 or sizes.max() > 0:
        raise ValueError(f"{source!r}: the law of the coefficients has values out of range")
    return Law(float(slab[0]), shapes.astype(np.float64), sizes.astype(np.float64), _typical(arrays, source))


def _typical(arrays: dict[str, NDArray[Any]], source: str) -> tuple[float, float] | None:
    """Return median and deviation of the log probability of a signal; files of earlier versions lack them."""
    if "law.typical" not in arrays:
        return None
    typical = arrays["law.typical"]
    if typical.shape != (2,) or not np.isfinite(typical).all() or not typical[1] > 0:
        raise ValueError(f"{source!r}: law.typical must be a number and a positive one, got {typical.tolist()}")
    return float(typical[0]), float(typical[1])


def _passes(arrays: dict[str, NDArray[Any]], source: str) -> tuple[Weights, ...]:
    """Return the weights of all passes; files of earlier versions have only the first."""
    named: dict[int, dict[str, NDArray[Any]]] = {0: {}}
    for name, array in arrays.items():
        later = re.fullmatch(r"later\.(\d)\.(.+)", name)
        number, own = (0, name) if later is None else (int(later[1]) + 1, later[2])
        if own not in NAMES:
            raise ValueError(f"{source!r} holds unknown weights: {name}")
        named.setdefault(number, {})[own] = array
    if sorted(named) != list(range(len(named))):
        raise ValueError(f"{source!r} lacks a pass: it has only the passes {sorted(named)}")
    passes = tuple(check_weights(named[number], f"{source}, pass {number + 1}") for number in range(len(named)))
    if passes[0].first.shape[1] != passes[0].context.shape[1] - 1:
        raise ValueError(f"{source!r}: the network of the first pass must have no heads")
    return passes


def _check_settings(header: dict[str, Any], source: str) -> dict[str, Any]:
    """Return the settings if every value has the right type."""
    settings = header.get("settings")
    if isinstance(settings, dict):
        settings = LATER | settings
    if not isinstance(settings, dict) or set(settings) != set(SETTINGS):
        raise ValueError(f"{source!r}: settings must be exactly {', '.join(SETTINGS)}")
    for name, value in settings.items():
        wrong = isinstance(value, bool) and bool not in SETTINGS[name]
        if wrong or not isinstance(value, SETTINGS[name]):
            raise ValueError(f"{source!r}: {name} cannot be {value!r}")
    return settings
