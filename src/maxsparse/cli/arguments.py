"""Arguments shared by commands: a model or a dictionary, NAME=VALUE pairs, output to a file or standard output."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

if TYPE_CHECKING:
    from maxsparse._core.registry import Registry
    from maxsparse.recovery import SparseRecoverer

__all__ = [
    "Json",
    "check_name",
    "is_model",
    "one_of",
    "open_model",
    "output_path",
    "parse_pairs",
    "parse_range",
    "parse_sparsity",
    "read_dictionary",
]

UNEQUAL = 100.0  # ratio of the lengths of atoms that deserves a warning
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]


def one_of(names: Iterable[str]) -> str:
    """Return names as a sentence for a help text."""
    *others, last = names
    return f"{', '.join(others)} or {last}." if others else f"{last}."


def check_name(registry: Registry, name: str, option: str) -> str:
    """Return `name` if the registry knows it."""
    try:
        return registry.check(name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def is_model(path: Path) -> bool:
    """Return whether a file is a model, by its suffix."""
    return path.suffix.lower() == ".safetensors"


def read_dictionary(path: Path, key: str | None = None) -> Any:
    """Read a dictionary (n, m) from an array file, or the one inside a model file."""
    if is_model(path):
        return open_model(path).Phi
    from maxsparse.dictionaries import load

    Phi = load(path, key)
    _warn_of_lengths(Phi)
    return Phi


def _warn_of_lengths(Phi: Any) -> None:
    """Say where atoms have very different lengths, by which many methods choose."""
    from maxsparse._core.cosines import column_norms

    norms = column_norms(np.asarray(Phi))
    if norms.size and norms.max() > UNEQUAL * norms.min():
        warnings.warn(
            f"atoms have lengths from {norms.min():.3g} to {norms.max():.3g}: methods prefer long ones, and "
            "coefficients of short ones are large. Scale the atoms to length 1 unless this is meant",
            stacklevel=1,  # the same place for all commands, so that it is said once
        )


def open_model(path: Path, key: str | None = None) -> SparseRecoverer:
    """Open a model: a saved SparseRecoverer, a trained network, or a dictionary for the bundled network."""
    from maxsparse.recovery import SparseRecoverer, load

    if not is_model(path):
        return SparseRecoverer(read_dictionary(path, key))
    if key is not None:
        raise typer.BadParameter("a model file holds one dictionary; omit this option", param_hint="--phi-key")
    from maxsparse._core.modelfile import kind_of

    if kind_of(path) == "network":
        from maxsparse import networks  # torch: loaded only when used

        model = networks.load(path)
        if "Phi" not in model.arrays:
            raise ValueError(f"{str(path)!r} holds a network without its dictionary, which cannot recover signals")
        return SparseRecoverer(model.arrays["Phi"], network=model.network)
    return load(path)


def parse_pairs(pairs: list[str], option: str = "--set") -> dict[str, Any]:
    """Read NAME=VALUE; a value is JSON (200, 0.5, true) or a string."""
    parsed: dict[str, Any] = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not name.isidentifier():
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint=option)
        try:
            parsed[name] = json.loads(value)
        except ValueError:
            parsed[name] = value
    return parsed


def parse_sparsity(text: str | None) -> int | tuple[int, int] | None:
    """Read D or LOW:HIGH."""
    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.split(":")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise typer.BadParameter(f"{text!r} is neither a number nor LOW:HIGH", param_hint="--sparsity")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def parse_range(text: str | None, hint: str) -> tuple[int, int] | None:
    """Read LOW:HIGH, or D for D:D."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)(?::(\d+))?", text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is neither a number nor LOW:HIGH", param_hint=hint)
    return int(found[1]), int(found[2] or found[1])


@contextmanager
def output_path(output: str, kind: str | None) -> Iterator[Path]:
    """Yield the path to write to; for ``-`` a temporary file that is then copied to standard output."""
    from maxsparse.streaming import FORMATS

    if output != "-":
        if kind is not None:
            raise typer.BadParameter(
                "is only for standard output; the suffix of a file sets its format", param_hint="--format"
            )
        yield Path(output)
        return
    kind = kind or "csv"
    if kind not in FORMATS or kind == "zarr":
        raise typer.BadParameter(f"{kind!r} cannot be written to standard output", param_hint="--format")
    if kind != "csv" and sys.stdout.isatty():
        raise typer.BadParameter(f"{kind} cannot be written to a terminal; use a file or a pipe", param_hint="--output")
    with tempfile.TemporaryDirectory(prefix="maxsparse-") as folder:
        path = Path(folder) / f"out.{kind}"
        yield path
        with path.open("rb") as stream:
            shutil.copyfileobj(stream, sys.stdout.buffer)
        sys.stdout.flush()
