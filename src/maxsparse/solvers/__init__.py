"""Classical sparse solvers under one contract: ``solver(Phi, Y, *, …) -> Result``, rows of Y are signals.

:func:`solve` takes the method by name; the functions beside it are for people who know which one they want.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from maxsparse._core.validation import check_choice
from maxsparse.result import Result
from maxsparse.solvers._contract import Precondition
from maxsparse.solvers.adaptive_iht import Layer, adaptive_layers, aiht
from maxsparse.solvers.exact import exact
from maxsparse.solvers.iht import iht
from maxsparse.solvers.ista import fista, ista
from maxsparse.solvers.l1 import l1
from maxsparse.solvers.omp import omp
from maxsparse.solvers.reweighted_l1 import reweighted_l1
from maxsparse.solvers.sbl import sbl
from maxsparse.solvers.subspace_pursuit import subspace_pursuit

__all__ = [
    "METHODS",
    "Layer",
    "adaptive_layers",
    "aiht",
    "exact",
    "fista",
    "iht",
    "ista",
    "l1",
    "omp",
    "register",
    "reweighted_l1",
    "sbl",
    "solve",
    "subspace_pursuit",
]

METHODS: dict[str, Callable[..., Result]] = {
    "omp": omp,
    "subspace_pursuit": subspace_pursuit,
    "iht": iht,
    "aiht": aiht,
    "ista": ista,
    "fista": fista,
    "l1": l1,
    "reweighted_l1": reweighted_l1,
    "sbl": sbl,
    "exact": exact,
}


def solve(
    Phi: ArrayLike,
    Y: ArrayLike,
    method: str = "sbl",
    *,
    sparsity: int | None = None,
    precondition: Precondition = True,
    **options: Any,
) -> Result:
    """Recover sparse signals by the method of that name.

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary: n measurements, m atoms.
    Y : array-like of shape (N, n)
        Signals as rows.
    method : str, default="sbl"
        Name of a method in ``maxsparse.solvers.METHODS``.
    sparsity : int or None, default=None
        Number of nonzeros. Greedy and thresholding methods stop there; the others keep that many of their largest
        coefficients and refit them. None where the method allows it.
    precondition : bool or (W, D), default=True
        Whiten the problem first, see :func:`maxsparse.theory.precondition`. With noise on Y, say how much with
        ``noise=``, or whitening will blow it up.
    **options
        Whatever else the method takes, for example ``noise=``, ``tol=``, ``max_iter=``, ``n_threads=``.

    Returns
    -------
    result : Result

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.decaying(20, 100, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 500, sparsity=2, rng=1)
    >>> plain = ms.solve(Phi, Y, method="omp", sparsity=2, precondition=False)
    >>> whitened = ms.solve(Phi, Y, method="omp", sparsity=2)
    >>> ms.metrics.strict_accuracy(X, plain.scores) < 0.1, ms.metrics.strict_accuracy(X, whitened.scores) > 0.9
    (True, True)
    """
    solver = METHODS[check_choice(method, "method", tuple(METHODS))]
    return solver(Phi, Y, sparsity=sparsity, precondition=precondition, **options)


def register(name: str, solver: Callable[..., Result]) -> None:
    """Add a solver of your own to :data:`METHODS`, so that :func:`solve` and the experiments know it by name.

    Parameters
    ----------
    name : str
        A name that is not taken.
    solver : callable
        ``solver(Phi, Y, *, sparsity, precondition, **options) -> Result``.
    """
    if name in METHODS:
        raise ValueError(f"a method named {name!r} exists already; choose another name")
    METHODS[name] = solver
