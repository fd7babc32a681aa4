"""Base class of ISTA-Net and IHT-Net: an unrolled thresholding iteration with learned matrices."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from maxsparse._core.validation import FloatArray, check_flag, check_integer, check_number
from maxsparse.networks.network import SignalNetwork

__all__ = ["UnrolledNetwork"]


class UnrolledNetwork(SignalNetwork):
    r"""Layers of a thresholding iteration.

    .. math:: x_{t+1} = f_\theta(\Psi x_t + \Gamma y), \qquad x_0 = 0

    Before training it is the algorithm itself: :math:`\Gamma = \Phi^\top / L`, :math:`\Psi = I - \Phi^\top\Phi / L`
    with :math:`L = \|\Phi\|_2^2`. Subclasses implement ``threshold(x, theta)``.

    Parameters
    ----------
    n, m : int
        Measurements and atoms.
    depth : int
        Number of layers.
    tied : bool
        One Ψ, Γ and θ for all layers, or one per layer.
    theta : float
        Initial threshold, in units of x.
    whiten, output
        As for :class:`SignalNetwork`. For logits, magnitudes before the last threshold get a learned gain and offset.
    """

    def __init__(
        self, *, n: int, m: int, depth: int, tied: bool, theta: float, whiten: bool, output: str, **more: float
    ) -> None:
        super().__init__(n=n, m=m, depth=depth, tied=tied, theta=theta, whiten=whiten, output=output, **more)
        self.depth = check_integer(depth, "depth", low=1, high=10_000)
        theta = check_number(theta, "theta", low=1e-12)
        copies = 1 if check_flag(tied, "tied") else self.depth
        self.Gamma = nn.ParameterList(torch.zeros(m, n) for _ in range(copies))
        self.Psi = nn.ParameterList(torch.eye(m) for _ in range(copies))
        # Learned as a logarithm, so that no step can make a threshold negative.
        self.log_theta = nn.ParameterList(torch.full((m,), math.log(theta)) for _ in range(copies))
        if not tied or self.depth == 1:
            # The first layer starts from x = 0 and does not use Ψ; for logits the last one does not use θ. Distributed
            # processes would wait forever for their gradients.
            self.Psi[0].requires_grad_(False)
            self.log_theta[-1].requires_grad_(self.output != "logits")
        self.gain = nn.Parameter(torch.ones(())) if self.output == "logits" else None
        self.offset = nn.Parameter(torch.zeros(())) if self.output == "logits" else None

    def start_weights(self, Phi: FloatArray) -> None:
        """Set Γ, Ψ and θ such that the layers are iterations of the algorithm on this dictionary."""
        L = np.linalg.norm(Phi, 2) ** 2
        Gamma = torch.from_numpy(Phi.T / L)
        Psi = torch.from_numpy(np.eye(self.m) - Phi.T @ Phi / L)
        theta = torch.log(float(self.hyperparameters["theta"]) * self.scale / self.D)  # layers compute s·x/D
        for parameters, value in ((self.Gamma, Gamma), (self.Psi, Psi), (self.log_theta, theta)):
            for parameter in parameters:
                parameter.copy_(value)
        if self.gain is not None:
            self.gain.fill_(10.0)  # amplitudes are a few tenths, useful logits a few units

    def threshold(self, x: Tensor, theta: Tensor) -> Tensor:
        """Apply the algorithm's threshold θ (m,) to x (B, m)."""
        raise NotImplementedError

    def respond(self, inputs: Tensor) -> Tensor:
        """Map prepared signals (B, n) to (B, m)."""
        tied = len(self.Psi) == 1
        thetas = [log_theta.exp() for log_theta in self.log_theta]
        drives = [inputs @ Gamma.T for Gamma in self.Gamma]
        chi = drives[0]  # x_0 = 0
        for t in range(1, self.depth):
            s = 0 if tied else t
            x = self.threshold(chi, thetas[0 if tied else t - 1])
            chi = torch.addmm(drives[s], x, self.Psi[s].T)
        D = self.D.to(chi.dtype) / self.scale.to(chi.dtype)  # back to the coefficients of the caller's Φ and y
        if self.gain is not None and self.offset is not None:
            scores: Tensor = (chi * D).abs() * self.gain + self.offset
            return scores
        return self.threshold(chi, thetas[-1]) * D
