"""``maxsparse recover`` and ``maxsparse solve``: any number of signals, from file to file."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsparse._core.registry import SOLVERS
from maxsparse._core.validation import is_complex
from maxsparse.cli.arguments import (
    Json,
    check_name,
    one_of,
    open_model,
    output_path,
    parse_pairs,
    read_dictionary,
)
from maxsparse.cli.printing import say, say_summary
from maxsparse.cli.structured import has_structure, read_labels, run_in_memory

if TYPE_CHECKING:
    from maxsparse.streaming import Work

__all__ = ["recover", "solve"]

Signals = Annotated[
    str,
    typer.Argument(
        metavar="Y",
        help="Signals as rows (N, n): .npy, .npz, .mat, .csv, .parquet, a .zarr folder, or - for standard input "
        "(.npy or comma-separated text). .npy, .zarr and .parquet may be larger than memory.",
    ),
]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="OUT",
        help="Coefficients (N, m). Sparse: .npz (for scipy), .parquet, .mat. Dense: .zarr, .npy, .csv. "
        "- for standard output.",
    ),
]
Format = Annotated[
    str | None, typer.Option("--format", help="Format on standard output: csv, npy, npz, parquet, mat. (default: csv)")
]
Key = Annotated[str | None, typer.Option("--key", help="Name of the array (or column) in Y's file.")]
PhiKey = Annotated[str | None, typer.Option("--phi-key", help="Name of the array in PHI's file.")]
Chunk = Annotated[int | None, typer.Option(min=1, help="Signals per chunk. (default: 32 MB of coefficients)")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming an interrupted run.")]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Give no answer for signals with NaN or infinite numbers; do not fail.")
]
Positive = Annotated[bool, typer.Option("--positive", help="Only coefficients of at least zero.")]
GroupLabels = Annotated[
    str | None,
    typer.Option(
        "--groups",
        metavar="FILE",
        help="Labels of the atoms, those of one label come and go together: a file of m whole numbers, "
        "or the labels separated by commas.",
    ),
]
Threads = Annotated[int | None, typer.Option(min=1, help="Processor threads. (default: all cores)")]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Run on the workers of this dask scheduler: tcp://host:8786."),
]


def recover(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL_OR_PHI",
            help="Model file (.safetensors), or a dictionary (n, m): n measurements, m atoms "
            "(.npy, .npz, .mat, .csv, .parquet, .zarr).",
        ),
    ],
    signals: Signals,
    output: Output,
    noise: Annotated[
        str | None,
        typer.Option(
            metavar="auto|SIGMA",
            help="Standard deviation of the noise on every measurement; 0: all answers are exact; auto: exact where "
            "possible, else the noise level is learned from the signal. (default: auto, or as in the model)",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Search effort per signal: none, fast, normal, thorough, a number of sets, or a time such as 20ms."
        ),
    ] = None,
    easy_first: Annotated[
        bool,
        typer.Option(
            "--easy-first/--no-easy-first",
            help="Try OMP first; run the network only for signals whose OMP answer is not certified.",
        ),
    ] = True,
    positive: Positive = False,
    groups: GroupLabels = None,
    chunk: Chunk = None,
    fresh: Fresh = False,
    skip_bad: SkipBad = False,
    key: Key = None,
    phi_key: PhiKey = None,
    kind: Format = None,
    threads: Threads = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Find the sparsest x with y = Φx for every signal, and report which answers are certified.

    A signal with noise gets the most probable support instead, and the probability that it is right (confidence).

    Signals may be complex, or snapshots (N, L, n) that share one support per row: these are recovered in memory, from
    .npy, .npz, .mat or .zarr to .npy, .npz or .mat.

    A killed run resumes when the same command is run again.

    Example: maxsparse recover Phi.npy Y.npy -o X.npz

    Then in Python: scipy.sparse.load_npz("X.npz") and numpy.load("X.npz")["certified"]
    """
    opened = open_model(model, phi_key)
    changes: dict[str, Any] = {"noise": None if noise is None else _noise(noise), "n_threads": threads}
    if budget is not None:
        changes["budget"] = _budget(budget)
    if positive:
        changes["positive"] = True
    if groups is not None:
        changes["groups"] = read_labels(groups)
    opened.set_params(**{name: value for name, value in changes.items() if value is not None})
    if is_complex(opened.Phi) or has_structure(signals, key):
        recover_all = partial(opened.recover, progress=True)
        run_in_memory(recover_all, signals, key, output, scheduler=scheduler, as_json=as_json)
        return
    from maxsparse.streaming import Recover

    options = {"chunk": chunk, "fresh": fresh, "skip_bad": skip_bad, "key": key}
    _run(
        Recover(opened, easy_first),
        signals,
        output,
        kind,
        scheduler,
        as_json,
        options,
        certifies=_may_certify(opened.noise),
    )


def solve(
    dictionary: Annotated[
        Path,
        typer.Argument(
            metavar="PHI",
            help="Dictionary (n, m): n measurements, m atoms (.npy, .npz, .mat, .csv, .parquet, .zarr, or a model).",
        ),
    ],
    signals: Signals,
    output: Output,
    method: Annotated[
        str,
        typer.Option(
            help=one_of(SOLVERS),
            autocompletion=lambda: list(SOLVERS),
        ),
    ] = "sbl",
    sparsity: Annotated[int | None, typer.Option(min=0, help="Number of nonzeros, if known.")] = None,
    noise: Annotated[float, typer.Option(min=0.0, help="Standard deviation of the noise on every measurement.")] = 0.0,
    precondition: Annotated[
        bool, typer.Option("--whiten/--no-whiten", help="Whiten the dictionary first (precondition).")
    ] = False,
    positive: Positive = False,
    groups: GroupLabels = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Option of the method: --set max_iter=200. Repeatable."),
    ] = None,
    chunk: Chunk = None,
    fresh: Fresh = False,
    skip_bad: SkipBad = False,
    key: Key = None,
    phi_key: PhiKey = None,
    kind: Format = None,
    threads: Threads = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Recover signals with a classical method, without certificates.

    Signals may be complex, or snapshots (N, L, n) that share one support per row: these are solved in memory, from
    .npy, .npz, .mat or .zarr to .npy, .npz or .mat.

    Example: maxsparse solve Phi.npy Y.npy --method omp --sparsity 3 -o X.npz
    """
    check_name(SOLVERS, method, "--method")
    from maxsparse.streaming import Solve

    asked = {"sparsity": sparsity, "precondition": precondition, **parse_pairs(settings or [])}
    if noise > 0:
        asked["noise"] = noise
    if threads is not None:
        asked["n_threads"] = threads
    if positive:
        asked["positive"] = True
    if groups is not None:
        asked["groups"] = read_labels(groups)
    Phi = read_dictionary(dictionary, phi_key)
    if Phi.dtype.kind == "c" or has_structure(signals, key):
        from maxsparse.solvers import solve as solve_all

        call = partial(solve_all, Phi, method=method, progress=True, **asked)
        run_in_memory(call, signals, key, output, scheduler=scheduler, as_json=as_json)
        return
    work = Solve(Phi, method, asked)
    options = {"chunk": chunk, "fresh": fresh, "skip_bad": skip_bad, "key": key}
    _run(work, signals, output, kind, scheduler, as_json, options, certifies=False)


def _noise(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        level = float(text)
    except ValueError:
        level = -1.0
    if not 0.0 <= level < float("inf"):
        raise typer.BadParameter(f"{text!r} is neither auto nor a number from 0", param_hint="--noise")
    return level


def _may_certify(noise: Any) -> bool:
    return isinstance(noise, str) or (not hasattr(noise, "shape") and noise == 0)


def _budget(text: str) -> int | str:
    from maxsparse.recovery.search import check_budget

    budget = int(text) if text.isdigit() else text
    try:
        check_budget(budget)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--budget") from error
    return budget


def _run(
    work: Work,
    signals: str,
    output: str,
    kind: str | None,
    scheduler: str | None,
    as_json: bool,
    options: dict[str, Any],
    *,
    certifies: bool,
) -> None:
    from maxsparse import streaming

    if output == "-" and as_json:
        raise typer.BadParameter("cannot be combined with answers on standard output", param_hint="--json")
    with output_path(output, kind) as path, _runner(scheduler) as runner:
        try:
            summary = streaming.run(work, signals, path, progress=True, runner=runner, **options)
        except KeyboardInterrupt:
            say("Stopped. Run the same command again to resume.")
            raise
    say_summary(summary, output, as_json=as_json, certifies=certifies)


def _runner(scheduler: str | None) -> Any:
    if scheduler is None:
        return nullcontext()
    from maxsparse.distributed import Cluster

    return Cluster(scheduler)
