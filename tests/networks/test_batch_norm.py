"""Batch normalisation folded into the layer before it."""

import torch
from torch import nn

from maxsparse.networks.batch_norm import BatchNorm, fold


def test_fold_is_the_two_layers():
    torch.manual_seed(0)
    for bias in (True, False):
        linear, norm = nn.Linear(6, 4, bias=bias), BatchNorm(4)
        with torch.no_grad():
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.normal_()
        for _ in range(5):
            norm(linear(torch.randn(50, 6)) * 3 + 1)
        norm.eval()
        x = torch.randn(20, 6)
        weight, shift = fold(linear, norm)
        torch.testing.assert_close(x @ weight.T + shift, norm(linear(x)), atol=1e-5, rtol=1e-5)
