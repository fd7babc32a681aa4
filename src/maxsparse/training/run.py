"""One training run: its state and operations."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from maxsparse._core.modelfile import part, plain_number
from maxsparse.networks import Network, save
from maxsparse.training.budget import Budget, Report
from maxsparse.training.checkpoint import (
    checkpoint_path,
    read_checkpoint,
    restore_generators,
    restore_optimiser,
    write_checkpoint,
)
from maxsparse.training.presets import Settings
from maxsparse.training.processes import Processes

__all__ = ["DivergenceError", "Run", "Task"]

DIVERGED = 100.0  # a mean loss this many times the first one counts as divergence
HARMLESS = 1.0  # unless it is below this: with few atoms, a network may start at a loss of zero
PRECISION = {"float32": torch.float32, "bfloat16": torch.bfloat16}
MOST_SKIPPED = 100  # steps in a row whose gradient is not finite


class Task(Protocol):
    """Training data and loss; the docstring of ``maxsparse.training`` describes each member."""

    settings: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    def batch(self, number: int, size: int, rows: slice, device: torch.device) -> tuple[Any, Any]:
        """Return (inputs, targets) of some rows of batch `number`."""

    def loss(self, network: nn.Module, inputs: Any, targets: Any) -> Tensor:
        """Return the mean loss over the rows."""

    def validate(self, network: Any) -> dict[str, Any]:
        """Return the accuracy of the network; the key "score" decides."""


class DivergenceError(RuntimeError):
    """The loss or the gradients became NaN, infinite or far too large.

    Attributes
    ----------
    reason : str
        The reason, in a few words.
    samples : int
        Signals seen so far.
    """

    def __init__(self, message: str, reason: str = "", samples: int = 0) -> None:
        super().__init__(message)
        self.reason, self.samples = reason, samples


class Run:
    """The state of a training run: step, validate, save, restore."""

    def __init__(
        self,
        network: Network,
        task: Task,
        settings: Settings,
        budget: Budget,
        processes: Processes,
        output: Path | None,
    ) -> None:
        self.network, self.task, self.settings, self.budget = network.to(processes.device), task, settings, budget
        self.processes, self.output = processes, output
        self.rows = processes.rows(settings.batch_size)
        self.optimiser = settings.make_optimiser(network)
        self.average: AveragedModel | None = None
        if settings.ema > 0:
            self.average = AveragedModel(network, multi_avg_fn=moving_average(settings.ema), use_buffers=True)
        self.report = Report()
        self.losses = torch.zeros((), dtype=torch.float64, device=processes.device)  # summed since the last validation
        self.n_losses, self.first_loss = 0, math.inf
        self.skipped_in_a_row = 0
        self.good_weights = self.best_weights = copy.deepcopy(network.state_dict())

    @property
    def candidate(self) -> nn.Module:
        """The network that is validated and saved: with averaged weights, if the settings have an average."""
        return self.network if self.average is None else self.average.module

    def step(self, wrapped: nn.Module, rate: float) -> None:
        """Take one step of the optimiser."""
        self.network.train()
        self.network.training_precision = PRECISION[self.settings.precision]
        size = self.settings.batch_size
        inputs, targets = self.task.batch(self.report.batches, size, self.rows, self.processes.device)
        loss = self.task.loss(wrapped, inputs, targets)
        self.optimiser.zero_grad()
        loss.backward()
        finite = True
        if self.settings.clip is not None:
            norm = nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.clip)
            # On a GPU the norm is not checked, because every step would wait for it; a NaN shows in the next loss.
            finite = norm.device.type != "cpu" or math.isfinite(norm.item())
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        if finite:
            self.optimiser.step()
            self.skipped_in_a_row = 0
        else:
            self.skip()
        if self.average is not None:
            self.average.update_parameters(self.network)
        self.losses += loss.detach()
        self.n_losses += 1
        self.report.batches += 1
        self.report.samples += size

    def skip(self) -> None:
        """Count a skipped step; gradients are shared, so all processes skip the same steps."""
        self.report.skipped += 1
        self.skipped_in_a_row += 1
        if self.skipped_in_a_row == MOST_SKIPPED:
            self.diverged(f"the gradient was not finite {MOST_SKIPPED} times in a row")

    def look(self, regular: bool) -> None:
        """Read the loss; on divergence, restore the last good weights and raise DivergenceError.

        Checks due to an interruption or the clock are irregular and must not change the result of a run, so they
        neither set the first loss nor compare with it.
        """
        loss = self.processes.mean(self.losses) / self.n_losses
        if regular and not math.isfinite(self.first_loss):
            self.first_loss = loss
        too_large = regular and loss > max(HARMLESS, DIVERGED * abs(self.first_loss))
        if too_large or not math.isfinite(loss):
            self.diverged(f"the loss became {loss:.4g}")
        self.report.loss = loss

    def diverged(self, what: str) -> NoReturn:
        """Restore the last good weights, save them if there are no better ones, and raise DivergenceError."""
        self.leave(self.good_weights)
        kept = first = ""
        if self.output is not None:
            if not self.report.best and self.processes.first:
                self.save_model(self.output, self.good_weights)
            kept = f", and {str(self.output)!r} the best so far" if self.report.best else f", also {str(self.output)!r}"
            first = ", and overwrite=True (--force)"
        raise DivergenceError(
            f"training diverged: {what} after {self.report.samples:,} signals (the loss was initially "
            f"{self.first_loss:.4g}). The network has its last good weights{kept}. Try a smaller learning rate than "
            f"{self.settings.learning_rate:g}{first}.",
            what,
            self.report.samples,
        )

    def leave(self, weights: Mapping[str, Tensor]) -> None:
        """Set these weights and evaluation mode."""
        self.network.load_state_dict(weights)
        self.network.eval()

    def validate(self) -> None:
        """Validate in the first process; every process keeps the weights if they are the best so far."""
        report = self.report
        network = self.candidate
        found: dict[str, Any] = {"score": 0.0}
        failure = ""
        if self.processes.first:
            network.eval()
            try:
                with torch.no_grad():
                    found = self.task.validate(network)
            except FloatingPointError as error:
                failure = str(error) or "validation failed"
        # All processes raise, otherwise the others would wait forever for the first one.
        score, failed = self.processes.agree(float(found["score"]), bool(failure))
        if failed:
            self.diverged(failure or "validation failed in the first process")
        entry = {"samples": report.samples, "loss": report.loss, **found, "score": score}
        report.history.append(entry)
        if not report.best or score > report.best["score"]:
            report.best = entry
            self.best_weights = copy.deepcopy(network.state_dict())
        self.losses, self.n_losses = torch.zeros_like(self.losses), 0

    def save(self) -> None:
        """Keep these weights as the last good ones; the first process writes a checkpoint, or the finished model."""
        weights = self.network.state_dict()
        if not all(torch.isfinite(value).all() for value in weights.values() if value.is_floating_point()):
            self.diverged("a weight became NaN or infinite")
        self.good_weights = copy.deepcopy(weights)
        if self.output is None or not self.processes.first:
            return
        if self.report.best:
            self.save_model(self.output, self.best_weights)
        if self.report.finished:
            checkpoint_path(self.output).unlink(missing_ok=True)
            return
        write_checkpoint(
            checkpoint_path(self.output),
            self.network,
            self.optimiser,
            tensors={
                **{f"best/{key}": value for key, value in self.best_weights.items()},
                **{f"arrays/{key}": torch.from_numpy(value) for key, value in self.task.arrays.items()},
                **({} if self.average is None else {f"average/{k}": v for k, v in self.average.state_dict().items()}),
                "losses": self.losses,
            },
            run={
                **self.identity(),
                **self.processes.counts,
                "report": {**asdict(self.report), "loss": _finite(self.report.loss)},
                "n_losses": self.n_losses,
                "first_loss": _finite(self.first_loss),
                "skipped_in_a_row": self.skipped_in_a_row,
            },
        )

    def save_model(self, path: Path, weights: Mapping[str, Tensor]) -> None:
        """Write a model file with these weights."""
        report = {**asdict(self.report), "loss": _finite(self.report.loss)}
        del report["seconds"]  # one seed gives one file, also for an interrupted run
        save(self.network, path, weights=weights, arrays=self.task.arrays, about={**self.identity(), "report": report})

    def identity(self) -> dict[str, Any]:
        """Return the settings that must be the same when a run is resumed, as plain JSON."""
        return {"task": self.task.settings, "settings": self.settings.to_json(), "budget": asdict(self.budget)}

    def restore(self) -> None:
        """Restore the state from the checkpoint."""
        if self.output is None:
            raise ValueError("resume=True needs the output that the run was started with")
        path = checkpoint_path(self.output)
        if not path.is_file():
            raise FileNotFoundError(f"there is no checkpoint {str(path)!r}: the run is finished, or was never started")
        tensors, header = read_checkpoint(path)
        run = header["run"]
        own = {"network": self.network.name, "hyperparameters": self.network.hyperparameters, **self.identity()}
        # Through JSON, like the stored side: tuples become lists.
        for key, value in json.loads(json.dumps(own, default=plain_number)).items():
            stored = run.get(key, header.get(key))
            if stored != value:
                raise ValueError(f"{str(path)!r} belongs to another run: its {key} is {stored}, not {value}")
        arrays = part(tensors, "arrays")
        if arrays.keys() != self.task.arrays.keys():
            stored, wanted = (", ".join(sorted(names)) or "nothing" for names in (arrays, self.task.arrays))
            raise ValueError(f"{str(path)!r} belongs to another run: its arrays are {stored}, not {wanted}")
        for key, array in self.task.arrays.items():
            if not np.array_equal(arrays[key].numpy(), array):
                raise ValueError(f"{str(path)!r} belongs to another run: its {key} differs")
        try:
            self.network.load_state_dict(part(tensors, "weights"))
            self.best_weights = copy.deepcopy(self.network.state_dict())
            for key, value in part(tensors, "best").items():
                self.best_weights[key].copy_(value)
            if self.average is not None:
                self.average.load_state_dict(part(tensors, "average"))
            restore_optimiser(self.optimiser, tensors, header)
            self.losses.copy_(tensors["losses"])
            report = run["report"]
            self.report = Report(**{**report, "loss": _or_infinity(report["loss"])})
            self.n_losses, self.first_loss = int(run["n_losses"]), _or_infinity(run["first_loss"])
            self.skipped_in_a_row = int(run.get("skipped_in_a_row", 0))  # missing in older checkpoints
            counts = {name: int(run[name]) for name in self.processes.counts if name in run}  # these too
            restore_generators(tensors)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise ValueError(f"{str(path)!r} is damaged: {error}") from error
        self.good_weights = copy.deepcopy(self.network.state_dict())
        if self.budget.minutes is None:  # with a budget in minutes, two runs always differ
            self.processes.compare(counts)

    def how_to_resume(self, command: str | None) -> str:
        """Return the position of an interrupted run and how to resume, unless it is finished."""
        done = f"stopped after {self.report.samples:,} signals"
        if self.report.finished:
            what = "the network is trained" if self.output is None else f"{str(self.output)!r} is complete"
            return f"{done}, at the end of the budget; {what}"
        if self.output is None:
            return f"{done}; nothing was saved, because no output was given"
        how = command or f"call train() again with resume=True and output={str(self.output)!r}"
        return f"{done}; saved in {str(checkpoint_path(self.output))!r}. To resume: {how}"


def _finite(loss: float) -> float | None:
    """Return a loss for JSON; before the first one it is infinite."""
    return loss if math.isfinite(loss) else None


def _or_infinity(loss: float | None) -> float:
    return math.inf if loss is None else float(loss)


def moving_average(decay: float) -> Callable[[Any, Any, Any], None]:
    """Return an exponential moving average whose decay grows from 0.1, to forget the initial weights soon."""

    def update(averaged: Any, current: Any, count: Any) -> None:
        weight = 1.0 - min(decay, (1.0 + float(count)) / (10.0 + float(count)))
        for mean, value in zip(averaged, current, strict=True):
            if mean.is_floating_point():
                mean.lerp_(value, weight)
            else:
                mean.copy_(value)

    return update
