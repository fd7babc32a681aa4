"""One process or many: which process generates which rows, and how all of them make the same decisions."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor, distributed, nn

from maxsparse._core.validation import check_integer

__all__ = ["Processes", "ReproducibilityWarning", "pick_device", "share"]

LEAVING_SECONDS = 5  # that a process waits for the others before it leaves


class ReproducibilityWarning(UserWarning):
    """The result of a resumed run will not be bitwise identical to that of an uninterrupted one."""


def pick_device(device: str) -> torch.device:
    """Return the device of that name; ``"auto"`` is CUDA if available, else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        one = torch.ones((), device=device)
        one.item()  # fails on "meta", which holds no numbers
        return one.device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = str(error).splitlines()[0].split(". ")[0]  # torch's message is very long
        raise ValueError(f"device {device!r} cannot be used: {why}") from error


@dataclass(frozen=True)
class Processes:
    """The processes that torchrun started, or only this one.

    Attributes
    ----------
    device : torch.device
        Device of this process.
    rank, count : int
        Index of this process, and number of processes.
    """

    device: torch.device
    rank: int = 0
    count: int = 1

    @classmethod
    @contextmanager
    def join(cls, device: str, n_threads: int | None) -> Iterator[Processes]:
        """Join the other processes if torchrun set its variables; use `n_threads` threads meanwhile.

        A process that joined stays joined: torchrun's rendezvous cannot be used twice.
        """
        picked = pick_device(device)
        with _threads(n_threads):
            if int(os.environ.get("WORLD_SIZE", "1")) == 1:
                yield cls(picked)
                return
            if picked.type == "cuda":
                picked = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
                torch.cuda.set_device(picked)
            if not distributed.is_initialized():
                # Default arguments in this module hold the group that exists when it is imported, and DDP imports it.
                importlib.import_module("torch.distributed.nn.functional")
                distributed.init_process_group("nccl" if picked.type == "cuda" else "gloo")
                atexit.register(_part)
            yield cls(picked, distributed.get_rank(), distributed.get_world_size())

    @property
    def first(self) -> bool:
        """Whether this is the process that validates and writes."""
        return self.rank == 0

    @property
    def counts(self) -> dict[str, int]:
        """Numbers that rounding depends on: threads per process, and processes."""
        return {"threads": torch.get_num_threads(), "processes": self.count}

    def compare(self, counts: Mapping[str, int]) -> None:
        """Warn if a run is resumed with other counts; counts missing in the checkpoint are not compared."""
        for name, now in self.counts.items():
            before = counts.get(name, now)
            if before != now and self.first:
                warnings.warn(
                    f"the number of {name} was {before} when the run stopped, and is {now} now: the result will not be "
                    "bitwise identical to that of an uninterrupted run",
                    ReproducibilityWarning,
                    stacklevel=4,
                )

    def rows(self, batch_size: int) -> slice:
        """Return this process's rows of a batch; all get equally many, so that the mean of means is the mean."""
        if batch_size % self.count:
            raise ValueError(
                f"a batch of {batch_size} signals cannot be divided among {self.count} processes; change the batch size"
            )
        part = batch_size // self.count
        return slice(self.rank * part, (self.rank + 1) * part)

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return the network such that backward() averages gradients over the processes."""
        if self.count == 1:
            return network
        devices = [self.device] if self.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(network, device_ids=devices)

    def agree(self, value: float, *flags: bool) -> tuple[Any, ...]:
        """Return, in every process, the value of the first one, and for each flag whether any process set it."""
        if self.count == 1:
            return (value, *flags)
        # One exchange for both: the sum of the value and zeros is the value, also for NaN and infinity.
        own = [value if self.first else 0.0, *map(float, flags)]
        shared = torch.tensor(own, dtype=torch.float64, device=self.device)
        distributed.all_reduce(shared)
        value, *counts = shared.tolist()
        return (value, *(count > 0 for count in counts))

    def mean(self, value: Tensor) -> float:
        """Return the mean of a scalar over the processes."""
        if self.count > 1:
            value = value.clone()
            distributed.all_reduce(value)
        return value.item() / self.count


def share(made: int, size: int, rows: slice) -> slice:
    """Return the part of the `made` rows of a batch for a process that was asked for `rows` of `size`.

    All processes get equally many, as in :meth:`Processes.rows`.
    """
    part = rows.stop - rows.start
    own = made * part // size
    if not own:
        raise ValueError(
            f"a batch of {made} signals cannot be divided among {size // part} processes; start fewer processes"
        )
    return slice(rows.start // part * own, (rows.start // part + 1) * own)


def _part() -> None:
    """Leave the process group, if the caller has not done so; together, or threads of the others would end abruptly.

    The threads of gloo end when nothing refers to the group any more. They must not outlive the interpreter: one that
    still holds a tensor would abort the process.
    """
    if distributed.is_initialized() and distributed.get_backend() == "gloo":
        with suppress(RuntimeError):  # another process has ended already
            distributed.monitored_barrier(timeout=timedelta(seconds=LEAVING_SECONDS))
    if distributed.is_initialized():
        distributed.destroy_process_group()
    gc.collect()


@contextmanager
def _threads(n_threads: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    if n_threads is not None:
        torch.set_num_threads(check_integer(n_threads, "n_threads", low=1))
    try:
        # Generating data needs no numpy threads, and waiting ones take cores from torch.
        with ThreadpoolController().select(internal_api="openblas").limit(limits=1):
            yield
    finally:
        torch.set_num_threads(before)
