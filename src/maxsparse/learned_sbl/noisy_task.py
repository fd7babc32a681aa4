"""The task of the network for noisy signals: which atoms are in the support, at any signal-to-noise ratio."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxsparse._core.extras import needs

with needs("training"):
    import torch
    from torch import Tensor, nn

from maxsparse import dictionaries
from maxsparse._core.validation import RandomState
from maxsparse.learned_sbl.draw import draw_amplitudes, draw_dictionary
from maxsparse.learned_sbl.tasks import DictionariesTask, Inputs, draw_signals, signals_per_batch

__all__ = ["NoisySignalsTask"]

LARGEST = {40: 0.87, 100: 0.12, 300: 0.01}  # rows at most, and share of the batches: a step costs n²m
ATOMS_PER_ROW = 5
LARGE_BATCH = 12  # signals of a dictionary with more than 100 rows
DECIBELS = (0.0, 80.0)
NOISELESS_SHARE = 0.05
NORMAL_SHARE = 0.3


class NoisySignalsTask(DictionariesTask):
    """Learn the support of x* from noisy signals of many dictionaries, of up to 300 rows.

    Signal-to-noise ratios are uniform between 0 and 80 dB, and a few batches have no noise; among the amplitudes are
    normal ones, of which the smallest cannot be found. The number of nonzeros goes up to what the noise permits.

    Parameters
    ----------
    validation_signals : int, default=200
        Signals of every validation problem.
    rng : int, numpy.random.Generator or None, default=None
        Seed of dictionaries and signals.
    """

    def __init__(self, *, validation_signals: int = 200, rng: RandomState = None) -> None:
        super().__init__(noisy_share=1.0 - NOISELESS_SHARE, validation_signals=validation_signals, rng=rng)
        self.settings |= {"task": "noisy signals", "normal_share": NORMAL_SHARE, "decibels": list(DECIBELS)}

    def draw(self, number: int, size: int) -> tuple[Inputs, Tensor]:
        """Draw a whole batch, of at most `size` signals."""
        rng = np.random.default_rng([self.seed, number])
        largest = int(rng.choice(list(LARGEST), p=list(LARGEST.values())))
        Phi = draw_dictionary(rng, largest, ATOMS_PER_ROW * largest)
        n, m = Phi.shape
        B = min(size, signals_per_batch(m), LARGE_BATCH if n > 100 else size)
        decibels = None if rng.random() < NOISELESS_SHARE else rng.uniform(*DECIBELS)
        return draw_signals(Phi, B, _sizes(n, m, decibels), draw_amplitudes(rng, NORMAL_SHARE), decibels, rng)

    def validate(self, network: nn.Module) -> dict[str, Any]:
        """Return the cross-entropy per measurement on validation problems; ``score`` is minus its mean."""
        names, entropy = [], []
        for kind, n, m, d, decibels, law in VALIDATION:
            Phi = getattr(dictionaries, kind)(n, m, rng=10**6)
            rng = np.random.default_rng([10**6, d])
            inputs, support = draw_signals(Phi, self.validation_signals, (d, d), law, decibels, rng)
            logits = network(*inputs)[-1]
            if not torch.isfinite(logits).all():
                raise FloatingPointError("scores became NaN or infinite")
            loss = nn.functional.binary_cross_entropy_with_logits(logits, support, reduction="sum")
            names.append(f"{kind} {n}x{m} d={d}, {decibels:g} dB, {law}")
            entropy.append(loss.item() / (len(support) * n))
        return {"score": -float(np.mean(entropy)), "problems": names, "cross_entropy": entropy}


VALIDATION = [
    ("gaussian", 20, 100, 5, 20.0, "uniform"),
    ("gaussian", 20, 100, 7, 30.0, "uniform"),
    ("gaussian", 20, 100, 8, 40.0, "uniform"),
    ("decaying", 20, 100, 3, 40.0, "uniform"),
    ("decaying", 20, 100, 5, 60.0, "uniform"),
    ("decaying", 20, 100, 7, 80.0, "uniform"),
    ("low_rank_plus", 20, 100, 4, 40.0, "gaussian"),
    ("gaussian", 40, 80, 12, 10.0, "unit"),
    ("gaussian", 64, 256, 20, 30.0, "uniform"),
]


def _sizes(n: int, m: int, decibels: float | None) -> tuple[int, int]:
    """Return the fewest and most nonzeros of a batch: from a single one to beyond the phase transition."""
    rank = min(n, m)
    high = min(0.75, 0.5 + 0.25 * n / m) * rank
    if decibels is None:
        return max(1, round(0.15 * rank)), min(m, max(2, round(high)))
    high *= 0.3 + 0.6 * decibels / DECIBELS[1]
    low = max(1, round(0.05 * rank))
    return low, min(m, max(low + 1, round(high)))
