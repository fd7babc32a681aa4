"""A training run as a command: ``python -m maxsparse.MODULE OUTPUT``."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import typer

from maxsparse.networks import Network
from maxsparse.training.budget import Report
from maxsparse.training.checkpoint import checkpoint_path
from maxsparse.training.display import describe
from maxsparse.training.loop import InterruptedTraining, train
from maxsparse.training.presets import Settings
from maxsparse.training.run import DivergenceError, Task

__all__ = ["train_from_command_line"]


def train_from_command_line(
    network: Network,
    task: Task,
    settings: Settings,
    output: Path,
    module: str,
    *,
    steps: int | None = None,
    minutes: float | None = None,
    n_threads: int = 1,
) -> None:
    """Train from the command line ``python -m maxsparse.MODULE``, on the CPU; resume if there is a checkpoint.

    A finished model is never overwritten. Under torchrun only the first process prints.

    Parameters
    ----------
    network : Network
    task : Task
    settings : Settings
    output : Path
        Model file for the best weights.
    module : str
        Name of the command, for the message on how to resume.
    steps, minutes : int, float or None, default=None
        Budget, in batches and in minutes; whichever is reached first ends the run. Without either, the samples of
        the settings.
    n_threads : int, default=1
        Threads of the CPU.
    """
    first = int(os.environ.get("RANK", "0")) == 0
    resume = checkpoint_path(output).exists()
    try:
        if not output.parent.is_dir():
            raise FileNotFoundError(f"folder {str(output.parent)!r} does not exist; create it first")
        if output.exists() and not resume:
            raise ValueError(f"{str(output)!r} is finished; remove it to train again")
        report = train(
            network,
            task,
            settings,
            minutes=minutes,
            samples=None if steps is None else steps * settings.batch_size,
            output=output,
            resume=resume,
            device="cpu",
            n_threads=n_threads,
            progress=True,
            callback=_print_line,
            resume_command=shlex.join(["python", "-m", f"maxsparse.{module}", *sys.argv[1:]]),
        )
    except (DivergenceError, InterruptedTraining, ValueError, OSError) as error:
        if first:
            typer.secho(str(error), err=True, fg="red")
        raise typer.Exit(1) from error
    if first:
        skipped = f" ({report.skipped} skipped)" if report.skipped else ""
        typer.echo(f"{output}: {report.batches:,} batches{skipped} in {report.seconds / 60:.0f} minutes")


def _print_line(report: Report) -> None:
    typer.echo(f"{report.batches:>7,} batches  {describe(report)}")
