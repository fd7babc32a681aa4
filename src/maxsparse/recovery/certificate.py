r"""When is an answer certified to be the sparsest? Four checks, and the name of the argument that makes it unique.

1. **Residual.** ‖y − Φx‖ is within the rounding error, relative to every term of the sum.
2. **No coincidence.** There are billions of supports. For every s, take those that share all but s atoms with S: the
   probability that one of them explains what the shared atoms leave of y, up to rounding errors, must be below 1e-9.
3. **Independence.** The atoms of the support S are independent and no other atom lies in their span. Then, whatever
   support S* and amplitudes made y: unless the amplitudes lie in a set of measure zero, y ∈ span(Φ_S) only if
   span(Φ_S*) ⊂ span(Φ_S), so S* ⊂ S by the check, and S* = S because no coefficient on S is zero.
4. **Separation.** Exchanging any one atom of S for any other leaves a residual above the rounding error: near
   duplicates are not certified.

The argument is ``"spark"`` if 2|S| < spark Φ is proven by a coherence bound: then no other x of that sparsity exists,
without exception. Otherwise it is ``"generic"``: unique with probability one over the amplitudes. If two
coefficients, or two terms x_i φ_i, have equal magnitudes, the amplitudes do not come from a density, and a structured
dictionary (φ₁ + φ₂ = φ₃ + φ₄) may have another x that is as sparse: such answers are certified by ``"spark"`` or not at
all. With at least half as many atoms as equations, the same holds for magnitudes in any simple ratio.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.compiled import kernel
from maxsparse._core.linalg import cholesky, dot
from maxsparse._core.prepared import Prepared, Whitened, WideWhitened
from maxsparse._core.sorting import sort
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray, check_matrix, check_problem
from maxsparse.recovery.refit import refit, tolerance
from maxsparse.recovery.wide_separation import wide_separation

__all__ = ["ARGUMENTS", "Certificates", "certify", "spark_bound"]

ARGUMENTS = ("", "generic", "spark", "optimal")
CHANCE = 1e-9
BLOCK = 512  # atoms at a time, whose sums stay in the cache
LARGEST_DENOMINATOR = 8
PROPORTION = (1e-9, 1e-6)  # how close to a simple fraction a ratio of magnitudes is no accident: well, badly known
DISTINCT = 1e-12  # squared length of an atom modulo others, in units of its own, below which float64 does not know it
MARGIN = 80.0  # between the largest residual due to rounding and the smallest of a neighbouring support


@dataclass(frozen=True, eq=False)
class Certificates:
    """Certificates of a batch of answers.

    Attributes
    ----------
    certified : ndarray of shape (N,), bool
    argument : ndarray of shape (N,), str
        ``"spark"`` or ``"generic"``; empty where not certified.
    residual : ndarray of shape (N,)
        ‖y − Φx‖₂.
    tolerance : ndarray of shape (N,)
        Largest residual due to rounding errors.
    """

    certified: NDArray[np.bool_]
    argument: NDArray[np.str_]
    residual: NDArray[np.float64]
    tolerance: NDArray[np.float64]


def certify(Phi: ArrayLike, Y: ArrayLike, X: ArrayLike, *, rtol: float | None = None) -> Certificates:
    r"""Check which answers are certified to be the sparsest x with y = Φx.

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary.
    Y : array-like of shape (N, n)
        Noiseless signals as rows.
    X : array-like of shape (N, m)
        Answers to check; the support is where they are not zero.
    rtol : float or None, default=None
        Relative rounding error of the data; by default that of the dtype of Φ and Y.

    Returns
    -------
    certificates : Certificates

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> from maxsparse.recovery import certify
    >>> Phi = ms.dictionaries.gaussian(20, 100, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 3, sparsity=5, rng=1)
    >>> certify(Phi, Y, X).argument.tolist()
    ['generic', 'generic', 'generic']
    >>> X[0, np.flatnonzero(X[0])[0]] *= 1.01
    >>> certify(Phi, Y, X).certified.tolist()
    [False, True, True]
    """
    dictionary, signals = check_problem(Phi, Y)
    answers = check_matrix(X, "X")
    if answers.shape != (len(signals), dictionary.shape[1]):
        raise ValueError(f"X must have shape {(len(signals), dictionary.shape[1])}, got {answers.shape}")
    prepared = Prepared(dictionary.astype(np.float64))
    problem = prepared.problem(float(np.finfo(dictionary.dtype).eps) if rtol is None else rtol)
    certificates = certify_rows(problem, signals.astype(np.float64), answers.astype(np.float64), prepared.spark)
    # The caller's coefficients are checked, not the refit.
    own = np.linalg.norm(signals.astype(np.float64) - answers.astype(np.float64) @ prepared.Phi.T, axis=1)
    certified = certificates.certified & (own <= MARGIN * certificates.tolerance)
    argument = np.where(certified, certificates.argument, "")
    return Certificates(certified, argument, own, certificates.tolerance)


def spark_bound(Phi: ArrayLike) -> int:
    """Lower bound of the spark: any fewer atoms are independent. From coherence sums, of Φ and of Φ whitened.

    Parameters
    ----------
    Phi : array-like of shape (n, m)

    Returns
    -------
    spark : int

    Notes
    -----
    If μ₁(k − 1) < 1, any k atoms are independent (Tropp 2004). Whitening changes no dependence, so its coherence may be
    used as well, and is usually smaller.

    Examples
    --------
    >>> import numpy as np
    >>> from maxsparse.recovery import spark_bound
    >>> spark_bound(np.eye(4))
    5
    """
    return Prepared.of(Phi).spark


def certify_rows(problem: Whitened | WideWhitened, Y: FloatArray, X: FloatArray, spark: int) -> Certificates:
    """Check answers for a prepared problem; coefficients of an answer that explains y are refitted in place.

    They are fitted to the support in rising order, and so do not depend on how it was found.
    """
    N = len(Y)
    checks = _Checks(np.full(N, np.inf), np.zeros(N), np.zeros(N, dtype=bool))
    sigma = np.sort(1.0 / np.linalg.norm(problem.W, axis=1))  # singular values of Φ, the weakest first
    if isinstance(problem, WideWhitened):
        over_slices(_certify_wide, N, Y, problem, X, sigma, spark, checks)
    else:
        over_slices(_certify_rows, N, Y, problem, X, sigma, spark, checks)
    proven = checks.passed & (2 * np.count_nonzero(X, axis=1) < spark)
    argument = np.array(ARGUMENTS)[checks.passed.astype(np.int64) + proven]
    return Certificates(checks.passed, argument, checks.residual, checks.allowed)


class _Checks(NamedTuple):
    residual: NDArray[np.float64]  # (N,)
    allowed: NDArray[np.float64]  # (N,), the largest residual that rounding errors explain
    passed: NDArray[np.bool_]  # (N,)


def _certify_wide(
    piece: int,
    pieces: int,
    Y: FloatArray,
    problem: WideWhitened,
    X: FloatArray,
    sigma: NDArray[np.float64],
    spark: int,
    checks: _Checks,
) -> None:
    """Check every answer on its own atoms, then against all others, which are looked at in blocks."""
    rank, m = problem.shape
    for row in range(piece, len(Y), pieces):
        S = np.flatnonzero(X[row])
        if len(S) >= rank:
            continue
        own, one = problem.of(S), slice(row, row + 1)
        x, part = X[one, S], _Checks(checks.residual[one], checks.allowed[one], checks.passed[one])
        _certify_rows(0, 1, Y[one], own, x, sigma, spark, part)
        X[row, S] = x[0]
        if not part.passed[0] or not len(S):
            continue
        gap, sizes = wide_separation(problem, own, S, x[0])
        part.passed[0] = gap * problem.weakest > MARGIN * part.allowed[0] and log_chance(
            sizes, m, part.allowed[0], sigma
        ) < np.log(CHANCE)


@kernel()
def _certify_rows(
    piece: int,
    pieces: int,
    Y: NDArray[Any],
    problem: Whitened,
    X: NDArray[Any],
    sigma: NDArray[Any],
    spark: int,
    checks: _Checks,
) -> None:
    N = len(Y)
    residual, allowed, passed = checks
    rank, m = problem.Q.shape
    support, x = np.empty(rank, np.int64), np.empty(rank)
    L, P, own = np.empty((rank, rank)), np.empty((rank, BLOCK)), np.empty(rank)
    for row in range(piece, N, pieces):
        k = 0
        for j in range(m):
            if X[row, j] != 0.0:
                if k < rank:
                    support[k] = j
                k += 1
        if k >= rank:  # as many atoms as equations explain anything
            continue
        residual[row] = refit(Y[row], problem, support, k, x)
        allowed[row] = tolerance(Y[row], problem, support, k, x)
        if not residual[row] <= allowed[row]:
            continue
        for a in range(k):
            X[row, support[a]] = x[a]
        if k == 0:
            passed[row] = True
            continue
        gap = _separation(problem, support, k, L, x, P, own)
        if gap * problem.weakest > MARGIN * allowed[row]:
            passed[row] = log_chance(own[:k], m, allowed[row], sigma) < np.log(CHANCE)
            if passed[row] and 2 * k >= spark:
                smallest = own[0]
                for a in range(1, k):
                    smallest = min(smallest, own[a])
                largest = LARGEST_DENOMINATOR if 2 * k >= rank else 1
                known = allowed[row] / (problem.weakest * smallest)  # relative error of x at worst
                within = min(max(known, PROPORTION[0]), PROPORTION[1])
                passed[row] = not _in_proportion(x[:k], largest, within)
                for a in range(k):
                    x[a] *= problem.norms[support[a]]
                passed[row] &= not _in_proportion(x[:k], largest, within)


@kernel()
def _in_proportion(x: NDArray[Any], largest: int, within: float) -> bool:
    """Return whether the ratio of two magnitudes is a fraction with a denominator up to `largest`."""
    for a in range(x.shape[0]):
        for b in range(a):
            ratio = min(abs(x[a]), abs(x[b])) / max(abs(x[a]), abs(x[b]))
            for q in range(1, largest + 1):
                p = np.rint(ratio * q)
                if p > 0 and abs(ratio * q - p) <= within * q:
                    return True
    return False


@kernel()
def log_chance(own: NDArray[Any], m: int, allowed: float, sigma: NDArray[Any]) -> float:
    """Bound the log probability that a support which shares all but s atoms explains y too, the largest over s.

    `own` are the sizes of the support's terms, whitened, each modulo all others. Whatever k − s atoms are kept, they
    leave at least the s-th smallest of these. That remainder is spread evenly over all directions, so what any other s
    atoms leave of it has rank − k components of that size over √rank. A residual of size `allowed` is allowed/σ in a
    whitened direction, at worst in the weakest ones. There are no more than m over s ways to choose s atoms.
    """
    rank, k = sigma.shape[0], own.shape[0]
    sizes = own.copy()
    sort(sizes)
    largest = -np.inf
    for s in range(1, k + 1):
        total = math.lgamma(m + 1.0) - math.lgamma(s + 1.0) - math.lgamma(m - s + 1.0)
        for l in range(rank - k):
            total += min(0.0, np.log(allowed * np.sqrt(rank) / (sigma[l] * sizes[s - 1])))
        largest = max(largest, total)
    return largest


@kernel()
def _separation(
    problem: Whitened,
    support: NDArray[Any],
    k: int,
    L: NDArray[Any],
    x: NDArray[Any],
    P: NDArray[Any],
    own: NDArray[Any],
) -> float:
    """Return the smallest residual of Wy on a support that differs in one atom; L (k, k) and P (k, BLOCK) are scratch.

    `own` takes what every term of Wy is modulo the others.

    With c = Q_S⁺ q_j, h_i = ‖q_i modulo the rest of S‖² and o = ‖q_j modulo S‖², exchanging i for j leaves
    |x_i| √(h_i o / (o + c_i² h_i)).
    """
    m = problem.Q.shape[1]
    for a in range(k):
        for b in range(a + 1):
            L[a, b] = dot(problem.columns[support[a]], problem.columns[support[b]])
    if not cholesky(L, k):
        return 0.0
    h, smallest = np.empty(k), np.inf
    for a in range(k):
        h[a] = _own_part(L, k, a)
        if h[a] < DISTINCT:
            return 0.0
        amplitude2 = (x[a] / problem.D[support[a]]) ** 2 * h[a]
        own[a] = np.sqrt(amplitude2)
        smallest = min(smallest, amplitude2)
    for start in range(0, m, BLOCK):
        smallest = min(smallest, _closest(problem, support[:k], L, x, h, start, min(m, start + BLOCK), P))
    distance: float = np.sqrt(smallest)
    return distance


@kernel()
def _closest(
    problem: Whitened,
    support: NDArray[Any],
    L: NDArray[Any],
    x: NDArray[Any],
    h: NDArray[Any],
    start: int,
    stop: int,
    P: NDArray[Any],
) -> float:
    """Return the smallest square that exchanging an atom for one of start to stop leaves; 0 if one is in the span."""
    k, width = len(support), stop - start
    # P = L⁻¹ Q_Sᵀ Q; the squares of its columns are what S explains of every atom
    for a in range(k):
        row = P[a]
        for j in range(width):
            row[j] = 0.0
        atom = problem.columns[support[a]]
        for i in range(atom.shape[0]):
            value, line = atom[i], problem.Q[i, start:stop]
            for j in range(width):
                row[j] += value * line[j]
        for l in range(a):
            value, line = L[a, l], P[l]
            for j in range(width):
                row[j] -= value * line[j]
        for j in range(width):
            row[j] /= L[a, a]
    outside = np.ones(width)
    for a in range(k):
        for j in range(width):
            outside[j] -= P[a, j] * P[a, j]
    for a in range(k - 1, -1, -1):  # P becomes the coefficients c = L⁻ᵀ P
        row = P[a]
        for l in range(a + 1, k):
            value, line = L[l, a], P[l]
            for j in range(width):
                row[j] -= value * line[j]
        for j in range(width):
            row[j] /= L[a, a]
    for a in range(k):
        if start <= support[a] < stop:
            outside[support[a] - start] = np.inf
    for j in range(width):
        size2 = 1.0
        for a in range(k):
            size2 += P[a, j] * P[a, j]
        if outside[j] < 1e-13 * size2:  # in the span, as far as float64 can tell with coefficients of that size
            return 0.0
    smallest = np.inf
    for a in range(k):
        amplitude2 = (x[a] / problem.D[support[a]]) ** 2 * h[a]
        for j in range(width):
            o = outside[j]
            if o < np.inf:
                smallest = min(smallest, amplitude2 * o / (o + P[a, j] * P[a, j] * h[a]))
    return smallest


@kernel()
def _own_part(L: NDArray[Any], k: int, a: int) -> float:
    """Return 1/(G⁻¹)_aa for G = LLᵀ: the squared length of column a modulo the others."""
    column = np.zeros(k)
    column[a] = 1.0
    total = 0.0
    for i in range(a, k):
        for l in range(a, i):
            column[i] -= L[i, l] * column[l]
        column[i] /= L[i, i]
        total += column[i] * column[i]
    return 1.0 / total
