"""The command ``maxsparse``: one file per subcommand."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread, main_thread
from types import FrameType
from typing import Annotated, Any

import typer

from maxsparse import __version__
from maxsparse._core.progress import clear
from maxsparse.cli.bench import bench
from maxsparse.cli.demo import demo
from maxsparse.cli.directions import directions
from maxsparse.cli.export import export
from maxsparse.cli.fit import fit
from maxsparse.cli.info import info
from maxsparse.cli.printing import say_warning
from maxsparse.cli.recover import recover, solve
from maxsparse.cli.reproduce import reproduce
from maxsparse.cli.sources import sources
from maxsparse.cli.stereo import app as stereo
from maxsparse.cli.unmix import unmix
from maxsparse.cli.warm import warm

__all__ = ["app", "main"]

PATIENCE_SECONDS = 0.6  # after Ctrl-C, before a process that does not react is ended
LONG_PATIENCE_SECONDS = 20.0  # of commands that write what they have when Ctrl-C is pressed
WRITE_AT_THE_END = ("fit", "reproduce", "stereo")

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the sparsest x with y = Φx, also where Φ is highly coherent.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"maxsparse {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Find the sparsest x with y = Φx, also where Φ is highly coherent."""


app.command()(demo)
app.command()(recover)
app.command()(solve)
app.command()(info)
app.command()(bench)
app.command()(fit)
app.command()(export)
app.command()(reproduce)
app.command()(unmix)
app.command()(directions)
app.command()(sources)
app.command()(warm)
app.add_typer(stereo, name="stereo")


def main() -> None:
    """Run the command line: exit code 0 for success, 1 for an error, 2 for wrong usage; no tracebacks for bad input."""
    warnings.showwarning = _say_warning
    pressed = _note_interrupts()
    try:
        with _watched(pressed):
            app(prog_name="maxsparse")
    except SystemExit as ended:
        if pressed and _busy():
            _end_now(ended.code if isinstance(ended.code, int) else 1)
        raise
    except (ValueError, OSError, ImportError, MemoryError) as error:
        clear()
        typer.secho(f"maxsparse: {_words(error)}", err=True, fg="red")
        sys.exit(1)
    except KeyboardInterrupt:
        _end_interrupted()
    except Exception as error:
        if isinstance(error, RuntimeError) and "memory" in str(error):  # torch has no specific error for it
            typer.secho("maxsparse: not enough memory; try smaller sizes", err=True, fg="red")
            sys.exit(1)
        if not pressed:
            raise
        _end_interrupted()  # Ctrl-C during compilation appears as a compiler error


def _end_interrupted() -> None:
    clear()
    typer.secho("maxsparse: interrupted", err=True, fg="red")
    if _busy():
        _end_now(1)
    sys.exit(1)


def _busy() -> bool:
    """Whether threads are still at work, for which the interpreter would wait."""
    threads = sys.modules.get("maxsparse._core.threads")
    return threads is not None and threads.still_running()


def _end_now(code: int) -> None:
    """End this process without waiting for anything; files are whole or not there, as after a kill."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            if stream is sys.stderr and stream.isatty():
                stream.write("\x1b[?25h")  # the cursor, which bars hide
            stream.flush()
    os._exit(code)


def _note_interrupts() -> list[int] | None:
    """Return a list that gets an entry with every Ctrl-C; the handling of Ctrl-C is not changed otherwise.

    None where a caller handles Ctrl-C in its own way, or ignores it.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return None
    pressed: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        threads: Any = sys.modules.get("maxsparse._core.threads")  # if compiled code is in use
        if threads is not None:
            threads.ending = True
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    return pressed


@contextmanager
def _watched(pressed: list[int] | None) -> Iterator[None]:
    """End the process if Ctrl-C finds the main thread in compiled code that takes long: Python waits for its end."""
    if os.name == "nt" or pressed is None:
        yield
        return
    receiving, sending = socket.socketpair()
    sending.setblocking(False)
    patience = LONG_PATIENCE_SECONDS if set(sys.argv[1:2]) & set(WRITE_AT_THE_END) else PATIENCE_SECONDS
    noting = signal.getsignal(signal.SIGINT)

    def watch() -> None:
        seen = 0
        while number := receiving.recv(1):
            # Training, for example, handles Ctrl-C itself.
            if number[0] != signal.SIGINT or signal.getsignal(signal.SIGINT) is not noting:
                continue
            end, place = time.monotonic() + patience, _place()
            while len(pressed) <= seen and _place() == place:  # elsewhere: it runs, and somebody has handled it
                if time.monotonic() > end:
                    sys.stderr.write("\nmaxsparse: interrupted\n")
                    _end_now(130)
                time.sleep(0.02)
            seen = len(pressed)

    watcher = Thread(target=watch, name="maxsparse-interrupt", daemon=True)
    before = signal.set_wakeup_fd(sending.fileno(), warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        sending.close()
        watcher.join()
        receiving.close()


def _place() -> tuple[int, int]:
    """Return where the main thread is; it stays there while compiled code runs."""
    frame = sys._current_frames()[main_thread().ident or 0]
    return id(frame), frame.f_lasti


def _words(error: Exception) -> str:
    """Return the message of an error; for system errors, the file and the reason."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"cannot use {str(error.filename)!r}: {error.strerror}"
    return str(error) or type(error).__name__


def _say_warning(message: Any, *rest: Any, **more: Any) -> None:
    """Print a warning in one line, without its source code."""
    say_warning(str(message))
