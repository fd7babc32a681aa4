"""Learning BBᵀ of Γ = BBᵀDΦᵀWᵀW: a direction of descent shared by all layers, on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maxsparse import metrics, signals
from maxsparse._core.validation import FloatArray
from maxsparse.theory import hard_threshold

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Change", "best_step", "learned_direction", "recovered"]

Change = tuple[FloatArray, FloatArray]  # W and D
FACTORS = 2.0 ** np.arange(-2.0, 5.0, 0.5)  # steps to try, relative to 1/‖WΦD‖²


def best_step(
    Phi: FloatArray, change: Change, P: FloatArray, *, sparsities: list[int], rng: int, batch: int, layers: int
) -> FloatArray:
    """Return μP with the μ that recovers most of `batch` signals of every sparsity in `layers` layers."""

    def found(factor: float) -> float:
        shares = []
        for d in sparsities:
            X, Y = signals.sample(Phi, batch, sparsity=d, rng=np.random.default_rng([rng, d]))
            shares.append(metrics.strict_accuracy(X, np.abs(recovered(Phi, change, factor * P, Y, d, layers))))
        return float(np.mean(shares))

    return float(max(FACTORS, key=found)) * P


def learned_direction(
    Phi: FloatArray, change: Change, mu: float, *, sparsities: list[int], rng: int, steps: int, batch: int, layers: int
) -> FloatArray:
    r"""Learn P = BBᵀ for z ← H_k[z + PDΦᵀWᵀ(Wy − WΦDz)], x = Dz, by gradient descent through layers that share it.

    Parameters
    ----------
    Phi : ndarray of shape (n, m)
        Dictionary.
    change : (W, D)
        Preconditioner: W of shape (·, n) and D of shape (m,); identity and ones for none.
    mu : float
        Step to start from, P = μI.
    sparsities : list of int
        Numbers of nonzeros of the training signals, equally frequent; each layer is given that of its signal.
    rng : int
        Seed of the training signals.
    steps, batch, layers : int
        Steps of gradient descent, signals of each, and layers.

    Returns
    -------
    P : ndarray of shape (m, m)
    """
    import torch

    (W, D), m = change, Phi.shape[1]
    changed = W @ Phi * D
    atoms = torch.tensor(changed)
    B = (np.sqrt(mu) * torch.eye(m, dtype=atoms.dtype)).requires_grad_(True)
    optimiser = torch.optim.Adam([B], lr=1e-3 * float(np.sqrt(mu)))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    generator = np.random.default_rng(rng)
    for _ in range(steps):
        d = int(generator.choice(sparsities))
        found, measured = signals.sample(Phi, batch, sparsity=d, rng=generator)
        Z, Y = torch.tensor(found / D), torch.tensor(measured @ W.T)
        gain = B @ B.T @ atoms.T
        z, loss = torch.zeros_like(Z), torch.zeros((), dtype=atoms.dtype)
        for layer in range(layers):
            z = _hard(z + (Y - z @ atoms.T) @ gain.T, d)
            if 2 * layer >= layers:
                loss = loss + ((z - Z) ** 2).sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([B], 1.0)
        optimiser.step()
        schedule.step()
    learned = B.detach().numpy()
    P: FloatArray = learned @ learned.T
    return P


def recovered(Phi: FloatArray, change: Change, P: FloatArray, Y: FloatArray, d: int, layers: int) -> FloatArray:
    """Run these layers from zero on signals Y (N, n) with d nonzeros; return the coefficients (N, m)."""
    W, D = change
    changed = W @ Phi * D
    gain, Y = P @ changed.T, Y @ W.T
    z: FloatArray = np.zeros((len(Y), Phi.shape[1]))
    for _ in range(layers):
        z = hard_threshold(np.nan_to_num(z + (Y - z @ changed.T) @ gain.T, posinf=0.0, neginf=0.0), d)
    return z * D


def _hard(x: Tensor, k: int) -> Tensor:
    """Keep the k largest magnitudes of every row; the gradient passes through those."""
    import torch

    kept = torch.topk(x.abs(), k, dim=1).indices
    return x * torch.zeros_like(x).scatter_(1, kept, 1.0)
