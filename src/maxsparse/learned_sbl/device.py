"""Learned SBL for inference on a device: the arithmetic of ``kernels`` in torch, many signals at a time."""

from __future__ import annotations

from typing import Any

from maxsparse._core.extras import needs

with needs("training"):
    import torch
    from torch import Tensor

from maxsparse._core.prepared import Single
from maxsparse.learned_sbl.kernels import Signals
from maxsparse.learned_sbl.spec import EARLIER, FEATURES, HEAD_LAMBDA, HEAD_START, LOG_FLOOR, SCALE, TINY, Weights

__all__ = ["score_on_device"]

ENTRIES = 2**25  # of L⁻¹Φ of all signals at a time


@torch.no_grad()
def score_on_device(
    weights: Weights, table: Single, signals: Signals, iterations: int, confident: float, device: Any
) -> Tensor:
    """Return the last logits (N, m) as :func:`maxsparse.learned_sbl.kernels.score_rows` does, on a device."""
    arrays: Any = [torch.as_tensor(array, device=device) for array in weights]
    net = Weights(*arrays)
    Q, variance = torch.as_tensor(table.Q, device=device), torch.as_tensor(table.variance, device=device)
    rows = max(1, ENTRIES // table.Q.size)
    parts = [torch.zeros(0, table.Q.shape[1], device=device)]
    for start in range(0, len(signals.Z), rows):
        Z, noise, earlier = (torch.as_tensor(array[start : start + rows], device=device) for array in signals)
        parts.append(_score(net, Q, variance, Z, noise, earlier, iterations, confident))
    return torch.cat(parts)


def _score(
    net: Any, Q: Tensor, variance: Tensor, Z: Tensor, noise: Tensor, earlier: Tensor, iterations: int, confident: float
) -> Tensor:
    """Run the network on whitened signals (B, r)."""
    (B, n), m, T = Z.shape, Q.shape[1], len(net.moment)
    power = Z.double().square().mean(1, keepdim=True) + 1e-60
    z = (Z / power.sqrt()).float()
    c = ((noise[:, None].double() ** 2 / power) * variance).float()
    share = c.double().mean(1, keepdim=True)
    level = (torch.log(share + 1e-6) * SCALE).float()
    log_total = torch.log(n * (1.0 - share).clamp_min(0.05)).float()
    log_gamma = Q.new_zeros(B, m)
    for _ in range(HEAD_START):
        gamma = log_gamma.exp()
        u, q, _ = _statistics(gamma, z, c + HEAD_LAMBDA, Q)
        log_gamma = (log_gamma + torch.log((1.0 + gamma * (u * u - q)).clamp_min(1e-4))).clamp_min(LOG_FLOOR)
    state, heads = net.context.shape[1] - 1 - FEATURES, net.first.shape[1] - net.context.shape[1] + 1
    h, values, logits = Q.new_zeros(B, m, state), Q.new_zeros(B, m, heads), Q.new_zeros(B, m)
    if earlier.shape[1]:
        h[:, :, -1] = (earlier / EARLIER).clamp(-1.0, 1.0)
    settled = torch.zeros(B, dtype=torch.bool, device=Z.device)
    for t in range(iterations):
        moment = min(t, T - 1)
        log_gamma = (log_gamma - torch.logsumexp(log_gamma, 1, keepdim=True) + log_total).clamp_min(LOG_FLOOR)
        gamma = log_gamma.exp()
        u, q, V = _statistics(gamma, z, c + net.log_lambda[moment].exp(), Q)
        log_u, log_q = torch.log(u * u + TINY), torch.log(q + TINY)
        seen = torch.cat([torch.stack([log_gamma * SCALE, log_u * SCALE, log_q * SCALE, gamma * q], 2), h], 2)
        context = torch.cat([seen.mean(1), level], 1) @ net.context.T + net.moment[moment]
        if heads:
            seen = torch.cat([seen, _attention(values, gamma, q, V)], 2)
        out = torch.nn.functional.hardswish(seen @ net.first.T + context[:, None]) @ net.last.T + net.last_bias
        log_gamma = log_gamma + 0.5 * (log_u - log_q) + out[:, :, 0]
        logits = torch.where(settled[:, None], logits, out[:, :, 1])
        h, values = _squash(h + out[:, :, 2 : 2 + state]), _squash(out[:, :, 2 + state :])
        if t >= T // 4:
            settled |= (logits.abs() >= confident).all(1) & ((logits > 0).sum(1) <= n - 2)
            if bool(settled.all()):
                break
    return logits


def _statistics(gamma: Tensor, z: Tensor, c: Tensor, Q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return u = Φᵀ S⁻¹ z, q = diag(Φᵀ S⁻¹ Φ) and V = L⁻¹Φ for S = Φ diag(γ) Φᵀ + diag(c) = LLᵀ."""
    S = (Q * gamma[:, None]) @ Q.T + torch.diag_embed(c)
    L, failed = torch.linalg.cholesky_ex(S)
    again = failed > 0
    if bool(again.any()):  # rounding errors of float32 have made S indefinite
        exact = (Q.double() * gamma[again][:, None].double()) @ Q.T.double() + torch.diag_embed(c[again].double())
        L[again] = torch.linalg.cholesky(exact).float()
    V = torch.linalg.solve_triangular(L, Q.expand(len(z), *Q.shape), upper=False)
    v = torch.linalg.solve_triangular(L, z[:, :, None], upper=False)
    return (V * v).sum(1), V.square().sum(1), V


def _attention(values: Tensor, gamma: Tensor, q: Tensor, V: Tensor) -> Tensor:
    """Return Σ_j γ_j (φ_iᵀ S⁻¹ φ_j)² a_j / q_i for messages a (B, m, heads)."""
    mixed = []
    for a in values.unbind(2):
        M = (V * (a * gamma)[:, None]) @ V.transpose(1, 2)
        mixed.append((V * (M @ V)).sum(1) / q)
    return torch.stack(mixed, 2)


def _squash(x: Tensor) -> Tensor:
    return x * torch.rsqrt(1.0 + x * x)
