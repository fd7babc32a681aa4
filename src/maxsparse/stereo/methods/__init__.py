"""Methods of photometric stereo: ``method(readings, lights, …) -> Fit``, one file each.

Rows of `readings` (P, q) are pixels, rows of `lights` (q, 3) unit directions. Methods are loaded on first use.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable

from maxsparse._core.validation import check_choice
from maxsparse.stereo.fitting.fit import Fit

__all__ = ["METHODS", "Fit", "check_options", "find_method", "register"]

METHODS: dict[str, str | Callable[..., Fit]] = {
    "ls": "maxsparse.stereo.methods.ls",
    "l1": "maxsparse.stereo.methods.l1",
    "sbl": "maxsparse.stereo.methods.sbl",
    "rnd4": "maxsparse.stereo.methods.rnd4",
    "consensus": "maxsparse.stereo.fitting.consensus",
    "network": "maxsparse.stereo.methods.network",
    "auto": "maxsparse.stereo.methods.auto",
}


def find_method(name: str) -> Callable[..., Fit]:
    """Return the method of that name."""
    method = METHODS[check_choice(name, "method", tuple(METHODS))]
    return getattr(importlib.import_module(method), name) if isinstance(method, str) else method


def register(name: str, method: Callable[..., Fit]) -> None:
    """Register your own method for :func:`maxsparse.stereo.estimate_normals`.

    Parameters
    ----------
    name : str
        A name that is not in use.
    method : callable
        ``method(readings, lights, **options) -> Fit``; it gets a generator if it has a parameter `rng`.
    """
    if name in METHODS:
        raise ValueError(f"a method named {name!r} already exists; choose another name")
    METHODS[name] = method


def check_options(name: str, options: Iterable[str]) -> None:
    """Raise an error for options that the method does not have."""
    parameters = inspect.signature(find_method(name)).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    known = [key for key in list(parameters)[2:] if key != "rng"]
    for option in options:
        if option not in known:
            takes = f"its options are {', '.join(known)}" if known else "it has none"
            raise ValueError(f"method {name!r} has no option {option!r}; {takes}")


def takes_rng(method: Callable[..., Fit]) -> bool:
    """Return whether a method uses random numbers."""
    return "rng" in inspect.signature(method).parameters
