"""Batch normalisation with statistics of the whole batch, also if processes share it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["BatchNorm", "fold"]


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation of (B, width); under torch.distributed every process has an equal part of the batch.

    torch's SyncBatchNorm does this on GPUs only.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalise every column by its mean and variance over the batch."""
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        if not self.training or not distributed or torch.distributed.get_world_size() == 1:
            return super().forward(x)
        parts = torch.distributed.get_world_size()
        mean = _SumOverProcesses.apply(x.mean(0)) / parts
        centred = x - mean
        variance = _SumOverProcesses.apply(centred.square().mean(0)) / parts
        with torch.no_grad():
            count = parts * len(x)
            self.num_batches_tracked.add_(1)  # type: ignore[union-attr]
            self.running_mean.lerp_(mean, self.momentum)  # type: ignore[union-attr, arg-type]
            self.running_var.lerp_(variance * (count / (count - 1)), self.momentum)  # type: ignore[union-attr, arg-type]
        normalised: Tensor = centred * torch.rsqrt(variance + self.eps) * self.weight + self.bias
        return normalised


class _SumOverProcesses(torch.autograd.Function):
    """Sum of a tensor over all processes; its gradient is the sum of the gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        total = gradient.clone()
        torch.distributed.all_reduce(total)
        return total


def fold(linear: nn.Linear, norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    """Return weight and bias of the one linear layer that equals `norm` after `linear` in evaluation mode."""
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None and variance is not None  # noqa: PT018  # BatchNorm always tracks them
    gain = (norm.weight.double() / torch.sqrt(variance.double() + norm.eps)).detach()
    bias = torch.zeros_like(mean) if linear.bias is None else linear.bias.detach()
    folded = linear.weight.detach().double() * gain[:, None]
    return folded.to(linear.weight.dtype), (norm.bias.detach() + gain * (bias - mean)).to(linear.weight.dtype)
