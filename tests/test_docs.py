"""The code in README.md and docs/ runs as it stands, and no link is dead."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import maxsparse as ms

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(<!-- not run: [^>]*-->\n+)?```python\n(.*?)```", flags=re.DOTALL)
SHORTER = {"minutes=30": "minutes=0.02"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_blocks_run(page, tmp_path, monkeypatch):
    blocks = [code for skipped, code in BLOCK.findall(page.read_text()) if not skipped]
    if not blocks:
        pytest.skip("this page has no code to run")
    if page.name == "brain.md":
        pytest.importorskip("mne")
    monkeypatch.chdir(tmp_path)
    photographs(tmp_path / "photographs")
    names = {}
    if not (ROOT / "zoo").is_dir():  # an sdist has no zoo
        blocks = [block for block in blocks if "networks.pretrained(" not in block]
    for block in blocks:  # a page is read from top to bottom
        for long, short in SHORTER.items():
            block = block.replace(long, short)
        exec(compile(block, page.name, "exec"), names)
    assert "ms" in names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_exist(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.long
def test_the_documentation_builds_without_warnings(tmp_path):
    pytest.importorskip("sphinx_gallery")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-D", "plot_gallery=0"]
    done = subprocess.run([*command, str(ROOT / "docs"), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "reference" / "parts" / "maxsparse.recovery.SparseRecoverer.html").exists()


def photographs(folder):
    """Write a tiny stack of photographs of a sphere, and its lights."""
    folder.mkdir()
    L = ms.stereo.hemisphere_lights(10, rng=0)
    y, x = np.mgrid[12:-12:25j, -12:12:25j]
    inside = x**2 + y**2 < 100
    normals = np.dstack([x, y, np.sqrt(np.where(inside, 144 - x**2 - y**2, 1.0))]) / 12
    images = np.where(inside, np.maximum(np.einsum("qc,hwc->qhw", L, normals), 0.0), 0.0)
    np.save(folder / "images.npy", images)
    np.save(folder / "lights.npy", L)
