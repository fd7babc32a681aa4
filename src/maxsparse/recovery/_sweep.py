r"""One support of one noisy signal, with the evidence of all its neighbours: one atom added, removed or exchanged.

The model is :math:`y = \Phi_S x + e` with :math:`e \sim N(0, \sigma^2 I)` and :math:`x \sim N(0, \delta I)`, so that

.. math:: \log p(y \mid S) = -\tfrac12 \log\det C - \tfrac12 y^\top C^{-1} y + \text{const}, \quad
          C = \sigma^2 I + \delta \Phi_S\Phi_S^\top .

Sweeping :math:`A = \Phi^\top\Phi/\sigma^2 + I/\delta` on S gives, for an atom j outside, :math:`t_j = 1/\delta +
\phi_j^\top C^{-1}\phi_j` and :math:`u_j = \phi_j^\top C^{-1} y`; for an atom inside, its posterior variance and mean.
Adding j changes the evidence by :math:`\frac12(u_j^2/t_j - \log \delta t_j)`; removing i by the negative of that, with
variance and mean in place of :math:`1/t` and :math:`u/t`. Only the k swept rows are kept, so that a step costs O(km),
and with them every exchange of two atoms is known too. All pivots are at least 1/δ or at most δ, which keeps the sweep
accurate at any noise level.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.compiled import kernel
from maxsparse.learned_sbl.arithmetic import log

__all__ = [
    "IMPOSSIBLE",
    "ROUNDING",
    "Sweep",
    "add",
    "best_flip",
    "best_swap",
    "clear",
    "flip_gains",
    "largest",
    "make_sweep",
    "may_gain",
    "penalise",
    "remove",
    "swap_gains",
]

IMPOSSIBLE = 1e300  # larger than any gain
ROUNDING = 1e-3  # in nats, more than the rounding errors of gains, whose logarithms are float32


class Sweep(NamedTuple):
    """The swept rows of the current support, and scratch."""

    H: NDArray[np.float64]  # (most + 1, m); row a: regression of every atom on the support, −Σ inside it
    t: NDArray[np.float64]  # (m,), outside 1/δ + φᵀC⁻¹φ, inside the posterior variance
    u: NDArray[np.float64]  # (m,), outside φᵀC⁻¹y, inside the posterior mean
    support: NDArray[np.int64]  # (most + 1,), the first `size` entries
    place: NDArray[np.int64]  # (m,), position of an atom in the support, or −1
    size: NDArray[np.int64]  # (1,)
    gains: NDArray[np.float64]  # (m,), scratch from here on
    values: NDArray[np.float32]  # (m,)
    bits: NDArray[np.int32]  # (m,), the same memory
    logs: NDArray[np.float32]  # (m,)
    penalty: NDArray[np.float64]  # (m,)
    weights: NDArray[np.float64]  # (most + 1,)


@kernel()
def make_sweep(m: int, most: int) -> Sweep:
    """Return the state for m atoms and supports of at most `most` of them."""
    values = np.empty(m, np.float32)
    return Sweep(
        np.empty((most + 1, m)),
        np.empty(m),
        np.empty(m),
        np.empty(most + 1, np.int64),
        np.full(m, -1, np.int64),
        np.zeros(1, np.int64),
        np.empty(m),
        values,
        values.view(np.int32),
        np.empty(m, np.float32),
        np.empty(m),
        np.empty(most + 1),
    )


@kernel(fast=True)
def clear(s: Sweep, b: NDArray[Any], variance: float, slab: float) -> None:
    """Start from the empty support; b = Φᵀy for atoms of norm 1, σ² = `variance`, δ = `slab`."""
    for a in range(s.size[0]):
        s.place[s.support[a]] = -1
    s.size[0] = 0
    start = 1.0 / variance + 1.0 / slab
    for j in range(b.shape[0]):
        s.t[j] = start
        s.u[j] = b[j] / variance


@kernel(fast=True)
def add(s: Sweep, G: NDArray[Any], variance: float, slab: float, j: int) -> float:
    """Add atom j to the support; return the change of the evidence. G = ΦᵀΦ."""
    m, k = s.t.shape[0], s.size[0]
    new, gram = s.H[k], G[j]
    scale = 1.0 / variance
    pivot, u = s.t[j], s.u[j]
    inverse = 1.0 / pivot
    mean = u * inverse
    for l in range(m):
        new[l] = gram[l] * scale
    for a in range(k):
        s.weights[a] = -gram[s.support[a]] * scale
    _add_rows(s.H, s.weights, k, new)
    for a in range(k):
        new[s.support[a]] = s.H[a, j]
        s.weights[a] = -s.H[a, j] * inverse
    _add_to_rows(new, s.weights, k, s.H)
    for a in range(k):
        s.H[a, j] = -s.weights[a]
        s.u[s.support[a]] += s.weights[a] * u
    for a in range(k):
        new[s.support[a]] = 0.0  # t and u of atoms inside follow other rules
    for l in range(m):
        s.t[l] -= new[l] * new[l] * inverse
        s.u[l] -= new[l] * mean
        new[l] *= inverse
    for a in range(k):
        i = s.support[a]
        new[i] = s.H[a, j]
        s.t[i] = -s.H[a, i]
    new[j] = -inverse
    s.t[j], s.u[j] = inverse, mean
    s.support[k], s.place[j], s.size[0] = j, k, k + 1
    gain: float = 0.5 * (u * mean - math.log(slab * pivot))
    return gain


@kernel(fast=True)
def remove(s: Sweep, slab: float, j: int) -> float:
    """Remove atom j from the support; return the change of the evidence."""
    m, last, p = s.t.shape[0], s.size[0] - 1, s.place[j]
    old = s.gains
    for l in range(m):
        old[l] = s.H[p, l]
    variance, mean = s.t[j], s.u[j]
    inverse = 1.0 / variance
    u = mean * inverse
    for a in range(last + 1):
        s.weights[a] = s.H[a, j] * inverse if a != p else 0.0
    _add_to_rows(old, s.weights, last + 1, s.H)
    for a in range(last + 1):
        if a != p:
            s.H[a, j] = s.weights[a]
            s.u[s.support[a]] += s.weights[a] * mean
    for a in range(last + 1):
        old[s.support[a]] = 0.0
    for l in range(m):
        s.t[l] += old[l] * old[l] * inverse
        s.u[l] += old[l] * u
    s.t[j], s.u[j] = inverse, u
    if p != last:
        for l in range(m):
            s.H[p, l] = s.H[last, l]
        s.support[p] = s.support[last]
        s.place[s.support[p]] = p
    s.place[j], s.size[0] = -1, last
    for a in range(last):
        s.t[s.support[a]] = -s.H[a, s.support[a]]
    gain: float = 0.5 * (math.log(slab * inverse) - mean * u)
    return gain


@kernel()
def _add_rows(H: NDArray[Any], weights: NDArray[Any], k: int, out: NDArray[Any]) -> None:
    """Add the first k rows of H, weighted, to `out`, which is none of them; four at a time."""
    whole = k - k % 4
    for a in range(0, whole, 4):
        _add_four(weights[a : a + 4], H[a], H[a + 1], H[a + 2], H[a + 3], out)
    for a in range(whole, k):
        _add_one(weights[a], H[a], out)


@kernel()
def _add_to_rows(row: NDArray[Any], weights: NDArray[Any], k: int, H: NDArray[Any]) -> None:
    """Add `row`, weighted, to each of the first k rows of H, of which it is none; four at a time."""
    whole = k - k % 4
    for a in range(0, whole, 4):
        _add_to_four(row, weights[a : a + 4], H[a], H[a + 1], H[a + 2], H[a + 3])
    for a in range(whole, k):
        _add_one(weights[a], row, H[a])


@kernel(fast=True, apart=True, alone=True)
def _add_four(
    weights: NDArray[Any], a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], d: NDArray[Any], out: NDArray[Any]
) -> None:
    w, x, y, z = weights[0], weights[1], weights[2], weights[3]
    for l in range(out.shape[0]):
        out[l] += (w * a[l] + x * b[l]) + (y * c[l] + z * d[l])


@kernel(fast=True, apart=True, alone=True)
def _add_to_four(
    row: NDArray[Any], weights: NDArray[Any], a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], d: NDArray[Any]
) -> None:
    w, x, y, z = weights[0], weights[1], weights[2], weights[3]
    for l in range(row.shape[0]):
        value = row[l]
        a[l] += w * value
        b[l] += x * value
        c[l] += y * value
        d[l] += z * value


@kernel(fast=True, apart=True, alone=True)
def _add_one(weight: float, row: NDArray[Any], out: NDArray[Any]) -> None:
    for l in range(out.shape[0]):
        out[l] += weight * row[l]


@kernel(fast=True)
def flip_gains(s: Sweep, slab: float, prior: NDArray[Any]) -> None:
    """Set gains_j to the change of the log posterior by adding or removing j; prior[k] is that of a support of size k.

    Adding beyond the largest size that `prior` has is −∞.
    """
    m, k = s.t.shape[0], s.size[0]
    room = k + 1 < prior.shape[0]
    more = prior[k + 1] - prior[k] if room else -np.inf
    more -= 0.5 * math.log(slab)
    for l in range(m):
        s.values[l] = s.t[l]
        s.gains[l] = 0.5 * s.u[l] * s.u[l] / s.t[l] + more
    log(s.values, s.bits, s.logs)
    for l in range(m):
        s.gains[l] -= 0.5 * s.logs[l]
    for a in range(k):
        i = s.support[a]
        s.gains[i] = 0.5 * (math.log(slab / s.t[i]) - s.u[i] * s.u[i] / s.t[i]) + prior[k - 1] - prior[k]


@kernel(fast=True)
def swap_gains(s: Sweep, slab: float, a: int) -> None:
    """Set gains_j to the change of the log posterior by exchanging the a-th atom of the support for j; −∞ inside."""
    m, i = s.t.shape[0], s.support[a]
    inverse = 1.0 / s.t[i]
    f = s.u[i] * inverse
    loss = -0.5 * (s.u[i] * f + math.log(s.t[i] / slab) + math.log(slab))
    row = s.H[a]
    for l in range(m):
        t = s.t[l] + inverse * row[l] * row[l]
        u = s.u[l] + f * row[l]
        s.values[l] = t
        s.gains[l] = 0.5 * u * u / t + loss
    log(s.values, s.bits, s.logs)
    for l in range(m):
        s.gains[l] -= 0.5 * s.logs[l]
    for b in range(s.size[0]):
        s.gains[s.support[b]] = -np.inf


@kernel()
def best_flip(s: Sweep, slab: float, prior: NDArray[Any]) -> tuple[float, int]:
    """Return the largest gain of adding or removing one atom, and the atom."""
    flip_gains(s, slab, prior)
    j = largest(s.gains)
    return s.gains[j], j


@kernel()
def best_swap(s: Sweep, slab: float, least: float) -> tuple[float, int, int]:
    """Return the largest gain above `least` of exchanging two atoms, the one that leaves and the one that enters.

    The atoms are −1 where no gain is above it.
    """
    best, leave, enter = least, -1, -1
    penalise(s)
    for a in range(s.size[0]):
        if may_gain(s, a, best):
            swap_gains(s, slab, a)
            j = largest(s.gains)
            if s.gains[j] > best:
                best, leave, enter = s.gains[j], s.support[a], j
    return best, leave, enter


@kernel(fast=True)
def penalise(s: Sweep) -> None:
    """Set penalty_j to ½ log t_j, and to more than any gain inside the support."""
    for l in range(s.t.shape[0]):
        s.values[l] = s.t[l]
    log(s.values, s.bits, s.logs)
    for l in range(s.t.shape[0]):
        s.penalty[l] = 0.5 * s.logs[l]
    for a in range(s.size[0]):
        s.penalty[s.support[a]] = IMPOSSIBLE


@kernel(fast=True)
def may_gain(s: Sweep, a: int, least: float) -> bool:
    """Return False if exchanging the a-th atom of the support gains less than `least`, whatever enters.

    It needs :func:`penalise` for the current support. Pivots t of atoms outside only grow when an atom leaves, so that
    their penalties before are lower bounds: no logarithm per atom is needed. A count vectorises, a maximum does not.
    """
    i, count, row = s.support[a], 0, s.H[a]
    inverse = 1.0 / s.t[i]
    f = s.u[i] * inverse
    least += 0.5 * (s.u[i] * f + math.log(s.t[i])) - ROUNDING
    for l in range(s.t.shape[0]):
        u = s.u[l] + f * row[l]
        count += 0.5 * u * u > (least + s.penalty[l]) * (s.t[l] + inverse * row[l] * row[l])
    return count > 0


@kernel()
def largest(values: NDArray[Any]) -> int:
    """Return the index of the largest value, the first of several."""
    found = 0
    for j in range(1, values.shape[0]):
        if values[j] > values[found]:
            found = j
    return found
