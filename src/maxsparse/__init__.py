"""maxsparse finds the sparsest solution x of y = Φx and reports whether it is certified to be the sparsest.

Φ is (n, m): n measurements, m atoms. Signals are rows: Y is (N, n), X is (N, m).

>>> import maxsparse as ms
>>> Phi = ms.dictionaries.decaying(20, 100, rng=0)
>>> X, Y = ms.signals.sample(Phi, 1000, sparsity=3, rng=1)
>>> result = ms.solve(Phi, Y, method="omp", sparsity=3, precondition=True)
>>> bool(ms.metrics.strict_accuracy(X, result.scores) > 0.8)
True
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# Threads that have finished their part of a loop would otherwise spin for milliseconds, waiting for the others. If
# other programs need the cores, spinning keeps the others from running. OpenMP reads this when it is first loaded; a
# value set by the caller is kept.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

if TYPE_CHECKING:
    from maxsparse import (
        complex_data,
        dictionaries,
        distributed,
        export,
        fields,
        metrics,
        networks,
        plotting,
        recovery,
        signals,
        solvers,
        stereo,
        streaming,
        theory,
        training,
    )
    from maxsparse.recovery import SparseRecoverer, load
    from maxsparse.result import Result
    from maxsparse.solvers import solve

__all__ = [
    "Result",
    "SparseRecoverer",
    "__version__",
    "complex_data",
    "dictionaries",
    "distributed",
    "export",
    "fields",
    "load",
    "metrics",
    "networks",
    "plotting",
    "recovery",
    "signals",
    "solve",
    "solvers",
    "stereo",
    "streaming",
    "theory",
    "training",
]

# Imported on first use, so that `import maxsparse` takes milliseconds and never loads torch or numba.
_MODULES = (
    *("complex_data", "dictionaries", "distributed", "export", "fields", "metrics", "networks"),
    *("plotting", "recovery", "signals", "solvers", "stereo", "streaming", "theory", "training"),
)
_OBJECTS = {
    "Result": "maxsparse.result",
    "SparseRecoverer": "maxsparse.recovery",
    "load": "maxsparse.recovery",
    "solve": "maxsparse.solvers",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"maxsparse.{name}")
    if name in _OBJECTS:
        return getattr(importlib.import_module(_OBJECTS[name]), name)
    raise AttributeError(f"module 'maxsparse' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
