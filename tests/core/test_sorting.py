"""Own sorts against numpy, and that no compiled function uses one of numba's."""

import ast
import builtins
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import maxsparse
from maxsparse._core.sorting import argsort, median, sort

ROOT = Path(maxsparse.__file__).parent
# What compiled code may call besides its own functions. Numba implements many functions by closures, named after where
# they are defined, the types of their arguments and a counter of the process. Closures of one factory that differ in
# anything else (sort and argsort in that of quicksort) can be confused by the disk cache. These were reviewed:
# operators of the compiler, or closures that the types of their arguments determine.
SCALARS = {"sqrt", "log", "log1p", "log2", "exp", "abs", "tanh", "arccos", "conj", "degrees", "floor", "ceil", "rint"}
SCALARS |= {"erfc", "isfinite", "lgamma", "float32", "float64", "int32", "int64", "uint64"}
ARRAYS = {
    "empty",
    "zeros",
    "ones",
    "full",
    "max",
    "sum",
    "argmax",
    "all",
    "ascontiguousarray",
    "copy",
    "view",
    "reshape",
}
REVIEWED = SCALARS | ARRAYS | {"linalg.eigvalsh"}
BUILTINS = {"range", "len", "abs", "int", "float", "bool", "min", "max"}


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


def unreviewed(function):
    """Yield the calls of a compiled function that are not known to be safe."""
    for call in ast.walk(function):
        if not isinstance(call, ast.Call):
            continue
        if isinstance(call.func, ast.Attribute):
            name = ast.unparse(call.func).removeprefix("np.").removeprefix("math.")
            if name not in REVIEWED and call.func.attr not in ARRAYS:
                yield call
            continue
        name = ast.unparse(call.func)
        # min and max of one iterable are made by one factory, those of several numbers are not.
        safe = name in BUILTINS and not (name in {"min", "max"} and len(call.args) == 1)
        if hasattr(builtins, name) and not safe:
            yield call


def test_compiled_functions_call_only_what_the_cache_cannot_confuse():
    found = list(compiled_functions())
    assert len(found) > 100
    for path, function in found:
        for call in unreviewed(function):
            raise AssertionError(f"{path.name}:{call.lineno}: {ast.unparse(call)} in compiled code")


@pytest.mark.parametrize(
    "call", ["np.sort(a)", "a.argsort()", "sorted(a)", "max(a)", "np.nanmin(a)", "np.linalg.norm(a)"]
)
def test_such_a_call_would_be_noticed(call):
    assert [ast.unparse(node) for node in unreviewed(ast.parse(call))] == [call]


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
