"""``maxsparse reproduce``: the paper's figures and tables, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsparse._core.registry import EXPERIMENTS, unknown
from maxsparse.cli.arguments import Json, one_of, parse_range
from maxsparse.cli.printing import print_json
from maxsparse.experiments.presets import PRESETS

if TYPE_CHECKING:
    from maxsparse.experiments import Outcome


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help=f"An experiment: {one_of([*EXPERIMENTS, 'all'])}", show_default=False),
    ] = None,
    preset: Annotated[
        str, typer.Option("--preset", help="smoke (seconds), laptop (minutes), day or paper.")
    ] = "laptop",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for all results.")] = Path("results"),
    methods: Annotated[
        str | None, typer.Option("--methods", help="Methods to run, separated by commas.", show_default=False)
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", help="Seeds to run, separated by commas.", show_default=False)
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Number of processes.")] = 1,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", help="Address of a dask scheduler.", show_default=False),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="Device for training: auto, cpu, cuda.")] = "auto",
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming.")] = False,
    train: Annotated[
        bool, typer.Option("--train", help="Train all networks, including pretrained ones (preset day).")
    ] = False,
    outliers: Annotated[
        str | None,
        typer.Option(help="stereo: numbers of outliers that the network trains on, LOW:HIGH.", show_default=False),
    ] = None,
    mean: Annotated[
        float | None, typer.Option(help="stereo: mean of these outliers; the preset's.", show_default=False)
    ] = None,
    variance: Annotated[
        float | None, typer.Option(help="stereo: variance of these outliers; the preset's.", show_default=False)
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the experiments and exit.")] = False,
    as_json: Json = False,
) -> None:
    """Run an experiment of the paper: figures, tables, and each claim next to the measured result.

    Ctrl-C loses at most the current task; the same command resumes, unless --fresh is given.

    Example: maxsparse reproduce rank-one --preset smoke
    """
    from maxsparse import experiments

    known = experiments.names()
    if list_all:
        if as_json:
            print_json({"experiments": [_describe(each) for each in known], "presets": dict(PRESETS)})
        else:
            _list(known)
        return
    asked = _asked(name, preset, known)
    where: dict[str, Any] = {"preset": preset, "output": output, "jobs": jobs, "scheduler": scheduler, "device": device}
    chosen, changes = _wanted_seeds(seeds), _outlier_law(name, outliers, mean, variance)
    figures = []
    try:
        for each, own in _with_methods(asked, _wanted_methods(methods, asked)):
            outcome = experiments.run(
                each, methods=own, seeds=chosen, fresh=fresh, train=train, changes=changes, progress=True, **where
            )
            figures.append(_figures(each, outcome))
            if not as_json:
                _print(each, outcome)
    except experiments.Interrupted as stop:
        typer.secho(f"maxsparse: {stop}", err=True, fg="red")
        raise typer.Exit(1) from stop
    if as_json:
        print_json({"preset": preset, "experiments": figures})


def _asked(name: str | None, preset: str, known: list[str]) -> list[str]:
    """Check names and preset, and return the experiments to run."""
    from maxsparse import experiments

    if name is None:
        raise typer.BadParameter("is missing; name an experiment, or use --list", param_hint="NAME")
    if preset not in PRESETS:
        raise typer.BadParameter(f"{preset!r} is not one of {', '.join(PRESETS)}", param_hint="--preset")
    if name == "all":
        return known
    try:
        experiments.get(name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="NAME") from error
    return [name]


def _with_methods(asked: list[str], wanted: list[str] | None) -> Iterator[tuple[str, list[str] | None]]:
    """Yield every experiment with its selected methods; of several experiments, skip those without any."""
    from maxsparse import experiments
    from maxsparse.experiments import registry

    for each in asked:
        compared = registry.methods_of(experiments.get(each))
        own = [method for method in wanted or () if method in compared]
        if len(asked) == 1:
            yield each, wanted
        elif own or not wanted or not compared:
            yield each, own or None


def _wanted_methods(methods: str | None, asked: list[str]) -> list[str] | None:
    if methods is None:
        return None
    from maxsparse import experiments
    from maxsparse.experiments import registry

    wanted = [method.strip() for method in methods.split(",") if method.strip()]
    known = dict.fromkeys(method for each in asked for method in registry.methods_of(experiments.get(each)))
    for method in wanted:
        if known and method not in known:
            raise typer.BadParameter(unknown("method", method, known), param_hint="--methods")
    if not wanted:
        raise typer.BadParameter("name at least one method", param_hint="--methods")
    return wanted


def _wanted_seeds(seeds: str | None) -> list[int] | None:
    if seeds is None:
        return None
    try:
        return [int(seed) for seed in seeds.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{seeds!r} is not a list of numbers like 0,1,2", param_hint="--seeds") from error


def _outlier_law(
    name: str | None, outliers: str | None, mean: float | None, variance: float | None
) -> dict[str, Any] | None:
    """Return the law of the outliers that the network of stereo trains on, as changes of its settings."""
    law = {"outliers": parse_range(outliers, "--outliers"), "mean": mean, "variance": variance}
    given = {key: list(value) if isinstance(value, tuple) else value for key, value in law.items() if value is not None}
    if given and name != "stereo":
        hint = f"--{next(iter(given))}"
        raise typer.BadParameter(f"is for the experiment stereo, not for {name}", param_hint=hint)
    return {"network": given} if given else None


def _list(known: list[str]) -> None:
    from maxsparse import experiments

    width = max(map(len, known))
    for name in known:
        experiment = experiments.get(name)
        typer.echo(f"{name:{width}}  {experiment.title} ({experiment.paper})")
    typer.echo("\nPresets:")
    for preset, meaning in PRESETS.items():
        typer.echo(f"{preset:{width}}  {meaning}")


def _describe(name: str) -> dict[str, Any]:
    from maxsparse import experiments

    experiment = experiments.get(name)
    return {"name": name, "title": experiment.title, "paper": experiment.paper}


def _figures(name: str, outcome: Outcome) -> dict[str, Any]:
    from maxsparse.experiments.report import claim_json

    claims = [claim_json(verdict) for verdict in outcome.verdicts]
    files = {"page": str(outcome.folder / "index.html"), "results": str(outcome.folder / "results.json")}
    counts = {"tasks": outcome.tasks, "resumed": outcome.resumed, "pretrained": outcome.pretrained}
    return {"name": name, **counts, "claims": claims, **files}


def _print(name: str, outcome: Outcome) -> None:
    resumed = f", {outcome.resumed} of them from an earlier run" if outcome.resumed else ""
    typer.echo(f"{name}: {outcome.tasks} tasks{resumed}")
    if outcome.pretrained:
        typer.echo(f"Networks that come trained: {', '.join(outcome.pretrained)}; --train trains them again.")
    typer.echo()
    for verdict in outcome.verdicts:
        colour = {"holds": "green", "does not hold": "red"}.get(verdict.verdict, "yellow")
        typer.secho(f"  {verdict.verdict}", fg=colour, nl=False)
        typer.echo(f": {verdict.claim.text}\n    {f'{verdict.measured} {verdict.because}'.strip()}")
        if verdict.table is not None:
            _print_table(verdict.table.header, verdict.table.rows)
    typer.echo(f"\nPage: {outcome.folder / 'index.html'}")


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a small table, its columns as wide as they need."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        typer.echo("      " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
