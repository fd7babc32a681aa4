"""Imports go one way: dictionary → preconditioner → scores → decode → certificate → result, never back."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import maxsparse

ROOT = Path(maxsparse.__file__).parent
# A part may import what stands on an earlier line, and itself. Parts on one line do not know each other.
ORDER = [
    {"_core"},
    {"files"},
    {"dictionaries", "signals", "metrics", "result", "complex_data"},
    {"theory"},
    {"solvers"},
    {"networks"},
    {"training"},
    {"recovery"},
    {"stereo", "streaming", "export"},
    {"distributed"},
    {"experiments"},
    {"cli"},
    {"__main__"},
]
RANK = {part: rank for rank, parts in enumerate(ORDER) for part in parts}
FILES = [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def imported_parts(path):
    """Yield the parts of maxsparse that a file imports, at any depth of its code."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "maxsparse":
                yield from (alias.name for alias in node.names if alias.name != "__version__")
            elif (node.module or "").startswith("maxsparse."):
                yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("maxsparse."))
            assert all(a.name != "maxsparse" for a in node.names), f"{path}: import the part you need"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_never_go_back(path):
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for part in imported_parts(path):
        assert part in RANK, f"{part} has no place in ORDER"
        assert part == own or RANK[part] < RANK[own], f"{own} must not import {part}"


def test_every_part_has_a_place():
    parts = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES}
    assert parts <= RANK.keys()


def test_import_is_light():
    """`import maxsparse` loads nothing heavy, not even numpy; attributes load on first use."""
    heavy = {"torch", "numba", "sklearn", "scipy", "matplotlib", "numpy", "typer", "rich"}
    code = "import sys, maxsparse; dir(maxsparse); print(*{name.split('.')[0] for name in sys.modules})"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not heavy & loaded


CLASSICAL = ["complex_data", "dictionaries", "signals", "metrics", "theory", "solvers", "stereo", "recovery"]


@pytest.mark.parametrize("name", CLASSICAL)
def test_nothing_classical_loads_torch(name):
    code = f"import sys, maxsparse; maxsparse.{name}; print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_public_names_resolve():
    for name in maxsparse.__all__:
        assert getattr(maxsparse, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        maxsparse.nonsense  # noqa: B018
