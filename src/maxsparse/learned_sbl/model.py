r"""Learned sparse Bayesian learning: one small network for every dictionary.

An iteration of SBL forms :math:`S = \Phi\Gamma\Phi^\top + C`, looks at :math:`u = \Phi^\top S^{-1} y` and
:math:`q_i = \phi_i^\top S^{-1} \phi_i`, and sets :math:`\gamma_i \leftarrow \gamma_i |u_i| / \sqrt{q_i}`. Here a small
perceptron, the same for every atom, gets these numbers and corrects the step. Since indices are not an input, the same
weights work for every Φ. It starts with a few iterations of plain EM. Untrained it is exact SBL: the last layer is
zero.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from maxsparse._core.extras import needs

with needs("training"):
    import torch
    from torch import Tensor, nn

from maxsparse._core.prepared import Form
from maxsparse._core.registry import NETWORKS
from maxsparse._core.validation import check_integer
from maxsparse.learned_sbl import packed
from maxsparse.learned_sbl.spec import (
    EARLIER,
    FEATURES,
    HEAD_LAMBDA,
    HEAD_START,
    ITERATIONS,
    LOG_FLOOR,
    SCALE,
    TINY,
)
from maxsparse.networks import Network

__all__ = ["LearnedSBL"]

OUTLIER = 2.0


@NETWORKS.register("learned_sbl", summary="unfolded SBL, not tied to a dictionary; comes trained", order=0)
class LearnedSBL(Network):
    r"""T iterations of SBL, each corrected by one perceptron that all atoms and iterations share.

    .. math::

        \log\gamma_i \leftarrow \log\gamma_i + \tfrac12(\log u_i^2 - \log q_i) + \Delta_i, \qquad
        (\Delta_i, s_i, \delta_i) = \mathrm{MLP}(f_i, h_i, \bar f, \bar h, \nu; t), \qquad
        h_i \leftarrow \sigma(h_i + \delta_i)

    with features f = (log γ, log u², log q, γq), a state h per atom, the means of both over atoms, the noise level ν;
    :math:`\sigma(h) = h/\sqrt{1+h^2}`. The logit s scores the atom.

    With heads, an atom also receives messages from competing atoms. The perceptron outputs one more number
    :math:`a_j \in (-1, 1)` per atom and head, and in the next iteration atom i gets

    .. math:: \sum_j \frac{\gamma_j (\phi_i^\top S^{-1} \phi_j)^2}{q_i}\, a_j,

    an average, since the weights sum to one except for the noise. This is attention with the weights of the model.

    A network for a second pass receives the logits of the failed pass: the last channel of its state starts from them.
    The defaults are the sizes of the bundled weights of the first pass.

    Parameters
    ----------
    iterations : int, default=16
        T, iterations in training. λ_t and the bias of every iteration are learned; later ones repeat the last.
    state : int, default=12
        Size of the state of an atom.
    hidden : int, default=48
        Width of the perceptron.
    heads : int, default=0
        Numbers that an atom sends to its competitors.
    """

    name = "learned_sbl"

    def __init__(self, *, iterations: int = ITERATIONS, state: int = 12, hidden: int = 48, heads: int = 0) -> None:
        sizes = {"iterations": iterations, "state": state, "hidden": hidden}
        super().__init__(**sizes, **({"heads": heads} if heads else {}))  # files from versions without heads stay valid
        self.iterations = check_integer(iterations, "iterations", low=1, high=10**4)
        self.state = check_integer(state, "state", low=1, high=10**4)
        hidden = check_integer(hidden, "hidden", low=1, high=10**4)
        self.heads = check_integer(heads, "heads", low=0, high=10**4)
        seen = FEATURES + state  # of an atom, by the perceptron
        self.first = nn.Linear(seen + heads, hidden, bias=False)
        self.context = nn.Linear(seen + 1, hidden, bias=False)
        self.moment = nn.Parameter(torch.zeros(iterations, hidden))
        self.last = nn.Linear(hidden, 2 + state + heads)  # step of log γ, logit, change of the state, messages
        self.log_lambda = nn.Parameter(torch.linspace(-2.0, -9.0, iterations))
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(
        self,
        dictionary: Form,
        Z: Tensor,
        noise: Tensor | None = None,
        earlier: Tensor | None = None,
        iterations: int | None = None,
    ) -> list[Tensor]:
        """Score every atom for every signal, after each iteration.

        Parameters
        ----------
        dictionary : Form
            Whitened, see :meth:`maxsparse._core.prepared.Prepared.form`.
        Z : Tensor of shape (B, r)
            Whitened signals Wy.
        noise : Tensor of shape (B,) or None
            Standard deviation of the noise on y, before W.
        earlier : Tensor of shape (B, m) or None
            Logits of an earlier pass.
        iterations : int or None
            None for the T of training.

        Returns
        -------
        logits : list of Tensor of shape (B, m), one per iteration
        """
        Q, outer = _tensors(dictionary)
        B, (n, m) = Z.shape[0], Q.shape
        scale = Z.square().mean(dim=1, keepdim=True).sqrt() + 1e-30
        Z = Z / scale
        C = torch.zeros(B, n)
        if noise is not None:
            variance = torch.as_tensor(dictionary.variance, dtype=Z.dtype)
            C = (noise[:, None] / scale).square() * variance
        share = C.mean(dim=1, keepdim=True)
        level = torch.log(share + 1e-6) * SCALE
        # y ~ N(0, S) has ‖y‖² = tr S on average: the atoms must explain what the noise does not.
        log_total = torch.log(n * (1.0 - share).clamp_min(0.05))
        log_gamma = _head_start(Q, outer, Z, C)
        h, values = torch.zeros(B, m, self.state), torch.zeros(B, m, self.heads)
        if earlier is not None:
            h[:, :, -1] = (earlier / EARLIER).clamp(-1.0, 1.0)
        logits = []
        for t in range(self.iterations if iterations is None else iterations):
            moment = min(t, self.iterations - 1)
            log_gamma = (log_gamma - torch.logsumexp(log_gamma, dim=1, keepdim=True) + log_total).clamp_min(LOG_FLOOR)
            gamma = log_gamma.exp()
            u, q, S_inverse = _SblStep.apply(gamma, Z, C + self.log_lambda[moment].exp(), Q, outer)
            log_u, log_q = torch.log(u * u + TINY), torch.log(q + TINY)
            f = torch.stack([log_gamma * SCALE, log_u * SCALE, log_q * SCALE, gamma * q], dim=2)
            inputs = torch.cat([f, h], dim=2)
            context = self.context(torch.cat([inputs.mean(dim=1), level], dim=1)) + self.moment[moment]
            if self.heads:
                mixed = _Attention.apply(values.transpose(1, 2), gamma, q, S_inverse, outer)
                inputs = torch.cat([inputs, mixed.transpose(1, 2)], dim=2)
            hidden = nn.functional.hardswish(self.first(inputs) + context[:, None, :])
            o = self.last(hidden)
            log_gamma = log_gamma + 0.5 * (log_u - log_q) + o[:, :, 0]
            logits.append(o[:, :, 1])
            h, values = _squash(h + o[:, :, 2 : 2 + self.state]), _squash(o[:, :, 2 + self.state :])
            if torch.is_grad_enabled():
                log_gamma.register_hook(_limit_outliers)
                h.register_hook(_limit_outliers)
        return logits


def _tensors(dictionary: Form) -> tuple[Tensor, Tensor]:
    """Return WΦD (r, m) and the packed outer products of its atoms: S and its gradient are then plain products."""
    return torch.from_numpy(dictionary.single.Q), torch.from_numpy(dictionary.single.outer)


def _squash(x: Tensor) -> Tensor:
    return x * torch.rsqrt(1.0 + x * x)


@torch.no_grad()
def _head_start(Q: Tensor, outer: Tensor, Z: Tensor, C: Tensor) -> Tensor:
    """Return log γ after some plain EM iterations of SBL from γ = 1.

    EM converges slowly and so finds better solutions than the faster rules; it also costs a quarter of a learned
    iteration.
    """
    log_gamma = torch.zeros(Z.shape[0], Q.shape[1])
    for _ in range(HEAD_START):
        gamma = log_gamma.exp()
        u, q, _ = _SblStep.apply(gamma, Z, C + HEAD_LAMBDA, Q, outer)
        step = torch.log((1.0 + gamma * (u * u - q)).clamp_min(1e-4))
        log_gamma = (log_gamma + step).clamp_min(LOG_FLOOR)
    return log_gamma


def _limit_outliers(gradient: Tensor) -> Tensor:
    """Shorten the gradients of single signals that are far above the batch's median.

    Backpropagated through many iterations, the gradient of a few signals (those close to two different answers)
    explodes and would dominate all others.
    """
    flat = gradient.flatten(1)
    size = flat.norm(dim=1, keepdim=True)
    limit = OUTLIER * size.median() + 1e-30
    clipped: Tensor = (flat * (limit / size.clamp_min(1e-30)).clamp_max(1.0)).view_as(gradient)
    return clipped


class _SblStep(torch.autograd.Function):
    """u = Φᵀ S⁻¹ y and q = diag(Φᵀ S⁻¹ Φ) for S = Φ diag(γ) Φᵀ + diag(c), with an explicit gradient.

    S⁻¹ is returned too, without a gradient. Autograd through a Cholesky factorisation and triangular solves costs
    several times more than the two products with `outer` that the gradient needs: dS⁻¹ = −S⁻¹ dS S⁻¹.
    """

    @staticmethod
    def forward(ctx: Any, gamma: Tensor, Z: Tensor, c: Tensor, Q: Tensor, outer: Tensor) -> tuple[Tensor, ...]:
        (B, n), triangle = Z.shape, _triangle(Z.shape[1])
        S = outer.T @ gamma.T
        packed.invert(S.numpy(), c.T.contiguous().numpy())
        q = (S * triangle.copies).T @ outer.T
        Sinv = S.T.index_select(1, triangle.full).view(B, n, n)
        v = (Sinv @ Z[:, :, None]).view(B, n)
        ctx.save_for_backward(Sinv, v, Q, outer)
        ctx.mark_non_differentiable(Sinv)
        ctx.set_materialize_grads(False)
        return v @ Q, q, Sinv

    @staticmethod
    def backward(ctx: Any, grad_u: Tensor, grad_q: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        Sinv, v, Q, outer = ctx.saved_tensors
        (B, n), triangle = v.shape, _triangle(v.shape[1])
        M = torch.index_select(grad_q @ outer, 1, triangle.full).view(B, n, n)
        # φᵀ G φ with G = −S⁻¹ M S⁻¹ − (a vᵀ + v aᵀ)/2, a = S⁻¹Φ·grad_u; folding adds an entry and its mirror image
        a = (Sinv @ (grad_u @ Q.T)[:, :, None]).view(B, n)
        G = torch.baddbmm(a[:, :, None] * v[:, None, :], Sinv @ M, Sinv, beta=-1.0, alpha=-1.0).view(B, n * n)
        folded = torch.index_select(G, 1, triangle.below) + torch.index_select(G, 1, triangle.above)
        return (folded * (0.5 * triangle.copies.T)) @ outer.T, None, G[:, :: n + 1], None, None


class _Attention(torch.autograd.Function):
    """Averages of `a` (B, heads, m) over competing atoms; without the gradient of their weights."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, gamma: Tensor, q: Tensor, S_inverse: Tensor, outer: Tensor) -> Tensor:
        ctx.save_for_backward(gamma, q, S_inverse, outer)
        return _competition(a * gamma[:, None], S_inverse, outer) / q[:, None]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gamma, q, S_inverse, outer = ctx.saved_tensors
        return _competition(gradient / q[:, None], S_inverse, outer) * gamma[:, None], None, None, None, None


def _competition(a: Tensor, S_inverse: Tensor, outer: Tensor) -> Tensor:
    """Return Σ_j (φ_iᵀ S⁻¹ φ_j)² a_j = φ_iᵀ S⁻¹ (Σ_j a_j φ_j φ_jᵀ) S⁻¹ φ_i for `a` (B, heads, m)."""
    (B, heads, m), n = a.shape, S_inverse.shape[1]
    triangle = _triangle(n)
    M = (a.reshape(B * heads, m) @ outer).index_select(1, triangle.full).view(B, heads, n, n)
    R = (S_inverse[:, None] @ M @ S_inverse[:, None]).view(B * heads, n * n)
    return ((R.index_select(1, triangle.below) * triangle.copies.T) @ outer.T).view(B, heads, m)


class _Triangle(NamedTuple):
    """Positions of the entries of a symmetric matrix in its packed lower triangle."""

    full: Tensor  # (n²,), place in the triangle of every entry
    below: Tensor  # (n(n + 1)/2,), entry of every place
    above: Tensor  # its mirror image
    copies: Tensor  # (n(n + 1)/2, 1), 1 on the diagonal, else 2


@cache
def _triangle(n: int) -> _Triangle:
    rows, columns = torch.tril_indices(n, n)
    full = torch.empty(n, n, dtype=torch.long)
    full[rows, columns] = full[columns, rows] = torch.arange(len(rows))
    count = torch.where(rows == columns, 1.0, 2.0)[:, None]
    return _Triangle(full.reshape(-1), rows * n + columns, columns * n + rows, count)
