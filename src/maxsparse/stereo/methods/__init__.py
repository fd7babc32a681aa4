"""Methods of photometric stereo: ``method(readings, lights, …) -> Fit``, one file each.

Rows of `readings` (P, q) are pixels, rows of `lights` (q, 3) unit directions. Methods are loaded on first use.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, cast

from maxsparse._core.registry import STEREO
from maxsparse.stereo.fitting.fit import Fit

__all__ = ["METHODS", "Fit", "check_options", "find_method", "register"]

METHODS = STEREO  # by name; print it for what each does


def find_method(name: str) -> Callable[..., Fit]:
    """Return the method of that name."""
    return cast(Callable[..., Fit], METHODS.find(name))


def register(name: str, method: Callable[..., Fit] | None = None, *, summary: str | None = None) -> Any:
    """Register a method for :func:`maxsparse.stereo.estimate_normals` and to the experiment.

    Parameters
    ----------
    name : str
        A name that is not in use.
    method : callable or None
        ``method(readings, lights, **options) -> Fit``; it receives a generator if it has a parameter `rng`. None makes
        this a decorator.
    summary : str or None, default=None
        What it does, in one line; None takes the first line of its docstring.

    Returns
    -------
    method
        Unchanged.

    Notes
    -----
    Other packages declare methods as entry points of the group ``maxsparse.stereo``.
    """
    return METHODS.register(name, method, summary=summary)


def check_options(name: str, options: Iterable[str]) -> None:
    """Refuse an option that the method of that name does not take."""
    METHODS.check_options(name, options, hidden=("rng",), skip=2)


def takes_rng(method: Callable[..., Fit]) -> bool:
    """Return whether a method uses random numbers."""
    return "rng" in inspect.signature(method).parameters
