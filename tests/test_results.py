"""The pages say what the committed results say."""

import importlib
import json
import re
from pathlib import Path

import pytest

from maxsparse import experiments
from maxsparse._core.registry import EXPERIMENTS

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
def test_no_block_is_left_out_or_empty(page):
    """A name that `fill.py` does not read as one would leave its block as it is."""
    text = page.read_text(encoding="utf-8")
    opened = re.findall(r"<!-- (?:results|experiment|registry):.*?-->\n(.*?)(?=<!-- |\Z)", text, re.DOTALL)
    assert (
        len(opened) == len(load_fill().BLOCK.findall(text)) == text.count("<!-- end -->") - text.count("<!-- verdicts")
    )
    assert all(block.strip() for block in opened)


RESULTS = sorted((ROOT / "results").glob("*/*/results.json"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: "-".join(path.parts[-3:-1]))
def test_a_verdict_is_one_line_and_a_claim_that_does_not_hold_says_why(path):
    for claim in json.loads(path.read_text(encoding="utf-8"))["claims"]:
        assert len(claim["measured"]) < 300, claim["claim"]
        if claim["verdict"] == "does not hold":
            assert re.match("This is (a property|hardware|the reproduction)", claim["because"]), claim["claim"]


def test_every_experiment_has_a_reason_at_hand():
    for name in (entry.name for entry in EXPERIMENTS.entries() if not entry.outside):
        assert experiments.get(name).because.startswith("This is "), name


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
