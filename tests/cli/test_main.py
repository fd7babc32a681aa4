"""What the program itself does with what its commands raise."""

import subprocess
import sys
import textwrap

import pytest

SCRIPT = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
from maxsparse import cli

def command(prog_name):
    try:
        if {pressed}:
            os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        pass  # as a callback of the compiler does
    raise RuntimeError("no compiled object yet")

cli.app = command
cli.main()
"""


@pytest.mark.parametrize("pressed", [True, False])
def test_a_ctrl_c_that_hits_the_compiler_is_an_interruption_and_its_own_errors_are_not(pressed):
    script = textwrap.dedent(SCRIPT.format(pressed=pressed))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert ("maxsparse: interrupted" in done.stderr) == pressed
    assert ("Traceback" in done.stderr) != pressed
