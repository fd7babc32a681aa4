"""The training loop: budget, validation, checkpoints, interruption. It is independent of network and data."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from maxsparse.networks import Network
from maxsparse.training.budget import Budget, Report
from maxsparse.training.checkpoint import checkpoint_path
from maxsparse.training.display import progress_bar
from maxsparse.training.interrupt import Interrupt
from maxsparse.training.presets import Settings
from maxsparse.training.processes import Processes
from maxsparse.training.run import Run, Task

__all__ = ["InterruptedTraining", "train"]

CHECKPOINT_SECONDS = 60.0
LOOK_EVERY = 20  # batches between two checks of the loss; on a GPU each check waits for it


class InterruptedTraining(KeyboardInterrupt):
    """Training was stopped by Ctrl-C or SIGTERM; the message says how to resume."""


def train(
    network: Network,
    task: Task,
    settings: Settings,
    *,
    minutes: float | None = None,
    samples: int | None = None,
    output: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "auto",
    n_threads: int | None = None,
    progress: bool = False,
    callback: Callable[[Report], object] | None = None,
    resume_command: str | None = None,
) -> Report:
    """Train a network on a task until the budget is used up, and keep the best weights in it.

    Parameters
    ----------
    network : Network
        Trained in place; it ends with the weights of the best validation, in evaluation mode, on its own device.
    task : Task
        Training data and loss.
    settings : Settings
        Training settings, see ``PRESETS``.
    minutes, samples : float, int or None, default=None
        Budget; whichever is reached first ends the run. Without either, the samples of the settings.
    output : path or None, default=None
        Model file for the best weights so far, from the first validation on. The checkpoint is next to it until the run
        is finished. None writes nothing.
    resume : bool, default=False
        Resume from the checkpoint of `output`.
    overwrite : bool, default=False
        Replace a model or an unfinished run that `output` already holds. If False, it raises an error.
    device : str, default="auto"
        ``"auto"`` uses CUDA if available, else the CPU; or a torch device name.
    n_threads : int or None, default=None
        CPU threads; None for torch's default.
    progress : bool, default=False
        Show a progress bar on a terminal.
    callback : callable or None, default=None
        Called with the report after every validation.
    resume_command : str or None, default=None
        Command shown to the user after Ctrl-C.

    Returns
    -------
    report : Report

    Raises
    ------
    DivergenceError
        If the loss becomes NaN or far too large, or gradients remain NaN; the network has the last good weights.
    InterruptedTraining
        On Ctrl-C or SIGTERM; the state is saved after the current batch, and the network has the current weights, or
        their moving average if the settings have one. During the last batch or the last validation, the run is finished
        and saved, the network has the best weights, and the message says so.

    Warns
    -----
    ReproducibilityWarning
        If a run with a budget in samples is resumed with another number of threads or processes.

    Notes
    -----
    Under ``torchrun`` every process calls this with the same arguments. Each generates its own rows of every batch,
    torch's DistributedDataParallel averages the gradients, and the first process validates and writes.
    """
    budget = Budget.of(minutes, samples, settings)
    if output is not None and not resume and not overwrite:
        _refuse_to_overwrite(Path(output))
    with Processes.join(device, n_threads) as processes:
        run = Run(network, task, settings, budget, processes, None if output is None else Path(output))
        if resume:
            run.restore()
        return _loop(run, progress, callback, resume_command)


def _refuse_to_overwrite(output: Path) -> None:
    """Raise an error where a new run would replace what an earlier one has left."""
    if checkpoint_path(output).exists():
        raise ValueError(
            f"an unfinished run is in {str(checkpoint_path(output))!r}; resume it, or replace it with overwrite=True "
            "(--force)"
        )
    if output.exists():
        raise ValueError(
            f"{str(output)!r} already exists; choose another name, or replace it with overwrite=True (--force)"
        )


def _loop(run: Run, progress: bool, callback: Callable[[Report], object] | None, resume_command: str | None) -> Report:
    """Train until the budget is used up."""
    report, rounds = run.report, run.settings.rounds
    wrapped = run.processes.wrap(run.network)
    spent = run.budget.spent(report)
    if not report.batches:
        run.save()  # also shows now, not in a minute, if a file cannot be written
    last_saved = clock = time.monotonic()
    with Interrupt() as interrupt, progress_bar(progress and run.processes.first) as show:
        while not report.finished:
            run.step(wrapped, run.settings.rate(spent))
            now = time.monotonic()
            report.seconds, clock = report.seconds + now - clock, now
            before = spent
            spent, stop, old = run.processes.agree(
                run.budget.spent(report), interrupt.asked, now - last_saved > CHECKPOINT_SECONDS
            )
            due = spent >= 1.0 or int(spent * rounds) > int(before * rounds)
            regular = due or report.batches % LOOK_EVERY == 0
            if regular or stop or old:
                run.look(regular)
                show(spent, report)
            if due:
                report.finished = spent >= 1.0
                run.validate()
                if callback is not None and run.processes.first:
                    callback(report)
            if due or stop or old:
                run.save()
                last_saved = now
            if stop and not report.finished:
                run.leave(run.candidate.state_dict())
                raise InterruptedTraining(run.how_to_resume(resume_command))
    run.leave(run.best_weights)
    _, stop = run.processes.agree(spent, interrupt.asked)
    if stop:  # too late for this run, but not for the caller's next step
        raise InterruptedTraining(run.how_to_resume(resume_command))
    return report
