"""Recovery where Φ is an operator: promising atoms are looked up, and the answer on them is checked on all others.

What is proven on some atoms is not proven on all. So a certificate without noise is given only where the checks of
:mod:`maxsparse.recovery.certificate` hold over all m atoms, which takes k products for a support of k: the argument is
``"generic"``, since a bound on the spark would need all pairs of atoms. With noise nothing is certified; probabilities
are relative to supports among the atoms looked up, which are those that l1, OMP and the residual suggest.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from maxsparse._core.names import atom_names
from maxsparse._core.prepared import Prepared, Whitened
from maxsparse._core.products import Operator, products_of
from maxsparse._core.progress import track
from maxsparse._core.validation import check_number, check_signals, is_complex
from maxsparse.recovery.answers import Beyond, Recovery, blank
from maxsparse.recovery.certificate import CHANCE, MARGIN, certify_rows, log_chance
from maxsparse.recovery.posterior import UNLISTED, Posterior
from maxsparse.solvers import fista, omp

__all__ = ["recover_screened"]

ATOMS, MORE = 2.0, 0.5  # looked up at first and per round, for every measurement
LEAST = 64  # atoms
ROUNDS = 3
LASSO_SHARE, LASSO_STEPS = 0.02, 200  # λ relative to the one at which x = 0, and iterations
IN_SPAN = 1e-10  # share of an atom's energy outside the span of others that rounding may hide

# Norms of the atoms take n products: they are kept as long as the operator.
_kept: WeakKeyDictionary[Any, Operator] = WeakKeyDictionary()


def recover_screened(model: Any, Y: Any, *, prove: float, progress: bool) -> Recovery:
    """Recover signals (N, n) for the operator of a :class:`maxsparse.SparseRecoverer`."""
    _refuse(model, Y, prove)
    if model.Phi not in _kept:
        _kept[model.Phi] = products_of(model.Phi, np.float64)
    Phi = _kept[model.Phi]
    signals = check_signals(Y, Phi.shape)
    m, N = Phi.shape[1], len(signals)
    dtype = np.result_type(model.Phi.dtype or np.float64, signals, np.float32)
    result = blank(N, m, dtype, "learned_sbl", atom_names(model.Phi, model.names))
    beyond = Beyond(N, m, dtype)
    for i in track(range(N), "recover", progress):
        y = np.array(signals[i], dtype=np.float64)
        numbers, sub, atoms = _search(model, Phi, y)
        _write(Phi, y, i, numbers, atoms, sub, result, beyond)
    return _complete(Phi, result, beyond)


def _refuse(model: Any, Y: Any, prove: float) -> None:
    """Raise an error for what needs a matrix."""
    if model.positive or model.groups is not None or is_complex(model.Phi) or is_complex(Y) or np.ndim(Y) == 3:
        raise ValueError(
            "SparseRecoverer takes an operator as Phi for real signals (N, n) with free signs of single atoms; pass a "
            "matrix for positive=, groups=, snapshots and complex data, or use maxsparse.solvers.omp for complex ones"
        )
    if check_number(prove, "prove", low=0.0) > 0:
        raise ValueError("prove= needs a matrix: bounds on some atoms of an operator prove nothing about the others")
    if model.network != "learned_sbl":
        raise ValueError("networks for one dictionary need a matrix; an operator works with network='learned_sbl'")


def _search(model: Any, Phi: Operator, y: NDArray[np.float64]) -> tuple[NDArray[np.intp], Recovery, Any]:
    """Return the atoms looked up, the answer on them, and the atoms themselves (n, s)."""
    n, m = Phi.shape
    merit = _merit(Phi, y)
    usable = int(np.count_nonzero(merit > -np.inf))
    count = min(usable, int(max(LEAST, ATOMS * n)))
    numbers = np.sort(np.argsort(-merit, kind="stable")[:count])
    atoms = Phi.atoms(numbers).T
    params = model.get_params(deep=False) | {"names": None}
    for _ in range(ROUNDS):
        sub = type(model)(**(params | {"Phi": np.ascontiguousarray(atoms)})).recover(y[None])
        if len(numbers) == usable or (sub.noise[0] == 0 and sub.converged[0]):
            break
        outside = np.abs(Phi.correlate((y - atoms @ sub.coef[0])[None])[0])
        outside = np.where(merit > -np.inf, outside / np.maximum(Phi.norms, np.finfo(float).tiny), 0.0)
        outside[numbers] = 0.0
        chance = sub.noise[0] * np.sqrt(2.0 * np.log(m))  # what noise alone reaches
        fresh = np.argsort(-outside, kind="stable")[: max(LEAST, int(MORE * n))]
        fresh = fresh[outside[fresh] > max(chance, 1e-12 * np.linalg.norm(y))]
        if not len(fresh):
            break
        together = np.concatenate([numbers, fresh])
        order = np.argsort(together, kind="stable")
        numbers, atoms = together[order], np.hstack([atoms, Phi.atoms(fresh).T])[:, order]
    return numbers, sub, atoms


def _merit(Phi: Operator, y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Order atoms: those of OMP, those of the lasso by size, then by correlation with what the lasso leaves."""
    n, m = Phi.shape
    exists = Phi.norms > 0
    norms = np.where(exists, Phi.norms, 1.0)
    largest = np.abs(Phi.correlate(y[None])[0]).max()
    if largest == 0:
        return np.where(exists, 0.0, -np.inf)
    operator: Any = Phi  # which solvers take, though their types do not say so
    greedy = omp(operator, y[None], sparsity=max(1, min(m, n // 2))).coef[0]
    x = fista(operator, y[None], lam=LASSO_SHARE * largest, max_iter=LASSO_STEPS, tol=1e-3).coef[0]
    left = np.abs(Phi.correlate((y - Phi.image(x[None])[0])[None])[0]) / norms
    merit = left / left.max(initial=np.finfo(float).tiny)  # at most 1
    merit = np.where(x != 0, 1.0 + np.abs(x) * norms / np.max(np.abs(x) * norms, initial=1e-300), merit)
    merit = np.where(greedy != 0, 3.0, merit)
    return np.where(exists, merit, -np.inf)


def _write(
    Phi: Operator, y: Any, i: int, numbers: Any, atoms: Any, sub: Recovery, out: Recovery, beyond: Beyond
) -> None:
    """Write the answer on some atoms to row i of an answer over all."""
    m = Phi.shape[1]
    out.coef[i, numbers] = sub.coef[0]
    assert out.explicit_scores is not None
    out.explicit_scores[i] = sub.scores[0].min()
    out.explicit_scores[i, numbers] = sub.scores[0]
    for name in ("residual", "iterations", "converged", "confidence", "lower", "noise"):
        getattr(out, name)[i] = getattr(sub, name)[0]
    out.upper[i] = sub.upper[0] if sub.upper[0] <= len(numbers) else m + 1
    if sub.noise[0] > 0:
        assert sub.posterior is not None
        own = sub.posterior
        mapped = Posterior(own.first, own.probability, own.begin, numbers[own.atoms].astype(np.int32))
        inclusion, mean = np.zeros(m), np.zeros(m)
        inclusion[numbers], mean[numbers] = sub.inclusion[0], sub.mean[0]
        beyond.add(np.array([i]), inclusion[None], mean[None], mapped)
        return
    certified = bool(sub.certified[0]) and _holds_for_all(Phi, y, numbers, atoms, sub)
    out.certified[i], out.argument[i] = certified, "generic" if certified else ""
    out.confidence[i] = certified
    out.lower[i] = np.count_nonzero(sub.coef[0]) if certified else y.any()


def _holds_for_all(Phi: Operator, y: Any, numbers: Any, atoms: Any, sub: Recovery) -> bool:
    """Whether an exact answer, certified on some atoms, is certified over all: no other is near the support's span."""
    problem = Prepared.of(atoms).problem(float(max(np.finfo(sub.coef.dtype).eps, np.finfo(np.float64).eps)))
    x = np.array(sub.coef[:1], dtype=np.float64)
    checked = certify_rows(problem, y[None], x, 2)  # of all atoms no bound on the spark is known
    S = np.flatnonzero(x[0])
    if not checked.certified[0] or not len(S):
        return bool(checked.certified[0])
    basis, R = np.linalg.qr(atoms[:, S])
    explained = Phi.correlate(np.ascontiguousarray(basis.T))  # (k, m)
    left = Phi.norms**2 - (explained**2).sum(axis=0)
    others = np.ones(Phi.shape[1], dtype=bool)
    others[numbers[S]] = False
    others &= Phi.norms > 0
    if (left[others] <= IN_SPAN * Phi.norms[others] ** 2).any():
        return False
    own = 1.0 / (np.linalg.inv(R) ** 2).sum(axis=1)  # h, squared lengths of atoms modulo the others of S
    c = solve_triangular(R, explained[:, others])
    o, h = left[others], own[:, None]
    gap2 = (x[0, S] ** 2)[:, None] * h * o / (o + c**2 * h)
    if np.sqrt(gap2.min(initial=np.inf)) <= MARGIN * checked.tolerance[0]:
        return False
    return _no_coincidence(problem, S, x[0, S], Phi.shape[1], float(checked.tolerance[0]))


def _no_coincidence(problem: Whitened, S: NDArray[np.intp], x: Any, m: int, allowed: float) -> bool:
    """Whether none of the supports of m atoms would explain y by chance; see :func:`log_chance`."""
    Q = problem.columns[S]
    own = np.abs(x / problem.D[S]) / np.sqrt(np.diag(np.linalg.inv(Q @ Q.T)))
    sigma = np.sort(1.0 / np.linalg.norm(problem.W, axis=1))
    return bool(log_chance(own, m, allowed, sigma) < np.log(CHANCE))


class SomeCosines:
    """|cosines| between those atoms that appear in answers, by the numbers of the atoms: ``cosines[np.ix_(a, b)]``."""

    def __init__(self, numbers: NDArray[np.intp], unit: NDArray[np.float64]) -> None:
        self.numbers, self.unit = numbers, unit  # (a,) rising, (a, n)

    def __getitem__(self, key: tuple[Any, Any]) -> NDArray[np.float64]:
        rows, columns = (np.searchsorted(self.numbers, np.ravel(part)) for part in key)
        return np.where(rows[:, None] == columns, 0.0, np.abs(self.unit[rows] @ self.unit[columns].T))


def _complete(Phi: Operator, result: Recovery, beyond: Beyond) -> Recovery:
    """Give a result what is known of noisy signals."""
    made: list[Any] = []

    def cosines() -> Any:
        assert complete.posterior is not None
        if not made:
            listed = np.unique(complete.posterior.atoms)
            likely = np.flatnonzero((complete.inclusion > UNLISTED).any(axis=0))
            numbers = np.union1d(listed, likely).astype(np.intp)
            atoms = Phi.atoms(numbers)
            made.append(SomeCosines(numbers, atoms / np.linalg.norm(atoms, axis=1, keepdims=True)))
        return made[0]

    complete = beyond.complete(result, cosines, always=False)
    return complete
