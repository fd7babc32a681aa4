"""Experiments and methods by name: those of the package, registered ones, and those of entry points."""

from __future__ import annotations

import difflib
import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from maxsparse.experiments.experiment import Experiment
from maxsparse.experiments.methods import BUILT_IN, Method

__all__ = ["GROUP", "get", "load_plug_ins", "methods", "methods_of", "names", "register"]

GROUP = "maxsparse.experiments"
# Loaded on first use: the list of names needs none of them.
MODULES = {
    "basic": "maxsparse.experiments.basic",
    "runtime": "maxsparse.experiments.runtime",
    "data-size": "maxsparse.experiments.data_size",
    "ablations": "maxsparse.experiments.ablations",
    "distributions": "maxsparse.experiments.distributions",
    "lstm": "maxsparse.experiments.lstm",
    "rank-one": "maxsparse.experiments.rank_one",
    "rip": "maxsparse.experiments.rip",
    "clustered": "maxsparse.experiments.clustered",
    "noise": "maxsparse.experiments.noise",
    "scale": "maxsparse.experiments.scale",
    "zero-shot": "maxsparse.experiments.zero_shot",
    "phase": "maxsparse.experiments.phase",
    "stereo": "maxsparse.experiments.stereo",
}

_experiments: dict[str, Experiment] = {}
_methods: dict[str, Method] = {}
_entry_points_loaded = False


def register(thing: Any) -> Any:
    """Register an experiment or a method by its name.

    Parameters
    ----------
    thing : Experiment, subclass of Experiment, or Method
        Its ``name`` must not be in use. A method is included in every experiment that compares methods and to which it
        applies.

    Returns
    -------
    thing
        The argument, so that ``register`` works as a class decorator.
    """
    built = thing() if isinstance(thing, type) and issubclass(thing, Experiment) else thing
    if isinstance(built, Method):
        taken, table = built.name in BUILT_IN or built.name in _methods, _methods
    elif isinstance(built, Experiment):
        taken, table = built.name in MODULES or built.name in _experiments, _experiments  # type: ignore[assignment]
    else:
        raise ValueError(f"register needs an Experiment or a Method, got {thing!r}")
    if taken:
        raise ValueError(f"the name {built.name!r} is already in use; choose another")
    table[built.name] = built  # type: ignore[assignment]
    return thing


def names() -> list[str]:
    """Return the names of all experiments."""
    load_plug_ins()
    return [*MODULES, *_experiments]


def get(name: str) -> Experiment:
    """Return the experiment of that name."""
    known = names()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise ValueError(f"there is no experiment {name!r}{hint} Available: {', '.join(known)}")
    if name in _experiments:
        return _experiments[name]
    module = importlib.import_module(MODULES[name])
    experiment: Experiment = module.EXPERIMENT
    return experiment


def methods() -> dict[str, Method]:
    """Return all methods by name, the package's own first."""
    load_plug_ins()
    return {**BUILT_IN, **_methods}


def methods_of(experiment: Experiment) -> list[str]:
    """Return the names of all methods that an experiment can compare; none if it compares none."""
    if not experiment.methods:
        return []
    own = experiment.known_methods()
    return list(methods()) if own is None else own


def plug_ins() -> list[str]:
    """Return the names of the methods from outside the package."""
    load_plug_ins()
    return list(_methods)


def load_plug_ins() -> None:
    """Load all entry points, once per process; their modules may also register networks."""
    global _entry_points_loaded
    if _entry_points_loaded:
        return
    known, known_methods = set(_experiments), set(_methods)
    try:
        for entry in entry_points(group=GROUP):
            _load(entry)
    except ValueError:
        # A broken plug-in raises an error at every call, not only at the first; names of those before it must stay
        # free.
        for name in set(_experiments) - known:
            del _experiments[name]
        for name in set(_methods) - known_methods:
            del _methods[name]
        raise
    _entry_points_loaded = True


def _load(entry: EntryPoint) -> None:
    try:
        register(entry.load())
    except Exception as error:  # name the broken plug-in, whatever it raises
        raise ValueError(f"the plug-in {entry.name!r} ({entry.value}) cannot be used: {error}") from error
