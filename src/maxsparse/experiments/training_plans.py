"""How the networks of all experiments are trained, one plan per preset, so that experiments share networks.

A plan holds the size of the dictionary, the range of sparsities, a recipe of ``maxsparse.training.PRESETS`` with
changes, and for every kind of network its hyperparameters and the number of training signals. Entries under
``"methods"`` replace those of the kind of network, for one kind of amplitudes where the name says so
(``"residual, uniform"``); ``"changes"`` of all three are merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxsparse.experiments.recipes import Recipe

__all__ = ["NETWORK_METHODS", "PLANS", "Training"]

PLANS: dict[str, dict[str, Any]] = {
    "smoke": {
        "preset": "modern",
        "changes": {"batch_size": 32, "rounds": 1},
        "networks": {
            "residual": {"samples": 96, "hyperparameters": {"depth": 4, "width": 16}},
            "ista_net": {"samples": 96, "hyperparameters": {"depth": 4}},
            "iht_net": {"samples": 96, "hyperparameters": {"depth": 4}},
            "lstm": {"samples": 96, "hyperparameters": {"hidden": 8, "steps": 3}},
        },
    },
    # Numbers of signals that take each network about a minute of one core. The residual network is wider and
    # flatter than the paper's, and whitens its input: both learn faster.
    "laptop": {
        "preset": "modern",
        "changes": {"rounds": 5},
        "networks": {
            "residual": {"samples": 500_000, "hyperparameters": {"depth": 8, "width": 400}},
            "ista_net": {"samples": 750_000, "hyperparameters": {}},
            "iht_net": {"samples": 500_000, "hyperparameters": {}},
            "lstm": {"samples": 200_000, "hyperparameters": {"hidden": 128}},
        },
    },
    # As deep as the paper's: 20 layers, and the follow-up's LSTM of 425 units and 11 steps. One dictionary, d uniform
    # on 1..10, every signal once; hidden layers of the residual network and the recurrent products of the LSTM in half
    # precision, which learn the same.
    "day": {
        "preset": "modern",
        "changes": {},
        "networks": {
            "residual": {"samples": 15_000_000, "hyperparameters": {}, "changes": {"precision": "bfloat16"}},
            "ista_net": {"samples": 8_000_000, "hyperparameters": {}},
            "iht_net": {"samples": 8_000_000, "hyperparameters": {}},
            "lstm": {"samples": 4_000_000, "hyperparameters": {"hidden": 425}, "changes": {"precision": "bfloat16"}},
        },
        "methods": {
            # In batches of 256 the network never learned one atom where its coefficient is negative: d = 2 had .995.
            "residual, uniform": {"changes": {"batch_size": 1024, "learning_rate": 1.2e-2}},
            "residual-raw": {"samples": 8_000_000},
            # At the preset's rate of 3e-3 it loses what it starts as, whitened IHT, and recovers less.
            "iht-net-whitened": {"changes": {"learning_rate": 3e-4}},
        },
    },
    # The same depth and width with 600,000 signals each, for comparisons of one network with another of its kind.
    "day, short": {
        "preset": "modern",
        "changes": {"rounds": 4},
        "networks": {
            "residual": {"samples": 600_000, "hyperparameters": {}, "changes": {"precision": "bfloat16"}},
            "lstm": {"samples": 600_000, "hyperparameters": {"hidden": 425}, "changes": {"precision": "bfloat16"}},
        },
        # HELU's ramps multiply rounding errors by 1/σ in every layer, so half precision would not be fair to it.
        "methods": {"residual-helu": {"changes": {"precision": "float32"}}},
    },
    # 150 epochs of 600,000 signals, one network per sparsity, raw input, as in the paper.
    "paper": {
        "preset": "paper",
        "changes": {},
        "one_per_sparsity": True,
        "set_size": 600_000,
        "networks": {
            "residual": {"samples": 90_000_000, "hyperparameters": {"whiten": False}},
            "ista_net": {"samples": 90_000_000, "hyperparameters": {}},
            # Under the paper's own settings the loss of these two becomes NaN within the first epoch; clipping the
            # gradient is the smallest change with which it does not.
            "iht_net": {"samples": 90_000_000, "hyperparameters": {}, "changes": {"clip": 1.0}},
            "lstm": {"samples": 90_000_000, "hyperparameters": {"whiten": False}},
        },
        "methods": {"residual-squares": {"changes": {"clip": 1.0}}},
    },
}

# name of the method: network, what differs from the plan, loss
NETWORK_METHODS: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "residual": ("residual", {}, None),
    "residual-raw": ("residual", {"whiten": False}, None),
    "residual-plain": ("residual", {"residual": False}, None),
    "residual-helu": ("residual", {"activation": "helu"}, None),
    "residual-squares": ("residual", {}, "least_squares"),
    "ista-net": ("ista_net", {}, None),
    "iht-net": ("iht_net", {}, None),
    "ista-net-whitened": ("ista_net", {"whiten": True}, None),
    # Whitened signals need a higher first threshold: .001 leaves every layer linear.
    "iht-net-whitened": ("iht_net", {"whiten": True, "theta": 0.012}, None),
    "lstm": ("lstm", {}, None),
    "gru": ("lstm", {"cell": "gru"}, None),
    "lstm-feedback": ("lstm", {"feedback": True}, None),
    "gru-feedback": ("lstm", {"cell": "gru", "feedback": True}, None),
}


@dataclass(frozen=True)
class Training:
    """Training of the networks of a problem.

    Attributes
    ----------
    plan : dict
        One of :data:`PLANS`.
    n, m, seed : int
        The dictionary is ``decaying(n, m, rng=seed)``.
    sparsity : int
        Number of nonzeros of the test signals, for plans with one network per sparsity.
    sparsities : (int, int)
        Range of the numbers of nonzeros, for all other plans.
    amplitudes : str
    share : float
        Number of different training signals, relative to the plan. Below 1 they are repeated more often, for the same
        number of steps; above 1 the number of steps grows with them.
    """

    plan: dict[str, Any]
    n: int
    m: int
    seed: int
    sparsity: int
    sparsities: tuple[int, int]
    amplitudes: str = "uniform"
    share: float = 1.0

    def recipe(self, method: str) -> Recipe:
        """Return how the network of a method is trained; a method that is not listed is a network of that name."""
        network, differences, loss = NETWORK_METHODS.get(method, (method, {}, None))
        # A network from outside sees as many signals as the residual network, in the size that it has by default.
        residual = self.plan["networks"]["residual"]
        usual = self.plan["networks"].get(network, {"samples": residual["samples"], "hyperparameters": {}})
        methods = self.plan.get("methods", {})
        own = methods.get(f"{method}, {self.amplitudes}", methods.get(method, {}))
        details = {**usual, **own}
        changes = {**self.plan["changes"], **usual.get("changes", {}), **own.get("changes", {})}
        samples, size = details["samples"], self.plan.get("set_size")
        if self.share != 1.0:
            size = round(self.share * (samples if size is None else size))
            samples = round(samples * max(1.0, self.share))
        alone = (self.sparsity, self.sparsity)
        return Recipe(
            network=network,
            n=self.n,
            m=self.m,
            seed=self.seed,
            samples=samples,
            amplitudes=self.amplitudes,
            sparsity=alone if self.plan.get("one_per_sparsity") else self.sparsities,
            set_size=size,
            loss=loss,
            preset=self.plan["preset"],
            hyperparameters={**details["hyperparameters"], **differences},
            changes=changes,
        )
