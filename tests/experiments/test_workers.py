"""Processes end when the run does."""

import time
from pathlib import Path

import pytest

from maxsparse.experiments.workers import _deaf_to_interrupts, _pool
from maxsparse.training.interrupt import Interrupt

SECONDS = 60.0  # of one training, if nothing stops it


def train(folder, number):
    """Do what a training does with signals: note them, save, and stop by an exception."""
    begun = time.monotonic()
    with Interrupt() as interrupt:
        (Path(folder) / f"begun-{number}").touch()
        while time.monotonic() - begun < SECONDS:
            time.sleep(0.02)
            if interrupt.asked:
                (Path(folder) / f"saved-{number}").touch()
                raise KeyboardInterrupt


@pytest.mark.parametrize("count", [1, 6])  # a process without work beside one that trains; and a queue
def test_ctrl_c_stops_trainings_and_begins_no_other_to_its_end(count, tmp_path):
    stopped = 0.0

    def interrupted():
        nonlocal stopped
        with _pool(2) as pool:
            with _deaf_to_interrupts():
                for number in range(count):
                    pool.submit(train, tmp_path, number)
                if count == 1:
                    pool.submit(time.sleep, 0.0)
            while len(list(tmp_path.glob("begun-*"))) < min(count, 2):
                time.sleep(0.05)
            stopped = time.monotonic()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - stopped < 0.5 * SECONDS
    saved = {path.name.removeprefix("saved-") for path in tmp_path.glob("saved-*")}
    assert saved >= {"0", "1"} if count > 1 else saved == {"0"}
