"""Gradient search for W and D that minimise δ_k[WΦD]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.extras import needs
from maxsparse._core.progress import track
from maxsparse._core.validation import FloatArray, RandomState, check_dictionary, check_integer, check_rng
from maxsparse.theory._rip_bounds import deviations, hard_supports, search_extremes
from maxsparse.theory.precondition import null_low_rank, precondition
from maxsparse.theory.rip import RipConstant, rip_constant

__all__ = ["MinimisedRip", "minimise_rip"]

CHECK_EVERY = 25  # steps between two searches for the currently worst supports
POOL = 4096
SINGULAR = 1e-12  # eigenvalues below this are rounding errors


@dataclass(frozen=True, eq=False)
class MinimisedRip:
    r"""W and D with a lower :math:`\delta_k[W\Phi D]`, and by how much.

    Attributes
    ----------
    W : ndarray of shape (p, n)
    D : ndarray of shape (m,)
        Diagonal of D.
    before, after : RipConstant
        Constants of Φ and of WΦD. Both include the common factor that minimises the constant, which D may
        contain; without it, shorter atoms alone would seem to be an improvement.
    start : str
        The closed form that the search started from, the best of: Φ itself, whitening, removing the strongest
        directions.
    start_lower : float
        Lower bound on the constant there, by search.
    held_out_before, held_out_after : ndarray of shape (L,)
        :math:`\max |\lambda - 1|` on random supports not used in the search.
    """

    W: FloatArray
    D: FloatArray
    before: RipConstant
    after: RipConstant
    start: str
    start_lower: float
    held_out_before: NDArray[np.float64]
    held_out_after: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"MinimisedRip(from {self.start}: before {self.before!r}, after {self.after!r})"


def minimise_rip(
    Phi: ArrayLike,
    k: int,
    *,
    steps: int = 400,
    batch: int = 256,
    held_out: int = 1000,
    learning_rate: float = 0.01,
    limit: int = 20_000_000,
    rng: RandomState = None,
    progress: bool = False,
) -> MinimisedRip:
    r"""Search for W and D that lower the restricted isometry constant of WΦD.

    .. math:: \delta^*_k[\Phi] = \inf_{W, D} \delta_k[W \Phi D]

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary.
    k : int
        Order of the constant, at most m; for IHT at sparsity k use 3k.
    steps : int, default=400
        Steps of Adam; 0 returns the best closed form.
    batch : int, default=256
        Random supports per step; the same number of the worst ones so far is added.
    held_out : int, default=1000
        Random held-out supports, for the report.
    learning_rate : float, default=0.01
        Of Adam.
    limit : int, default=20_000_000
        Largest number of subsets to enumerate for the constants reported, see :func:`rip_constant`.
    rng : int, numpy.random.Generator or None, default=None
        Seed, generator, or None for a different search at every call.
    progress : bool, default=False
        Show a progress bar on a terminal if it takes more than two seconds.

    Returns
    -------
    result : MinimisedRip
        ``result.W``, ``result.D`` can be passed to the solvers as ``precondition=``; ``result.before`` and
        ``result.after`` are the constants, exact if they can be enumerated.

    Notes
    -----
    D may contain a common factor, and with the best one :math:`\delta_k = (b-a)/(b+a) = \tanh(\frac12\ln\frac ba)` for
    the extreme eigenvalues a and b over all supports. Both are maxima over supports and not differentiable; the paper
    leaves the search to training. Here :math:`\ln b - \ln a` is replaced by
    :math:`\frac1\beta\ln\sum\lambda_i(S)^\beta + \frac1\beta\ln\sum\lambda_i(S)^{-\beta}` over sampled supports,
    with β growing from 5 to 50, and minimised with Adam. Random supports alone would lower the average, not the worst
    case: every batch also contains the worst supports that truncated power iterations find for the current WΦD. The
    point with the lowest constant found is returned, so the result is not worse than the closed form at the start.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.low_rank_plus(10, 14, rank=1, epsilon=0.01, rng=0)
    >>> result = ms.theory.minimise_rip(Phi, 3, steps=50, rng=0)
    >>> float(result.before) > 0.999, float(result.after) < 0.97
    (True, True)
    """
    matrix = check_dictionary(Phi).astype(np.float64, copy=False)
    m = matrix.shape[1]
    k = check_integer(k, "k", low=1, high=m)
    steps, batch = check_integer(steps, "steps"), check_integer(batch, "batch", low=1)
    generator = check_rng(rng)
    if steps:
        with needs("the search for W and D"):
            import torch  # noqa: F401  (before the work, not after it)
    unit = matrix / np.linalg.norm(matrix, axis=0)
    test = _random_supports(check_integer(held_out, "held_out", low=1), m, k, generator)
    start, W = _best_start(unit, k, generator)
    start_lower = _search_lower(_unit_columns(W @ unit), k, generator)
    scales: FloatArray = np.ones(m)
    if steps:
        W, scales = _descend(unit, W, _Descent(k, steps, batch, learning_rate, progress), test, generator)
    norms = np.linalg.norm(W @ unit, axis=0)
    B = W @ unit / norms * scales
    before, after = (rip_constant(dictionary, k, limit=limit, rng=generator) for dictionary in (unit, B))
    factor = _best_factor(after)
    D = np.sqrt(factor) * scales / norms / np.linalg.norm(matrix, axis=0)
    return MinimisedRip(
        W,
        D,
        before.times(_best_factor(before)),
        after.times(factor),
        start,
        start_lower,
        deviations(unit * np.sqrt(_best_factor(before)), test),
        deviations(B * np.sqrt(factor), test),
    )


def _best_factor(constant: RipConstant) -> float:
    """2/(a + b), which centres the eigenvalues found, [a, b], at 1."""
    return 2.0 / (constant.largest[0] + max(constant.smallest[1], 0.0))


def _best_start(unit: FloatArray, k: int, rng: np.random.Generator) -> tuple[str, FloatArray]:
    n = unit.shape[0]
    candidates = {"Φ itself": np.eye(n), "whitening": precondition(unit)[0]}
    for r in (1, 2, 3):
        if r < n:
            try:
                candidates[f"{r} directions removed"] = null_low_rank(unit, r)[0]
            except ValueError:  # an atom lies in these directions
                break
    lower = {name: _search_lower(_unit_columns(W @ unit), k, rng) for name, W in candidates.items()}
    best = min(lower, key=lower.__getitem__)
    return best, candidates[best]


class _Descent(NamedTuple):
    k: int
    steps: int
    batch: int
    learning_rate: float
    progress: bool


def _descend(
    unit: FloatArray, W0: FloatArray, descent: _Descent, test: NDArray[np.intp], rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Run Adam on the smooth surrogate; return the W and the scales with the lowest constant."""
    import torch

    k, steps, batch, learning_rate, progress = descent
    m = unit.shape[1]
    # W = R W₀ with R starting at the identity: a whitening W₀ has rows of very different lengths, so one step
    # size does not suit all its entries.
    Phi = torch.as_tensor(W0 @ unit)
    R = torch.eye(len(W0), dtype=torch.float64, requires_grad=True)
    log_scales = torch.zeros(m, dtype=torch.float64, requires_grad=True)
    optimiser: Any = torch.optim.Adam([R, log_scales], lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    forbidden = {tuple(row) for row in test.tolist()}
    pool = np.empty((0, k), dtype=np.intp)
    best, best_pair = np.inf, (W0, np.ones(m))
    for step in track(range(steps + 1), f"lowering δ_{k}", progress):
        B = R @ Phi
        B = B / B.norm(dim=0) * log_scales.exp()
        if step % CHECK_EVERY == 0 or step == steps:
            now = B.detach().numpy()
            lower = _search_lower(now, k, rng)
            if lower < best:
                best, best_pair = lower, (R.detach().numpy() @ W0, log_scales.detach().exp().numpy().copy())
            pool = _worst(now, np.concatenate([pool, hard_supports(now.T @ now, k, 100, rng)]), forbidden)
        if step == steps:
            break
        shown = _allowed(_random_supports(batch, m, k, rng), forbidden)
        supports = torch.as_tensor(np.concatenate([shown, pool[: max(batch, 1)]]))
        blocks = B[:, supports].permute(1, 0, 2)
        eigenvalues = torch.linalg.eigvalsh(blocks.transpose(1, 2) @ blocks)
        beta = 5.0 + 45.0 * step / steps
        logarithms = eigenvalues.clamp_min(SINGULAR).log().flatten()
        loss = (torch.logsumexp(beta * logarithms, 0) + torch.logsumexp(-beta * logarithms, 0)) / beta
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return best_pair


def _worst(B: FloatArray, supports: NDArray[np.intp], forbidden: set[tuple[int, ...]]) -> NDArray[np.intp]:
    """Keep the supports with the largest and those with the smallest eigenvalues, as many of each."""
    supports = _allowed(np.unique(supports, axis=0), forbidden)
    G = B.T @ B
    values = np.linalg.eigvalsh(G[supports[:, :, None], supports[:, None, :]])
    order = np.column_stack([np.argsort(-values[:, -1]), np.argsort(values[:, 0])]).ravel()
    _, first = np.unique(order, return_index=True)
    return supports[order[np.sort(first)][:POOL]]


def _allowed(supports: NDArray[np.intp], forbidden: set[tuple[int, ...]]) -> NDArray[np.intp]:
    return supports[[tuple(row) not in forbidden for row in supports.tolist()]]


def _random_supports(count: int, m: int, k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    return np.sort(np.argsort(rng.random((count, m)), axis=1)[:, :k], axis=1)


def _search_lower(B: FloatArray, k: int, rng: np.random.Generator) -> float:
    """Lower bound on the constant of B with its best common factor."""
    (high, _), (low, _) = search_extremes(B.T @ B, k, 50, rng)
    return (high - max(low, 0.0)) / (high + max(low, 0.0))


def _unit_columns(B: FloatArray) -> FloatArray:
    unit: FloatArray = B / np.linalg.norm(B, axis=0)
    return unit
