"""Recurrent networks with y as input of every step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from maxsparse._core.registry import NETWORKS
from maxsparse._core.validation import check_choice, check_flag, check_integer
from maxsparse.networks.network import SignalNetwork

__all__ = ["LSTM"]


@NETWORKS.register(
    "lstm", summary="the paper's: a recurrent network that reads y at every step", needs=["training"], order=13
)
class LSTM(SignalNetwork):
    r"""Stacked recurrent cells that read y at every step; all steps of the top layer feed one linear layer.

    .. math:: h^1_t = \mathrm{cell}_1(y, h^1_{t-1}), \quad h^2_t = \mathrm{cell}_2(h^1_t, h^2_{t-1}), \quad
              \text{scores} = B\,[h^2_1; \dots; h^2_T] + b

    Parameters
    ----------
    n, m : int
        Measurements and atoms.
    hidden : int, default=425
        Units of a layer.
    layers : int, default=2
    steps : int, default=11
        Number T of steps.
    cell : {"lstm", "gru"}, default="lstm"
    feedback : bool, default=False
        Gated feedback: the candidate state of every layer gets the previous states of all layers, each through a
        learned scalar gate.
    whiten : bool, default=True
        Whiten the signals first; the paper does not.
    output : {"logits", "estimate"}, default="logits"

    Notes
    -----
    The paper gives two layers and 11 steps. The number of units and the layout of the output are those of its
    follow-up [1]_, which also uses gated feedback [2]_.

    References
    ----------
    .. [1] H. He, B. Xin, S. Ikehata, D. Wipf, "From Bayesian sparsity to gated recurrent nets", NIPS 2017.
    .. [2] J. Chung, C. Gulcehre, K. Cho, Y. Bengio, "Gated feedback recurrent neural networks", ICML 2015.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.decaying(20, 100, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 10, sparsity=2, rng=1)
    >>> ms.networks.build("lstm", Phi, hidden=32, cell="gru", feedback=True, rng=0).scores(Y).shape
    (10, 100)
    """

    def __init__(
        self,
        *,
        n: int,
        m: int,
        hidden: int = 425,
        layers: int = 2,
        steps: int = 11,
        cell: str = "lstm",
        feedback: bool = False,
        whiten: bool = True,
        output: str = "logits",
    ) -> None:
        super().__init__(
            n=n,
            m=m,
            hidden=hidden,
            layers=layers,
            steps=steps,
            cell=cell,
            feedback=feedback,
            whiten=whiten,
            output=output,
        )
        hidden = check_integer(hidden, "hidden", low=1, high=10**6)
        layers = check_integer(layers, "layers", low=1, high=1000)
        self.steps = check_integer(steps, "steps", low=1, high=10_000)
        make = {"lstm": LSTMCell, "gru": GRUCell}[check_choice(cell, "cell", ("lstm", "gru"))]
        self.cells = nn.ModuleList(
            make(n if j == 0 else hidden, hidden, layers if check_flag(feedback, "feedback") else 0)
            for j in range(layers)
        )
        self.last = nn.Linear(self.steps * hidden, m)
        nn.init.kaiming_normal_(self.last.weight, nonlinearity="linear")
        nn.init.zeros_(self.last.bias)

    def respond(self, inputs: Tensor) -> Tensor:
        """Map prepared signals (B, n) to (B, m)."""
        # y is the same at every step. Its product is float32: see the residual network.
        drive = self.cells[0].inputs(inputs)  # type: ignore[operator]
        states = [cell.zeros(inputs) for cell in self.cells]  # type: ignore[operator]
        outputs = []
        low = self.training and self.training_precision == torch.bfloat16
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=low):
            for _ in range(self.steps):
                before = [state[0] for state in states]
                below = inputs
                for j, cell in enumerate(self.cells):
                    driven = drive if j == 0 else _widened(cell.inputs(below))  # type: ignore[operator]
                    states[j] = cell(below, driven, states[j], before)
                    below = states[j][0]
                outputs.append(below)
        scores: Tensor = self.last(torch.cat(outputs, 1))
        return scores


def _widened(product: Tensor) -> Tensor:
    """Return a product in float32 at least: in half precision, products alone are rounded, never states."""
    return product.float() if product.dtype == torch.bfloat16 else product


def _add_product(start: Tensor, h: Tensor, weight: Tensor) -> Tensor:
    """Return start + h weightᵀ."""
    if torch.is_autocast_enabled(h.device.type):
        return start + _widened(functional.linear(h, weight))
    return torch.addmm(start, h, weight.T)


class Feedback(nn.Module):
    r"""Gated feedback into layer j: :math:`\sum_i g^{i \to j} U^{i \to j} h^i_{t-1}` over all layers i.

    Each gate is one number per signal,
    :math:`g^{i \to j} = \sigma(w^{i \to j} \cdot h^{j-1}_t + u^{i \to j} \cdot [h^1_{t-1}; \dots; h^L_{t-1}])`.
    """

    def __init__(self, size: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.gates_below = nn.Linear(size, layers)
        self.gates_before = nn.Linear(layers * hidden, layers, bias=False)
        self.from_layers = nn.Linear(layers * hidden, hidden, bias=False)

    def forward(self, below: Tensor, before: Sequence[Tensor]) -> Tensor:
        """Return the feedback of all layers into the candidate state of this layer, (B, hidden)."""
        everything = torch.cat(list(before), 1)
        gates = torch.sigmoid(_widened(self.gates_below(below) + self.gates_before(everything)))
        gated = torch.cat([gates[:, i : i + 1] * state for i, state in enumerate(before)], 1)
        return _widened(self.from_layers(gated))


class LSTMCell(nn.Module):
    """Long short-term memory with the three gates and the candidate in one product."""

    def __init__(self, size: int, hidden: int, feedback_from: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.inputs = nn.Linear(size, 4 * hidden)
        self.feedback = Feedback(size, hidden, feedback_from) if feedback_from else None
        # With feedback, the candidate's part of this product is the feedback's.
        self.recurrent = nn.Linear(hidden, (3 if feedback_from else 4) * hidden, bias=False)
        with torch.no_grad():
            self.inputs.bias[hidden : 2 * hidden] += 1.0  # initially the forget gate is open

    def zeros(self, like: Tensor) -> tuple[Tensor, ...]:
        """Return the state before the first step."""
        zeros = like.new_zeros(like.shape[0], self.hidden)
        return zeros, zeros

    def forward(
        self, below: Tensor, driven: Tensor, state: tuple[Tensor, ...], before: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """Return (h, c) of the next step."""
        h, c = state
        weight = self.recurrent.weight
        if self.feedback is None:
            gates, candidate = _add_product(driven, h, weight).split((3 * self.hidden, self.hidden), 1)
        else:
            gates = _add_product(driven[:, : 3 * self.hidden], h, weight)
            candidate = driven[:, 3 * self.hidden :] + self.feedback(below, before)
        i, f, o = torch.sigmoid(gates).chunk(3, 1)
        c = torch.addcmul(f * c, i, torch.tanh(candidate))
        return o * torch.tanh(c), c


class GRUCell(nn.Module):
    """Gated recurrent unit; with feedback, the reset gate multiplies the feedback of all layers."""

    def __init__(self, size: int, hidden: int, feedback_from: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.inputs = nn.Linear(size, 3 * hidden)
        self.feedback = Feedback(size, hidden, feedback_from) if feedback_from else None
        self.recurrent = nn.Linear(hidden, (2 if feedback_from else 3) * hidden)

    def zeros(self, like: Tensor) -> tuple[Tensor, ...]:
        """Return the state before the first step."""
        return (like.new_zeros(like.shape[0], self.hidden),)

    def forward(
        self, below: Tensor, driven: Tensor, state: tuple[Tensor, ...], before: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """Return (h,) of the next step."""
        (h,) = state
        width = 2 * self.hidden
        recurrent = _widened(self.recurrent(h))
        r, z = torch.sigmoid(driven[:, :width] + recurrent[:, :width]).chunk(2, 1)
        back = recurrent[:, width:] if self.feedback is None else self.feedback(below, before)
        candidate = torch.tanh(torch.addcmul(driven[:, width:], r, back))
        return (torch.lerp(candidate, h, z),)
