"""Experiments and the methods they compare, by name: the package's own, registered solvers and networks, plug-ins."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from maxsparse._core.registry import EXPERIMENTS, NETWORKS, SOLVERS
from maxsparse.experiments.experiment import Experiment
from maxsparse.experiments.methods import BUILT_IN, Method, network_method, solver_methods

__all__ = ["GROUP", "get", "load_plug_ins", "methods", "methods_of", "names", "plug_ins", "register"]

GROUP = "maxsparse.experiments"  # of entry points, for experiments and methods alike

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
    if isinstance(thing, Method):
        if _methods.get(thing.name) is thing:
            return thing
        if thing.name in _known():
            raise ValueError(f"a method named {thing.name!r} already exists; choose another name")
        _methods[thing.name] = thing
        return thing
    if isinstance(thing, Experiment) or (isinstance(thing, type) and issubclass(thing, Experiment)):
        if thing.name in EXPERIMENTS and EXPERIMENTS[thing.name] is not thing:
            raise ValueError(f"an experiment named {thing.name!r} already exists; choose another name")
        title = getattr(thing if isinstance(thing, type) else type(thing), "title")  # noqa: B009  # it may be a property
        return EXPERIMENTS.register(thing.name, thing, summary=title if isinstance(title, str) else None)
    raise ValueError(f"register needs an Experiment or a Method, got {thing!r}")


def names() -> list[str]:
    """Return the names of all experiments."""
    load_plug_ins()
    return list(EXPERIMENTS)


def get(name: str) -> Experiment:
    """Return the experiment of that name."""
    load_plug_ins()
    thing = EXPERIMENTS.find(name)
    return _made(thing) if isinstance(thing, type) else thing


@cache
def _made(experiment: type[Experiment]) -> Experiment:
    return experiment()


def methods() -> dict[str, Method]:
    """Return all methods by name, the package's own first."""
    load_plug_ins()
    return _known()


def _known() -> dict[str, Method]:
    """Return all methods but those of plug-ins that are not loaded yet."""
    found = dict(BUILT_IN)
    for method in (*solver_methods(), *map(network_method, NETWORKS.outside()), *_methods.values()):
        found.setdefault(method.name, method)
    return found


def methods_of(experiment: Experiment) -> list[str]:
    """Return the names of all methods that an experiment can compare; none if it compares none."""
    if not experiment.methods:
        return []
    own = experiment.known_methods()
    return list(methods()) if own is None else own


def plug_ins() -> list[str]:
    """Return the names of the methods from outside that join every experiment; a network is trained on request only."""
    load_plug_ins()
    return [*SOLVERS.outside(), *_methods]


def load_plug_ins() -> None:
    """Load all entry points, once per process; their modules may also register networks."""
    global _entry_points_loaded
    if _entry_points_loaded:
        return
    known, known_methods = set(EXPERIMENTS), set(_methods)
    try:
        for entry in entry_points(group=GROUP):
            _load(entry)
    except ValueError:
        # A broken plug-in is named at every call, not at the first alone; those before it must not count as taken then.
        for name in set(EXPERIMENTS) - known:
            EXPERIMENTS.remove(name)
        for name in set(_methods) - known_methods:
            del _methods[name]
        raise
    _entry_points_loaded = True


def _load(entry: EntryPoint) -> None:
    try:
        register(entry.load())
    except Exception as error:  # name the broken plug-in, whatever it raises
        raise ValueError(f"the plug-in {entry.name!r} ({entry.value}) cannot be used: {error}") from error
