"""The command ``maxsparse``: one file per subcommand."""

from __future__ import annotations

import signal
import sys
import warnings
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
        app(prog_name="maxsparse")
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
    sys.exit(1)


def _note_interrupts() -> list[int]:
    """Return a list that gets an entry with every Ctrl-C; the handling of Ctrl-C is not changed otherwise."""
    pressed: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, note)
    return pressed


def _words(error: Exception) -> str:
    """Return the message of an error; for system errors, the file and the reason."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"cannot use {str(error.filename)!r}: {error.strerror}"
    return str(error) or type(error).__name__


def _say_warning(message: Any, *rest: Any, **more: Any) -> None:
    """Print a warning in one line, without its source code."""
    say_warning(str(message))
