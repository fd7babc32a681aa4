"""Imports go one way: dictionary → preconditioner → scores → decode → certificate → result, never back."""

import ast
import subprocess
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import maxsparse

ROOT = Path(maxsparse.__file__).parent
# A part may import what stands on an earlier line, and itself. Parts on one line do not know each other.
ORDER = [
    {"_core"},
    {"files", "plotting"},
    {"dictionaries", "signals", "metrics", "result", "complex_data"},
    {"theory"},
    {"solvers"},
    {"networks"},
    {"training"},
    {"learned_sbl"},
    {"recovery"},
    {"stereo", "streaming", "export", "fields"},
    {"distributed"},
    {"experiments"},
    {"cli"},
    {"__main__"},
]
RANK = {part: rank for rank, parts in enumerate(ORDER) for part in parts}
FILES = [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def module_of(path):
    """Return the parts of a module's name after ``maxsparse``; those of a package are its folder's."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


MODULES = {module_of(path) for path in FILES}


def imported(path):
    """Yield (module, name) for every import of maxsparse in a file, at any depth of its code; name may be None."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            first, *rest = (node.module or "").split(".")
            for alias in node.names if first == "maxsparse" else ():
                inside = (*rest, alias.name)
                if alias.name != "__version__":
                    yield (inside, None) if inside in MODULES else (tuple(rest), alias.name)
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            assert ["maxsparse"] not in names, f"{path}: import the part you need"
            yield from ((tuple(name[1:]), None) for name in names if name[0] == "maxsparse")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_never_go_back(path):
    own = module_of(path)[0]
    for module, _ in imported(path):
        assert module[0] in RANK, f"{module[0]} has no place in ORDER"
        assert module[0] == own or RANK[module[0]] < RANK[own], f"{own} must not import {module[0]}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_private_leaves_its_package(path):
    """A name with an underscore, module or not, is for the package that holds it; ``_core`` is for all."""
    own = module_of(path) if path.name == "__init__.py" else module_of(path)[:-1]
    for module, name in imported(path):
        parts = (*module, *([] if name is None else [name]))
        for depth, part in enumerate(parts):
            if part.startswith("_") and parts[: depth + 1] != ("_core",):
                home = parts[:depth]
                inside = module_of(path) == home or own[: len(home)] == home
                assert inside, f"{'.'.join(module_of(path))} must not use {'.'.join(parts)}"


@pytest.mark.parametrize("package", sorted({module[:-1] for module in MODULES}), ids=".".join)
def test_no_cycles_inside_a_package(package):
    """The modules and sub-packages that stand side by side in a package import each other one way only."""
    depth, graph = len(package), defaultdict(set)
    for path in FILES:
        importer = module_of(path)
        if importer[:depth] != package or len(importer) == depth:
            continue
        for module, _ in imported(path):
            if module[:depth] == package and len(module) > depth and module[depth] != importer[depth]:
                graph[importer[depth]].add(module[depth])
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


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


CLASSICAL = [
    "complex_data",
    "dictionaries",
    "signals",
    "metrics",
    "theory",
    "solvers",
    "stereo",
    "recovery",
    "plotting",
]


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
