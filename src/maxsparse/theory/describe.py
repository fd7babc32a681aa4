"""Properties of a dictionary that matter for the choice of a method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.progress import track
from maxsparse._core.validation import (
    FloatArray,
    RandomState,
    check_dictionary,
    check_integer,
    check_rng,
    duplicate_atoms,
)
from maxsparse.theory.coherence import coherence, cumulative_coherence
from maxsparse.theory.precondition import precondition
from maxsparse.theory.rip import IHT_THRESHOLD, RipConstant, rip_constant
from maxsparse.theory.uniqueness import Spark, spark

__all__ = ["Description", "describe"]

ENOUGH = 0.9  # a method is expected to work if it recovers this share of random supports
ENUMERATED = 2_000_000


@dataclass(frozen=True, eq=False)
class Forecast:
    """For k = 1, 2, …: share of random k-sparse signals that OMP recovers, and that ℓ1 is guaranteed to recover."""

    omp: list[float]
    l1: list[float]

    def up_to(self, method: str) -> int:
        """Largest k up to which the share is at least 0.9."""
        shares = getattr(self, method)
        return next((k for k, share in enumerate(shares) if share < ENOUGH), len(shares))


@dataclass(frozen=True, eq=False)
class Description:
    """Measures of how difficult a dictionary is; ``print`` shows them.

    Attributes
    ----------
    shape : (int, int)
    rank : int
    condition : float
        Ratio of the largest to the smallest nonzero singular value.
    duplicates : list of (int, int)
        Atoms that are multiples of each other.
    coherence, whitened_coherence : float
    spark : Spark
    delta : RipConstant
        δ_3 of the atoms scaled to norm 1; the guarantee of IHT at k = 1 depends on it.
    whitened_delta : RipConstant
        The same after whitening.
    guaranteed : int
        Largest sparsity at which OMP and ℓ1 recover every signal, by cumulative coherence.
    guaranteed_iht : int
        Largest sparsity k that is certified to have δ_3k < 1/√32.
    plain, whitened : Forecast
        Shares of random signals that OMP and ℓ1 recover.
    """

    shape: tuple[int, int]
    rank: int
    condition: float
    duplicates: list[tuple[int, int]]
    coherence: float
    whitened_coherence: float
    spark: Spark
    delta: RipConstant
    whitened_delta: RipConstant
    guaranteed: int
    guaranteed_iht: int
    plain: Forecast
    whitened: Forecast

    def __str__(self) -> str:
        n, m = self.shape
        lines = [
            f"dictionary          {n} measurements × {m} atoms, rank {self.rank}, "
            f"condition number {self.condition:.3g}",
            f"coherence           {self.coherence:.4f}; whitened {self.whitened_coherence:.4f}",
            f"δ_{self.delta.k}                 {_interval(self.delta)}; whitened {_interval(self.whitened_delta)}; "
            f"IHT needs less than {IHT_THRESHOLD:.4f}",
            f"spark               {_spark(self.spark)}",
            f"guaranteed          OMP and ℓ1 recover every signal with up to {self.guaranteed} nonzeros, "
            f"IHT up to {self.guaranteed_iht}",
            f"expected            {ENOUGH:.0%} of random signals: OMP up to {self.plain.up_to('omp')} nonzeros, "
            f"ℓ1 up to {self.plain.up_to('l1')}",
            f"expected, whitened  OMP up to {self.whitened.up_to('omp')} nonzeros, "
            f"ℓ1 up to {self.whitened.up_to('l1')}",
        ]
        if self.duplicates:
            lines.append(f"duplicates          {len(self.duplicates)} pairs of atoms are multiples of each other")
        return "\n".join([*lines, f"advice              {self.advice}"])

    @property
    def advice(self) -> str:
        """Recommended methods, in one sentence."""
        plain = max(self.plain.up_to("omp"), self.plain.up_to("l1"))
        whitened = max(self.whitened.up_to("omp"), self.whitened.up_to("l1"))
        first = "whiten (precondition=True) if the noise allows it" if whitened > plain else "whitening is not needed"
        most = max(plain, whitened)
        if most == 0:
            return f"{first}; OMP and ℓ1 are not expected to work: use maxsparse.SparseRecoverer, sbl or exact"
        return f"{first}; OMP or ℓ1 up to {most} nonzeros, for more use maxsparse.SparseRecoverer, sbl or exact"


def describe(
    Phi: ArrayLike, *, max_sparsity: int = 10, samples: int = 200, rng: RandomState = 0, progress: bool = False
) -> Description:
    r"""Measure how well sparse signals can be recovered with a dictionary, and by which methods.

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary; atoms are scaled to norm 1 first.
    max_sparsity : int, default=10
        Largest sparsity of the forecast.
    samples : int, default=200
        Random supports per sparsity.
    rng : int, numpy.random.Generator or None, default=0
        Seed of the samples.
    progress : bool, default=False
        Show a progress bar on a terminal if it takes more than two seconds.

    Returns
    -------
    description : Description
        ``print(description)`` shows it.

    Notes
    -----
    The guarantee for OMP and ℓ1 is Tropp's :math:`\mu_1(k-1) + \mu_1(k) < 1` [1]_, that for IHT is
    :math:`\delta_{3k} < 1/\sqrt{32}`. The forecast draws random supports S, signs s and amplitudes from ±U[0.1, 0.5]:
    OMP is run on them; for ℓ1, Fuchs' condition
    :math:`\max_{j \notin S}|\phi_j^\top\Phi_S(\Phi_S^\top\Phi_S)^{-1}s| < 1` [2]_ is checked, which is sufficient, so
    that ℓ1 recovers somewhat more.

    References
    ----------
    .. [1] J. Tropp, "Greed is good", IEEE Trans. Information Theory 50(10), 2004.
    .. [2] J.-J. Fuchs, "On sparse representations in arbitrary redundant bases", IEEE Trans. Information Theory 50(6),
       2004.

    Examples
    --------
    >>> import maxsparse as ms
    >>> description = ms.theory.describe(ms.dictionaries.gaussian(30, 60, rng=0))
    >>> print(description)
    dictionary          30 measurements × 60 atoms, rank 30, condition number ...
    coherence           0.6...
    >>> description.guaranteed_iht
    0
    """
    matrix = check_dictionary(Phi).astype(np.float64, copy=False)
    generator = check_rng(rng)
    samples = check_integer(samples, "samples", low=1)
    n, m = matrix.shape
    most = min(check_integer(max_sparsity, "max_sparsity", low=1), max(1, m - 1), n)
    unit = matrix / np.linalg.norm(matrix, axis=0)
    white = np.empty((0, m))
    found: dict[str, Any] = {}

    def whiten() -> FloatArray:
        nonlocal white
        W, D = precondition(unit)
        white = np.asarray(W @ unit * D)
        return white

    def constant(matrix: FloatArray) -> RipConstant:
        return rip_constant(matrix, min(3, m), limit=ENUMERATED, rng=generator)

    steps: list[tuple[str, Callable[[], Any]]] = [
        ("sigma", lambda: np.linalg.svd(unit, compute_uv=False)),
        ("white", whiten),
        ("duplicates", lambda: duplicate_atoms(matrix)),
        ("coherence", lambda: coherence(unit)),
        ("whitened_coherence", lambda: coherence(white)),
        ("delta", lambda: constant(unit)),
        ("spark", lambda: spark(unit, limit=200_000)),
        ("whitened_delta", lambda: constant(white)),
        ("guaranteed", lambda: _guaranteed(unit)),
        ("guaranteed_iht", lambda: _guaranteed_iht(unit, found["delta"], generator)),
        ("plain", lambda: _forecast(unit, most, samples, generator)),
        ("whitened", lambda: _forecast(white, most, samples, generator)),
    ]
    for name, step in track(steps, "describe", progress):
        found[name] = step()
    sigma, _ = found.pop("sigma"), found.pop("white")
    rank = int((sigma > max(n, m) * np.finfo(np.float64).eps * sigma[0]).sum())
    return Description(shape=(n, m), rank=rank, condition=float(sigma[0] / sigma[rank - 1]), **found)


def _guaranteed(unit: FloatArray) -> int:
    """Largest k with μ₁(k − 1) + μ₁(k) < 1."""
    m = unit.shape[1]
    if m == 1:
        return 1
    mu = np.concatenate([[0.0], cumulative_coherence(unit, m - 1)])
    failed = np.flatnonzero(mu[:-1] + mu[1:] >= 1.0)
    return int(failed[0]) if failed.size else m - 1


def _guaranteed_iht(unit: FloatArray, delta: RipConstant, rng: np.random.Generator) -> int:
    """Largest k with δ_3k < 1/√32; `delta` is δ_3."""
    k, m = 0, unit.shape[1]
    while delta.k == 3 * (k + 1) and delta.below() is True:
        k += 1
        if 3 * (k + 1) <= m:
            delta = rip_constant(unit, 3 * (k + 1), limit=ENUMERATED, rng=rng)
    return k


def _forecast(B: FloatArray, most: int, samples: int, rng: np.random.Generator) -> Forecast:
    m = B.shape[1]
    omp, l1 = [], []
    for k in range(1, most + 1):
        supports = np.empty((samples, k), np.intp)
        signs, sizes = np.empty((2, samples, k))
        for i in range(samples):
            supports[i], signs[i] = rng.choice(m, k, replace=False), rng.choice([-1.0, 1.0], k)
            sizes[i] = rng.uniform(0.1, 0.5, k)
        atoms = B.T[supports]  # (samples, k, n)
        omp.append(float(_omp_finds(B, supports, np.einsum("ik,ikn->in", signs * sizes, atoms)).mean()))
        dual = np.einsum("ink,ik->in", np.linalg.pinv(atoms), signs)
        outside = np.abs(dual @ B)
        np.put_along_axis(outside, supports, 0.0, axis=1)
        l1.append(float((outside.max(axis=1) < 1.0).mean()))
    return Forecast(omp, l1)


def _omp_finds(B: FloatArray, supports: NDArray[np.intp], Y: FloatArray) -> NDArray[np.bool_]:
    """Whether the first k atoms that OMP selects are the support, for every row of Y (N, n)."""
    N, k = supports.shape
    chosen = np.empty((N, 0), np.intp)
    right, R = np.ones(N, bool), Y.copy()
    for _ in range(k):
        best = np.zeros(N, np.intp)
        best[right] = np.abs(R[right] @ B).argmax(axis=1)
        right &= (supports == best[:, None]).any(axis=1) & ~(chosen == best[:, None]).any(axis=1)
        chosen = np.column_stack([chosen, best])
        for i in np.flatnonzero(right):
            atoms = B[:, chosen[i]]
            R[i] = Y[i] - atoms @ np.linalg.lstsq(atoms, Y[i], rcond=None)[0]
    return right


def _interval(constant: RipConstant) -> str:
    if constant.exact:
        return f"{constant.lower:.4f}"
    return f"{constant.lower:.4f} to {constant.upper:.4f}"


def _spark(result: Spark) -> str:
    known = f"{result.lower}" if result.exact else f"from {result.lower} to {result.upper}"
    return f"{known}: a solution with up to {result.unique_up_to} nonzeros is guaranteed to be the unique sparsest one"
