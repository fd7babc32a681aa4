"""What is committed: every figure once, no checkpoints, one version, no look outside."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import maxsparse

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def committed():
    """Return the paths of all committed files."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout of the repository")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.split("\0") if name]


def test_a_figure_is_committed_in_one_format(committed):
    figures = [path.with_suffix("") for path in committed if path.suffix in {".png", ".svg", ".pdf"}]
    assert len(figures) > 10
    assert sorted({path for path in figures if figures.count(path) > 1}) == []


def test_no_checkpoint_is_committed(committed):
    assert [path for path in committed if "checkpoint" in path.name and path.suffix == ".safetensors"] == []


def test_files_that_state_the_version_agree():
    """They are ready for the tag: one version, and the date of the changelog's newest section."""
    citation, changelog = (ROOT / "CITATION.cff").read_text(), (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == maxsparse.__version__
    released = re.search(r'^date-released: "(.*)"$', citation, re.MULTILINE)[1]
    assert re.search(r"^## (.*)$", changelog, re.MULTILINE)[1] == f"{maxsparse.__version__} ({released})"


def test_the_variables_that_tests_read_are_documented():
    read = set()
    for path in (ROOT / "tests").rglob("*.py"):
        read |= set(re.findall(r"environ(?:\.get\(|\[)\"(MAXSPARSE_\w+)", path.read_text()))
    assert "MAXSPARSE_DATA" in read
    documented = (ROOT / "CONTRIBUTING.md").read_text()
    assert [name for name in read if name not in documented] == []


def test_torch_is_an_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not any(line.startswith("torch") for line in project["dependencies"])
    assert any(line.startswith("torch") for line in project["optional-dependencies"]["train"])
