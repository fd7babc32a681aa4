"""Awkward input works, or has a message that says what to do; what is noted of it, and shown on the page, is so."""

import json

import numerics
import pytest

pytest.importorskip("pandas")
NOTED = json.loads(numerics.RESULTS.read_text(encoding="utf-8"))["cells"]


@pytest.mark.parametrize("part", numerics.PARTS)
@pytest.mark.parametrize("case", numerics.CASES, ids=lambda case: case.label)
def test_what_is_noted_is_so(case, part):
    assert numerics.outcome(case, part) == NOTED[case.label][part], "run: python tests/trust/numerics.py"


def test_nothing_else_is_noted():
    assert {label: list(parts) for label, parts in NOTED.items()} == {
        case.label: list(numerics.PARTS) for case in numerics.CASES
    }
