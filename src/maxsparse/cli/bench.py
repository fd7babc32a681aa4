"""``maxsparse bench``: accuracy and time of every method on your dictionary."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from maxsparse._core.registry import SOLVERS
from maxsparse.cli.arguments import Json, check_name, one_of, read_dictionary
from maxsparse.cli.compare import OURS, compare, print_table, say_what_is_missing
from maxsparse.cli.printing import print_json

__all__ = ["bench"]

DEFAULT_METHODS = "omp,subspace_pursuit,iht,l1,sbl"


def bench(
    dictionary: Annotated[
        Path,
        typer.Argument(
            metavar="PHI", help="Dictionary (n, m): .npy, .npz, .mat, .csv, .parquet, .zarr, or a model file."
        ),
    ],
    methods: Annotated[
        str, typer.Option("--methods", help=f"Classical methods to compare, separated by commas: {one_of(SOLVERS)}")
    ] = DEFAULT_METHODS,
    sparsities: Annotated[
        str | None,
        typer.Option("--sparsities", metavar="D,D,…", help="Numbers of nonzeros. (default: 1 to n/2 in steps)"),
    ] = None,
    signals: Annotated[int, typer.Option(min=1, help="Random noiseless signals per sparsity.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the signals.")] = 0,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="Time for all of it, without compiling; what does not fit is left out.")
    ] = 17.0,
    key: Annotated[str | None, typer.Option("--key", help="Name of the array in the file.")] = None,
    as_json: Json = False,
) -> None:
    """Measure which share of the signals each method recovers, and how long it takes.

    `make bench` compares the speed with other libraries instead.

    Example: maxsparse bench Phi.npy --methods omp,sbl --sparsities 2,4,6
    """
    names = [name.strip() for name in methods.split(",") if name.strip()]
    for name in names:
        check_name(SOLVERS, name, "--methods")
        if "clusters" in SOLVERS.entry(name).needs:
            raise typer.BadParameter(
                f"{name} needs the parts of a clustered dictionary, not only Φ", param_hint="--methods"
            )
    Phi = np.asarray(read_dictionary(dictionary, key))
    counts = _sparsities(sparsities, Phi.shape)
    curves = compare(Phi, names, counts, signals, seed, seconds)
    if as_json:
        print_json({"signals_per_sparsity": signals, "seed": seed, "methods": [curve.as_dict() for curve in curves]})
        return
    typer.echo(
        f"{dictionary}: {Phi.shape[0]} measurements × {Phi.shape[1]} atoms. Share of {signals} signals per number d of "
        f"nonzeros\nwhose support is exactly right; all methods but {OURS} are given d. The first run compiles.\n"
    )
    width = max(len(OURS), *(len(f"{name}, whitened") for name in [*names, ""]))
    done = print_table(curves, width, counts)
    say_what_is_missing(done, signals)


def _sparsities(text: str | None, shape: tuple[int, ...]) -> list[int]:
    n, m = shape
    if text is None:
        most = max(1, min(n // 2, m))
        return sorted({max(1, round(most * share)) for share in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)})
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1 or max(counts) > min(n, m):
        raise typer.BadParameter(f"{text!r} is not a list of numbers from 1 to {min(n, m)}", param_hint="--sparsities")
    return counts
