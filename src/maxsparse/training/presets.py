"""Training settings: those of the paper, of its follow-up, and faster ones."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from maxsparse._core.validation import check_choice, check_integer, check_number
from maxsparse.networks import find

__all__ = ["PRESETS", "Settings", "preset_for"]

OPTIMISERS = ("adamw", "sgd", "rmsprop")
SCHEDULES = ("cosine", "steps", "constant", "hold")
PRECISIONS = ("float32", "bfloat16")
LARGEST_BATCH = 10**6  # signals; more would take minutes and gigabytes before the first step
FALL = 1 / 3  # share of the budget over which "hold" decays


@dataclass(frozen=True)
class Settings:
    """Everything about the optimisation, as plain JSON.

    Attributes
    ----------
    optimiser : {"adamw", "sgd", "rmsprop"}
    learning_rate : float
        Its maximum.
    weight_decay : float
        On matrices only, except for ``sgd``, which decays everything, as in the paper.
    momentum : float
        For ``sgd``; the first moment's decay for ``adamw``.
    batch_size : int
        Signals per step, over all processes together.
    schedule : {"cosine", "steps", "constant", "hold"}
        ``"cosine"`` decays to zero; ``"hold"`` is constant, and decays linearly over the last third; ``"steps"`` is
        reduced by 90 % after each third of the budget, the paper's 50 of 150 epochs.
    warmup : float
        Share of the budget for the warm-up, in every schedule.
    clip : float or None
        Largest norm of the gradient. On the CPU a step whose gradient norm is not finite is skipped.
    ema : float
        Decay of the exponential moving average of the weights that is validated and kept; 0 for none.
    rounds : int
        Validations in a run, evenly spaced.
    samples : int or None
        Default budget.
    set_size : int or None
        Size of the fixed training set; None for an infinite stream. Used by :func:`fit` to create the task; ignored by
        :func:`train`.
    precision : {"float32", "bfloat16"}
        ``"bfloat16"`` trains the hidden layers of ``residual`` and the recurrent products of ``lstm`` in half
        precision, which is faster on processors that support it. The first and the last layer, states, weights and the
        optimiser stay in float32, and so does the trained network. Other networks ignore it.
    """

    optimiser: str = "adamw"
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    momentum: float = 0.9
    batch_size: int = 256
    schedule: str = "cosine"
    warmup: float = 0.05
    clip: float | None = 1.0
    ema: float = 0.0
    rounds: int = 20
    samples: int | None = None
    set_size: int | None = None
    precision: str = "float32"

    def __post_init__(self) -> None:
        check_choice(self.optimiser, "optimiser", OPTIMISERS)
        check_choice(self.schedule, "schedule", SCHEDULES)
        check_choice(self.precision, "precision", PRECISIONS)
        check_number(self.learning_rate, "learning_rate", low=0.0)
        check_number(self.weight_decay, "weight_decay", low=0.0)
        check_number(self.momentum, "momentum", low=0.0, high=1.0)
        check_number(self.warmup, "warmup", low=0.0, high=1.0)
        if check_number(self.ema, "ema", low=0.0, high=1.0) == 1.0:
            raise ValueError("ema must be below 1, got 1.0: the average would never change; use 0 for none")
        if self.clip is not None and check_number(self.clip, "clip", low=0.0) == 0.0:
            raise ValueError("clip must be above 0, got 0.0: no weight would change; use None for no limit")
        check_integer(self.batch_size, "batch_size", low=2, high=LARGEST_BATCH)
        check_integer(self.rounds, "rounds", low=1)
        for name in ("samples", "set_size"):
            if getattr(self, name) is not None:
                check_integer(getattr(self, name), name, low=1)

    def but(self, **changes: Any) -> Settings:
        """Return the same settings with some changes; None keeps a value."""
        return replace(self, **{key: value for key, value in changes.items() if value is not None})

    def to_json(self) -> dict[str, Any]:
        """Return them as a dict."""
        values = asdict(self)
        if self.precision == "float32":
            del values["precision"]  # checkpoints without this setting must still resume
        return values

    def rate(self, progress: float) -> float:
        """Return the learning rate at a share `progress` of the budget."""
        if progress < self.warmup:
            return self.learning_rate * max(progress, 1e-3 * self.warmup) / self.warmup
        if self.schedule == "steps":
            return self.learning_rate * 0.1 ** min(int(3.0 * progress), 2)
        if self.schedule == "constant":
            return self.learning_rate
        if self.schedule == "hold":
            return self.learning_rate * min(1.0, max(0.0, 1.0 - progress) / FALL)
        return self.learning_rate * 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0)))

    def make_optimiser(self, network: nn.Module) -> torch.optim.Optimizer:
        """Return the optimiser for the network's parameters."""
        parameters = [p for p in network.parameters() if p.requires_grad]
        if self.optimiser == "sgd":
            return torch.optim.SGD(
                parameters, lr=self.learning_rate, momentum=self.momentum, weight_decay=self.weight_decay, fused=True
            )
        groups = [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": self.weight_decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        if self.optimiser == "rmsprop":
            return torch.optim.RMSprop(groups, lr=self.learning_rate)
        return torch.optim.AdamW(groups, lr=self.learning_rate, betas=(self.momentum, 0.999), fused=True)


def preset_for(network: str, preset: str = "modern") -> Settings:
    """Return a preset for a network: ``"modern"`` uses the learning rate of the network's class.

    Parameters
    ----------
    network : str
        A name in ``maxsparse.networks.NETWORKS``.
    preset : str, default="modern"
        A name in ``PRESETS``.

    Returns
    -------
    settings : Settings

    Examples
    --------
    >>> from maxsparse import training
    >>> training.preset_for("residual").learning_rate, training.preset_for("ista_net").learning_rate
    (0.006, 0.001)
    """
    made = find(network)
    settings = PRESETS[check_choice(preset, "settings", tuple(PRESETS))]
    return settings.but(learning_rate=made.learning_rate) if preset == "modern" else settings


PRESETS: dict[str, Settings] = {
    "paper": Settings(
        optimiser="sgd",
        learning_rate=0.01,
        weight_decay=1e-4,
        momentum=0.9,
        batch_size=250,
        schedule="steps",
        warmup=0.0,
        clip=None,
        rounds=150,
        samples=150 * 600_000,
        set_size=600_000,
    ),
    "modern": Settings(),
    "follow-up": Settings(
        optimiser="rmsprop",
        learning_rate=1e-3,
        weight_decay=0.0,
        batch_size=250,
        schedule="constant",
        warmup=0.0,
        clip=None,
    ),
}
