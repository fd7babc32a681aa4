"""Losses: classification of the support, or regression of the coefficients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["LOSSES", "OUTPUT_FOR", "least_squares", "sigmoid", "softmax"]


def softmax(outputs: Tensor, X: Tensor) -> Tensor:
    r"""Softmax multi-label loss, mean over the rows.

    .. math:: -\sum_{j \in \mathrm{supp}(x^*)} \log \mathrm{softmax}(a)_j

    Its smallest value is d ln d, for equal scores on the support and −∞ elsewhere.

    Parameters
    ----------
    outputs : Tensor of shape (B, m)
        Logits a.
    X : Tensor of shape (B, m)
        True signals x*.
    """
    support = (X != 0).to(outputs.dtype)
    # Σ_S (logsumexp − a_j) without an array of log-probabilities.
    return (torch.logsumexp(outputs, 1) * support.sum(1) - (outputs * support).sum(1)).mean()


def sigmoid(outputs: Tensor, X: Tensor) -> Tensor:
    r"""Separate logistic loss per atom, summed over atoms, mean over the rows.

    .. math:: \sum_j \log(1 + e^{a_j}) - s^*_j a_j

    Parameters
    ----------
    outputs : Tensor of shape (B, m)
        Logits a.
    X : Tensor of shape (B, m)
        True signals; s* is 1 where they are not zero.
    """
    support = (X != 0).to(outputs.dtype)
    total = torch.nn.functional.binary_cross_entropy_with_logits(outputs, support, reduction="sum")
    return total / len(outputs)


def least_squares(outputs: Tensor, X: Tensor) -> Tensor:
    r"""Squared error :math:`\|a - x^*\|_2^2`, mean over the rows.

    Parameters
    ----------
    outputs : Tensor of shape (B, m)
        Estimates a of the signals.
    X : Tensor of shape (B, m)
        True signals x*.
    """
    return (outputs - X).square().sum(1).mean()


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "softmax": softmax,
    "sigmoid": sigmoid,
    "least_squares": least_squares,
}
# The `output` that a network must have for each loss.
OUTPUT_FOR = {"softmax": "logits", "sigmoid": "logits", "least_squares": "estimate"}
