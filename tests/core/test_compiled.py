"""The one decorator of compiled code."""

import pickle
import subprocess
import sys
import textwrap

CODE = """
from typing import NamedTuple
import numpy as np
from maxsparse._core.compiled import kernel

class {name}(NamedTuple):
    values: np.ndarray

@kernel()
def total(given):
    return given.values.sum()

print(total({name}(np.ones(3))))
"""


def test_an_index_that_names_what_is_gone_is_ignored(tmp_path):
    """An earlier version's cache may stay in place; numba unpickles its index before looking at its date."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(CODE.format(name="Here")))
    environment = {"PYTHONPATH": ":".join(sys.path), "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PATH": ""}
    run = [sys.executable, str(script)]
    assert subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout == "3.0\n"
    (index,) = tmp_path.rglob("*.nbi")
    with index.open("rb") as stream:
        version = pickle.load(stream)
    with index.open("wb") as stream:  # the same version of numba, and a class of a module that is not there
        pickle.dump(version, stream)
        stream.write(b"cmaxsparse.nowhere\nProblem\n.")
    assert subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout == "3.0\n"
