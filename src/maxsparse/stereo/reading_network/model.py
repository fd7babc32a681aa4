"""The network of ``auto``: robust fits whose weights are learned, for any set of lights.

Its input is a set of (light, reading) pairs, in the frame of the current normal. So it works for every rig, and
rotating the camera about its axis changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxsparse._core.extras import needs

with needs("training"):
    import torch
    from torch import Tensor, nn

from maxsparse._core.validation import check_integer
from maxsparse.networks import Network, register
from maxsparse.stereo.reading_network.start import Start

__all__ = ["ReadingNetwork", "Refined"]

N_FEATURES = 12  # of a reading
N_SUMMARY = 3  # of a pixel in one round


@dataclass(frozen=True)
class Refined:
    """Output of the network after its last round.

    Attributes
    ----------
    normals : tensor of shape (B, 3)
        Unit vectors.
    albedo : tensor of shape (B,)
        Length of the last weighted fit, in the units of the readings.
    logits : tensor of shape (B, q)
        Log odds that a reading is an inlier.
    log_error : tensor of shape (B,)
        Logarithm of the expected angular error in radians.
    path : list of tensor of shape (B, 3)
        Normals after every round, the last one included.
    """

    normals: Tensor
    albedo: Tensor
    logits: Tensor
    log_error: Tensor
    path: list[Tensor]


class _Round(nn.Module):
    """One round: encode every reading, pool, encode again; return weights, a state per reading and a correction."""

    def __init__(self, width: int, state: int) -> None:
        super().__init__()
        self.look = nn.Linear(N_FEATURES + state, width)
        self.context = nn.Linear(2 * width + N_SUMMARY, width)
        self.again = nn.Linear(width, width)
        self.weigh = nn.Linear(width, 1 + state)
        self.gather = nn.Linear(3 * width + N_SUMMARY, width)
        self.correct = nn.Linear(width, 3)
        # Untrained, it returns the given fit: no change of the weights, no correction.
        for layer in (self.weigh, self.correct):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, features: Tensor, summary: Tensor, lit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = torch.relu(self.look(features))
        context = self.context(torch.cat([h.mean(1), h.amax(1), summary], 1))
        h = torch.relu(self.again(h) + context[:, None])
        weighed = self.weigh(h)
        share = lit / lit.sum(1, keepdim=True).clamp_min(1.0)
        pooled = torch.cat([h.mean(1), h.amax(1), (h * share[:, :, None]).sum(1), summary], 1)
        return weighed[:, :, 0], weighed[:, :, 1:], self.correct(torch.relu(self.gather(pooled)))


class ReadingNetwork(Network):
    r"""Rounds of weighted least squares with learned weights and a learned correction.

    .. math:: \tilde n_{t+1} = \arg\min_n \sum_i \sigma(w_i)\, (o_i - l_i^\top n)^2, \qquad
              n_{t+1} \propto \tilde n_{t+1} / \|\tilde n_{t+1}\| + \delta_1 e_1 + \delta_2 e_2

    :math:`w_i` and :math:`\delta` come from a small perceptron shared over readings. Its inputs are the reading,
    the prediction of the current normal for it, its light in the frame :math:`(n, e_1, e_2)` and a pooled summary of
    all readings.

    Parameters
    ----------
    rounds : int, default=3
    width : int, default=64
    state : int, default=12
        Numbers a reading carries from round to round.
    """

    def __init__(self, rounds: int = 3, width: int = 64, state: int = 12) -> None:
        super().__init__(rounds=rounds, width=width, state=state)
        for name, size in self.hyperparameters.items():
            check_integer(size, name, low=1, high=1024)
        self.state = state
        self.rounds = nn.ModuleList([_Round(width, state) for _ in range(rounds)])

    def widened(self, width: int) -> ReadingNetwork:
        """Return a network of a larger width that computes the same function, to train on.

        The outputs of the new units have weight zero, their inputs are random.
        """
        old = self.hyperparameters["width"]
        check_integer(width, "width", low=old)
        wide = ReadingNetwork(**{**self.hyperparameters, "width": width})
        repeats = {"look": 0, "context": 2, "gather": 3}  # how often a layer has all units among its inputs, else once
        new: dict[str, Any] = dict(wide.named_modules())
        with torch.no_grad():
            for path, layer in self.named_modules():
                if not isinstance(layer, nn.Linear):
                    continue
                target, count = new[path], repeats.get(path.rpartition(".")[2], 1)
                rows, columns = layer.weight.shape
                units = [torch.arange(old) + k * width for k in range(count)]
                others = torch.arange(columns - count * old) + count * width
                target.weight[:rows] = 0.0
                target.weight[:rows, torch.cat([*units, others])] = layer.weight
                target.bias[:rows] = layer.bias
        return wide.train(self.training)

    def forward(self, start: Start) -> Refined:
        """Refine a first guess."""
        o, lights, lit = start.values / start.scale, start.lights, start.lit
        scaled = start.normals / start.scale
        state = o.new_zeros((*o.shape, self.state))
        logits = start.logits
        albedo, log_error = scaled.norm(dim=1), o.new_zeros(len(o))
        path = []
        for round_ in self.rounds:
            n, e1, e2 = _frame(scaled)
            features, summary = _features(o, lights, scaled, (n, e1, e2), logits, lit)
            change, state, correction = round_(torch.cat([features, state], 2), summary, lit)
            logits = logits + change
            fitted = _weighted_fit(o, lights, torch.sigmoid(logits) * lit)
            albedo = fitted.norm(dim=1)
            direction = fitted / albedo[:, None].clamp_min(1e-6) + correction[:, :1] * e1 + correction[:, 1:2] * e2
            direction = direction / direction.norm(dim=1, keepdim=True).clamp_min(1e-6)
            log_error = correction[:, 2] - 3.0
            scaled = direction * albedo[:, None]
            path.append(direction)
        return Refined(path[-1], albedo * start.scale[:, 0], logits, log_error, path)


def _frame(scaled: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return n, the tangent e1 that points to the camera, and e2 = n × e1, each (B, 3)."""
    n = scaled / scaled.norm(dim=1, keepdim=True).clamp_min(1e-6)
    # If the surface faces the camera, e1 is arbitrary; use a fixed direction.
    e1 = scaled.new_tensor([0.0, 1e-4, 1.0]) - (n[:, 2:3] + 1e-4 * n[:, 1:2]) * n
    e1 = e1 / e1.norm(dim=1, keepdim=True).clamp_min(1e-6)
    return n, e1, torch.linalg.cross(n, e1)


def _features(
    o: Tensor,
    lights: Tensor,
    scaled: Tensor,
    frame: tuple[Tensor, Tensor, Tensor],
    logits: Tensor,
    lit: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the features of every reading, (B, q, F), and of the pixel, (B, 3)."""
    n, e1, e2 = frame
    half = lights + lights.new_tensor([0.0, 0.0, 1.0])
    half = half / half.norm(dim=1, keepdim=True).clamp_min(1e-6)
    weight = torch.sigmoid(logits) * lit
    predicted = (scaled @ lights.T).clamp_min(0)
    r = o - predicted
    spread = ((weight * r.abs()).sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp_min(1e-3)).clamp_min(1e-4)
    B, q = o.shape
    parts = (
        o.clamp(max=4.0),
        torch.log(o + 0.02),
        predicted.clamp(max=4.0),
        r.clamp(-2.0, 2.0),
        torch.tanh(r / (3.0 * spread)),
        n @ lights.T,
        e1 @ lights.T,
        e2 @ lights.T,
        n @ half.T,
        n[:, 2:3].expand(B, q),
        lit,
        torch.tanh(logits / 4.0),
    )
    summary = torch.cat([lit.mean(1, keepdim=True), torch.log(spread) / 4, o.new_full((B, 1), q / 50.0)], 1)
    return torch.stack(parts, 2), summary


def _weighted_fit(o: Tensor, lights: Tensor, weight: Tensor) -> Tensor:
    """Solve every pixel's 3×3 normal equations by cofactors, (B, 3)."""
    x, y, z = lights.T
    moments = torch.stack([x * x, x * y, x * z, y * y, y * z, z * z], 1)
    weight = weight + 1e-4  # keeps the equations solvable if all weights are small
    xx, xy, xz, yy, yz, zz = (weight @ moments).unbind(1)
    ridge = 1e-5 * (xx + yy + zz)
    xx, yy, zz = xx + ridge, yy + ridge, zz + ridge
    b = (weight * o) @ lights
    c0, c1, c2 = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    d11, d12, d22 = xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
    determinant = (xx * c0 + xy * c1 + xz * c2)[:, None].clamp_min(1e-12)
    rows = torch.stack([c0, c1, c2, c1, d11, d12, c2, d12, d22], 1).view(-1, 3, 3)
    return (rows @ b[:, :, None])[:, :, 0] / determinant


register("reading", ReadingNetwork)
