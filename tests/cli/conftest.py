"""The command line without a process of its own, which takes seconds to import what it needs."""

import signal
import sys
import warnings
from types import SimpleNamespace

import pytest

from maxsparse import cli


@pytest.fixture
def command(monkeypatch, capsys):
    """Return a function that runs ``maxsparse ARGUMENTS``: return code, stdout and stderr as of a process."""
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
