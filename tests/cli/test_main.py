"""What the program itself does with what its commands raise."""

import os
import signal
import subprocess
import sys
import textwrap
import time

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


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_ends_compiled_code_that_takes_long():
    """Python itself would wait until the function returns, minutes later."""
    program = """
        import hashlib, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
        from maxsparse import cli

        def app(prog_name):
            print("ready", flush=True)
            hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)

        cli.app = app
        cli.main()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)  # until it is in the function
        process.send_signal(signal.SIGINT)
        assert "maxsparse: interrupted" in process.communicate(timeout=30)[1]
    assert process.returncode == 130
