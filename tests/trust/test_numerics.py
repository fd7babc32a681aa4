"""Awkward input works, or has a message that says what to do; the page says which."""

import numerics
import pytest

pytest.importorskip("pandas")


def test_the_page_says_what_happens():
    page = numerics.PAGE.read_text(encoding="utf-8")
    assert numerics.filled(page) == page, "run: python tests/trust/numerics.py"
