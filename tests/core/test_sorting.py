"""Own sorts against numpy, and that no compiled function uses one of numba's."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import maxsparse
from maxsparse._core.sorting import argsort, median, sort

ROOT = Path(maxsparse.__file__).parent
# Numba compiles each of these as a closure whose name differs from its siblings' by a counter of the process alone.
FORBIDDEN = {"sort", "argsort", "median", "nanmedian", "percentile", "quantile", "partition", "argpartition", "unique"}
FORBIDDEN |= {"nanpercentile", "nanquantile", "searchsorted", "sorted"}


@pytest.mark.parametrize("size", [0, 1, 2, 7, 8, 9, 16, 17, 100, 1000])
def test_sorts_are_numpys(size):
    rng = np.random.default_rng(size)
    for values in (rng.standard_normal(size), rng.integers(0, 5, size).astype(float), np.zeros(size)):
        ascending = values.copy()
        sort(ascending)
        np.testing.assert_array_equal(ascending, np.sort(values))
        order, work = np.empty(size, np.int64), np.empty(size, np.int64)
        argsort(values, order, work)
        np.testing.assert_array_equal(order, np.argsort(values, kind="stable"))
        if size:
            assert median(values.copy(), size) == np.median(values)


def compiled_functions():
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any("kernel" in ast.unparse(d) for d in node.decorator_list):
                yield path, node


def test_no_compiled_function_uses_a_sort_of_numba():
    found = list(compiled_functions())
    assert len(found) > 100
    for path, function in found:
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FORBIDDEN:
                raise AssertionError(f"{path.name}:{node.lineno}: {ast.unparse(node.func)} in compiled code")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sorted":
                raise AssertionError(f"{path.name}:{node.lineno}: sorted in compiled code")


SCRIPT = """
import sys
import numpy as np
from numba import njit
import maxsparse as ms
if len(sys.argv) > 1:  # the user's own compiled code comes first, and the counter is where the other process had it
    for _ in range(75):
        njit(lambda x: x + 1.0)(1.0)
    njit(nogil=True)(lambda a: np.argsort(a))(np.random.default_rng(0).random(50))
Phi = ms.dictionaries.gaussian(30, 60, rng=0)
X, Y = ms.signals.sample(Phi, 100, sparsity=10, rng=1)
print(ms.solvers.reweighted_l1(Phi, Y).coef.tobytes().hex()[:4000])
"""


@pytest.mark.long
def test_the_users_own_sorts_do_not_reach_ours(tmp_path):
    """Two processes, one cache: the second compiles a sort of its own before it loads our kernels from the cache."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    outputs = []
    for arguments in ([], ["second"]):
        command = [sys.executable, "-c", SCRIPT, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
