"""Classical sparse solvers with one interface: ``solver(Phi, Y, *, …) -> Result``, rows of Y are signals.

:func:`solve` selects the method by name; each method is also a function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from maxsparse._core.names import atom_names
from maxsparse._core.products import is_operator
from maxsparse._core.registry import SOLVERS
from maxsparse._core.validation import is_complex
from maxsparse.result import Result
from maxsparse.solvers._contract import Batch, Options, Precondition
from maxsparse.solvers._contract import run as solve_in_batches
from maxsparse.solvers.layers import Layer, adaptive_layers

if TYPE_CHECKING:  # for editors and type checkers; at run time every registered solver of this package is here
    from maxsparse.solvers.adaptive_iht import aiht
    from maxsparse.solvers.exact import exact
    from maxsparse.solvers.iht import iht
    from maxsparse.solvers.ista import fista, ista
    from maxsparse.solvers.l1 import l1
    from maxsparse.solvers.nnls import nnls
    from maxsparse.solvers.omp import omp
    from maxsparse.solvers.reweighted_l1 import reweighted_l1
    from maxsparse.solvers.sbl import sbl
    from maxsparse.solvers.subspace_pursuit import subspace_pursuit
    from maxsparse.solvers.vamp import vamp

METHODS = SOLVERS  # by name; print it for what each does

__all__ = [
    "METHODS",
    "Batch",
    "Layer",
    "Options",
    "adaptive_layers",
    "aiht",
    "exact",
    "fista",
    "iht",
    "ista",
    "l1",
    "nnls",
    "omp",
    "register",
    "reweighted_l1",
    "sbl",
    "solve",
    "solve_in_batches",
    "subspace_pursuit",
    "vamp",
]

# Not `__getattr__`: a module and its function share their name, and whichever is bound last is the one that is found.
for _entry in SOLVERS.entries():
    if not _entry.outside:
        globals()[_entry.name] = SOLVERS[_entry.name]
        if _entry.name not in __all__:
            __all__.append(_entry.name)


def solve(
    Phi: ArrayLike,
    Y: ArrayLike,
    method: str = "sbl",
    *,
    sparsity: int | None = None,
    precondition: Precondition = False,
    names: Iterable[Any] | None = None,
    **options: Any,
) -> Result:
    """Recover sparse signals with the method of that name.

    Parameters
    ----------
    Phi : array-like of shape (n, m), or LinearOperator
        Dictionary: n measurements, m atoms. Methods that can take a ``scipy.sparse.linalg.LinearOperator`` as well.
    Y : array-like of shape (N, n)
        Signals as rows. Where Φ or Y is a torch tensor, the result holds tensors on its device.
    method : str, default="sbl"
        Name of a method: ``print(maxsparse.solvers.METHODS)`` lists them.
    sparsity : int or None, default=None
        Number of nonzeros. Greedy and thresholding methods return at most this many; the others keep their largest
        coefficients and refit them. None if the method allows it.
    precondition : bool or (W, D), default=False
        Whiten the problem first, see :func:`maxsparse.theory.precondition`. With noise on Y, set ``noise=``,
        otherwise whitening amplifies it.
    names : iterable of m str or None, default=None
        Names of the atoms, for tables and plots of the result. A table (DataFrame) Φ brings them as its columns; its
        index names the measurements, and the columns of a table Y are then brought into that order.
    **options
        Other options of the method, for example ``noise=``, ``tol=``, ``max_iter=``, ``n_threads=``.

    Returns
    -------
    result : Result

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.decaying(20, 100, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 500, sparsity=2, rng=1)
    >>> plain = ms.solve(Phi, Y, method="omp", sparsity=2)
    >>> whitened = ms.solve(Phi, Y, method="omp", sparsity=2, precondition=True)
    >>> ms.metrics.strict_accuracy(X, plain.scores) < 0.1, ms.metrics.strict_accuracy(X, whitened.scores) > 0.9
    (True, True)
    """
    solver = SOLVERS.find(method)
    for ability in _asked(Phi, Y, options):
        SOLVERS.require(method, ability)
    SOLVERS.check_options(method, options, skip=2)
    named = None if names is None else atom_names(Phi, names)
    result: Result = solver(Phi, Y, sparsity=sparsity, precondition=precondition, **options)
    return result if named is None else replace(result, names=named)


def _asked(Phi: ArrayLike, Y: ArrayLike, options: Mapping[str, Any]) -> list[str]:
    """Return the abilities that a call asks for; those that no method has are left to the checks of its arguments."""
    asked = [name for name in ("noise", "positive", "groups", "callback") if _given(options.get(name))]
    shape = getattr(Y, "shape", ())
    asked += ["complex"] * (is_complex(Phi) or is_complex(Y)) + ["snapshots"] * (len(shape) == 3)
    asked += ["operators"] * is_operator(Phi)
    return [ability for ability in asked if SOLVERS.able(ability)]


def _given(value: Any) -> bool:
    """Whether an option asks for anything: neither None, nor False, nor zero."""
    return value is not None and (not np.isscalar(value) or bool(value))


def register(
    name: str,
    solver: Callable[..., Result] | None = None,
    *,
    summary: str | None = None,
    label: str | None = None,
    needs: Collection[str] = (),
    can: Collection[str] | None = None,
) -> Any:
    """Make a solver of your own known by name to :func:`solve`, to the command line and to the experiments.

    Parameters
    ----------
    name : str
        A name that is not in use.
    solver : callable or None
        ``solver(Phi, Y, *, sparsity, precondition, **options) -> Result``. None makes this a decorator.
    summary : str or None, default=None
        What it does, in one line; None takes the first line of its docstring.
    label : str or None, default=None
        Its name in figures; None takes `name`.
    needs : collection of str, default=()
        ``"sparsity"`` where it must be given the number of nonzeros: experiments then give it.
    can : collection of str or None, default=None
        What it can do, of ``"noise"``, ``"positive"``, ``"groups"``, ``"callback"``, ``"complex"``, ``"snapshots"``,
        ``"operators"``, ``"devices"``. None takes those of them that are its parameters.

    Returns
    -------
    solver
        Unchanged.

    See Also
    --------
    solve : Takes it by name.

    Notes
    -----
    A package announces its solvers without any call by entry points of the group ``maxsparse.solvers``.

    Examples
    --------
    >>> import maxsparse as ms
    >>> @ms.solvers.register("one_atom", needs={"sparsity"})
    ... def one_atom(Phi, Y, *, sparsity, precondition=False):
    ...     "The one atom that explains most."
    ...     return ms.solvers.omp(Phi, Y, sparsity=1, precondition=precondition)
    >>> Phi = ms.dictionaries.gaussian(10, 20, rng=0)
    >>> ms.solve(Phi, Phi.T, method="one_atom", sparsity=1).support.sum()
    np.int64(20)
    >>> ms.solvers.METHODS.remove("one_atom")
    """
    return SOLVERS.register(name, solver, summary=summary, label=label, needs=needs, can=can)
