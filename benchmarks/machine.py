"""What a benchmark ran on: versions, cores, and the instruction sets of numpy, BLAS and compiled code."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np


def instruction_sets() -> dict[str, Any]:
    """Return the widest vector instructions that the processor has, and what BLAS and compiled kernels use."""
    import llvmlite.binding as llvm
    from threadpoolctl import threadpool_info

    features = llvm.get_host_cpu_features()
    widest = [name for name in ("avx512f", "avx2", "avx", "sse4.2", "neon") if features.get(name)]
    found: Any = np.show_config(mode="dicts")["SIMD Extensions"]
    blas = sorted({str(part.get("architecture")) for part in threadpool_info() if part["user_api"] == "blas"})
    return {
        "widest": widest[0] if widest else "unknown",
        "compiled for": llvm.get_host_cpu_name(),
        "blas kernels": blas,
        "numpy": found.get("found", [])[-1:],
    }


def describe(packages: tuple[str, ...]) -> dict[str, Any]:
    """Return machine, instruction sets and the versions of these packages that are installed."""
    versions = {}
    for name in packages:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "instruction sets": instruction_sets(),
        "python": platform.python_version(),
        "versions": versions,
    }
