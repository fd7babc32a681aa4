"""What :class:`maxsparse.SparseRecoverer`, `model` here, does where signals have a structure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from maxsparse._core.compiled import compiling
from maxsparse._core.names import atom_names, in_order
from maxsparse._core.structure import Structure, check_structured
from maxsparse._core.threads import threads
from maxsparse._core.validation import check_dictionary, check_flag, check_integer, check_number, is_complex
from maxsparse.recovery.answers import Recovery
from maxsparse.recovery.block_form import StructuredDictionary
from maxsparse.recovery.law import Law
from maxsparse.recovery.noise import Noise, check_noise, warn_of_noise
from maxsparse.recovery.search import check_budget
from maxsparse.recovery.structured import StructuredPipeline

__all__ = ["is_structured", "learned_structured_law", "pooled_structured_noise", "recover_structured"]

KERNELS = 9  # that the first call compiles
FIT_SIGNALS = 200  # from which a noise level is pooled, at most
LAW_SIGNALS = 60  # from which is learned what coefficients are like: it takes ten times as long as an answer

# Φ prepared, per recoverer, as in `recoverer`.
_kept: WeakKeyDictionary[Any, StructuredDictionary] = WeakKeyDictionary()


def is_structured(model: Any, Y: Any) -> bool:
    """Return whether signals have a structure: snapshots, complex numbers, groups or signs."""
    asked = check_flag(model.positive, "positive") or model.groups is not None
    return asked or getattr(Y, "ndim", 2) == 3 or is_complex(model.Phi) or is_complex(Y) or _is_nested(Y)


def _is_nested(Y: Any) -> bool:
    """Return whether a list is three deep."""
    depth = 0
    while isinstance(Y, list | tuple) and len(Y) and depth < 3:
        Y, depth = Y[0], depth + 1
    return depth == 3 or (depth > 0 and depth + np.ndim(Y) == 3)


def recover_structured(model: Any, Y: Any, *, prove: float, progress: bool) -> Recovery:
    """Recover signals (N, n) or (N, L, n) with the structure that the model and the signals have."""
    if check_number(prove, "prove", low=0.0) > 0:
        raise ValueError(
            "prove= is for real signals (N, n) without groups= and positive=; omit it, or use "
            "maxsparse.solvers.exact, which takes all of these"
        )
    Phi, signals, structure = _checked(model, Y)
    if structure.plain:  # one real snapshot
        return _one_snapshot(model.recover(signals[:, 0], progress=progress))
    result_dtype = np.result_type(Phi, signals)
    wide = np.complex128 if structure.complex else np.float64
    noise = _noise(model, structure)
    with threads(model.n_threads), compiling(KERNELS):
        pipeline = _pipeline(model, Phi, signals.dtype, structure, noise, progress=progress)
        rows = np.ascontiguousarray(signals, dtype=wide)
        result = pipeline(rows if rows.ndim == 3 else rows[:, None], "learned_sbl")
    if noise.sigma > 0:
        warn_of_noise(result, noise, 4)
    coef, mean = result.coef, result.mean
    if structure.snapshots is None:
        coef, mean = coef[:, 0], mean[:, 0]
    names = atom_names(model.Phi, model.names)
    return replace(result, coef=coef.astype(result_dtype), explicit_mean=mean.astype(result_dtype), names=names)


def pooled_structured_noise(model: Any, Y: Any) -> float:
    """Return one noise level for all signals; 0 if at least half of them have exact answers.

    The mean square of what the answers leave, over the measurements that their coefficients do not use up.
    """
    _, signals, structure = _checked(model, Y)
    chosen = np.unique(np.linspace(0, len(signals) - 1, min(len(signals), FIT_SIGNALS)).astype(np.intp))
    rows = signals[chosen]
    rows = rows[rows.reshape(len(rows), -1).any(axis=1)]
    alone = type(model)(**{**model.get_params(deep=False), "noise": "auto", "budget": "fast"})
    if not len(rows):
        return 0.0
    result = alone.recover(rows)
    noisy = np.flatnonzero(result.noise > 0)
    if 2 * len(noisy) <= len(rows):
        return 0.0
    L = structure.snapshots or 1
    used = np.count_nonzero(result.support[noisy], axis=1)
    free = L * np.maximum(structure.shape[0] - used, 0)
    return math.sqrt(float(np.sum(result.residual[noisy] ** 2)) / max(1.0, float(free.sum())))


def learned_structured_law(model: Any, Y: Any) -> Law | None:
    """Return what signals say together about their coefficients; None where there is no noise, or no structure."""
    Phi, signals, structure = _checked(model, Y)
    noise = _noise(model, structure)
    if structure.plain or noise.unknown or noise.sigma == 0:
        return None
    chosen = np.unique(np.linspace(0, len(signals) - 1, min(len(signals), LAW_SIGNALS)).astype(np.intp))
    rows = np.ascontiguousarray(signals[chosen], dtype=np.complex128 if structure.complex else np.float64)
    with threads(model.n_threads), compiling(KERNELS):
        pipeline = _pipeline(model, Phi, signals.dtype, structure, noise, progress=False)
        return pipeline.learn(rows if rows.ndim == 3 else rows[:, None])


def _checked(model: Any, Y: Any) -> tuple[Any, Any, Structure]:
    """Check Φ and the signals together; Φ is checked for every call, in case it was changed in place."""
    dictionary: Any = check_dictionary(model.Phi, complex_too=True)
    Y = in_order(Y, model._measurement_names())
    return check_structured(dictionary, Y, positive=model.positive, groups=model.groups, checked=dictionary)


def _noise(model: Any, structure: Structure) -> Noise:
    noise = check_noise(model.noise, structure.shape[0], complex_too=structure.complex)
    pooled = float(getattr(model, "noise_", 0.0))
    return Noise(pooled) if noise.unknown and pooled > 0 else noise


def _pipeline(
    model: Any, Phi: Any, dtype: Any, structure: Structure, noise: Noise, *, progress: bool
) -> StructuredPipeline:
    """Check the options and put the steps together."""
    if model.network != "learned_sbl":
        raise ValueError(
            f"network={model.network!r} scores single real signals; snapshots, complex data, groups= and positive= "
            "need network='learned_sbl'"
        )
    rtol = model.rtol
    if rtol is None:
        rtol = max(float(np.finfo(kind).eps) for kind in (dtype, check_dictionary(model.Phi, complex_too=True).dtype))
    wide = Phi.astype(np.complex128 if structure.complex else np.float64)
    kept = _kept.get(model)
    if kept is None or not kept.matches(wide, structure):
        kept = _kept[model] = StructuredDictionary(wide, structure)
    search = check_budget(model.budget), check_integer(model.random_state, "random_state")
    weights = model._weights(), model._later_weights()
    rounding, law = check_number(rtol, "rtol", low=0.0), getattr(model, "law_", None)
    return StructuredPipeline(kept, structure, noise, *weights, *search, rounding, progress, law)


def _one_snapshot(result: Recovery) -> Recovery:
    """Return the answers to signals (N, n) as those to (N, 1, n)."""
    mean = None if result.explicit_mean is None else result.explicit_mean[:, None]
    return replace(result, coef=result.coef[:, None], explicit_mean=mean, explicit_scores=result.scores)
