"""Bars appear after two seconds, while an item is still being worked on, and are gone at the end."""

import io
import re
import sys
import time

import pytest

from maxsparse._core import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.05)
    monkeypatch.setenv("TERM", "xterm")

    def begin():  # in the test itself: pytest sets its own stderr after the fixtures
        monkeypatch.setattr(sys, "stderr", Terminal())
        return sys.stderr

    yield begin
    progress.clear()


def wait_for(what, terminal):
    end = time.monotonic() + 20
    while what not in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue()):
        assert time.monotonic() < end, terminal.getvalue()[-300:]
        time.sleep(0.02)


def test_a_bar_appears_during_the_first_item_and_counts(terminal):
    terminal = terminal()
    for i in progress.track(range(3), "atoms", True):
        wait_for(f"{i}/3", terminal)
    assert "atoms" in terminal.getvalue()
    assert progress._display.progress is None


def test_nested_bars_share_one_display(terminal):
    terminal = terminal()
    for _ in progress.track(range(1), "outer", True):
        for _ in progress.track(range(1), "inner", True):
            wait_for("inner", terminal)
            wait_for("outer", terminal)
            assert len(progress._display.tasks) == 2
        assert len(progress._display.tasks) == 1
    assert progress._display.progress is None


def test_a_countdown_and_an_error(terminal):
    terminal = terminal()

    def fail():
        with progress.countdown(9.0, "trial", True):
            wait_for("trial", terminal)
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert progress._display.progress is None


def test_nothing_is_drawn_for_short_work_or_into_files(terminal, monkeypatch):
    terminal = terminal()
    assert list(progress.track([1, 2], "short", True)) == [1, 2]
    assert list(progress.track([1, 2], "unwanted", False)) == [1, 2]
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    for _ in progress.track(range(1), "file", True):
        time.sleep(0.2)
    assert terminal.getvalue() == sys.stderr.getvalue() == ""
