"""What several tests share: where the measured data lies."""

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("MAXSPARSE_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def data():
    """Return a function that gives the path of a data file, or skips the test where it is missing."""

    def path(name):
        found = DATA / name
        if not found.exists():
            pytest.skip(f"{name} is not here; set MAXSPARSE_DATA to the folder that holds it")
        return found

    return path
