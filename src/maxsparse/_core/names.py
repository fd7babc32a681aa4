"""Names of atoms and of measurements, from tables or from the caller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from maxsparse._core.validation import shape_of

__all__ = ["atom_names", "in_order", "measurement_names"]


def atom_names(Phi: Any, names: Iterable[Any] | None = None) -> tuple[str, ...] | None:
    """Return the name of every atom: those given, else the columns of a table; None if there are none.

    Parameters
    ----------
    Phi : array-like or table of shape (n, m)
    names : iterable of str, or None
    """
    if names is None:
        return _labels(Phi, "columns")
    if isinstance(names, str):
        raise ValueError(f"names must be a list of names, one per atom, got the text {names!r}")
    given, m = tuple(str(name) for name in names), shape_of(Phi, "Phi")[1]
    if len(given) != m:
        raise ValueError(f"names must be {m} names, one per atom of Phi, got {len(given)}")
    return given


def measurement_names(Phi: Any) -> tuple[str, ...] | None:
    """Return the name of every measurement: the index of a table; None if there is none."""
    return _labels(Phi, "index")


def in_order(Y: Any, names: tuple[str, ...] | None) -> Any:
    """Return a table Y with its columns in the order of the measurements `names`; anything else as it is.

    Tables with other columns are refused: their numbers would be taken for measurements that they are not.
    """
    columns = _labels(Y, "columns")
    if names is None or columns is None or columns == names:
        return Y
    if len(set(names)) < len(names) or len(set(columns)) < len(columns):
        raise ValueError("columns of Y and rows of Phi have the same names in another order, and some names repeat")
    missing, extra = [n for n in names if n not in set(columns)], [c for c in columns if c not in set(names)]
    if missing or extra:
        both = [f"lacks {_some(missing)}"] * bool(missing) + [f"has {_some(extra)}"] * bool(extra)
        raise ValueError(
            f"the columns of Y must be the {len(names)} rows of Phi by name: Y {' and '.join(both)}; rename them, or "
            "pass Y.to_numpy() if its columns are in the order of Phi's rows"
        )
    place = {name: position for position, name in enumerate(columns)}
    return Y.iloc[:, [place[name] for name in names]]


def _labels(table: Any, axis: str) -> tuple[str, ...] | None:
    """Return the labels of a table's rows or columns; None for an array, and for a table that only counts them."""
    labels = getattr(table, axis, None)
    if labels is None or callable(labels) or not hasattr(table, "columns"):
        return None
    found = list(labels)
    return None if found == list(range(len(found))) else tuple(str(label) for label in found)


def _some(names: list[str], most: int = 3) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
