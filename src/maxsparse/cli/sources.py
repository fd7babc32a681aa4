"""``maxsparse sources``: from MNE-Python's files of an average, a forward solution and a noise covariance to places."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsparse.cli.arguments import Json
from maxsparse.cli.printing import print_json

if TYPE_CHECKING:
    from maxsparse.fields.brain import BrainSources

__all__ = ["sources"]


def sources(
    average: Annotated[Path, typer.Argument(metavar="AVERAGE", help="Average of trials: -ave.fif.")],
    forward: Annotated[Path, typer.Argument(metavar="FORWARD", help="Forward solution: -fwd.fif.")],
    noise_cov: Annotated[Path, typer.Argument(metavar="COVARIANCE", help="Noise covariance: -cov.fif.")],
    condition: Annotated[
        str | None, typer.Option(help="Name or number, from 0, of the average in a file with several.")
    ] = None,
    window: Annotated[
        str | None, typer.Option(metavar="FROM:TO", help="Time window in seconds, such as 0.05:0.15.")
    ] = None,
    loose: Annotated[str, typer.Option(help="Looseness of orientations: auto, or 0 (fixed) to 1 (free).")] = "auto",
    depth: Annotated[float, typer.Option(help="Exponent of depth weighting; 0 for none.")] = 0.8,
    noise: Annotated[
        float | None, typer.Option(help="Standard deviation of the whitened noise; learned if omitted.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Picture to write: .png, .svg or .pdf.")] = None,
    stc: Annotated[
        Path | None, typer.Option(help="Start of the names of source estimates to write: time courses, probabilities.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find which places in the brain explain an average of M/EEG trials.

    Example: maxsparse sources auditory-ave.fif auditory-fwd.fif auditory-cov.fif --window 0.05:0.15 -o places.png
    """
    from maxsparse.fields.brain import sparse_inverse

    if depth < 0:
        raise typer.BadParameter(f"must be 0 or more, got {depth:g}", param_hint="--depth")
    if output is not None and output.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise typer.BadParameter(f"{str(output)!r} is not .png, .svg or .pdf", param_hint="--output")
    evoked, solution, covariance = _read(average, forward, noise_cov, condition)
    if window is not None:
        evoked = evoked.copy().crop(*_window(window, evoked.times))
    weighting: dict[str, Any] = {"loose": _loose(loose), "depth": depth or None}
    found = sparse_inverse(
        evoked, solution, covariance, noise="auto" if noise is None else noise, return_as="all", **weighting
    )
    written = _write(found, output, stc)
    if as_json:
        numbers = {"confidence": found.confidence, "noise": found.noise, "output": written}
        print_json({"sources": found.table(), **numbers})
        return
    typer.echo(repr(found))
    for path in written:
        typer.echo(f"Wrote {path}")


def _read(average: Path, forward: Path, noise_cov: Path, condition: str | None) -> tuple[Any, Any, Any]:
    """Read the three files; MNE-Python raises anything for a damaged one."""
    from maxsparse._core.extras import needs

    with needs("source localisation"):
        import mne
    readers: tuple[tuple[Path, str, Callable[[Path], Any]], ...] = (
        (average, "an average (-ave.fif)", lambda path: mne.read_evokeds(path, verbose="ERROR")),
        (forward, "a forward solution (-fwd.fif)", lambda path: mne.read_forward_solution(path, verbose="ERROR")),
        (noise_cov, "a noise covariance (-cov.fif)", lambda path: mne.read_cov(path, verbose="ERROR")),
    )
    contents = []
    for path, what, read in readers:
        if not path.is_file():
            raise FileNotFoundError(f"{str(path)!r} is not a file")
        if not _is_fif(path):
            raise ValueError(f"{str(path)!r} is not a file of MNE-Python: {what} is needed")
        try:
            contents.append(read(path))
        except Exception as error:
            raise ValueError(f"cannot read {str(path)!r} as {what}: {error or type(error).__name__}") from error
    return _chosen(contents[0], condition), contents[1], contents[2]


def _is_fif(path: Path) -> bool:
    """Whether a file begins as .fif files do, with the tag of its identifier, or is compressed."""
    with path.open("rb") as stream:
        begin = stream.read(8)
    return begin[:2] == b"\x1f\x8b" or begin == b"\x00\x00\x00\x64\x00\x00\x00\x1f"


def _chosen(averages: list[Any], condition: str | None) -> Any:
    """Return the average with this name or number."""
    if condition is None and len(averages) == 1:
        return averages[0]
    for number, evoked in enumerate(averages):
        if condition is not None and condition in (evoked.comment, str(number)):
            return evoked
    names = ", ".join(f"{number} ({evoked.comment or 'no name'})" for number, evoked in enumerate(averages))
    asked = "" if condition is None else f"{condition!r} is not in the file; "
    raise typer.BadParameter(f"{asked}choose one of {names}", param_hint="--condition")


def _window(text: str, times: Any) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not FROM:TO", param_hint="--window") from error
    if not times[0] <= low < high <= times[-1]:
        raise typer.BadParameter(
            f"{text} is not inside the average, {times[0]:g} to {times[-1]:g} seconds", param_hint="--window"
        )
    return low, high


def _loose(text: str) -> float | str:
    try:
        return text if text == "auto" else float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is neither auto nor a number", param_hint="--loose") from error


def _write(found: BrainSources, output: Path | None, stc: Path | None) -> list[str]:
    """Write what was asked for; return the names of the files, those of source estimates without MNE-Python's ends."""
    written = []
    if output is not None:
        from matplotlib.figure import Figure

        from maxsparse._core.atomic import atomic_write

        figure = Figure(figsize=(13.0, 3.4), layout="constrained")
        found.plot(axes=figure.subplots(1, 4, width_ratios=[1, 1, 1, 1.4]))
        with atomic_write(output) as stream:
            figure.savefig(stream, format=output.suffix[1:].lower(), dpi=150)
        written.append(str(output))
    if stc is not None:
        for estimate, end in ((found.stc, "courses"), (found.probability, "probability")):
            name = stc.with_name(f"{stc.name}-{end}")
            estimate.save(name, overwrite=True, verbose="ERROR")
            written.append(str(name))
    return written
