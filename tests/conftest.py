"""Where the data for measuring is, for tests that can do without it."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data():
    """Folder of the shared data; the test is skipped where it is missing."""
    beside = [ROOT.parent / "shared" / "data", ROOT.parent.parent / "shared" / "data"]
    places = [Path(os.environ["MAXSPARSE_DATA"])] if "MAXSPARSE_DATA" in os.environ else beside
    for place in places:
        if place.is_dir():
            return place
    pytest.skip(f"the shared data is not at {places[0]} (set MAXSPARSE_DATA)")
