"""The pages say what the committed results say."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def load_fill():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")  # it imports its neighbour
        return importlib.import_module("fill")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_filled_from_the_results(page):
    text = page.read_text(encoding="utf-8")
    assert load_fill().filled(text) == text, "run: python docs/fill.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_a_page_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    for target in re.findall(r"\]\(#([^)]+)\)", text):
        assert target in headings, target
