"""The loop over slices: every row once, errors and interrupts reach the caller, nothing waits for itself."""

import threading
import time

import numpy as np
import pytest

from maxsparse._core import threads as module
from maxsparse._core.compiled import kernel
from maxsparse._core.threads import available_threads, over_slices, threads


@kernel()
def count_up(piece, pieces, out):
    for row in range(piece, out.shape[0], pieces):
        out[row] += row + 1


@pytest.mark.parametrize("count", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize("n_threads", [1, None])
def test_every_row_is_handled_once(count, n_threads):
    out = np.zeros(count)
    with threads(n_threads):
        over_slices(count_up, count, out)
    np.testing.assert_array_equal(out, np.arange(1, count + 1))


def test_slices_run_at_the_same_time(monkeypatch):
    """Each of two slices waits until the other has begun."""
    monkeypatch.setattr(module, "available_threads", lambda: 2)
    both, met = threading.Barrier(2, timeout=20), []
    over_slices(lambda piece, pieces: met.append(both.wait()), 2)
    assert sorted(met) == [0, 1]


def test_one_thread_stays_on_the_callers(monkeypatch):
    monkeypatch.setattr(module, "_start", lambda *_: pytest.fail("asked for help"))
    seen = []
    with threads(1):
        over_slices(lambda piece, pieces: seen.append((piece, pieces, threading.get_ident())), 5)
    assert seen == [(0, 1, threading.get_ident())]


@pytest.mark.parametrize("bad", range(4))
def test_an_error_reaches_the_caller_and_stops_the_others(monkeypatch, bad):
    monkeypatch.setattr(module, "available_threads", lambda: 2)
    begun = []

    def work(piece, pieces):
        begun.append(piece)
        time.sleep(0.005)
        if piece == bad:
            raise ZeroDivisionError(piece)

    with pytest.raises(ZeroDivisionError, match=str(bad)):
        over_slices(work, 1000)
    assert len(begun) < 16


def test_an_interrupt_waits_for_slices_that_run(monkeypatch):
    """Whoever catches the interrupt may free or reuse the arrays that slices write to."""
    monkeypatch.setattr(module, "available_threads", lambda: 2)
    main, helping, finished = threading.get_ident(), threading.Event(), []

    def work(piece, pieces):
        if threading.get_ident() == main:
            assert helping.wait(20)
            raise KeyboardInterrupt
        helping.set()
        time.sleep(0.1)
        finished.append(piece)

    with pytest.raises(KeyboardInterrupt):
        over_slices(work, 1000)
    assert len(finished) == 1


def test_a_call_within_a_call_cannot_wait_for_itself(monkeypatch):
    monkeypatch.setattr(module, "available_threads", lambda: 2)
    seen = []
    over_slices(lambda piece, pieces: over_slices(lambda inner, _: seen.append((piece, inner)), 4), 4)
    assert sorted(seen) == [(a, b) for a in range(4) for b in range(4)]


def test_many_callers_at_once():
    outs = [np.zeros(500) for _ in range(8)]
    callers = [threading.Thread(target=over_slices, args=(count_up, 500, out)) for out in outs]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(20)
    for out in outs:
        np.testing.assert_array_equal(out, np.arange(1, 501))


def test_threads_are_counted_per_caller_and_restored():
    with threads(1):
        with threads(None):
            assert module._chosen.get() == 1
        other = []
        caller = threading.Thread(target=lambda: other.append(module._chosen.get()))
        caller.start()
        caller.join()
    assert other == [None]
    assert module._chosen.get() is None


@pytest.mark.parametrize("n_threads", [0, available_threads() + 1, 1.5])
def test_impossible_numbers_of_threads_are_refused(n_threads):
    with pytest.raises((TypeError, ValueError), match="n_threads"), threads(n_threads):
        pass
