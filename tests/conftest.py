"""What several tests share: where the measured data lies, registries that forget, and the command line."""

import os
import random
import signal
import sys
import warnings
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

from maxsparse import cli
from maxsparse._core.registry import EXPERIMENTS, NETWORKS, SOLVERS, STEREO
from maxsparse._core.threads import available_threads

# `make test` draws the same few examples every time; `make test-long` many, different ones every time.
settings.register_profile("short", max_examples=8, deadline=None, derandomize=True, database=None)
settings.register_profile(
    "long", max_examples=int(os.environ.get("MAXSPARSE_EXAMPLES", "200")), deadline=None, print_blob=True
)
settings.load_profile("short")

# The only place outside the repository that a test looks at; CONTRIBUTING.md lists the files.
DATA = os.environ.get("MAXSPARSE_DATA")


@pytest.fixture
def registries():
    """Undo at the end of the test what it has registered."""
    with ExitStack() as stack:
        for registry in (SOLVERS, NETWORKS, EXPERIMENTS, STEREO):
            stack.enter_context(registry.restored())
        yield


@pytest.fixture(scope="session")
def data():
    """Return a function that gives the path of a data file, or skips the test where it is missing."""

    def path(name):
        if not DATA or not (Path(DATA) / name).exists():
            pytest.skip(f"{name} is not here; set MAXSPARSE_DATA to the folder that holds it")
        return Path(DATA).resolve() / name

    return path


@pytest.fixture
def command(monkeypatch, capsys):
    """Return a function that runs ``maxsparse ARGUMENTS`` here: return code, stdout and stderr as of a process."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main() sets its own
    handler = signal.getsignal(signal.SIGINT)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["maxsparse", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        code = ended.value.code
        return SimpleNamespace(returncode=code if isinstance(code, int) else int(code is not None), **_said(capsys))

    yield run
    signal.signal(signal.SIGINT, handler)


def _said(capsys):
    out, err = capsys.readouterr()
    return {"stdout": out, "stderr": err}


def pytest_addoption(parser):
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and tests in a file, in a random order")


def pytest_collection_modifyitems(config, items):
    """Skip what compares one thread with two where there is one core; shuffle the order if asked."""
    if (seed := config.getoption("shuffle")) is not None:
        draw = random.Random(seed)
        place = {path: draw.random() for path in sorted({item.path for item in items})}
        items.sort(key=lambda item: (place[item.path], draw.random()))
    if available_threads() < 2:
        for item in items:
            if item.get_closest_marker("two_threads"):
                item.add_marker(pytest.mark.skip(reason="needs two cores"))
