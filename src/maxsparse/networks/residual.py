"""The paper's feed-forward network: fully connected layers, batch normalisation, residual connections."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from maxsparse._core.registry import NETWORKS
from maxsparse._core.validation import check_choice, check_flag, check_integer
from maxsparse.networks.activations import HELU
from maxsparse.networks.batch_norm import BatchNorm, fold
from maxsparse.networks.network import SignalNetwork

__all__ = ["Residual"]


@NETWORKS.register(
    "residual", summary="the paper's: fully connected layers with residual connections", needs=["training"], order=10
)
class Residual(SignalNetwork):
    r"""A deep residual network that scores the support.

    .. math::

        h_0 = f(\mathrm{BN}(A_0\,y)), \qquad
        h_{t+1} = f\big(h_t + \mathrm{BN}(A_t' f(\mathrm{BN}(A_t h_t)))\big), \qquad
        \text{scores} = B h_T + b

    Parameters
    ----------
    n, m : int
        Measurements and atoms.
    depth : int, default=20
        Number of linear layers: the first, the last, and two in every block; even.
    width : int, default=400
        Units of a hidden layer.
    residual : bool, default=True
        False drops the residual connections (the paper's first ablation).
    activation : {"relu", "helu"}, default="relu"
        ``"helu"`` is the hard threshold of the paper's second ablation.
    sigma : float, default=0.2
        Ramp of HELU_σ.
    whiten : bool, default=True
        Whiten the signals first; the paper does not.
    output : {"logits", "estimate"}, default="logits"
        ``"estimate"`` is for the least-squares loss of the paper's third ablation.

    Notes
    -----
    The paper gives 20 layers, batch normalisation, ReLU, He's initialisation [1]_ and no width; blocks are those of the
    residual network it cites [2]_.

    References
    ----------
    .. [1] K. He et al., "Delving deep into rectifiers", ICCV 2015.
    .. [2] K. He et al., "Deep residual learning for image recognition", CVPR 2016.
    """

    learning_rate = 6e-3

    def __init__(
        self,
        *,
        n: int,
        m: int,
        depth: int = 20,
        width: int = 400,
        residual: bool = True,
        activation: str = "relu",
        sigma: float = 0.2,
        whiten: bool = True,
        output: str = "logits",
    ) -> None:
        super().__init__(
            n=n,
            m=m,
            depth=depth,
            width=width,
            residual=residual,
            activation=activation,
            sigma=sigma,
            whiten=whiten,
            output=output,
        )
        depth = check_integer(depth, "depth", low=2, high=10_000)
        width = check_integer(width, "width", low=1, high=10**6)
        if depth % 2:
            raise ValueError(f"depth must be even (first, last, two in every block), got {depth}")
        self.residual = check_flag(residual, "residual")
        check_choice(activation, "activation", ("relu", "helu"))
        helu = HELU(sigma)  # always created: it checks σ
        self.activation: nn.Module = nn.ReLU(inplace=True) if activation == "relu" else helu
        # Batch normalisation would subtract a bias again.
        sizes = [n] + [width] * (depth - 1)
        self.layers = nn.ModuleList(nn.Linear(*pair, bias=False) for pair in itertools.pairwise(sizes))
        self.norms = nn.ModuleList(BatchNorm(width) for _ in self.layers)
        self.last = nn.Linear(width, m)
        for layer in [*self.layers, self.last]:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(self.last.bias)

    def respond(self, inputs: Tensor) -> Tensor:
        """Map prepared signals (B, n) to (B, m)."""
        f, layers, norms = self.activation, self.layers, self.norms
        # The first layer is float32: rounding y to half precision would make coherent atoms indistinguishable.
        h = f(norms[0](layers[0](inputs)))
        low = self.training and self.training_precision == torch.bfloat16
        with torch.autocast(h.device.type, dtype=torch.bfloat16, enabled=low):
            for t in range(1, len(layers), 2):
                inner = f(norms[t](layers[t](h)))
                outer = norms[t + 1](layers[t + 1](inner))
                # In place: the gradients of batch normalisation and ReLU do not need the overwritten values.
                h = f(outer.add_(h) if self.residual else outer)
        scores: Tensor = self.last(h.float() if low else h)
        return scores

    def inference(self) -> nn.Module:
        """Return the same function with batch normalisation folded into the linear layers.

        With HELU nothing is folded: each of its ramps multiplies rounding errors by 1/σ, and after 20 layers scores
        with different rounding would not agree to 1e-5.
        """
        return _Folded(self) if self.hyperparameters["activation"] == "relu" else self


class _Folded(nn.Module):
    """Residual network without batch normalisation, in two buffers that stay in the cache."""

    def __init__(self, network: Residual) -> None:
        super().__init__()
        self.network = (network,)  # a tuple, so that it is not registered as a submodule twice
        folded = [
            fold(layer, norm)  # type: ignore[arg-type]  # ModuleList forgets
            for layer, norm in zip(network.layers, network.norms, strict=True)
        ]
        self.weights = [weight.T.contiguous() for weight, _ in folded]
        self.biases = [bias for _, bias in folded]

    def forward(self, Y: Tensor) -> Tensor:
        (network,) = self.network
        f = network.activation
        h = f(torch.addmm(self.biases[0], network.prepare(Y), self.weights[0]))
        buffer = torch.empty_like(h)
        for t in range(1, len(self.weights), 2):
            inner = f(torch.addmm(self.biases[t], h, self.weights[t], out=buffer))
            # With beta = 1 the product is added to the buffer: the residual connection costs nothing.
            h = f(h.addmm_(inner, self.weights[t + 1], beta=int(network.residual)).add_(self.biases[t + 1]))
        return torch.nn.functional.linear(h, network.last.weight, network.last.bias)
