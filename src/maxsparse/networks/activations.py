"""Thresholding functions of sparse algorithms as activations, with their gradients.

>>> import torch
>>> helu(torch.tensor([-2.0, -0.5, 0.9, 1.5]), 0.2)
tensor([-2.0000, -0.0000,  0.5000,  1.5000])
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from maxsparse._core.validation import check_number

__all__ = ["HELU", "helu", "soft_threshold"]


def soft_threshold(x: Tensor, theta: Tensor) -> Tensor:
    r"""Shrink towards zero: :math:`\mathrm{sign}(x)\max(|x| - \theta, 0)`, differentiable in both.

    Parameters
    ----------
    x : Tensor of shape (…, m)
    theta : Tensor of shape (m,) or (), not negative
    """
    return x - torch.clamp(x, -theta, theta)


def helu(x: Tensor, sigma: float) -> Tensor:
    r"""Continuous, piecewise linear hard threshold at 1 (HELU_σ).

    .. math::

        \mathrm{HELU}_\sigma(x) = \begin{cases}
        0 & |x| \le 1 - \sigma \\
        \mathrm{sign}(x)\,(|x| - 1 + \sigma)/\sigma & 1 - \sigma < |x| < 1 \\
        x & |x| \ge 1
        \end{cases}

    Parameters
    ----------
    x : Tensor
    sigma : float
        Width of the ramp, in (0, 1].

    Notes
    -----
    For σ → 0 it becomes the hard threshold of IHT [1]_. The paper prints :math:`u_i` in the last case; x is meant.

    References
    ----------
    .. [1] Z. Wang, Q. Ling, T. Huang, "Learning deep ℓ0 encoders", AAAI 2016.
    """
    if torch.compiler.is_exporting():  # formats without copysign
        return torch.sign(x) * torch.minimum(x.abs(), ((x.abs() - 1.0 + sigma) / sigma).clamp(min=0.0))
    result: Tensor = _HELU.apply(x, sigma)
    return result


class HELU(nn.Module):
    """:func:`helu` as a module."""

    def __init__(self, sigma: float = 0.2) -> None:
        super().__init__()
        self.sigma = check_number(sigma, "sigma", low=1e-6, high=1.0)

    def forward(self, x: Tensor) -> Tensor:
        """Apply it elementwise."""
        return helu(x, self.sigma)


class _HELU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, sigma: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.sigma = sigma
        # The ramp is above |x| exactly where |x| > 1.
        magnitude = x.abs()
        ramp = magnitude.sub(1.0 - sigma).mul_(1.0 / sigma).clamp_(min=0.0)
        return torch.minimum(magnitude, ramp, out=magnitude).copysign_(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        magnitude = x.abs()
        slope = torch.where(magnitude < 1.0, 1.0 / ctx.sigma, 1.0).to(gradient.dtype)
        slope.masked_fill_(magnitude <= 1.0 - ctx.sigma, 0.0)
        return slope.mul_(gradient), None
